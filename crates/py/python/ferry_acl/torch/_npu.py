"""Operators that only torch_npu has: those with a plain definition by that, all others raise by their names."""
from typing import Any, Callable, Dict

import torch

DEFINED: Dict[str, Callable[..., Any]] = {}


def refusal(name: str) -> Callable[..., Any]:
    """A kernel that raises on every call."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"ferry: {name} has no plain definition that the CPU could run; use operators of torch's own, or mark this part for a card")

    return refused


def install() -> Any:
    """Registers a kernel for every operator of torch_npu's own."""
    library = torch.library.Library("npu", "IMPL")
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
            if name.startswith("npu::"):
                short = name.split("::")[1]
                library.impl(short, DEFINED.get(short) or refusal(name), key)
    return library
