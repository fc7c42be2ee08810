"""Kernels of device npu that have the CPU do the work.

What an overload's arguments are is read from its schema once, when its kernel is made. A call then shares the bytes of its tensors with the
CPU, runs the same overload there, and gives results memory of the device. Tensors that the schema says are written are changed in place;
those of `out=` take the shape of the result.
"""
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch._ops import OpOverload

from . import _layouts, _memory, _random
from ._memory import CHANGES, READS, Operands

# These change arguments of which their schemas do not say it.
CHANGED_SILENTLY = {"running_mean", "running_var"}
# Positions of results that stay on the CPU.
ON_CPU = {"aten::_pack_padded_sequence": {1}}
# Operators that take tensors of the CPU beside those of a device, on every device.
MIXED = (
    "index", "_index_put_impl_", "_unsafe_index", "_pack_padded_sequence", "_pad_packed_sequence", "ctc_loss", "_ctc_loss", "copy", "_copy_from",
    "_foreach_", "_fused_", "_amp_", "lstm", "gru", "rnn_", "embedding_bag", "_embedding_bag", "tensor_split", "segment_reduce", "histogram",
    "quantile", "nanquantile", "sparse_", "_sparse_", "set_", "repeat_interleave", "isin", "bucketize", "searchsorted", "_nested_", "nested_",
    "_cslt", "scatter_add", "_convert_indices", "_test_", "_validate_", "resize", "_transformer", "_native_multi_head", "put", "gradient",
)


class Argument:
    """What a kernel needs to know of one argument of an overload."""

    __slots__ = ("name", "access", "is_out", "is_device", "is_tensor")

    def __init__(self, argument: Any) -> None:
        self.name: str = argument.name
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        self.is_out = is_written and argument.kwarg_only
        self.access = CHANGES if is_written or self.name in CHANGED_SILENTLY else READS
        self.is_device = str(argument.type) in ("Device", "Optional[Device]") or self.name == "device"
        self.is_tensor = str(argument.type) in ("Tensor", "Optional[Tensor]")


class Overload:
    """An overload of an operator and what its kernels need to know of it."""

    def __init__(self, op: OpOverload) -> None:
        schema = op._schema
        self.op = op
        self.name = schema.name
        self.arguments = [Argument(each) for each in schema.arguments]
        self.by_name = {each.name: each for each in self.arguments}
        self.is_random = torch.Tag.nondeterministic_seeded in op.tags
        self.takes_generator = "generator" in self.by_name
        self.has_device = "device" in self.by_name
        self.on_cpu = ON_CPU.get(schema.name, set())
        self.takes_numbers = torch._C._should_allow_numbers_as_tensors(schema.name.split("::")[1])
        self.is_mixed = schema.name.split("::")[1].startswith(MIXED)


class Call:
    """One call of a kernel: what it takes, and where."""

    __slots__ = ("overload", "device", "operands", "outs", "moved", "stray")

    def __init__(self, overload: Overload) -> None:
        self.overload = overload
        self.device: Optional[int] = None
        self.operands: Optional[Operands] = None
        # Pairs of a tensor of `out=` and that of the CPU in its place.
        self.outs: List[Tuple[torch.Tensor, torch.Tensor]] = []
        # Tensors that are no piece of memory with strides, and their copies on the CPU.
        self.moved: Dict[int, Tuple[torch.Tensor, torch.Tensor, int]] = {}
        # A tensor of the CPU that has dimensions.
        self.stray: Optional[torch.Tensor] = None

    def look(self, value: Any, argument: Argument) -> None:
        """Notes the tensors of an argument."""
        if isinstance(value, torch.Tensor):
            self.look_at(value, argument)
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, torch.Tensor):
                    self.look_at(each, argument)
        elif isinstance(value, torch.device) and value.type == "npu":
            self.device = torch.npu.current_device() if value.index is None else value.index
        elif isinstance(value, torch.Generator) and value.device.type == "npu" and self.device is None:
            self.device = value.device.index

    def look_at(self, tensor: torch.Tensor, argument: Argument) -> None:
        if tensor.is_cpu:
            if tensor.dim() > 0:
                self.stray = tensor
            return
        if self.operands is None:
            device = tensor.device.index
            self.operands = Operands(device)
            if self.device is None or not self.overload.has_device:
                self.device = device
        if _layouts.is_plain(tensor):
            self.operands.add(tensor, READS if argument.is_out else argument.access)
        elif id(tensor) not in self.moved:
            self.moved[id(tensor)] = (tensor, _layouts.rebuilt(tensor, _memory.to_cpu), argument.access)

    def begin(self) -> None:
        """Waits for what comes before the operator, and shares the bytes of all tensors."""
        if self.stray is not None and self.operands is not None and not self.overload.is_mixed:
            message = f"Expected all tensors to be on the same device, but found at least two devices, npu:{self.device} and cpu! (ferry: {self.overload.op})"
            raise RuntimeError(message)
        if self.operands is not None:
            self.operands.share()

    def on_cpu(self, value: Any, argument: Argument) -> Any:
        """The argument for the CPU's operator."""
        if isinstance(value, torch.Tensor):
            return self.tensor_on_cpu(value, argument)
        if isinstance(value, (list, tuple)):
            return [self.tensor_on_cpu(each, argument) if isinstance(each, torch.Tensor) else each for each in value]
        if argument.is_device:
            return torch.device("cpu")
        if argument.is_tensor and value is not None and self.operands is not None and not self.overload.takes_numbers:
            return as_tensor(value, next(iter(self.operands.on_cpu.values())))
        if argument.name == "pin_memory":
            return False
        return value

    def tensor_on_cpu(self, tensor: torch.Tensor, argument: Argument) -> torch.Tensor:
        if tensor.is_cpu:
            return tensor
        moved = self.moved.get(id(tensor))
        if moved is not None:
            return moved[1]
        assert self.operands is not None
        if not argument.is_out:
            return self.operands.on_cpu[id(tensor)]
        for known, out in self.outs:
            if known is tensor:
                return out
        out = _memory.copied(self.operands.on_cpu[id(tensor)])
        self.outs.append((tensor, out))
        return out

    def end(self) -> None:
        """Gives the tensors of `out=` and those that were copied what the operator has written."""
        if self.operands is not None:
            self.operands.end()
        for tensor, out in self.outs:
            fill_out(tensor, out)
        for tensor, there, access in self.moved.values():
            if access == CHANGES:
                replace(tensor, there, self.device or 0)

    def result(self, value: Any) -> Any:
        """The CPU's result on the device."""
        if isinstance(value, torch.Tensor):
            return self.results([value])[0]
        if isinstance(value, tuple):
            if any(isinstance(each, (list, tuple)) for each in value):
                return tuple(self.result(each) for each in value)
            return tuple(self.results(value))
        if isinstance(value, list):
            return self.results(value)
        return value

    def results(self, values: Any) -> List[Any]:
        """Tensors of arguments as the caller has them, new memory for all others."""
        given: List[Any] = [self.given(value, place) for place, value in enumerate(values)]
        new = [value for value in given if isinstance(value, torch.Tensor) and value.is_cpu and _layouts.is_plain(value)]
        if self.overload.on_cpu:
            new = [value for place, value in enumerate(values) if place not in self.overload.on_cpu]
        device = self.device if self.device is not None else torch.npu.current_device()
        made = dict(zip(map(id, new), _memory.to_device(new, device))) if new else {}
        return [self.placed(value, made, device) for value in given]

    def given(self, value: Any, place: int) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if self.operands is not None and id(value) in self.operands.on_device:
            return self.operands.on_device[id(value)]
        for tensor, out in self.outs:
            if out is value:
                return tensor
        for tensor, there, _ in self.moved.values():
            if there is value:
                return tensor
        return value

    def placed(self, value: Any, made: Dict[int, torch.Tensor], device: int) -> Any:
        if id(value) in made:
            return made[id(value)]
        if isinstance(value, torch.Tensor) and value.is_cpu and not _layouts.is_plain(value):
            return _layouts.to_device(value, device)
        return value


def as_tensor(number: Any, other: torch.Tensor) -> torch.Tensor:
    """A number in place of a tensor, which torch has made of a tensor before it called the kernel."""
    return torch.scalar_tensor(number, dtype=torch.result_type(other, number))


def fill_out(tensor: torch.Tensor, out: torch.Tensor) -> None:
    """Gives a tensor of `out=` what the CPU's operator has written into the one in its place, and its shape."""
    if tensor.size() != out.size() or (tensor.numel() == 0 and tensor.stride() != out.stride()):
        tensor.resize_(out.size())
        if tensor.stride() != out.stride() and out.numel() > 0:
            tensor.resize_((_memory.span(out),)).as_strided_(out.size(), out.stride())
    operands = Operands(tensor.device.index)
    operands.add(tensor, CHANGES)
    operands.share()
    operands.on_cpu[id(tensor)].copy_(out)
    operands.end()


def replace(tensor: torch.Tensor, new: torch.Tensor, device: int) -> None:
    """Gives a sparse tensor other parts, after an operator in place."""
    there = _layouts.to_device(new, device)
    if tensor.layout is torch.sparse_coo:
        tensor.sparse_resize_and_clear_(new.size(), new.sparse_dim(), new.dense_dim())
        torch.ops.aten.copy_sparse_to_sparse_(tensor, there)
        return
    for mine, other in zip(_layouts.parts(tensor), _layouts.parts(there)):
        mine.copy_(other)


def kernel_of(op: OpOverload) -> Callable[..., Any]:
    """A kernel that has the CPU run this overload."""
    overload = Overload(op)
    arguments, by_name = overload.arguments, overload.by_name

    def kernel(*args: Any, **kwargs: Any) -> Any:
        call = Call(overload)
        for value, argument in zip(args, arguments):
            call.look(value, argument)
        for name, value in kwargs.items():
            call.look(value, by_name[name])
        call.begin()
        here = [call.on_cpu(value, argument) for value, argument in zip(args, arguments)]
        named = {name: call.on_cpu(value, by_name[name]) for name, value in kwargs.items()}
        if overload.has_device:
            named["device"] = torch.device("cpu")
        if overload.is_random:
            result = _random.run(overload, call.device, here, named)
        else:
            result = op(*here, **named)
        call.end()
        return call.result(result)

    return kernel
