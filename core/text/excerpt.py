"""Shorten long texts for people."""


def shorten(text: str, longest: int) -> str:
    """Return ``text``, or its two ends of ``longest`` characters together, with a note of how much is left out."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n\n[… {len(text) - 2 * half:,} characters left out …]\n\n{text[-half:]}"
