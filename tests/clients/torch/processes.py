"""Tensors between processes: a spawned child gets one of the device's, and what either writes the other sees."""
import torch
import torch.multiprocessing as processes
from kit import main, once_more_expandable, same, values

COUNT = 1 << 20


def child(inbox, outbox):
    tensor = inbox.get()
    same(tensor.cpu(), values(COUNT, 5), "the child's view")
    tensor.copy_(values(COUNT, 6))
    torch.npu.synchronize()
    outbox.put("written")
    assert inbox.get() == "seen"
    del tensor


def a_child_has_the_same_memory():
    context = processes.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(inbox, outbox))
    process.start()
    tensor = values(COUNT, 5).npu()
    torch.npu.synchronize()
    inbox.put(tensor)
    assert outbox.get(timeout=120) == "written"
    same(tensor.cpu(), values(COUNT, 6), "after the child wrote")
    inbox.put("seen")
    process.join(120)
    assert process.exitcode == 0, process.exitcode


def own_work(rank, outbox):
    source = values(COUNT, rank)
    same(source.to(f"npu:{rank % 2}").cpu(), source, f"process {rank}")
    outbox.put(rank)


def children_have_devices_of_their_own():
    context = processes.get_context("spawn")
    outbox = context.Queue()
    workers = [context.Process(target=own_work, args=(rank, outbox)) for rank in range(2)]
    for worker in workers:
        worker.start()
    assert sorted(outbox.get(timeout=120) for _ in workers) == [0, 1]
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0, worker.exitcode


def a_forked_child_is_refused():
    torch.zeros(1).npu()
    context = processes.get_context("fork")
    outbox = context.Queue()

    process = context.Process(target=in_a_fork, args=(outbox,))
    process.start()
    text = outbox.get(timeout=120)
    assert "fork" in text, text
    process.join(120)


def in_a_fork(outbox):
    try:
        torch.zeros(8).npu()
        outbox.put("it was not refused")
    except RuntimeError as error:
        outbox.put(str(error))


if __name__ == "__main__":
    main(a_child_has_the_same_memory, children_have_devices_of_their_own, a_forked_child_is_refused)
    once_more_expandable()
