"""What a small operator costs beside plain torch on the CPU, in one run: at most 100 us more."""
import time

import torch
import torch.nn.functional as F
import ferry_acl.torch  # noqa: F401

LIMIT_US = 100
CASES = {
    "add": lambda a, m: a + a,
    "mul_": lambda a, m: a.mul_(1.0),
    "relu": lambda a, m: a.relu(),
    "sum": lambda a, m: a.sum(),
    "mm": lambda a, m: a @ a,
    "cat": lambda a, m: torch.cat([a, a]),
    "softmax": lambda a, m: a.softmax(-1),
    "index": lambda a, m: a[a > 0],
    "cast": lambda a, m: a.double(),
    "clone": lambda a, m: a.clone(),
    "zeros": lambda a, m: torch.zeros(8, device=a.device),
    "randn": lambda a, m: torch.randn(8, device=a.device),
    "layer_norm": lambda a, m: F.layer_norm(a, (8,)),
    "linear": lambda a, m: F.linear(a, m),
    "linear, recorded": lambda a, m: F.linear(a.detach(), m.detach().requires_grad_()),
}


def microseconds(work):
    """Of one call: the median of the batches of the quickest half, since others use the machine as well."""
    for _ in range(100):
        work()
    times = []
    for _ in range(40):
        begin = time.perf_counter()
        for _ in range(25):
            work()
        times.append((time.perf_counter() - begin) / 25 * 1e6)
    return sorted(times)[len(times) // 4]


torch.set_num_threads(1)
x, weight = torch.randn(8, 8), torch.randn(8, 8)
y, there = x.npu(), weight.npu()
worst = 0.0
for name, work in CASES.items():
    cpu, npu = microseconds(lambda: work(x, weight)), microseconds(lambda: work(y, there))
    worst = max(worst, npu - cpu)
    print(f"{name:18}{cpu:8.1f} us on the CPU {npu:8.1f} us on the device {npu - cpu:8.1f} us more", flush=True)
assert worst <= LIMIT_US, f"{worst:.1f} us more than the CPU takes"
print(f"ok: at most {worst:.1f} us more")
