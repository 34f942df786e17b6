"""The tensors in a model folder: their names, types and shapes, from the headers of its files and without torch."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from core.errors import InputError
from core.files import read_object
from core.text.parse import parse_object

TYPE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
WEIGHTS = "model.safetensors"
PIECE = 1 << 16  # bytes


class Tensor(NamedTuple):
    """Where a tensor lies: ``start`` and ``size`` are bytes of ``file``; ``dtype`` is a type of safetensors."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int

    def pieces(self, most: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of the tensor, or about ``most`` of them in pieces from its whole length."""
        count = math.ceil(self.size / PIECE)
        step = 1 if most is None else max(1, math.ceil(self.size / most))
        with self.file.open("rb") as stream:
            for piece in range(0, count, step):
                stream.seek(self.start + piece * PIECE)
                yield stream.read(min(PIECE, self.size - piece * PIECE))


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of the model in ``folder`` by name: those that transformers and vLLM both load.

    Raises:
        InputError: there are no weights, or a file is damaged, missing, or not one that both of them load.
    """
    index, whole = folder / f"{WEIGHTS}.index.json", folder / WEIGHTS
    if index.is_file():
        return _indexed(index, whole)
    if not whole.is_file():
        raise InputError(
            f"{folder}: no weights; expected {WEIGHTS}, or {index.name} and the files that it names: is the download "
            "complete? Of .bin files, save_pretrained of transformers makes safetensors"
        )
    if others := sorted({*folder.glob("*.safetensors")} - {whole}):
        raise InputError(f"{others[0]}: vLLM loads it as well as {WEIGHTS}, transformers does not: remove one")
    return _read_safetensors(whole)


def bfloat16_bytes(folder: Path) -> int:
    """Return the memory of the model's weights in bfloat16."""
    return sum(2 * math.prod(tensor.shape) for tensor in read_tensors(folder).values())


def _indexed(index: Path, whole: Path) -> dict[str, Tensor]:
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise InputError(f"{index}: no weight_map of tensor names to files in it: save the model again")
    files = {name: index.parent / name for name in sorted(set(weight_map.values()))}
    if missing := [name for name, file in files.items() if not file.is_file()]:
        raise InputError(f"{index}: names {len(missing)} files that are not there ({missing[0]}): copy them too")
    if whole.is_file() and whole.name not in files:
        raise InputError(f"{whole}: transformers loads it, and vLLM the files of {index.name}: remove one of them")
    tensors: dict[str, Tensor] = {}
    for name, file in files.items():
        in_file = _read_safetensors(file)
        listed = {tensor for tensor, of in weight_map.items() if of == name}
        if different := sorted(listed ^ in_file.keys()):
            raise InputError(
                f"{index}: {len(different)} tensors are in {name} or said to be ({different[0]}), but not both: copy "
                "the index and all files from one model"
            )
        tensors |= in_file
    return tensors


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        try:
            header = parse_object(stream.read(length), str(file)) if 0 < length < file.stat().st_size else {}
        except InputError:
            header = {}
    header.pop("__metadata__", None)
    try:
        tensors = {name: _described(file, 8 + length, **tensor) for name, tensor in header.items()}
    except (TypeError, ValueError):
        tensors = {}
    if not tensors:
        raise InputError(f"{file}: no readable safetensors header: copy or download it again")
    expected = max(tensor.start + tensor.size for tensor in tensors.values())
    if (size := file.stat().st_size) != expected:
        raise InputError(f"{file}: {size} bytes where its header says {expected}: copy or download it again")
    return tensors


def _described(file: Path, data: int, *, dtype: str, shape: list[int], data_offsets: list[int]) -> Tensor:
    """Return the tensor of an entry of a header; ValueError or TypeError if its numbers contradict each other."""
    begin, end = data_offsets
    tensor = Tensor(file, dtype, tuple(shape), data + begin, end - begin)
    if not 0 <= begin <= end or tensor.size != math.prod(shape) * TYPE_BYTES.get(dtype, tensor.size):
        raise ValueError(dtype)
    return tensor
