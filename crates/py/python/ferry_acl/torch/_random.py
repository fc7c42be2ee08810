"""Random numbers of device npu: those of a generator of the CPU with the same seed.

Every generator of the device has one of the CPU behind it. A generator of the device is a seed and an offset; here the offset is a hash of the
CPU's state, so that a state that was set back is noticed, and the CPU's generator goes back to what it was then.
"""
import weakref
import zlib
from typing import Any, Dict, List, Optional, Tuple

import torch

# How many states can be gone back to.
KEPT = 4096


class Behind:
    """The generator of the CPU behind one of the device."""

    def __init__(self) -> None:
        self.generator = torch.Generator()
        self.state: Optional[Tuple[int, int]] = None

    def follow(self, theirs: torch.Generator) -> torch.Generator:
        """Brings the CPU's generator to where the device's is."""
        state = (theirs.initial_seed(), theirs.get_offset())
        if self.state != state:
            known = STATES.get(state)
            if known is not None:
                self.generator.set_state(known)
            else:
                # An offset that was not made here: other numbers, and always the same.
                self.generator.manual_seed(state[0] ^ state[1])
        return self.generator

    def note(self, theirs: torch.Generator) -> None:
        """Numbers were drawn: the device's generator goes on."""
        now = self.generator.get_state()
        offset = offset_of(now)
        theirs.set_offset(offset)
        self.state = (theirs.initial_seed(), offset)
        keep(self.state, now)


def offset_of(state: torch.Tensor) -> int:
    """The offset that stands for a state of the CPU's: a multiple of four, as the device's are."""
    words = state.numpy()
    return (zlib.crc32(words) << 28 ^ zlib.adler32(words)) & ~3


def keep(key: Tuple[int, int], state: torch.Tensor) -> None:
    STATES[key] = state
    if len(STATES) > KEPT:
        del STATES[next(iter(STATES))]


STATES: Dict[Tuple[int, int], torch.Tensor] = {}
_behind: "weakref.WeakKeyDictionary[torch.Generator, Behind]" = weakref.WeakKeyDictionary()


def default_of(device: Optional[int]) -> torch.Generator:
    """The generator that a device uses if none is named."""
    torch.npu.init()
    return torch.npu.default_generators[torch.npu.current_device() if device is None else device]


def behind(generator: torch.Generator) -> Behind:
    found = _behind.get(generator)
    if found is None:
        found = _behind[generator] = Behind()
    return found


def run(overload: Any, device: Optional[int], args: List[Any], kwargs: Dict[str, Any]) -> Any:
    """Runs a random operator of the CPU with the numbers of the device's generator."""
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)]
    if given and given[0].device.type == "cpu":
        return overload.op(*args, **kwargs)
    theirs = given[0] if given else default_of(device)
    ours = behind(theirs)
    generator = ours.follow(theirs)
    args = [generator if value is theirs else value for value in args]
    kwargs = {name: generator if value is theirs else value for name, value in kwargs.items()}
    if overload.takes_generator:
        if not given:
            kwargs["generator"] = generator
        result = overload.op(*args, **kwargs)
    else:
        result = with_default(generator, overload.op, args, kwargs)
    ours.note(theirs)
    return result


def with_default(generator: torch.Generator, op: Any, args: List[Any], kwargs: Dict[str, Any]) -> Any:
    """Runs an operator that always draws from the CPU's default generator."""
    default = torch.default_generator
    before = default.get_state()
    default.set_state(generator.get_state())
    try:
        result = op(*args, **kwargs)
        generator.set_state(default.get_state())
    finally:
        default.set_state(before)
    return result


def whole_state(theirs: torch.Generator) -> torch.Tensor:
    """The state of a generator of the device, with the CPU's behind it: it can go to another process."""
    return torch.cat([theirs.get_state(), behind(theirs).follow(theirs).get_state()])


def set_whole_state(theirs: torch.Generator, state: torch.Tensor) -> None:
    """Sets a state of `whole_state`, or one without the CPU's part."""
    length = theirs.get_state().numel()
    theirs.set_state(state[:length].clone())
    if state.numel() > length:
        keep((theirs.initial_seed(), theirs.get_offset()), state[length:].clone())


def get_rng_state(device: Any = "npu") -> torch.Tensor:
    """torch.npu.get_rng_state: the state of a device's generator."""
    return whole_state(default_of(torch.device(device).index if not isinstance(device, int) else device))


def set_rng_state(new_state: torch.Tensor, device: Any = "npu") -> None:
    """torch.npu.set_rng_state: sets the state of a device's generator."""
    set_whole_state(default_of(torch.device(device).index if not isinstance(device, int) else device), new_state)


def install() -> None:
    """Has torch.npu's functions know the whole state."""
    for module in (torch.npu, torch.npu.random):
        module.get_rng_state, module.set_rng_state = get_rng_state, set_rng_state
