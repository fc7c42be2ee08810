"""Copies and conversions of device npu. What moves bytes as they are stays torch_npu's own and goes through Ferry; the CPU does the rest."""
from typing import Any

import torch

from . import _kernels, _layouts, _memory
from ._memory import CHANGES, READS, REPLACES, Operands

# Of the CUDA key: torch's own composite kernel, which no device has registered.
COMPOSITES = ("aten::_to_copy", "aten::clone", "aten::empty_like")


def is_one_piece(dst: torch.Tensor, src: torch.Tensor) -> bool:
    """Whether a copy moves bytes as they are, from one contiguous piece to another: torch_npu then calls nothing but copies of acl's."""
    return (
        dst.dtype == src.dtype
        and dst.size() == src.size()
        and dst.is_contiguous()
        and src.is_contiguous()
        and dst.is_conj() == src.is_conj()
        and dst.is_neg() == src.is_neg()
    )


def copy_of(theirs: Any) -> Any:
    """The kernel of copy_ over torch_npu's own."""

    def copy_(keyset: Any, dst: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if dst.numel() == 0 or dst is src:
            return dst
        if not (_layouts.is_plain(dst) and _layouts.is_plain(src)):
            return copy_parts(dst, src, non_blocking)
        if is_one_piece(dst, src):
            if dst.device == src.device:
                _memory.copy_inside(dst, src)
            else:
                theirs.call_boxed(keyset, in_a_row(dst), in_a_row(src), non_blocking)
            return dst
        operands = [Operands(tensor.device.index) for tensor in (dst, src) if not tensor.is_cpu]
        if not dst.is_cpu:
            operands[0].add(dst, REPLACES if dst.is_contiguous() and dst.untyped_storage().data_ptr() != src.untyped_storage().data_ptr() else CHANGES)
        if not src.is_cpu:
            operands[-1].add(src, READS)
        for each in operands:
            each.share()
        here = [t if t.is_cpu else o.on_cpu[id(t)] for t, o in ((dst, operands[0]), (src, operands[-1]))]
        here[0].copy_(here[1])
        operands[0].end()
        return dst

    return copy_


def in_a_row(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor with one dimension: torch_npu launches operators for some copies of others."""
    return tensor if tensor.dim() == 1 else torch.as_strided(tensor, (tensor.numel(),), (1,), tensor.storage_offset())


def copy_parts(dst: torch.Tensor, src: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    """Copies sparse and nested tensors part by part, through the CPU where their layouts differ."""
    if dst.is_nested and src.is_nested:
        dst.values().copy_(src.values(), non_blocking)
        return dst
    there = src if src.is_cpu else _layouts.to_cpu(src)
    if dst.is_cpu:
        return dst.copy_(there)
    if _layouts.is_plain(dst):
        return dst.copy_(there)
    _kernels.replace(dst, there.to(dst.dtype), dst.device.index)
    return dst


def empty_of(theirs: Any) -> Any:
    """The kernel of empty over torch_npu's own, which knows contiguous memory only."""

    def empty(keyset: Any, size: Any, **kwargs: Any) -> torch.Tensor:
        memory_format = kwargs.get("memory_format")
        if memory_format in (None, torch.contiguous_format, torch.preserve_format):
            return theirs.call_boxed(keyset, size, **kwargs)
        strides = torch.empty(size, device="meta", memory_format=memory_format).stride()
        return torch.empty_strided(size, strides, dtype=kwargs.get("dtype"), device=kwargs.get("device"))

    return empty


def zeros(size: Any, **kwargs: Any) -> torch.Tensor:
    """A tensor of zeros; the CPU has one without memory, for gradients."""
    return torch.zeros(size, dtype=kwargs.get("dtype"), device=kwargs.get("device"))


def install(library: Any, key: str = "PrivateUse1") -> None:
    """Registers the kernels."""
    theirs = torch.library.get_kernel("aten::copy_", key)

    def between(dst: torch.Tensor, src: torch.Tensor, non_blocking: bool) -> None:
        theirs.call_boxed(KEYS, dst, src, non_blocking)

    _memory.copy_kernel = between
    library.impl("empty.memory_format", empty_of(torch.library.get_kernel("aten::empty.memory_format", key)), key, with_keyset=True)
    library.impl("_efficientzerotensor", zeros, key)
    library.impl("copy_", copy_of(theirs), key, with_keyset=True)
    for name in COMPOSITES:
        composite = torch.library.get_kernel(name, "CUDA")
        library.impl(name.split("::")[1], lambda keyset, *args, __composite=composite, **kwargs: __composite.call_boxed(keyset, *args, **kwargs), key, with_keyset=True)


KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
