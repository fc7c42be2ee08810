"""Tensors that are made of several: sparse and nested ones, between the device and the CPU. Their bytes are copied."""
from typing import Callable, Sequence

import torch

from . import _memory

COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor is one piece of memory with strides."""
    return tensor.layout is torch.strided and not tensor.is_nested


def rebuilt(tensor: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The tensor made anew of its parts, each of which was moved."""
    if tensor.is_nested:
        sizes, strides, offsets = tensor._nested_tensor_size(), tensor._nested_tensor_strides(), tensor._nested_tensor_storage_offsets()
        return torch._nested_view_from_buffer(move(tensor.values()), sizes, strides, offsets)
    if tensor.layout is torch.sparse_coo:
        indices, values = move(tensor._indices()), move(tensor._values())
        return torch.sparse_coo_tensor(indices, values, tensor.size(), is_coalesced=tensor.is_coalesced(), check_invariants=False)
    if tensor.layout in COMPRESSED:
        outer, inner = (move(getattr(tensor, name)()) for name in COMPRESSED[tensor.layout])
        values = move(tensor.values())
        return torch.sparse_compressed_tensor(outer, inner, values, tensor.size(), layout=tensor.layout, check_invariants=False)
    raise NotImplementedError(f"ferry: no operators for tensors of layout {tensor.layout} on device npu")


def parts(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """What the tensor is made of."""
    found = []
    rebuilt(tensor, lambda part: found.append(part) or part)
    return found


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor of the device, of any layout, on the CPU."""
    return _memory.to_cpu(tensor) if is_plain(tensor) else rebuilt(tensor, _memory.to_cpu)


def to_device(tensor: torch.Tensor, device: int) -> torch.Tensor:
    """A copy of a tensor of the CPU, of any layout, on the device."""
    if is_plain(tensor):
        return _memory.to_device([tensor], device)[0]
    return rebuilt(tensor, lambda part: _memory.to_device([part], device)[0])
