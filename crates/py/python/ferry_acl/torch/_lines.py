"""Which lines of the program an operator is of, for those who watch: `ferry check` names them in its findings."""
import ctypes
import os
import sys
from types import FrameType
from typing import Any, Dict, List, Optional, Tuple

import torch

# What is not the program's own.
OTHERS = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(os.path.abspath(torch.__file__)) + os.sep)
_numbers: Dict[Tuple[Any, int], int] = {}


# Frames of a stack that are noted.
MAX_FRAMES = 64


def set_line(library: ctypes.CDLL) -> None:
    """The next call of this thread comes from the innermost line of the program's own, which others have led to."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OTHERS):
        frame = frame.f_back
    numbers: List[int] = []
    while frame is not None and len(numbers) < MAX_FRAMES:
        numbers.append(_number(library, frame))
        frame = frame.f_back
    if numbers:
        library.ferrySetLines((ctypes.c_uint32 * len(numbers))(*numbers), ctypes.c_size_t(len(numbers)))


def _number(library: ctypes.CDLL, frame: FrameType) -> int:
    line = frame.f_lineno or 0
    key = (frame.f_code, line)
    number = _numbers.get(key)
    if number is None:
        words = (os.fsencode(frame.f_code.co_filename), frame.f_code.co_name.encode())
        number = _numbers[key] = library.ferryDefineLine(*words, line)
    return number
