"""Device memory as the CPU sees it: tensors of the CPU that share the bytes of tensors of the device.

Before an operator runs, `begin` waits for the current stream's earlier work and asks Ferry where the bytes are (`ferryOperator`, a private
call). Where Ferry has no answer (a backend whose memory the CPU cannot reach, memory that is mapped in pieces) bytes are copied, and what
was changed is copied back.
"""
import ctypes
from typing import Any, Dict, List, Sequence, Tuple

import torch
import torch_npu

from . import _lines

# What an operator does with bytes: Range.access.
READS, REPLACES, CHANGES = 0, 1, 2
# ACL_MEMCPY_DEVICE_TO_DEVICE.
DEVICE_TO_DEVICE = 3
Ranges = Sequence[Tuple[int, int, int]]


class Range(ctypes.Structure):
    """Bytes that an operator uses, and where the CPU finds them: the four words of ferryOperator."""

    _fields_ = [("ptr", ctypes.c_size_t), ("len", ctypes.c_size_t), ("access", ctypes.c_size_t), ("at", ctypes.c_size_t)]


def library() -> ctypes.CDLL:
    """Ferry's libascendcl.so, which torch_npu has loaded."""
    loaded = ctypes.CDLL("libascendcl.so")
    if not hasattr(loaded, "ferryOperator"):
        raise ImportError("ferry_acl.torch: the libascendcl.so of this process is not Ferry's, or another version of it")
    loaded.ferryOperator.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    loaded.aclrtMemcpyAsync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    loaded.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return loaded


LIBRARY = library()
_operator = LIBRARY.ferryOperator
_memcpy_async = LIBRARY.aclrtMemcpyAsync
# When it has answered, torch_npu's own queue has handed everything to the stream.
_raw_stream = torch_npu._C._npu_getCurrentRawStream
_current_device = torch_npu._C._npu_getDevice
# Whether somebody sees what this process does: `ferry check`, for one.
IS_WATCHED = LIBRARY.ferryIsWatched() != 0
_array_types: Dict[int, Any] = {}
_memmove = ctypes.memmove


def _array_type(count: int) -> Any:
    """The type of so many ranges; making one takes longer than a small operator."""
    made = _array_types.get(count)
    if made is None:
        made = _array_types[count] = Range * count
    return made


def begin(device: int, ranges: Ranges) -> List[int]:
    """Waits for the device's current stream, and says where each (address, bytes, access) is: 0 if the CPU cannot have it."""
    if _current_device() != device:
        with torch.npu.device(device):
            return begin(device, ranges)
    if IS_WATCHED:
        _lines.set_line(LIBRARY)
    count = len(ranges)
    array = _array_type(count)(*ranges)
    code = _operator(ctypes.addressof(array), count, _raw_stream(device))
    if code != 0:
        check(code, "an operator")
    return [each.at for each in array]


def check(code: int, what: str) -> None:
    """Raises what acl says of a call that failed."""
    if code != 0:
        note = (LIBRARY.aclGetRecentErrMsg() or b"").decode(errors="replace")
        raise RuntimeError(f"ferry: {what} cannot run: error {code}: {note}")


def span(tensor: torch.Tensor) -> int:
    """How many elements lie between the first and the last of a tensor, with both; 0 for a tensor of none."""
    count = tensor.numel()
    if count == 0 or tensor.is_contiguous():
        return count
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))


def view_storage(at: int, tensor: torch.Tensor) -> torch.Tensor:
    """All whole elements of a tensor's storage, in memory of the CPU at this address; the storage lives as long."""
    owner = tensor.untyped_storage()
    memory = (ctypes.c_char * owner.nbytes()).from_address(at)
    memory.owner = owner
    return torch.frombuffer(memory, dtype=tensor.dtype, count=owner.nbytes() // tensor.element_size())


def shaped(storage: torch.UntypedStorage, like: torch.Tensor, offset: int) -> torch.Tensor:
    """A tensor of the CPU over this storage with the dtype, shape, strides and bits of another."""
    return with_bits(torch.empty(0, dtype=like.dtype).set_(storage, offset, like.size(), like.stride()), like)


def with_bits(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The tensor with the conjugate and negative bits of another."""
    if like.is_conj():
        tensor = torch._conj(tensor)
    return torch._neg_view(tensor) if like.is_neg() else tensor


class Operands:
    """What an operator uses of one device: `add` every tensor, then `share` them, then take each from `on_cpu`."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.tensors: Dict[int, Tuple[torch.Tensor, int]] = {}
        # By the identity of the tensor on the device.
        self.on_cpu: Dict[int, torch.Tensor] = {}
        # By the identity of the tensor on the CPU.
        self.on_device: Dict[int, torch.Tensor] = {}
        self.copied: List[Tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, tensor: torch.Tensor, access: int) -> None:
        known = self.tensors.get(id(tensor))
        if known is None or known[1] < access:
            self.tensors[id(tensor)] = (tensor, access)

    def share(self) -> None:
        """Waits for the stream, and makes the tensors of the CPU. Those of one storage have one storage on the CPU as well."""
        ranges = [(t.data_ptr(), span(t) * t.element_size(), access) for t, access in self.tensors.values()]
        storages: Dict[int, torch.Tensor] = {}
        for (tensor, access), (_, length, _), at in zip(self.tensors.values(), ranges, begin(self.device, ranges)):
            if length == 0:
                shared = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
            elif at == 0:
                shared = self.copy(tensor, access)
            else:
                offset = tensor.storage_offset()
                start = at - offset * tensor.element_size()
                known = storages.get(start)
                if known is not None:
                    shared = shaped(known.untyped_storage(), tensor, offset)
                else:
                    whole = storages[start] = view_storage(start, tensor)
                    shared = with_bits(whole.as_strided(tensor.size(), tensor.stride(), offset), tensor)
            self.on_cpu[id(tensor)] = shared
            self.on_device[id(shared)] = tensor

    def copy(self, tensor: torch.Tensor, access: int) -> torch.Tensor:
        """A tensor of the CPU with a copy of the bytes, which `end` copies back if they are changed."""
        there = line_of(tensor)
        here = torch.empty(there.size(), dtype=tensor.dtype)
        copy_line(here, there)
        if access != READS:
            self.copied.append((there, here))
        return shaped(here.untyped_storage(), tensor, 0)

    def end(self) -> None:
        """The operator has run."""
        for there, here in self.copied:
            copy_line(there, here)


def line_of(tensor: torch.Tensor) -> torch.Tensor:
    """All elements between the first and the last of a tensor, in one row and as they lie in memory."""
    return torch.as_strided(plain_bits(tensor), (span(tensor),), (1,), tensor.storage_offset())


def plain_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as it lies in memory, whatever its conjugate and negative bits say."""
    tensor = torch._neg_view(tensor) if tensor.is_neg() else tensor
    return torch._conj(tensor) if tensor.is_conj() else tensor


# torch_npu's own copy, of the module that installs the kernels.
copy_kernel: Any = None


def copy_line(dst: torch.Tensor, src: torch.Tensor) -> None:
    """Copies between two rows of one dtype, one of them on the CPU, by torch_npu's own copy."""
    copy_kernel(dst, src, False)


def copy_inside(dst: torch.Tensor, src: torch.Tensor) -> None:
    """Copies between two contiguous tensors of a device, as work of its current stream."""
    device, count = dst.device.index, dst.numel() * dst.element_size()
    if _current_device() != device:
        with torch.npu.device(device):
            return copy_inside(dst, src)
    if IS_WATCHED:
        _lines.set_line(LIBRARY)
    check(_memcpy_async(dst.data_ptr(), count, src.data_ptr(), count, DEVICE_TO_DEVICE, _raw_stream(device)), "a copy")


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in memory of the CPU with the same strides."""
    return all_to_cpu([tensor])[0]


def all_to_cpu(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """Copies of tensors of one device in memory of the CPU with the same strides."""
    operands = Operands(tensors[0].device.index)
    for tensor in tensors:
        operands.add(tensor, READS)
    operands.share()
    return [copied(operands.on_cpu[id(tensor)]) for tensor in tensors]


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor of the CPU with the same strides."""
    if tensor.is_contiguous():
        return tensor.clone()
    count = span(tensor) * tensor.element_size()
    storage = torch.UntypedStorage(count)
    if count:
        _memmove(storage.data_ptr(), tensor.data_ptr(), count)
    return shaped(storage, tensor, 0)


def to_device(tensors: Sequence[torch.Tensor], device: int) -> List[torch.Tensor]:
    """New tensors of the device with the values and strides of these of the CPU."""
    tensors = [tensor.resolve_conj().resolve_neg() for tensor in tensors]
    where = torch.device("npu", device)
    made = [torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=where) for t in tensors]
    lengths = [span(t) * t.element_size() for t in tensors]
    places = begin(device, [(m.data_ptr(), n, REPLACES) for m, n in zip(made, lengths)])
    for new, tensor, length, at in zip(made, tensors, lengths, places):
        if length == 0:
            continue
        if at == 0:
            copy_line(line_of(new), torch.as_strided(tensor, (span(tensor),), (1,), tensor.storage_offset()))
        else:
            _memmove(at, tensor.data_ptr(), length)
    return made
