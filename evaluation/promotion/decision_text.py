"""A decision in words and numbers, for the scorecard, the champion's page and the terminal."""

from math import exp, log

from evaluation.promotion.records import Decision

LARGEST = 1e9  # an e-value above it is not told in full


def decision_rows(decision: Decision) -> list[tuple[str, str]]:
    """Return a summary of a decision: its outcome, the error rate spent and left; nothing if nothing was compared."""
    if decision.outcome is None or decision.level is None or decision.log_evidence is None:
        return []
    needed = f"promotes from {e_value(-log(decision.level))}"
    rows = [
        ("outcome", decision_sentence(decision)),
        ("evidence (e-value)", f"{e_value(decision.log_evidence)}; {needed}"),
        ("answers of each model", f"{decision.answers:,}"),
    ]
    if decision.more_answers is not None:
        rows.append(("would decide it", f"about {about(decision.more_answers)} more answers of each model"))
    returned = ", which the promotion gives back" if decision.promoted else ""
    rows.append(("error rate of this comparison", f"{decision.level:.2g}{returned}"))
    rows.append(("error rate left after it", f"{decision.left:.3g}"))
    return rows


def decision_sentence(decision: Decision) -> str:
    """Say in one plain sentence what came of a comparison and why."""
    if decision.promoted:
        return (
            f"promoted: {100 * (decision.difference or 0):+.1f} points in {decision.answers:,} answers, more than luck"
        )
    if decision.outcome == "not_decided":
        return f"not promoted: {decision.answers:,} answers are too few to tell"
    return f"not promoted: {'; '.join(decision.reasons)}"


def outcome_text(decision: Decision) -> str:
    """Describe a decision in one or two words: a move by hand, or the outcome."""
    if decision.by_hand:
        return decision.by_hand
    if decision.outcome == "not_decided":
        return "not decided"
    return "promoted" if decision.promoted else "not promoted"


def level_text(decision: Decision) -> str:
    """Describe the error rate that a comparison spends; return nothing if there was none."""
    return "" if decision.level is None else f"error rate {decision.level:.2g}"


def about(count: int) -> str:
    """Return a number to two digits.

    >>> about(4534)
    '4,500'
    """
    return f"{float(f'{count:.2g}'):,.0f}"


def e_value(logarithm: float) -> str:
    """Return an e-value of which the natural logarithm is given, to three digits.

    >>> e_value(-0.5), e_value(7.2), e_value(60)
    ('0.607', '1,340', 'more than 1,000,000,000')
    """
    if logarithm >= log(LARGEST):
        return f"more than {LARGEST:,.0f}"
    value = exp(logarithm)
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"
