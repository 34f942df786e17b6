"""The languages of targets."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from targets.filter.text_properties import identify_language
from tests.preparing import rows, run

TEXTS = {  # a thought in several languages
    "en": "First we add the two numbers, and then we divide their sum by two, so that the mean is what we need.",
    "de": "Zuerst addieren wir die beiden Zahlen, dann teilen wir ihre Summe durch zwei, also ist das der Mittelwert.",
    "fr": "Nous additionnons d'abord les deux nombres, puis nous divisons leur somme par deux pour avoir la moyenne.",
    "es": "Primero sumamos los dos números y después dividimos la suma entre dos, por lo tanto esa es la media.",
    "it": "Prima sommiamo i due numeri e poi dividiamo la loro somma per due, quindi questa è la media cercata.",
    "pt": "Primeiro somamos os dois números e depois dividimos a soma por dois, portanto essa é a média procurada.",
    "nl": "Eerst tellen we de twee getallen bij elkaar op en daarna delen we hun som door twee: het gemiddelde.",
    "pl": "Najpierw dodajemy obie liczby, a potem dzielimy ich sumę przez dwa, więc to jest szukana średnia.",
}
FORMULAS = ("", "So $x^2 + 2x + 1 = 0$ and \\frac{a}{b} \\le 7.", "Hence \\(\\int_0^1 f(x) dx = 12\\).")


def test_languages_are_told_apart_whatever_the_formulas() -> None:
    pytest.importorskip("py3langid", reason="make languages installs it")
    for formula in FORMULAS:
        for language, text in TEXTS.items():
            assert identify_language(f"{text} {formula}") == language, (language, formula)
    assert identify_language("$x = 2$, so \\boxed{4}") is None
    assert identify_language("so we do it as it is to be as we go to it, so") is None  # too few letters, many blanks


def test_targets_of_other_languages_are_rejected(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    pytest.importorskip("py3langid", reason="make languages installs it")
    traces = [
        good(k, response=f"<think>\n{text}\n</think>\n\n\\boxed{{{good(k)['answer']}}}")
        for k, text in enumerate(TEXTS.values(), start=1)
    ]
    prepared = run(jsonl(*traces), tmp_path / "out", tokenizer, languages=["en", "de"])
    assert prepared.counts["kept"] == 2 and prepared.counts["language"] == len(TEXTS) - 2
    assert {row["detail"] for row in rows(prepared.rejected)} >= {"fr (languages: en, de)"}
    with pytest.raises(InputError, match="languages: 'English' is none that py3langid knows"):
        run(jsonl(*traces), tmp_path / "none", tokenizer, languages=["English"])
