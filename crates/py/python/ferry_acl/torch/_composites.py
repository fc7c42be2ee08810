"""Operators that torch makes of others, and of which others depends on the device: they run whole on the CPU, forward and backward.

With gradients, tensors are copied to the CPU and results back by two functions that autograd knows, so that everything between is recorded as
it would be for tensors of the CPU, and its backward is the CPU's as well.
"""
from typing import Any, Callable, List, Optional

import torch
from torch._ops import OpOverload

from . import _kernels, _layouts, _memory

AUTOCAST = torch._C.DispatchKey.AutocastPrivateUse1


class ToCpu(torch.autograd.Function):
    """A copy of a tensor of the device on the CPU."""

    @staticmethod
    def forward(tensor: torch.Tensor) -> torch.Tensor:
        return _memory.to_cpu(tensor) if _layouts.is_plain(tensor) else _layouts.rebuilt(tensor, _memory.to_cpu)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.device = inputs[0].device.index
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
        return None if gradient is None else ToDevice.apply(gradient, ctx.device)

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return ToCpu.apply(tangent)


class ToDevice(torch.autograd.Function):
    """A copy of a tensor of the CPU on the device."""

    @staticmethod
    def forward(tensor: torch.Tensor, device: int) -> torch.Tensor:
        return _kernels.on_device(tensor, device)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.device = inputs[1]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: Optional[torch.Tensor]) -> Any:
        return None if gradient is None else ToCpu.apply(gradient), None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        return ToDevice.apply(tangent, ctx.device)


def tensors_of(values: Any) -> List[torch.Tensor]:
    """All tensors among arguments."""
    found: List[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(each for each in value if isinstance(each, torch.Tensor))
    return found


def wants_gradients(tensors: List[torch.Tensor]) -> bool:
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return torch._C._is_fwd_grad_enabled() and torch.autograd.forward_ad._current_level >= 0


def is_cast_inside() -> bool:
    """Whether autocast is on and will cast the arguments of the operators that this one is made of."""
    return torch.is_autocast_enabled("npu") and not torch._C._dispatch_tls_is_dispatch_key_excluded(AUTOCAST)


def composite_of(op: OpOverload, plain: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel above autograd of an operator that runs whole on the CPU; `plain` is the one without gradients."""
    overload = _kernels.Overload(op)

    def composite(*args: Any, **kwargs: Any) -> Any:
        if is_cast_inside():
            return op.decompose(*args, **kwargs)
        tensors = tensors_of((*args, *kwargs.values()))
        if not wants_gradients(tensors):
            return plain(*args, **kwargs)
        return with_gradients(overload, tensors, args, kwargs)

    return composite


def with_gradients(overload: _kernels.Overload, tensors: List[torch.Tensor], args: Any, kwargs: Any) -> Any:
    """Runs the operator on the CPU, with all that autograd records of it there."""
    device = next(tensor.device.index for tensor in tensors if not tensor.is_cpu)
    changed = _memory.Operands(device)
    named = [*zip(args, overload.arguments), *((value, overload.by_name[name]) for name, value in kwargs.items())]
    for value, argument in named:
        if argument.access == _memory.CHANGES and isinstance(value, torch.Tensor) and not value.is_cpu:
            changed.add(value, _memory.CHANGES)
    if changed.tensors:
        changed.share()
    originals = {}

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not value.is_cpu:
            here = changed.on_cpu.get(id(value))
            if here is None:
                here = ToCpu.apply(value)
            originals[id(here)] = value
            return here
        if isinstance(value, (list, tuple)):
            return [move(each) for each in value]
        return value

    def back(place: int, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and place not in overload.on_cpu:
            original = originals.get(id(value))
            return ToDevice.apply(value, device) if original is None else original
        if isinstance(value, (list, tuple)):
            return type(value)(back(-1, each) for each in value)
        return value

    here = [move(value) for value in args]
    here_named = {name: move(value) for name, value in kwargs.items()}
    if "device" in overload.by_name and "device" in kwargs:
        here_named["device"] = torch.device("cpu")
    if overload.is_random:
        result = _kernels._random.run(overload, device, here, here_named)
    else:
        result = overload.op(*here, **here_named)
    changed.end()
    if isinstance(result, tuple):
        return tuple(back(place, value) for place, value in enumerate(result))
    return back(0, result)
