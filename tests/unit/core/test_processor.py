"""What a processor says about itself."""

from pathlib import Path

import pytest

from core.machine.processor import compute_dtype, multiplies_bfloat16


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("flags\t\t: fpu avx2 avx512_bf16 avx512_vnni", True),
        ("flags : fpu amx_bf16", True),
        ("Features\t: fp asimd bf16", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("bugs\t\t: avx512_bf16", False),
    ],
)
def test_bfloat16_is_read_from_the_flags(tmp_path: Path, line: str, there: bool) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\nmodel name\t: some bf16 chip\n{line}\n")
    assert multiplies_bfloat16(file) is there


def test_a_small_model_stays_in_float32() -> None:
    assert compute_dtype(477_184, bfloat16=True) == "float32"
    assert compute_dtype(134_515_008, bfloat16=True) == "bfloat16"
    assert compute_dtype(134_515_008, bfloat16=False) == "float32"
