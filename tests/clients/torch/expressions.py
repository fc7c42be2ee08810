"""Expressions of every kind: on the device each gives what it gives on the CPU, or raises. None is silently wrong, or without an end.

Each has a process of its own, forked before the device is used, since a failure stays with its device.
"""
import os
import signal
import sys
import traceback

import torch
from kit import values

COPIES = {
    "there and back": lambda x: x,
    "view": lambda x: x.view(32, 128),
    "slice": lambda x: x[100:200],
    "row": lambda x: x.view(32, 128)[7],
    "reshape": lambda x: x.reshape(8, 512),
    "squeeze": lambda x: x.view(1, -1).squeeze(0),
    "detach": lambda x: x.detach(),
    "split": lambda x: x.split(1024)[2],
    "chunk": lambda x: x.chunk(4)[3],
    "item": lambda x: torch.tensor(x[5].item()),
    "tolist": lambda x: torch.tensor(x[:50].tolist()),
    "numpy": lambda x: torch.from_numpy(x.cpu().numpy()),
    "copy_": lambda x: torch.empty_like(x).copy_(x),
    "copy_ into a slice": lambda x: x[:100].copy_(x[100:200]),
    "clone": lambda x: x.clone(),
    "other device": lambda x: x.to("npu:1").to(x.device) if x.device.type == "npu" else x,
    "storage": lambda x: torch.tensor(list(x.untyped_storage()[:64]), dtype=torch.uint8),
    "pickle": lambda x: __import__("pickle").loads(__import__("pickle").dumps(x)),
    "deepcopy": lambda x: __import__("copy").deepcopy(x),
    "module": lambda x: torch.nn.Parameter(x.cpu().float()).to(x.device).detach(),
}
OPERATORS = {
    "add": lambda x: x + x,
    "add_": lambda x: x.add_(1),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(3),
    "zeros": lambda x: torch.zeros(9, device=x.device),
    "ones": lambda x: torch.ones(9, device=x.device),
    "full": lambda x: torch.full((9,), 7, device=x.device),
    "arange": lambda x: torch.arange(9, device=x.device),
    "transposed": lambda x: x.view(32, 128).t(),
    "transposed contiguous": lambda x: x.view(32, 128).t().contiguous(),
    "every other": lambda x: x[::2],
    "to float": lambda x: x.float(),
    "to half": lambda x: x.to(torch.float16),
    "broadcast": lambda x: torch.empty(3, 4096, dtype=x.dtype, device=x.device).copy_(x),
    "into a column": lambda x: torch.zeros(64, 2, dtype=x.dtype).to(x.device).select(1, 0).copy_(x[:64]),
    "compare": lambda x: x == x,
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max(),
    "sort": lambda x: x.sort()[0],
    "index": lambda x: x[torch.tensor([1, 5, 9], device=x.device)],
    "mask": lambda x: x[x > 100],
    "assign": lambda x: x.__setitem__(slice(5, 9), 1) or x,
    "matmul": lambda x: x.float().view(64, 64) @ x.float().view(64, 64),
    "cat": lambda x: torch.cat([x, x]),
    "where": lambda x: torch.where(x > 5, x, x),
    "relu": lambda x: torch.relu(x.float()),
    "equal": lambda x: torch.tensor(torch.equal(x, x)),
    "nonzero": lambda x: x.nonzero(),
    "linear": lambda x: torch.nn.Linear(64, 64).to(x.device)(x.float().view(64, 64)).shape and x,
    "print": lambda x: torch.tensor(len(str(x)) * 0),
}
SECONDS = 60


def child(name, expression):
    """0 for the right result, 1 for an exception, 2 for a wrong result."""
    want = expression(values(4096))
    try:
        got = expression(values(4096).npu())
        torch.npu.synchronize()
        got = got.cpu()
    except (RuntimeError, NotImplementedError):
        return 1
    if got.dtype == want.dtype and torch.equal(got, want):
        return 0
    print(f"{name}: {got}, not {want}", flush=True)
    return 2


def outcome(name, expression):
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            signal.alarm(SECONDS)
            code = child(name, expression)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status)


def main():
    if "-v" not in sys.argv:
        # torch_npu says much about each failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    bad = []
    for expected, table in ((("right",), COPIES), (("right", "raises"), OPERATORS)):
        for name, expression in table.items():
            code = outcome(name, expression)
            word = {0: "right", 1: "raises", 2: "wrong"}.get(code, f"ended with {code}")
            print(f"{name}: {word}", flush=True)
            if word not in expected:
                bad.append(f"{name}: {word}")
    assert not bad, bad
    print(f"ok: {len(COPIES) + len(OPERATORS)} expressions are right or raise")


main()
