"""Specifications of GPUs from their makers, on which predictions are based."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """One kind of GPU: dense bfloat16 FLOP/s, and bytes per second of its memory and between two GPUs of a node."""

    name: str
    memory: float  # bytes, as the driver reports them
    flops: float
    bandwidth: float
    link: float
    capability: tuple[int, int]


# The first whose name is part of the driver's name counts.
CARDS = (
    Card("B200", 191.5e9, 2250e12, 8.0e12, 900e9, (10, 0)),
    Card("GH200", 102.6e9, 989e12, 4.0e12, 450e9, (9, 0)),
    Card("H200", 150.1e9, 989e12, 4.8e12, 450e9, (9, 0)),
    Card("H100 PCIe", 85.5e9, 756e12, 2.0e12, 64e9, (9, 0)),
    Card("H100", 85.5e9, 989e12, 3.35e12, 450e9, (9, 0)),
    Card("H800", 85.5e9, 989e12, 3.35e12, 200e9, (9, 0)),
    Card("A100-SXM4-40GB", 42.4e9, 312e12, 1.55e12, 300e9, (8, 0)),
    Card("A100", 85.1e9, 312e12, 2.0e12, 300e9, (8, 0)),
    Card("L40S", 47.7e9, 362e12, 0.86e12, 32e9, (8, 9)),
    Card("L4", 23.7e9, 121e12, 0.30e12, 32e9, (8, 9)),
    Card("A10G", 23.7e9, 70e12, 0.60e12, 32e9, (8, 6)),
    Card("RTX 4090", 25.4e9, 165e12, 1.0e12, 32e9, (8, 9)),
)


def card_of(name: str) -> Card | None:
    """Return the card whose name is part of ``name``, or None."""
    return next((card for card in CARDS if card.name.lower() in name.lower()), None)
