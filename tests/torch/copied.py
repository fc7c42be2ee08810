"""Memory that the CPU cannot use where it is, as on another backend or mapped in pieces: bytes are copied there and back."""
import behaviour
from ferry_acl.torch import _memory
from kit import main

begin = _memory.begin


def nowhere(device, ranges):
    begin(device, ranges)
    return [0] * len(ranges)


_memory.begin = nowhere
main(
    behaviour.in_place_and_views, behaviour.copies_and_casts, behaviour.results_given, behaviour.lists_and_numbers, behaviour.random_numbers,
    behaviour.recurrent_and_attention, behaviour.scaled_gradients, behaviour.sparse_and_nested,
)
