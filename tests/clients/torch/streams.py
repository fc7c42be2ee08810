"""Streams and events: order within a stream and between streams, waits, queries, times, and memory that a stream still uses."""
import torch
from kit import main, same, values

COUNT = 1 << 20


def pinned(seed=None):
    return values(COUNT, seed).pin_memory() if seed is not None else torch.zeros(COUNT, dtype=torch.uint8).pin_memory()


def a_stream_waits_for_another():
    device, back = torch.empty(COUNT, dtype=torch.uint8, device="npu"), pinned()
    first, second = torch.npu.Stream(), torch.npu.Stream()
    for seed in range(10):
        source = pinned(seed)
        with torch.npu.stream(first):
            device.copy_(source, non_blocking=True)
            copied = first.record_event()
        with torch.npu.stream(second):
            second.wait_event(copied)
            back.copy_(device, non_blocking=True)
        second.synchronize()
        same(back, source, f"round {seed}")
        first.wait_stream(second)


def events_tell_when_their_work_is_done():
    device, source = torch.empty(COUNT, dtype=torch.uint8, device="npu"), pinned(3)
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    device.copy_(source, non_blocking=True)
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    assert torch.npu.current_stream().query()
    same(device.cpu(), source, "the copy between the events")


def memory_that_a_stream_uses_is_not_given_away():
    side = torch.npu.Stream()
    back = pinned()
    for seed in range(10):
        device = values(COUNT, seed).npu()
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            back.copy_(device, non_blocking=True)
        device.record_stream(side)
        del device
        other = values(COUNT, seed + 100).npu()
        side.synchronize()
        same(back, values(COUNT, seed), f"round {seed}")
        same(other.cpu(), values(COUNT, seed + 100), f"round {seed}, the new tensor")


def priorities_and_the_default_stream():
    stream = torch.npu.Stream(priority=-1)
    assert stream != torch.npu.default_stream()
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
    assert torch.npu.current_stream() == torch.npu.default_stream()


main(a_stream_waits_for_another, events_tell_when_their_work_is_done, memory_that_a_stream_uses_is_not_given_away,
     priorities_and_the_default_stream)
