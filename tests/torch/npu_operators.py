"""Operators that only torch_npu has, by their definitions in float64; all others raise by name, on every call."""
import torch
import torch_npu

from kit import main, raises


def near(got, want, what):
    """The result in float32 is the one in float64 but for rounding."""
    got = got.detach().cpu().double()
    assert torch.allclose(got, want, rtol=1e-5, atol=1e-5), f"{what}: {(got - want).abs().max()}"


def pair(*shape):
    x = torch.randn(*shape, dtype=torch.float64)
    return x, x.float().npu().requires_grad_()


def norms():
    x, y = pair(3, 16)
    gamma, there = pair(16)
    want = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gamma
    got, rstd = torch_npu.npu_rms_norm(y, there)
    near(got, want, "rms_norm")
    near(rstd, (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(), "rstd")
    got.sum().backward()
    x.requires_grad_()
    (x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gamma).sum().backward()
    near(y.grad, x.grad, "gradient of rms_norm")
    near(torch_npu.npu_add_rms_norm(y, y, there)[2], 2 * x.detach(), "add_rms_norm")
    assert torch_npu.npu_rms_norm(y.half(), there.half())[0].dtype is torch.float16


def rotary_and_gates():
    x, y = pair(2, 5, 3, 8)
    angle = torch.randn(1, 5, 1, 8, dtype=torch.float64)
    cos, sin = angle.cos(), angle.sin()
    for mode in ("half", "interleave"):
        turned = torch.empty_like(x)
        for i in range(4):
            a, b = (i, i + 4) if mode == "half" else (2 * i, 2 * i + 1)
            turned[..., a], turned[..., b] = -x[..., b], x[..., a]
        near(torch_npu.npu_rotary_mul(y, cos.float().npu(), sin.float().npu(), mode), x * cos + turned * sin, mode)
    a, b = x[..., :4], x[..., 4:]
    near(torch_npu.npu_swiglu(y), a / (1 + (-a).exp()) * b, "swiglu")
    erf = 0.5 * x * (1 + torch.erf(x / 2**0.5))
    near(torch_npu.npu_gelu(y, approximate="none"), erf, "gelu")
    near(torch_npu.npu_fast_gelu(y), x / (1 + (-1.702 * x).exp()), "fast_gelu")


def attention():
    for layout, shape in (("BNSD", (0, 1, 2, 3)), ("BSND", (0, 2, 1, 3)), ("BSH", None), ("SBH", None)):
        q, k, v = (torch.randn(2, 4, 6, 8, dtype=torch.float64) for _ in range(3))
        scores = q @ k.transpose(2, 3) * 8**-0.5
        mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
        want = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        laid = {"BSH": lambda x: x.transpose(1, 2).flatten(2), "SBH": lambda x: x.permute(2, 0, 1, 3).flatten(2)}.get(layout, lambda x: x.permute(shape or (0, 1, 2, 3)))
        there = [laid(x).float().npu().requires_grad_() for x in (q, k, v)]
        for more in ({"atten_mask": mask.npu()}, {"sparse_mode": 2, "atten_mask": mask.npu()}):
            got = torch_npu.npu_fusion_attention(*there, 4, layout, scale=8**-0.5, **more)
            near(got[0], laid(want), f"{layout} {list(more)}")
        near(got[1][..., 0], scores.masked_fill(mask, float("-inf")).amax(-1), "the largest")
        got[0].square().sum().backward()
        here = [laid(x).clone().requires_grad_() for x in (q, k, v)]
        if layout == "BNSD":
            ((here[0] @ here[1].transpose(2, 3) * 8**-0.5).masked_fill(mask, float("-inf")).softmax(-1) @ here[2]).square().sum().backward()
            for got, want in zip(there, here):
                near(got.grad, want.grad, "gradient of attention")


def casts_and_refusals():
    x = torch.randn(4, 4).npu()
    assert torch_npu.npu_dtype_cast(x, torch.float16).dtype is torch.float16
    assert torch.equal(torch_npu.npu_format_cast(x, 2).cpu(), x.cpu())
    raises(NotImplementedError, lambda: torch_npu.npu_format_cast(x, 29), "format 29")
    for _ in range(3):
        raises(NotImplementedError, lambda: torch_npu.npu_moe_init_routing(x, x, x, 3), "ferry: npu::npu_moe_init_routing")
    torch.npu.synchronize()
    assert torch.equal((x + 1).cpu(), x.cpu() + 1), "something has reached the queue"


main(norms, rotary_and_gates, attention, casts_and_refusals)
