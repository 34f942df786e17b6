"""Guess the language of a text by its script and its function words: enough to see that a source has changed its own.

The filter ``languages`` identifies languages (`targets.filter.language`); this costs microseconds and needs no package.
"""

from collections import Counter
from collections.abc import Set
from unicodedata import name

FUNCTION_WORDS = {
    "en": "the and of is that so we this with then which from are not has",
    "de": "und der die das ist nicht wir mit also ein eine von dann sich für",
    "fr": "le la les et est nous que des une donc pour dans pas sont avec",
    "es": "el los las y es que por una del entonces con para no son como",
    "it": "il che di è per una sono della quindi con non gli nel allora come",
    "pt": "os as é que não uma são com para do então por dos mas como",
    "nl": "het een van en is dat niet we dus met voor zijn dan op maar",
    "pl": "i w na jest że nie się z do to więc są dla jak co",
    "tr": "ve bir bu için ile olan ise çok da de olarak daha sonra kadar gibi",
    "vi": "là và của các một không cho được có này với ta thì khi trong",
}
WORDS = {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}
MOST_WORDS = 200  # of another script that are looked at
OTHER_SCRIPT = 0.25  # share of the words


def dominant_language(words: Set[str]) -> str:
    """Return the language of a text with these words, else the name of their script; "" where neither shows.

    >>> dominant_language({"the", "sum", "is", "7"}), dominant_language({"сумма", "чисел", "равна"})
    ('en', 'cyrillic')
    """
    foreign = [word for word in words if not word.isascii()][:MOST_WORDS]
    scripts = Counter(name(word[0], "").split(" ")[0].split("-")[0].lower() for word in foreign)
    script, count = scripts.most_common(1)[0] if scripts else ("", 0)
    letters = sum(not word.isdigit() for word in words)
    if script != "latin" and count > OTHER_SCRIPT * min(letters, 4 * MOST_WORDS):
        return script
    language, count = max(((language, len(words & of)) for language, of in WORDS.items()), key=lambda pair: pair[1])
    return language if count > 1 else ""
