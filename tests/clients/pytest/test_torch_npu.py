"""A small suite as users of torch_npu write it. `cargo xtask test --only clients` runs it by `pytest --ferry-check` with nothing of ours but the
wheel. The tests whose name ends in `_too_early` make a mistake, and must fail; `EXPECTED` in xtask/src/clients.rs counts them.
"""
import os
import subprocess

import pytest
import torch
import torch_npu

SIZE = 1 << 14


@pytest.fixture(scope="session", autouse=True)
def device():
    torch.npu.set_device(0)


def pinned(value):
    return torch.full((SIZE,), value, dtype=torch.uint8).pin_memory()


def test_the_machine_has_npus():
    assert torch.npu.is_available() and torch.npu.device_count() == 2
    assert "Total Count" in subprocess.run(["npu-smi", "info", "-l"], capture_output=True, text=True, check=True).stdout
    assert os.path.isdir(os.environ["ASCEND_OPP_PATH"])


def test_there_and_back():
    there = torch.arange(SIZE, dtype=torch.int32).to("npu")
    assert torch.equal(there.cpu(), torch.arange(SIZE, dtype=torch.int32))


def test_waits_for_the_stream():
    host = pinned(1)
    there = host.to("npu", non_blocking=True)
    torch.npu.current_stream().synchronize()
    host.numpy()[:] = 2
    assert there.cpu().numpy().max() == 1


def test_writes_too_early():
    host = pinned(3)
    there = host.to("npu", non_blocking=True)
    host.numpy()[:] = 4
    torch.npu.current_stream().synchronize()
    del there


def test_side_stream():
    host, side = pinned(5), torch.npu.Stream()
    with torch.npu.stream(side):
        there = host.to("npu", non_blocking=True)
    torch.npu.current_stream().wait_stream(side)
    back = torch.empty(SIZE, dtype=torch.uint8, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.npu.synchronize()
    assert back.numpy().min() == 5


@pytest.mark.ferry(devices=4, soc="Ascend910_9391")
def test_another_machine():
    assert torch.npu.device_count() == 4
    assert torch_npu.npu.get_device_name(0).startswith("Ascend910_93")


@pytest.mark.ferry(schedule="late")
def test_reads_too_early():
    there = pinned(6).to("npu")
    back = pinned(0)
    back.copy_(there, non_blocking=True)
    assert back.numpy().max() == 0
    torch.npu.synchronize()
