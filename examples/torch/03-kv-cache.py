"""A KV cache is swapped out to page-locked memory and in again, block by block in one batch, and attention over it gives what it gave before.

    ferry run --torch -- python examples/torch/03-kv-cache.py
"""
import acl
import torch
from torch.nn.functional import scaled_dot_product_attention

BLOCKS, HEADS, LENGTH, SIZE = 16, 4, 32, 16
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


def attend(query, cache, order):
    """Attention over the blocks of a sequence."""
    keys, values = (torch.cat([cache[side, block] for block in order], 1) for side in (0, 1))
    return scaled_dot_product_attention(query, keys[None], values[None])


def swap(dst, src, pairs, kind, stream):
    """Copies blocks of `src` to blocks of `dst`, keys and values, as one batch of a stream."""
    count = src[0, 0].numel() * src.element_size()
    where = [(side, to, of) for side in (0, 1) for to, of in pairs]
    host, device = ({"type": 0, "id": 0}, {"type": 1, "id": 0})
    ends = (device, host) if kind == HOST_TO_DEVICE else (host, device)
    attributes = [{"dstLoc": ends[0], "srcLoc": ends[1]}]
    dsts, srcs = [dst[side, to].data_ptr() for side, to, _ in where], [src[side, of].data_ptr() for side, _, of in where]
    sizes = [count] * len(where)
    answer = acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, len(where), attributes, [0], 1, stream)
    code = answer[-1] if isinstance(answer, tuple) else answer
    assert code == 0, answer


torch.manual_seed(0)
cache = torch.randn(2, BLOCKS, HEADS, LENGTH, SIZE, device="npu")
query = torch.randn(1, HEADS, 1, SIZE, device="npu")
order = [3, 7, 1, 12]
before = attend(query, cache, order)

host = torch.empty(2, len(order), HEADS, LENGTH, SIZE).pin_memory()
side = torch.npu.Stream()
with torch.npu.stream(side):
    side.wait_stream(torch.npu.default_stream())
    swap(host, cache, list(enumerate(order)), DEVICE_TO_HOST, side.npu_stream)
    done = side.record_event()
torch.npu.current_stream().wait_event(done)
for block in order:
    cache[:, block].zero_()  # another sequence takes the blocks
assert not torch.equal(attend(query, cache, order), before)

places = [0, 2, 4, 5]
with torch.npu.stream(side):
    side.wait_stream(torch.npu.default_stream())
    swap(cache, host, list(zip(places, range(len(order)))), HOST_TO_DEVICE, side.npu_stream)
    done = side.record_event()
torch.npu.current_stream().wait_event(done)
assert torch.equal(attend(query, cache, places), before), "the cache has changed on its way"
print(f"ok: {2 * len(order)} pieces out and in, in two batches, and attention is the same")
