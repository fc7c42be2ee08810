"""Operators that torch makes of others, and of which others depends on the device: they run whole on the CPU, forward and backward.

With gradients, tensors are copied to the CPU and results back by two functions that autograd knows, so that everything between is recorded as
it would be for tensors of the CPU, and its backward is the CPU's as well.
"""
from typing import Any, Callable, Dict, List

import torch
from torch._ops import OpOverload

from . import _kernels, _layouts, _memory, _random

AUTOCAST = torch._C.DispatchKey.AutocastPrivateUse1


class ToCpu(torch.autograd.Function):
    """Copies of tensors of a device on the CPU."""

    @staticmethod
    def forward(ctx: Any, device: int, *tensors: torch.Tensor) -> Any:
        ctx.device = device
        ctx.set_materialize_grads(False)
        return tuple(copies(ToCpu, device, tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *moved(ToDevice, ctx.device, gradients))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Any) -> Any:
        return tuple(moved(ToCpu, ctx.device, tangents))


class ToDevice(torch.autograd.Function):
    """Copies of tensors of the CPU on a device."""

    @staticmethod
    def forward(ctx: Any, device: int, *tensors: torch.Tensor) -> Any:
        ctx.device = device
        ctx.set_materialize_grads(False)
        return tuple(copies(ToDevice, device, tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *moved(ToCpu, ctx.device, gradients))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Any) -> Any:
        return tuple(moved(ToDevice, ctx.device, tangents))


def moved(way: Any, device: int, tensors: Any) -> List[Any]:
    """Those of the tensors that are defined, moved by one of the functions above, in the places of all."""
    defined = iter(way.apply(device, *(tensor for tensor in tensors if tensor is not None)) if any(t is not None for t in tensors) else ())
    return [None if tensor is None else next(defined) for tensor in tensors]


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
        if is_cast_inside() or torch._C._are_functorch_transforms_active():
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
    move = [tensor for tensor in unique(tensors) if not tensor.is_cpu and id(tensor) not in changed.on_cpu]
    here = dict(changed.on_cpu)
    here.update(split(ToCpu, device, move))
    args, kwargs = placed(args, here), dict(zip(kwargs, placed(kwargs.values(), here)))
    if "device" in kwargs:
        kwargs["device"] = torch.device("cpu")
    if overload.is_random:
        result = _random.run(overload, device, args, kwargs)
    else:
        result = overload.op(*args, **kwargs)
    changed.end()
    return on_device(overload, device, result, {id(here[id(tensor)]): tensor for tensor in tensors if id(tensor) in here})


def split(way: Any, device: int, tensors: List[torch.Tensor]) -> Dict[int, torch.Tensor]:
    """Moves tensors, by their identities; of those that need no gradient autograd does not hear."""
    is_forward = torch.autograd.forward_ad._current_level >= 0
    needing = [tensor for tensor in tensors if is_forward or tensor.requires_grad]
    others = [tensor for tensor in tensors if not (is_forward or tensor.requires_grad)]
    found = dict(zip(map(id, needing), way.apply(device, *needing) if needing else ()))
    if others:
        found.update(zip(map(id, others), copies(way, device, others)))
    return found


def copies(way: Any, device: int, tensors: Any) -> Any:
    """Copies of tensors on the other side."""
    if all(_layouts.is_plain(tensor) for tensor in tensors):
        return _memory.all_to_cpu(tensors) if way is ToCpu else _memory.to_device(tensors, device)
    return [_layouts.to_cpu(tensor) if way is ToCpu else _layouts.to_device(tensor, device) for tensor in tensors]


def unique(tensors: List[torch.Tensor]) -> List[torch.Tensor]:
    """Each tensor once."""
    return list({id(tensor): tensor for tensor in tensors}.values())


def placed(values: Any, here: Dict[int, torch.Tensor]) -> List[Any]:
    """Arguments with tensors of the CPU in place of those of the device."""

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return here.get(id(value), value)
        return [one(each) for each in value] if isinstance(value, (list, tuple)) else value

    return [one(value) for value in values]


def on_device(overload: _kernels.Overload, device: int, result: Any, given: Dict[int, torch.Tensor]) -> Any:
    """Results of the CPU on the device; a tensor that was given is the caller's own."""
    values = result if isinstance(result, (list, tuple)) else (result,)
    stays = {id(value) for place, value in enumerate(values) if place in overload.on_cpu}
    new = [tensor for tensor in unique(tensors_of(values)) if id(tensor) not in given and id(tensor) not in stays]
    there = dict(given)
    there.update(split(ToDevice, device, new))
    moved_values = placed(values, there)
    return moved_values[0] if values is not result else type(result)(moved_values)
