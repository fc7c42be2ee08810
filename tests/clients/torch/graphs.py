"""NPUGraph: copies captured once and replayed, on several streams, with events from outside, and what a capture refuses."""
import json
import os
import subprocess
import sys
import tempfile
import threading

import torch
import torch_npu
from kit import main, once_more_expandable, same, values

COUNT = 70001
# As torch_npu has it: a thread of its own submits, which ends for good at the first call that fails.
QUEUE = os.environ.get("TASK_QUEUE_ENABLE") != "0"

# Expandable segments, and pinned memory with them, need a device.
torch.npu.set_device(0)


def pinned(seed):
    return values(COUNT, seed).pin_memory()


def on_device(device="npu"):
    return torch.empty(COUNT, dtype=torch.uint8, device=device)


def capture(work, **options):
    """The graph of what `work` does. Nothing of it runs meanwhile."""
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, **options):
        assert torch.npu.is_current_stream_capturing()
        work()
    assert not torch.npu.is_current_stream_capturing()
    return graph


def replays(graph, source, back, what, rounds=4):
    """Each replay copies what is in the source by then."""
    for seed in range(20, 20 + rounds):
        source.copy_(values(COUNT, seed))
        graph.replay()
        torch.npu.synchronize()
        same(back, values(COUNT, seed), f"{what}, replay of {seed}")


def a_replay_copies_what_is_there_by_then():
    source, one, two, back = pinned(1), on_device(), on_device(), pinned(2)

    def there_and_back():
        one.copy_(source, non_blocking=True)
        two.copy_(one)
        back.copy_(two, non_blocking=True)

    graph = capture(there_and_back)
    torch.npu.synchronize()
    same(back, values(COUNT, 2), "the capture ran nothing")
    replays(graph, source, back, "one stream")
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        for _ in range(200):
            graph.replay()
    graph.replay()
    torch.npu.synchronize()
    same(back, source, "replays queued on two streams")
    graph.reset()
    raises("a graph that was reset", graph.replay, "without a preceding successful capture")
    with torch.npu.graph(graph):
        there_and_back()
    replays(graph, source, back, "captured again")


def streams_join_and_join_back():
    sources, backs = [pinned(i) for i in range(3)], [pinned(9) for _ in range(3)]
    tensors = [on_device() for _ in range(3)]
    first, second = torch.npu.Stream(), torch.npu.Stream()

    def copies(i):
        tensors[i].copy_(sources[i], non_blocking=True)
        backs[i].copy_(tensors[i], non_blocking=True)

    def branches():
        main_stream = torch.npu.current_stream()
        first.wait_stream(main_stream)
        with torch.npu.stream(first):
            copies(0)
            joined = torch.npu.Event()
            joined.record()
        joined.wait(second)  # drawn in by a stream that was drawn in
        with torch.npu.stream(second):
            tensors[1].copy_(tensors[0])
            backs[1].copy_(tensors[1], non_blocking=True)
        copies(2)
        main_stream.wait_stream(first)
        main_stream.wait_stream(second)

    graph = capture(branches)
    replays(graph, sources[0], backs[0], "a branch")
    same(backs[1], sources[0], "the branch of a branch")
    replays(graph, sources[2], backs[2], "the main stream")
    copies(0)  # its streams are as before
    first.synchronize()
    assert second.query()
    dumped(graph)


def dumped(graph):
    """torch_npu reads the file of aclmdlRIDebugJsonPrint and makes one of its own of it, which it checks."""
    with tempfile.TemporaryDirectory() as folder:
        graph.debug_dump(os.path.join(folder, "graph.json"))
        assert sorted(os.listdir(folder)) == ["graph.aligned.json", "graph.json"], os.listdir(folder)
        with open(os.path.join(folder, "graph.json")) as raw, open(os.path.join(folder, "graph.aligned.json")) as aligned:
            tasks, drawn = json.load(raw), json.load(aligned)
    assert len({task["tid"] for task in tasks}) == 3 and all(task["ph"] == "X" for task in tasks)
    names = [task["name"] for task in tasks]
    records = {name.rpartition("_")[2] for name in names if name.startswith("EVENT_RECORD_")}
    waits = {name.rpartition("_")[2] for name in names if name.startswith("EVENT_WAIT_")}
    assert len(records) == 4 and records == waits, names
    assert sum(task["ph"] == "s" for task in drawn) == 4, drawn


def memory_of_a_capture_is_its_own():
    source, back, side = pinned(1), pinned(2), torch.npu.Stream()

    def makes_tensors():
        stream = torch.npu.current_stream()
        tensor = source.to("npu", non_blocking=True)
        copy = tensor.clone()
        side.wait_stream(stream)
        with torch.npu.stream(side):
            back.copy_(copy, non_blocking=True)
        copy.record_stream(side)
        del tensor, copy
        for seed in range(3):  # Pinned memory that is let go, and asked for, while the capture goes on.
            passing = pinned(seed)
            on_device().copy_(passing, non_blocking=True)
            del passing
        stream.wait_stream(side)

    first = capture(makes_tensors)
    second = capture(makes_tensors, pool=first.pool())
    assert first.pool() == second.pool()
    replays(first, source, back, "the first graph of a pool")
    replays(second, source, back, "the second graph of a pool")


def an_external_event_holds_every_replay():
    source, tensor, back = pinned(1), on_device(), pinned(2)
    event, update = torch.npu.ExternalEvent(), torch.npu.Stream()

    def held():
        event.wait()
        event.reset()
        tensor.copy_(source, non_blocking=True)
        back.copy_(tensor, non_blocking=True)

    graph = capture(held)
    for seed in range(20, 24):
        graph.replay()
        assert not torch.npu.current_stream().query(), "nobody has recorded the event"
        source.copy_(values(COUNT, seed))
        event.record(update)
        torch.npu.synchronize()
        same(back, source, f"replay of {seed}")


def host_functions_run_at_every_replay():
    source, tensor, back, seen = pinned(1), on_device(), pinned(2), []
    stream = torch.npu.Stream()
    torch_npu.npu._subscribe_report(stream)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "tensor.pt")

        def calls():
            tensor.copy_(source, non_blocking=True)
            back.copy_(tensor, non_blocking=True)
            torch_npu.npu._launch_host_func(stream, seen.append, back)
            torch.ops.npu.save_npugraph_tensor(tensor, save_path=file, overwrite=True)

        graph = capture(calls, stream=stream)
        assert not seen and not os.listdir(folder)
        for seed in range(20, 24):
            source.copy_(values(COUNT, seed))
            graph.replay()
            torch.npu.synchronize()
            same(torch.load(os.path.join(folder, "tensor_device_0.pt")), source, f"what replay {seed} has saved")
    assert len(seen) == 4
    torch_npu.npu._unsubscribe_report(stream)


def task_groups_without_operators_are_empty():
    handles, update = [], torch.npu.Stream()

    def group():
        torch.npu.graph_task_group_begin(torch.npu.current_stream())
        handles.append(torch.npu.graph_task_group_end(torch.npu.current_stream()))

    graph = capture(group)
    torch.npu.graph_task_update_begin(update, handles[0])
    torch.npu.graph_task_update_end(update)
    graph.replay()
    torch.npu.synchronize()


def faces_of_others_reach_the_same():
    source, tensor, back = pinned(1), on_device(), pinned(2)
    graph = torch.accelerator.Graph()
    with torch.npu.stream(torch.npu.Stream()), graph:
        tensor.copy_(source, non_blocking=True)
        back.copy_(tensor, non_blocking=True)
    replays(graph, source, back, "torch.accelerator.Graph")
    clone = torch.npu.make_graphed_callables(torch.clone, (values(COUNT, 1).npu(),))
    for seed in range(3):
        same(clone(values(COUNT, seed).npu()).cpu(), values(COUNT, seed), f"a graphed callable, {seed}")


def another_device_is_not_concerned():
    source, tensor, page = pinned(1), on_device(), values(COUNT, 5)
    other, back = on_device("npu:1"), pinned(2)

    def beside():
        tensor.copy_(source, non_blocking=True)
        with torch.npu.device(1):
            other.copy_(page)
            torch.npu.synchronize()

    graph = capture(beside)
    same(other.cpu(), page, "a copy on the other device")
    graph.replay()
    same(tensor.cpu(), source, "the graph")
    with torch.npu.device(1):
        def there():
            other.copy_(source, non_blocking=True)
            back.copy_(other, non_blocking=True)

        replays(capture(there, stream=torch.npu.Stream()), source, back, "a graph of the other device")


def raises(what, work, *words):
    try:
        work()
    except RuntimeError as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{what} does not say {missing}: {error}"
    else:
        raise AssertionError(f"{what} did not raise")


def breaks(what, code, work):
    """A capture that ends without a graph; the next one is not concerned."""
    try:
        raises(what, lambda: capture(work), code)
    finally:
        # torch_npu leaves the stream of such a capture current.
        torch.npu.set_stream(torch.npu.default_stream())
    assert not torch.npu.is_current_stream_capturing()
    tensor, source, back = on_device(), pinned(1), pinned(2)
    graph = capture(lambda: (tensor.copy_(source, non_blocking=True), back.copy_(tensor, non_blocking=True)))
    replays(graph, source, back, f"the graph after {what}", rounds=1)


def waiting_breaks_a_capture():
    tensor, source, page, side = on_device(), pinned(1), values(COUNT, 3), torch.npu.Stream()

    def recorded():
        event = torch.npu.Event()
        event.record()
        return event

    for what, code, call in [
        ("synchronize of its stream", "107027", lambda: torch.npu.current_stream().synchronize()),
        ("query of its stream", "107027", lambda: torch.npu.current_stream().query()),
        ("synchronize of its device", "107027", torch.npu.synchronize),
        ("synchronize of its event", "107028", lambda: recorded().synchronize()),
        # With the queue, an event that its thread has not come to is not done, and nobody is asked.
        *([] if QUEUE else [("query of its event", "107028", lambda: recorded().query())]),
        ("a blocking copy to the device", "107030", lambda: tensor.copy_(page)),
        ("a blocking copy to the host", "107030", tensor.cpu),
        ("a number", "107027", lambda: tensor[0].item()),
    ]:
        said = f"of thread {threading.get_native_id()}"
        words = (code, "the capture of stream 0x", "mode GLOBAL", "aclmdlRICaptureBegin", said, "Ways out")
        breaks(what, "507903", lambda: raises(what, call, *words))

    def unjoined():
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            tensor.copy_(source, non_blocking=True)

    breaks("a stream that does not join back", "107025", unjoined)


def other_threads_may_copy_where_the_mode_says_so():
    tensor, page, said = on_device(), values(COUNT, 3), []

    def blocking_copy():
        torch.npu.set_device(0)
        try:
            with torch.npu.stream(torch.npu.Stream()):
                tensor.copy_(page)
            said.append("")
        except RuntimeError as error:
            said.append(str(error))

    def elsewhere():
        thread = threading.Thread(target=blocking_copy)
        thread.start()
        thread.join()

    breaks("a copy of another thread", "507903", elsewhere)
    me = threading.get_native_id()
    words = ("aclrtMemcpy failed with 107030", "mode GLOBAL, was begun by aclmdlRICaptureBegin", f"of thread {me};")
    assert all(word in said[0] for word in (*words, "with RELAXED")), said
    for mode, copy in (("thread_local", elsewhere), ("relaxed", elsewhere), ("relaxed", blocking_copy)):
        capture(copy, capture_error_mode=mode)
        assert said[-1] == "", f"{mode}: {said[-1]}"
        same(tensor.cpu(), page, f"a copy during a capture, {mode}")


def pageable_memory_cannot_be_captured():
    tensor, source, page = on_device(), pinned(1), values(COUNT, 3)
    words = ("107041", "not page-locked", "aclrtMallocHost", "the capture of stream 0x")
    breaks("pageable memory", "507903", lambda: raises("pageable memory", lambda: tensor.copy_(page, non_blocking=True), *words))

    def goes_on():
        raises("a blocking copy", lambda: tensor.copy_(page), "107030")
        raises("a copy after it", lambda: tensor.copy_(source, non_blocking=True), "507903")

    breaks("a capture that goes on when it is broken", "507903", goes_on)


FREED = r"""
import os, torch, torch_npu
tensor = torch.empty(64 << 20, dtype=torch.uint8, device="npu")
source = torch.arange(4096, dtype=torch.uint8).pin_memory()
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    tensor[:4096].copy_(source, non_blocking=True)
graph.replay()
torch.npu.synchronize()
del tensor
torch.npu.empty_cache()
graph.replay()
try:
    torch.npu.synchronize()
except RuntimeError as error:
    assert "107000" in str(error) and "freed after the graph was captured" in str(error), error
    print("ok: child", flush=True)
os._exit(0)  # Destructors of torch_npu end the process at a stream that has failed.
"""


def a_replay_of_freed_memory_is_found():
    ran = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and ran.stdout.endswith("ok: child\n"), f"{ran.stdout}\n{ran.stderr}"


main(a_replay_copies_what_is_there_by_then, streams_join_and_join_back, memory_of_a_capture_is_its_own,
     an_external_event_holds_every_replay, host_functions_run_at_every_replay, task_groups_without_operators_are_empty,
     faces_of_others_reach_the_same, another_device_is_not_concerned, waiting_breaks_a_capture,
     other_threads_may_copy_where_the_mode_says_so, a_replay_of_freed_memory_is_found,
     # These refusals would end the thread of the queue.
     *([] if QUEUE else [pageable_memory_cannot_be_captured]))
# Once more from the beginning: calls are made in the thread that asks for them, and memory is mapped into reserved addresses.
os.environ["TASK_QUEUE_ENABLE"] = "0"
once_more_expandable()
