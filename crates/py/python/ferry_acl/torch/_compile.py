"""torch.compile: refused, since there is no compiler for the device."""
import os
from typing import Any

import torch

SENTENCE = (
    "ferry: torch.compile is refused: operators of device npu run one by one on the CPU, and there is no compiler for it. Call the function itself, "
    "or set TORCHDYNAMO_DISABLE=1, with which torch.compile changes nothing"
)


def refuse(*args: Any, **kwargs: Any) -> Any:
    """torch.compile."""
    raise NotImplementedError(SENTENCE)


def install() -> None:
    """Refuses torch.compile, unless the program was told to do without."""
    if "1" not in (os.environ.get("TORCHDYNAMO_DISABLE"), os.environ.get("TORCH_COMPILE_DISABLE")):
        torch.compile = refuse
