"""torch's own database of operators with its samples, on the device and on the CPU: every byte of results and gradients is the same.

`opinfo.py [part/parts] [name...]` runs a part of them, or those of these names; with names it shows every difference.
"""
import importlib.util
import sys
import time
import types
import unittest
import warnings

import torch
import ferry_acl.torch  # noqa: F401

if importlib.util.find_spec("expecttest") is None:
    # The database's modules import it for tests that are not run here.
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten  # noqa: E402

SAMPLES = 12
# What these return was never written (empty), or is not the same for two calls of the CPU either.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# Not of the device: how the sample names a device, or what the operator does, is the CPU's own affair.
ELSEWHERE = {
    "to_sparse": "no gradient of a sparse result is compared",
    "as_strided.partial_views": "the samples are views of memory that does not go to the device with them",
    "tensor_split": "indices are of the CPU on every device",
    "nn.functional.linear_cross_entropy.chunked": "torch's own Python chooses how to add up by the name of the device",
    "nn.functional.linear_cross_entropy.chunked_none": "as above",
    "istft": "torch loses the gradient of a padded window on the CPU, and has it on the device",
    "sparse.mm.reduce": "reductions of sparse matrices have kernels for the CPU alone",
    "sparse.sampled_addmm": "sparse matrices alone",
    "jiterator_unary": "CUDA alone", "jiterator_binary": "CUDA alone", "jiterator_4inputs_with_extra_args": "CUDA alone",
    "jiterator_2inputs_2outputs": "CUDA alone", "jiterator_binary_return_by_ref": "CUDA alone",
}


def on_device(value):
    """The same argument for the device."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("npu").requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) and value.type == "cpu" or value == "cpu":
        return torch.device("npu")
    return value


def name_of(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def tensors(value):
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def is_same(got, want):
    """Whether two results are the same, to the bit."""
    if not isinstance(want, torch.Tensor):
        return not isinstance(got, torch.Tensor) and (got == want or (got != got and want != want) or "npu" in str(got))
    if got.layout != want.layout or got.dtype != want.dtype or got.size() != want.size():
        return False
    got, want = got.detach().cpu(), want.detach()
    if want.layout is not torch.strided:
        return torch.equal(got.to_dense(), want.to_dense())
    if got.is_quantized or got.is_nested:
        return torch.equal(got.dequantize(), want.dequantize())
    got, want = (each.resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format) for each in (got, want))
    return got.numel() == 0 or torch.equal(got.view(torch.uint8), want.view(torch.uint8))


def gradients(outputs, inputs):
    """Gradients of all inputs for the same gradients of the outputs."""
    outputs = [each for each in tensors(outputs) if each.requires_grad]
    inputs = [each for each in tensors(inputs) if each.requires_grad]
    if not outputs or not inputs:
        return []
    weights = [torch.linspace(0.5, 1.5, each.numel(), dtype=torch.float64).to(each.dtype).reshape(each.shape).to(each.device) for each in outputs]
    return torch.autograd.grad(outputs, inputs, weights, allow_unused=True)


def outcome(function, arguments):
    """What a call returns, and its gradients; or what it raises."""
    torch.manual_seed(20)
    try:
        result = function(*arguments[0], **arguments[1])
        leaves, _ = tree_flatten(result)
        return leaves, gradients(result, arguments)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        return error


def compare(op, function, sample, counts, wants_inplace=False):
    """None, or how the device differs from the CPU."""
    arguments = ((sample.input, *sample.args), sample.kwargs)
    there = tree_map(on_device, arguments)
    if wants_inplace:
        arguments, there = (tree_unflatten([x.clone() if isinstance(x, torch.Tensor) else x for x in tree_flatten(a)[0]], tree_flatten(a)[1]) for a in (arguments, there))
    want, got = outcome(function, arguments), outcome(function, there)
    if isinstance(want, Exception):
        counts["refused by both"] += 1
        return None if isinstance(got, Exception) else "only the CPU raises"
    if isinstance(got, Exception):
        return f"raises {type(got).__name__}: {str(got)[:300]}"
    for what, mine, theirs in (("result", got[0], want[0]), ("gradient", got[1], want[1])):
        if len(mine) != len(theirs):
            return f"{what}s: {len(mine)} in place of {len(theirs)}"
        for place, (one, other) in enumerate(zip(mine, theirs)):
            if what == "result" and isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.device.type != "npu":
                return f"result {place} is on {one.device}"
            counts[f"{what}s"] += isinstance(other, torch.Tensor)
            if not is_same(one, other):
                return f"{what} {place} differs: {str(one)[:200]} {str(other)[:200]}"
    return None


def check(op, counts):
    """The differences of one operator, at most one for each way to call it."""
    found = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64, torch.bool):
        if dtype not in op.supported_dtypes("cpu"):
            continue
        grad = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
        for way, function in (("", op), ("in place", op.get_inplace())):
            if function is None or (way and dtype is not torch.float32):
                continue
            for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=grad and not way)):
                if number == SAMPLES:
                    break
                if way and sample.broadcasts_input:
                    continue
                why = compare(op, function, sample, counts, bool(way))
                counts["samples"] += 1
                if why is not None:
                    found.append(f"{name_of(op)} {dtype} {way} sample {number}: {why}")
                    break
    return found


def main():
    words = sys.argv[1:]
    part, parts = (int(word) for word in words.pop(0).split("/")) if words and "/" in words[0] else (1, 1)
    warnings.simplefilter("ignore")
    chosen = [op for op in op_db if op.name not in UNDEFINED and name_of(op) not in ELSEWHERE and (not words or op.name in words)][part - 1::parts]
    counts, differences, begin = dict.fromkeys(("samples", "results", "gradients", "refused by both"), 0), [], time.time()
    for op in chosen:
        start = time.time()
        found = check(op, counts)
        if time.time() - start > 20:
            print(f"slow: {op.name} {time.time() - start:.0f} s", flush=True)
        differences += found
        for line in found:
            print("DIFFERS", line, flush=True)
    names = len({op.name for op in chosen})
    assert not differences, f"{len(differences)} differences"
    assert words or parts > 1 or names >= 400, f"{names} operators"
    said = ", ".join(f"{count} {what}" for what, count in counts.items())
    print(f"ok: {len(chosen)} entries of {names} operators: {said}; {time.time() - begin:.0f} s")


main()
