"""An operator fails loudly and goes on failing: never a tensor that is silently wrong. A process for each way to fail."""
import os
import subprocess
import sys

CHILD = r"""
import sys, torch, torch_npu
sys.path.insert(0, sys.argv[1])
from kit import same, values

def raises(what, work, *words):
    try:
        work()
    except RuntimeError as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{what} does not say {missing}: {error}"
    else:
        raise AssertionError(f"{what} did not raise")

source = values(1 << 16)
device, second, back = source.npu(), source.to("npu:1"), source.clone().pin_memory()
raises("the operator", lambda: (device + device, torch.npu.synchronize()), "Add", sys.argv[2])
for _ in range(3):
    raises("another operator", lambda: (torch.ones(4, device="npu"), torch.npu.synchronize()))
    raises("synchronise", torch.npu.synchronize, "200001")
    raises("a copy to the host", device.cpu, "200001")
    raises("a copy to the device", source.npu, "200001")
    raises("a number", lambda: device[0].item(), "200001")

    def on_a_side_stream():
        side = torch.npu.Stream()
        with torch.npu.stream(side):
            back.copy_(device, non_blocking=True)
        side.synchronize()

    raises("another stream", on_a_side_stream, "200001")
same(second.cpu(), source, "the other device")
print("ok: child")
"""
REMEDY = "set TASK_QUEUE_ENABLE=0 for the Python line"


def child(queue, words):
    here = os.path.dirname(os.path.abspath(__file__))
    environment = dict(os.environ, TASK_QUEUE_ENABLE=queue)
    command = [sys.executable, "-c", CHILD, here, words]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and ran.stdout.endswith("ok: child\n"), f"queue {queue}: {ran.stdout}\n{ran.stderr}"
    told = [line for line in ran.stderr.splitlines() if line.startswith("ferry: operator Add: ")]
    assert len(told) == 1 and REMEDY in told[0], f"queue {queue}: {ran.stderr}"


# With its queue torch_npu names the operator and puts the messages of its thread on standard error; without it, all is in the exception.
child("1", "current working operator name is Add")
child("0", REMEDY)
print("ok: operators fail and go on failing, with a queue and without")
