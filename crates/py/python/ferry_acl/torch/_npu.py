"""Operators that only torch_npu has: those with a plain definition by that, all others raise by their names.

A definition is written with torch's own operators, so that gradients come with it. What is computed in a narrower type than float32 is computed
in float32 and rounded once, as the documents of the operators have it.
"""
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
DEFINED: Dict[str, Callable[..., Any]] = {}
# Formats in which memory is as torch knows it: NCHW, NHWC, ND, NCDHW.
PLAIN_FORMATS = {-1, 0, 1, 2, 30}
NEVER = 2147483647
# torch's numbers of types, which these operators take.
DTYPES = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32, 7: torch.float64,
    9: torch.complex64, 10: torch.complex128, 11: torch.bool, 15: torch.bfloat16,
}


def defines(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function is the definition of operators of these names."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        DEFINED.update((name, function) for name in names)
        return function

    return put


def wide(tensor: Tensor) -> Tensor:
    """The tensor in a type that is precise enough to compute in."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


@defines("npu_rms_norm")
def rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tuple[Tensor, Tensor]:
    x, dims = wide(input), tuple(range(-gamma.dim(), 0))
    rstd = torch.rsqrt(x.square().mean(dims, keepdim=True) + epsilon)
    return (x * rstd * wide(gamma)).to(input.dtype), rstd


@defines("npu_gemma_rms_norm")
def gemma_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tuple[Tensor, Tensor]:
    return rms_norm(input, wide(gamma) + 1, epsilon)


@defines("npu_add_rms_norm")
def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tuple[Tensor, Tensor, Tensor]:
    x = x1 + x2
    y, rstd = rms_norm(x, gamma, epsilon)
    return y, rstd, x


def rotated(x: Tensor, mode: str) -> Tensor:
    """Every pair (a, b) of the last dimension becomes (-b, a); halves or neighbours are the pairs."""
    if mode == "half":
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)
    if mode == "interleave":
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    raise NotImplementedError(f"ferry: rotary_mode {mode!r} has no plain definition here: half and interleave have")


@defines("npu_rotary_mul")
def rotary_mul(input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Optional[Tensor] = None) -> Tensor:
    if rotate is not None:
        raise NotImplementedError("ferry: npu::npu_rotary_mul with rotate has no plain definition here")
    x = wide(input)
    return (x * wide(r1) + rotated(x, rotary_mode) * wide(r2)).to(input.dtype)


@defines("npu_apply_rotary_pos_emb")
def apply_rotary_pos_emb(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str = "BSND", rotary_mode: str = "half") -> Tuple[Tensor, Tensor]:
    return rotary_mul(query, cos, sin, rotary_mode), rotary_mul(key, cos, sin, rotary_mode)


@defines("npu_swiglu")
def swiglu(input: Tensor, dim: int = -1) -> Tensor:
    a, b = wide(input).chunk(2, dim)
    return (F.silu(a) * b).to(input.dtype)


@defines("npu_gelu")
def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(wide(input), approximate=approximate).to(input.dtype)


@defines("npu_fast_gelu", "fast_gelu")
def fast_gelu(input: Tensor) -> Tensor:
    x = wide(input)
    return (x * torch.sigmoid(1.702 * x)).to(input.dtype)


@defines("npu_geglu")
def geglu(input: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> Tuple[Tensor, Tensor]:
    left, right = wide(input).chunk(2, dim)
    active, other = (left, right) if activate_left else (right, left)
    bent = F.gelu(active, approximate="tanh" if approximate else "none")
    return (other * bent).to(input.dtype), bent.to(input.dtype)


@defines("npu_silu")
def silu(input: Tensor) -> Tensor:
    return F.silu(input)


@defines("npu_silu_")
def silu_(input: Tensor) -> Tensor:
    return F.silu(input, inplace=True)


@defines("npu_mish")
def mish(input: Tensor) -> Tensor:
    return F.mish(input)


@defines("npu_linear")
def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    return F.linear(input, weight, bias)


@defines("one_")
def one_(input: Tensor) -> Tensor:
    return input.fill_(1)


@defines("npu_dtype_cast", "_npu_dtype_cast")
def dtype_cast(input: Tensor, dtype: Any, input_dtype: Optional[int] = None) -> Tensor:
    dtype = DTYPES.get(dtype, dtype)
    if not isinstance(dtype, torch.dtype):
        raise NotImplementedError(f"ferry: npu::npu_dtype_cast to {dtype}, a type that torch does not have")
    return input.to(dtype, copy=True)


@defines("npu_dtype_cast_")
def dtype_cast_(input: Tensor, src: Tensor) -> Tensor:
    return input.copy_(src)


def plain_format(acl_format: int) -> None:
    if acl_format not in PLAIN_FORMATS:
        raise NotImplementedError(f"ferry: npu_format_cast to format {acl_format}, which only a card has; tensors stay in format 2 (ND)")


@defines("npu_format_cast", "_npu_format_cast")
def format_cast(input: Tensor, acl_format: int, **_: Any) -> Tensor:
    plain_format(acl_format)
    return input.clone()


@defines("npu_format_cast.Tensor")
def format_cast_like(input: Tensor, dst: Tensor, **_: Any) -> Tensor:
    return input.clone()


@defines("npu_format_cast_")
def format_cast_as(input: Tensor, src: Tensor, **_: Any) -> Tensor:
    return input


@defines("npu_format_cast_.acl_format")
def format_cast_(input: Tensor, acl_format: int, **_: Any) -> Tensor:
    plain_format(acl_format)
    return input


@defines("npu_transpose")
def transpose(input: Tensor, perm: List[int], require_contiguous: bool = True) -> Tensor:
    return input.permute(perm).clone(memory_format=torch.contiguous_format)


@defines("npu_reshape")
def reshape(input: Tensor, shape: List[int], can_refresh: bool = False) -> Tensor:
    return input.clone(memory_format=torch.contiguous_format).view(shape)


@defines("npu_broadcast")
def broadcast(input: Tensor, size: List[int]) -> Tensor:
    return input.expand(size).clone(memory_format=torch.contiguous_format)


@defines("npu_confusion_transpose")
def confusion_transpose(input: Tensor, perm: List[int], shape: List[int], transpose_first: bool) -> Tensor:
    turned = input.permute(perm).reshape(shape) if transpose_first else input.view(shape).permute(perm)
    return turned.clone(memory_format=torch.contiguous_format)


@defines("_amp_foreach_non_finite_check")
def non_finite(scaled_grads: List[Tensor]) -> bool:
    return any(not bool(torch.isfinite(gradient).all()) for gradient in scaled_grads)


# How heads are laid out: to (batch, heads, sequence, size), and back.
LAYOUTS: Dict[str, Tuple[Callable[[Tensor, int], Tensor], Callable[[Tensor], Tensor]]] = {
    "BNSD": (lambda x, heads: x, lambda x: x),
    "BSND": (lambda x, heads: x.transpose(1, 2), lambda x: x.transpose(1, 2)),
    "BSH": (lambda x, heads: x.unflatten(2, (heads, -1)).transpose(1, 2), lambda x: x.transpose(1, 2).flatten(2)),
    "SBH": (lambda x, heads: x.unflatten(2, (heads, -1)).permute(1, 2, 0, 3), lambda x: x.permute(2, 0, 1, 3).flatten(2)),
}


def heads_of(key: Tensor, query: Tensor, head_num: int, layout: str) -> int:
    """How many heads keys have: as many as queries, or fewer that several queries share."""
    if layout in ("BSH", "SBH"):
        return key.size(2) * head_num // query.size(2)
    return key.size(1 if layout == "BNSD" else 2)


def attention_mask(mask: Optional[Tensor], rows: int, columns: int, sparse_mode: int, device: Any) -> Optional[Tensor]:
    """Where attention is left out: as given, or the triangle that a mode names."""
    if sparse_mode in (0, 1):
        return None if mask is None else mask.bool()
    if sparse_mode in (2, 3):
        first = 1 if sparse_mode == 2 else 1 + columns - rows
        return torch.ones(rows, columns, dtype=torch.bool, device=device).triu(first)
    raise NotImplementedError(f"ferry: npu::npu_fusion_attention with sparse_mode {sparse_mode} has no plain definition here: 0 to 3 have")


@defines("npu_fusion_attention")
def fusion_attention(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, pse: Optional[Tensor] = None, padding_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None, scale: float = 1.0, keep_prob: float = 1.0, pre_tockens: int = NEVER, next_tockens: int = NEVER,
    inner_precise: int = 0, prefix: Any = None, actual_seq_qlen: Any = None, actual_seq_kvlen: Any = None, sparse_mode: int = 0, **_: Any
) -> Any:
    given = [name for name, value in (("pse", pse), ("padding_mask", padding_mask), ("prefix", prefix), ("actual_seq_qlen", actual_seq_qlen)) if value is not None]
    if given or input_layout not in LAYOUTS:
        what = f"input_layout {input_layout}" if input_layout not in LAYOUTS else given[0]
        raise NotImplementedError(f"ferry: npu::npu_fusion_attention with {what} has no plain definition here")
    apart, together = LAYOUTS[input_layout]
    shared = heads_of(key, query, head_num, input_layout)
    q, k, v = apart(wide(query), head_num), apart(wide(key), shared), apart(wide(value), shared)
    if shared != head_num:
        k, v = (each.repeat_interleave(head_num // shared, 1) for each in (k, v))
    scores = torch.matmul(q, k.transpose(2, 3)) * scale
    rows, columns = scores.size(2), scores.size(3)
    if sparse_mode == 0 and min(pre_tockens, next_tockens) < max(rows, columns):
        place = torch.arange(rows, device=q.device)[:, None] - torch.arange(columns, device=q.device)
        scores = scores.masked_fill((place > pre_tockens) | (-place > next_tockens), float("-inf"))
    mask = attention_mask(atten_mask, rows, columns, sparse_mode, q.device)
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    largest = scores.amax(3, keepdim=True).detach()
    weights = torch.exp(scores - largest)
    total = weights.sum(3, keepdim=True)
    out = torch.matmul(F.dropout(weights / total, 1 - keep_prob, keep_prob < 1), v).to(query.dtype)
    statistics = (each.float().expand(-1, -1, -1, 8).clone() for each in (largest, total.detach()))
    return (together(out).contiguous(), *statistics, torch.empty(0, device=query.device), 0, 0, 0)


def refusal(name: str) -> Callable[..., Any]:
    """A kernel that raises on every call."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"ferry: {name} has no plain definition that the CPU could run; use operators of torch's own, or run this on a card")

    return refused


def install() -> Any:
    """Registers a kernel for every operator of torch_npu's own."""
    library = torch.library.Library("npu", "IMPL")
    names = {key: torch._C._dispatch_get_registrations_for_dispatch_key(key) for key in ("PrivateUse1", "AutogradPrivateUse1")}
    defined = {f"npu::{name}" for name in DEFINED}
    for key, registered in names.items():
        for name in {name for name in registered if name.startswith("npu::")} | defined:
            short = name.split("::")[1]
            library.impl(short, DEFINED.get(short) or refusal(name), key)
    return library
