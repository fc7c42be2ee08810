"""Two streams and a missing wait: with the wait `ferry check` is silent, without it the finding names both lines.

The program starts itself under `ferry check`, once each way, and once under each schedule, where the right one stays right.
"""
import os
import shutil
import subprocess
import sys

PROGRAM = """
import sys, torch
one, two = torch.npu.Stream(), torch.npu.Stream()
x = torch.zeros(4096, device="npu")
source = torch.arange(4096.0).pin_memory()
back = torch.empty(4096).pin_memory()
torch.npu.synchronize()
for step in range(8):
    with torch.npu.stream(one):
        one.wait_stream(two)
        x.copy_(source, non_blocking=True)
    with torch.npu.stream(two):
        if "waits" in sys.argv:
            two.wait_stream(one)
        x.mul_(2)                     # the operator
        back.copy_(x, non_blocking=True)
torch.npu.synchronize()
assert "waits" not in sys.argv or torch.equal(back, torch.arange(4096.0) * 2)
print("ok: child")
"""


def run(words, more, **variables):
    environment = dict(os.environ, FERRY_TORCH="1", **variables)
    # The library of this run is found again by the command.
    environment.pop("LD_PRELOAD", None)
    return subprocess.run([*words, sys.executable, "-c", PROGRAM, *more], env=environment, capture_output=True, text=True, timeout=300)


def main():
    ferry = os.environ.get("FERRY_COMMAND") or shutil.which("ferry") or os.path.join(os.environ["ASCEND_HOME_PATH"], "bin", "ferry")
    right, wrong = (run([ferry, "check", "--"], more) for more in (["waits"], []))
    assert right.returncode == 0 and "no errors" in right.stdout + right.stderr, right.stdout + right.stderr
    said = wrong.stdout + wrong.stderr
    assert wrong.returncode != 0 and "FERRY-STREAM-RACE" in said, said
    assert "FERRY-HOST" not in said and "FERRY-UNINITIALISED" not in said, said
    for schedule in ("late", "early", "shuffle"):
        for seed in "123":
            one = run([ferry, "run", "--"], ["waits"], FERRY_SCHEDULE=schedule, FERRY_SEED=seed)
            assert one.returncode == 0 and "ok: child" in one.stdout, f"{schedule} {seed}: {one.stdout}{one.stderr}"
    print("ok: operators are accesses of their streams, and the order holds under every schedule")


main()
