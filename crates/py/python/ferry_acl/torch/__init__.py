"""Runs every aten operator of device "npu" on the CPU, with the CPU's own results: `import ferry_acl.torch`, or `ferry run --torch`.

Memory stays where it is: tensors of the device are memory of Ferry's device, copies go through Ferry, and an operator works on the bytes in
place, in the order of the current stream. docs/torch.md says what runs and what does not.
"""
from ._install import install

install()
