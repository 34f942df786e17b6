"""Choose the attention kernel of the actor: the key ``attention`` of the configuration.

Every one of them computes packed sequences as if each stood alone. Flash attention skips the blocks between two
sequences and keeps no mask. ``sdpa`` builds a mask of all tokens of a micro-batch with all of them (0.4 GB for 20,480
tokens) and computes the masked blocks, too: slower on long micro-batches, but it needs nothing that torch does not
have. ``sdpa_packed`` computes the sequences one after the other, which suits a CPU. ``flex_attention`` skips the blocks
as well, but torch must compile it for each card: where that fails, it falls back to scores of all tokens with all of
them for each head (47 GB for a 7B model), so it is never chosen for you.
"""

from collections.abc import Collection, Sequence

from core.errors import InputError
from core.machine.package_lock import installed_versions
from training.config.run import KERNELS
from training.resources.machine import Gpu

AUTO = "auto"
# Our names are those of transformers. The packages that bring a kernel; the others are torch's own.
PACKAGES = {"flash_attention_2": "flash-attn", "flash_attention_4": "flash-attn-4"}
PACKED = "sdpa_packed"  # ours (training.platforms.packed_attention), for a CPU
AMPERE = (8, 0)
# Of flash-attn-4, whose backward pass knows Hopper and Blackwell; the widest heads of each.
WIDEST_HEAD = {9: 256, 10: 128, 11: 128}


def installed_kernels() -> set[str]:
    """Return the `KERNELS` that this interpreter has."""
    installed = installed_versions()
    return {kernel for kernel in KERNELS if kernel not in PACKAGES or PACKAGES[kernel] in installed}


def choose_attention(
    asked: str,
    *,
    gpus: Sequence[Gpu],
    head_dim: int,
    sequence_parallel: int,
    installed: Collection[str],
    packed: bool = False,
) -> str:
    """Return the kernel for ``asked``, which may be ``auto``, on ``gpus``.

    Raises:
        InputError: its package is missing, or it cannot split sequences over GPUs.
    """
    kernel = asked
    if asked == AUTO:
        capabilities = [gpu.capability for gpu in gpus]
        hopper = all(head_dim <= WIDEST_HEAD.get(major, 0) for major, _ in capabilities)
        if not capabilities:
            kernel = PACKED if packed else "sdpa"
        elif "flash_attention_4" in installed and hopper:
            kernel = "flash_attention_4"
        elif "flash_attention_2" in installed and min(capabilities) >= AMPERE:
            kernel = "flash_attention_2"
        else:
            kernel = "sdpa"
    if kernel == PACKED and (gpus or not packed):
        raise InputError(f"machine.attention={PACKED}: it is for packed sequences on a CPU: set machine.attention=auto")
    if kernel not in installed:
        raise InputError(
            f"machine.attention={kernel}: {PACKAGES[kernel]} is not installed: install it, or set "
            "machine.attention=auto"
        )
    if sequence_parallel > 1 and kernel not in PACKAGES:
        raise InputError(
            f"actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size={sequence_parallel}: with "
            f"machine.attention={kernel} every GPU would attend only to its part of a sequence, without any error: "
            "set it to 1, or install flash-attn (or flash-attn-4 on Hopper and Blackwell)"
        )
    return kernel
