"""Two devices, copies between them, and a thread for each."""
import threading

import torch
from kit import main, same, values

COUNT = 1 << 20


def two_devices_are_apart():
    assert torch.npu.device_count() == 2
    first, second = values(COUNT, 1).to("npu:0"), values(COUNT, 2).to("npu:1")
    assert first.device.index == 0 and second.device.index == 1
    same(first.cpu(), values(COUNT, 1), "device 0")
    same(second.cpu(), values(COUNT, 2), "device 1")
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        assert torch.empty(1, device="npu").device.index == 1
    assert torch.npu.current_device() == 0


def peers():
    assert torch.npu.can_device_access_peer(0, 1) if hasattr(torch.npu, "can_device_access_peer") else True
    for seed in range(4):
        first = values(COUNT, seed).to("npu:0")
        for wait in (True, False):
            second = torch.empty(COUNT, dtype=torch.uint8, device="npu:1").copy_(first, non_blocking=not wait)
            torch.npu.synchronize(0)
            torch.npu.synchronize(1)
            same(second.cpu(), values(COUNT, seed), f"round {seed}, blocking {wait}")
        same(second.to("npu:0").cpu(), values(COUNT, seed), f"round {seed}, back")


def properties():
    for device in range(2):
        properties = torch.npu.get_device_properties(device)
        free, total = torch.npu.mem_get_info(device)
        assert properties.total_memory == total >= free > 0
    assert torch.npu.get_device_name(0) == torch.npu.get_device_name(1)


def threads():
    failures = []

    def work(number):
        try:
            device = f"npu:{number % 2}"
            torch.npu.set_device(device)
            stream = torch.npu.Stream()
            with torch.npu.stream(stream):
                for seed in range(20):
                    source = values(COUNT // 8, number * 100 + seed).pin_memory()
                    there = torch.empty(COUNT // 8, dtype=torch.uint8, device=device).copy_(source, non_blocking=True)
                    back = torch.empty_like(source).pin_memory().copy_(there, non_blocking=True)
                    stream.synchronize()
                    same(back, source, f"thread {number}, round {seed}")
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures


main(two_devices_are_apart, peers, properties, threads)
