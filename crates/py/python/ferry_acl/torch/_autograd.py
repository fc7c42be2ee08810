"""Backward in one thread, in the CPU's order.

Autograd has a thread for every device. Where several gradients of a tensor are added up, threads would decide in which order; one thread takes the
nodes as it does for tensors of the CPU, and sums are the same to the bit.
"""
from typing import Any

import torch


def install() -> None:
    """Has every backward of this process run in the thread that calls it."""
    run = torch.autograd.graph._engine_run_backward

    def run_in_one_thread(*args: Any, **kwargs: Any) -> Any:
        with torch.autograd.set_multithreading_enabled(False):
            return run(*args, **kwargs)

    for module in (torch.autograd.graph, torch.autograd):
        if hasattr(module, "_engine_run_backward"):
            module._engine_run_backward = run_in_one_thread
