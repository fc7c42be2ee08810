"""Registers the kernels: which overload gets which."""
import os
import re
import sys
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Set

import torch
import torch_npu  # noqa: F401
from torch._ops import OpOverload

from . import _autograd, _compile, _composites, _copies, _kernels, _npu, _random

# Memory and metadata: torch_npu's own kernels, which call acl or nobody.
KEPT = re.compile(
    r"(empty|set_|resize_?$|resize_as_|record_stream|is_pinned|_pin_memory|_copy_from|_local_scalar_dense|_reshape_alias|as_strided|_resize_output_"
    r"|_nested_view_from_buffer|is_set_to|_efficientzerotensor|_make_dep_token|new_empty|from_file|_empty|lift|detach|alias)"
)
# Made of others as on every device: they return views of their arguments, or change only what a tensor is.
DECOMPOSED = re.compile(
    r"(atleast_|broadcast_tensors|meshgrid|data$|type_as|_cast_|_to_cpu|to_|sparse_|_sparse_|chalf|unflatten_dense|unsafe_|_remove_batch|_add_batch"
    r"|_test_|sum_to_size|_reshape_from_tensor|quantized_|fbgemm_|_wrapped_|gradient|_shape_as_tensor|_dim_arange|fake_quantize|smm|sspaddmm|_saturate|choose_qparams"
    r"|conj_physical|nested_to_padded|_rowwise|max_pool1d_with_indices$|where\.default)"
)
KEEP_ALIVE: List[Any] = []


def registered(key: str) -> Set[str]:
    """The names of all overloads that have a kernel for a dispatch key."""
    return set(torch._C._dispatch_get_registrations_for_dispatch_key(key))


def overload(name: str) -> Optional[OpOverload]:
    """The overload of a name as torch.ops has it; None for a name that only torch_npu knows."""
    space, _, rest = name.partition("::")
    packet, _, which = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, space), packet), which or "default")
    except AttributeError:
        return None


def is_view(op: OpOverload) -> bool:
    """Whether the result shares memory with an argument that is not written."""
    return any(each.alias_info is not None and not each.alias_info.is_write for each in op._schema.returns)


def is_functional(op: OpOverload) -> bool:
    """Whether the schema names no shared memory, and tensors are all that is returned."""
    schema = op._schema
    return (
        all(each.alias_info is None for each in (*schema.arguments, *schema.returns))
        and len(schema.returns) > 0
        and all(str(each.type) in ("Tensor", "List[Tensor]") for each in schema.returns)
        and any("Tensor" in str(each.type) for each in schema.arguments)
    )


def short(op: OpOverload) -> str:
    """The name of an overload without its namespace, as Library.impl takes it."""
    name, which = op._schema.name.split("::")[1], op._schema.overload_name
    return f"{name}.{which}" if which else name


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch prints to standard error for every kernel that takes another's place."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def overloads(names: Set[str]) -> Dict[str, OpOverload]:
    """Those of aten that torch.ops has, by name."""
    found = {name: overload(name) for name in sorted(names) if name.startswith("aten::")}
    return {name: op for name, op in found.items() if op is not None}


def install() -> None:
    """Replaces the kernels of device npu, once in a process."""
    if KEEP_ALIVE:
        return
    library = torch.library.Library("aten", "IMPL")
    KEEP_ALIVE.append(library)
    with quiet():
        install_plain(library)
        install_composites(library)
        install_layouts(library)
        _copies.install(library)
        KEEP_ALIVE.append(_npu.install())
    _random.install()
    _autograd.install()
    _compile.install()


def install_plain(library: Any) -> None:
    """Overloads that the CPU or torch_npu has kernels for, below autograd."""
    taken = {name for name in _copies.COMPOSITES} | {"aten::copy_"}
    for name, op in overloads(registered("PrivateUse1") | registered("CPU")).items():
        if name in taken or is_view(op) or KEPT.match(short(op)):
            continue
        library.impl(short(op), _kernels.kernel_of(op), "PrivateUse1")


def install_composites(library: Any) -> None:
    """Overloads that run whole on the CPU, and those whose autograd torch_npu has replaced by its own."""
    theirs = registered("AutogradPrivateUse1")
    implicit = overloads(registered("CompositeImplicitAutograd"))
    for name, op in implicit.items():
        if is_functional(op) and not DECOMPOSED.match(short(op)):
            plain = _kernels.kernel_of(op)
            library.impl(short(op), plain, "PrivateUse1")
            library.impl(short(op), _composites.composite_of(op, plain), "AutogradPrivateUse1")
        elif name in theirs:
            library.impl(short(op), op.decompose, "AutogradPrivateUse1")
    for name, op in overloads(theirs).items():
        if name not in implicit:
            # torch's own kernel above autograd is the same for every device.
            library.impl(short(op), same_as(name, "AutogradCPU"), "AutogradPrivateUse1", with_keyset=True)


# The keys of sparse and nested tensors, the CPU's and the device's; what of them is left to torch and torch_npu: making one of its parts,
# and taking these out.
LAYOUT_KEYS = (("SparseCPU", "SparsePrivateUse1"), ("SparseCsrCPU", "SparseCsrPrivateUse1"), ("NestedTensorCPU", "NestedTensorPrivateUse1"))
PARTS = re.compile(
    r"(_?indices$|_?values$|crow_|ccol_|col_|row_|_coalesced_|is_coalesced|_nnz|_dim[IV]|sparse_dim|dense_dim|_sparse_.*tensor|sparse_resize|resize|empty|copy_$|copy_sparse"
    r"|_nested_tensor_(size|strides|storage)|_nested_view|_nested_from|_nested_get|_to_copy|clone|detach|alias|is_same_size|_is_any_true|set_|_has|_spsolve|values|_to_dense$)"
)


def install_layouts(library: Any) -> None:
    """Overloads of sparse and nested tensors, whose parts are copied to the CPU."""
    for theirs, ours in LAYOUT_KEYS:
        for name, op in overloads(registered(theirs)).items():
            if not is_view(op) and not PARTS.match(short(op)):
                library.impl(short(op), _kernels.kernel_of(op), ours)
            elif ours.startswith("Nested") and name not in registered(ours):
                # Metadata of nested tensors is the CPU's, whatever their device is.
                library.impl(short(op), same_as(name, theirs), ours, with_keyset=True)


def same_as(name: str, key: str) -> Any:
    """A kernel that calls the one of another key."""
    kernel = torch.library.get_kernel(name, key)
    return lambda keyset, *args, **kwargs: kernel.call_boxed(keyset, *args, **kwargs)
