"""The tensors in a model folder: their names, types and shapes, from the headers of its files and without torch."""

import math
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import InputError, first_line
from core.files import read_object
from core.text.parse import parse_object

TYPE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
STORAGES = {"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16"}
# What the readers of a damaged archive raise.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.PickleError,
    struct.error,
    zipfile.BadZipFile,
)
LOCAL_HEADER = 30  # bytes before the name of a file in a zip archive
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
    for name, read in READERS.items():
        index, whole = folder / f"{name}.index.json", folder / name
        if index.is_file():
            return _indexed(index, whole, read)
        if whole.is_file():
            if others := sorted({*folder.glob(f"*{whole.suffix}")} - {whole}) if name == SAFETENSORS else []:
                raise InputError(f"{others[0]}: vLLM loads it as well as {name}, transformers does not: remove one")
            return read(whole)
    raise InputError(
        f"{folder}: no weights; expected {' or '.join(READERS)}, or its .index.json and the files that this names: is "
        "the download complete?"
    )


def bfloat16_bytes(folder: Path) -> int:
    """Return the memory of the model's weights in bfloat16."""
    return sum(2 * math.prod(tensor.shape) for tensor in read_tensors(folder).values())


def _indexed(index: Path, whole: Path, read: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
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
        in_file = read(file)
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


class _Shapes(pickle.Unpickler):
    """Reads what `torch.save` wrote, with tensors as their descriptions; anything else in it is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, *_: (storage, offset, shape)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name.endswith("Storage"):
            return STORAGES.get(name, name)
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")

    def persistent_load(self, pid: tuple[Any, ...]) -> tuple[str, str]:
        _, dtype, key, *_ = pid
        return dtype, key


def _read_torch(file: Path) -> dict[str, Tensor]:
    try:
        with zipfile.ZipFile(file) as archive, file.open("rb") as stream:
            (name,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            tensors: dict[str, Tensor] = {}
            for key, ((dtype, storage), offset, shape) in _Shapes(archive.open(name)).load().items():
                entry = archive.getinfo(f"{name.removesuffix('.pkl')}/{storage}")
                stream.seek(entry.header_offset)
                header = stream.read(LOCAL_HEADER)  # ends with the lengths of a name and of an extra field
                more = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:], "little")
                start = entry.header_offset + LOCAL_HEADER + more
                size = math.prod(shape) * TYPE_BYTES[dtype]
                first = offset * TYPE_BYTES[dtype]
                if first + size > entry.file_size:
                    raise ValueError(f"{key} is cut short")
                tensors[str(key)] = Tensor(file, dtype, tuple(shape), start + first, size)
    except UNREADABLE as error:
        raise InputError(
            f"{file}: not the tensors of a model as torch.save writes them ({first_line(error)}): copy it again, or "
            "save the model as safetensors"
        ) from None
    return tensors


SAFETENSORS = "model.safetensors"
# The file of whole weights -> what reads it and its parts; the first that is there counts.
READERS: Mapping[str, Callable[[Path], dict[str, Tensor]]] = {
    SAFETENSORS: _read_safetensors,
    "pytorch_model.bin": _read_torch,
}
