"""Which line of the program an operator is of, for those who watch: `ferry check` names it in its findings."""
import ctypes
import os
import sys
from types import FrameType
from typing import Any, Dict, Optional, Tuple

import torch

# What is not the program's own.
OTHERS = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(os.path.abspath(torch.__file__)) + os.sep)
_numbers: Dict[Tuple[Any, int], int] = {}


def set_line(library: ctypes.CDLL) -> None:
    """The next call of this thread comes from the innermost line of the program's own."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OTHERS):
        frame = frame.f_back
    if frame is None:
        return
    key = (frame.f_code, frame.f_lineno)
    number = _numbers.get(key)
    if number is None:
        words = (os.fsencode(frame.f_code.co_filename), frame.f_code.co_name.encode())
        number = _numbers[key] = library.ferryDefineLine(*words, frame.f_lineno)
    library.ferrySetLine(number)
