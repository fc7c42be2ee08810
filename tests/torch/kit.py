"""What the programs here share."""
import torch
import torch_npu  # noqa: F401


def same(got, want, what=""):
    """Stops the program unless two tensors are the same to the bit, the first on the device and the second on the CPU."""
    assert got.device.type == "npu" and want.device.type == "cpu", f"{what}: {got.device} and {want.device}"
    assert got.dtype == want.dtype and got.size() == want.size(), f"{what}: {got.dtype} {got.size()} and {want.dtype} {want.size()}"
    got, want = (each.detach().cpu().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format) for each in (got, want))
    equal = torch.equal(got, want) or torch.equal(torch.nan_to_num(got), torch.nan_to_num(want))
    assert equal, f"{what}: {got} is not {want}"


def raises(kind, work, *words):
    """The message of what `work` raises, which has all of the words."""
    try:
        work()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{error} does not say {missing}"
        return str(error)
    raise AssertionError(f"nothing was raised: {words}")


def main(*parts):
    """Runs the parts of a program."""
    for part in parts:
        part()
    print("ok:", ", ".join(part.__name__.replace("_", " ") for part in parts), flush=True)
