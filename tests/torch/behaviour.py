"""What programs do with tensors of the device beside calling operators: each part compares with the CPU."""
import io
import os
import tempfile
import threading

import torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from kit import main, raises, same


def pair(*shape, **kwargs):
    x = torch.randn(*shape, **kwargs)
    return x, x.npu()


def in_place_and_views():
    x, y = pair(6, 8)
    for each in (x, y):
        each[1:4, ::2].mul_(3).add_(each[0, :4])
        each.t()[2].zero_()
        each.view(4, 12).sub_(1)
        each[:, 3] = each[:, 4]
        each.unsqueeze_(0).squeeze_(0).transpose_(0, 1)
    same(y, x, "in place")
    same(y[2:, 1::3].contiguous(), x[2:, 1::3].contiguous(), "contiguous")
    same(y.expand(2, 8, 6) + 1, x.expand(2, 8, 6) + 1, "expand")
    same(torch.as_strided(y, (2, 2), (1, 2), 3) * 2, torch.as_strided(x, (2, 2), (1, 2), 3) * 2, "as_strided")


def copies_and_casts():
    x, y = pair(5, 7)
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.complex64):
        same(y.to(dtype), x.to(dtype), str(dtype))
        same(y.t().to(dtype), x.t().to(dtype), f"{dtype} of a view")
    one, other = torch.zeros(7, 5, dtype=torch.float64), torch.zeros(7, 5, dtype=torch.float64, device="npu")
    same(other.t().copy_(y), one.t().copy_(x), "cast into a view")
    same(other.copy_(torch.ones(5)), one.copy_(torch.ones(5)), "broadcast from the CPU")
    back = torch.zeros(5, 14).t()[::2]
    assert torch.equal(back.copy_(y.t()), x.t()), "into a view of the CPU"
    assert y.to("npu:1").device.index == 1 and torch.equal(y.to("npu:1").cpu(), x)
    z, w = pair(3, dtype=torch.complex64)
    same(w.conj() * 2, z.conj() * 2, "conj")
    same(w.conj().clone().imag, z.conj().clone().imag, "imag")
    same(torch.empty(2, 3, 4, 5, device="npu", memory_format=torch.channels_last).fill_(1), torch.ones(2, 3, 4, 5), "channels last")


def results_given():
    x, y = pair(4, 4)
    out = torch.empty(0, device="npu")
    assert torch.mm(y, y, out=out) is out
    same(out, torch.mm(x, x), "out= of no size")
    wide = torch.zeros(4, 8, device="npu")
    torch.add(y, 1, out=wide[:, ::2])
    same(wide[:, ::2], x + 1, "out= of a view")
    assert wide[:, 1::2].sum().item() == 0
    values, indices = torch.empty(0, device="npu"), torch.empty(0, device="npu", dtype=torch.long)
    torch.max(y, 1, out=(values, indices))
    same(values, x.max(1).values)
    same(indices, x.max(1).indices)


def lists_and_numbers():
    ones = [torch.randn(3), torch.randn(2, 2)]
    others = [each.npu() for each in ones]
    torch._foreach_mul_(ones, 2.0), torch._foreach_mul_(others, 2.0)
    for got, want in zip(torch._foreach_add(others, others), torch._foreach_add(ones, ones)):
        same(got, want, "foreach")
    x, y = pair(3, dtype=torch.bfloat16)
    same(torch.deg2rad(y), torch.deg2rad(x), "a number that bfloat16 has not")
    same(y + torch.tensor(2.5), x + torch.tensor(2.5), "a scalar of the CPU")
    raises(RuntimeError, lambda: y + x, "same device", "npu:0", "cpu")


def random_numbers():
    for draw in (torch.randn, torch.rand, lambda *a, **k: torch.empty(*a, **k).exponential_(), lambda *a, **k: nn.functional.dropout(torch.ones(*a, **k), 0.3)):
        torch.manual_seed(7)
        want = [draw(33), draw(5)]
        torch.manual_seed(7)
        for each in want:
            same(draw(33 if each.numel() == 33 else 5, device="npu"), each, "random")
    state = torch.npu.get_rng_state()
    first = torch.randperm(9, device="npu")
    torch.npu.set_rng_state(state)
    assert torch.equal(first.cpu(), torch.randperm(9, device="npu").cpu()), "the state did not come back"
    ours, theirs = torch.Generator("npu").manual_seed(3), torch.Generator().manual_seed(3)
    same(torch.randn(4, device="npu", generator=ours), torch.randn(4, generator=theirs), "a generator")
    kept = ours.get_state()
    again = torch.rand(4, device="npu", generator=ours)
    torch.rand(4, device="npu", generator=ours)
    ours.set_state(kept)
    assert torch.equal(again.cpu(), torch.rand(4, device="npu", generator=ours).cpu())
    torch.manual_seed(1)
    cpu = torch.get_rng_state()
    torch.rand(3, device="npu")
    assert torch.equal(cpu, torch.get_rng_state()), "the CPU's generator moved"


def recurrent_and_attention():
    for make in (lambda: nn.LSTM(5, 6, 2, bidirectional=True), lambda: nn.GRU(5, 6), lambda: nn.MultiheadAttention(5, 1), lambda: nn.Conv1d(4, 3, 2), lambda: nn.BatchNorm1d(4)):
        torch.manual_seed(3)
        model = make()
        there = make().npu()
        there.load_state_dict(model.state_dict())
        x, y = pair(3, 4, 5)
        for run in (x.requires_grad_(), y.requires_grad_()):
            module = model if run is x else there
            result = module(run, run, run) if isinstance(module, nn.MultiheadAttention) else module(run)
            (result[0] if isinstance(result, tuple) else result).square().sum().backward()
        same(y.grad, x.grad, type(model).__name__)
        for got, want in zip((*there.parameters(), *there.buffers()), (*model.parameters(), *model.buffers())):
            same(got if got.grad is None else got.grad, want if want.grad is None else want.grad, type(model).__name__)


def scaled_gradients():
    def run(device, poison):
        torch.manual_seed(1)
        model = nn.Linear(4, 4).to(device)
        optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler(device, init_scale=64.0, growth_interval=2)
        x = torch.randn(3, 4).to(device)
        for step in range(5):
            with torch.autocast(device, torch.float16 if device == "npu" and False else torch.bfloat16):
                loss = model(x).float().square().mean() * (float("inf") if step == poison else 1)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return model.weight.detach().cpu(), scaler.get_scale()

    for poison in (None, 2):
        cpu, npu = run("cpu", poison), run("npu", poison)
        assert torch.equal(cpu[0], npu[0]) and cpu[1] == npu[1], f"poison {poison}: {cpu} {npu}"


def hooks_and_checkpoints():
    x, y = pair(4, 4)
    seen = []
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh())
    there = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()).npu()
    there.load_state_dict(model.state_dict())
    there[0].register_forward_hook(lambda module, args, result: seen.append(result.device.type))
    there[0].weight.register_hook(lambda gradient: gradient * 2)
    model[0].weight.register_hook(lambda gradient: gradient * 2)
    for module, run in ((model, x.requires_grad_()), (there, y.requires_grad_())):
        torch.manual_seed(5)
        checkpoint(module, run, use_reentrant=False).sum().backward()
    same(y.grad, x.grad, "a checkpoint with dropout")
    same(there[0].weight.grad, model[0].weight.grad, "a hook")
    assert seen == ["npu", "npu"]
    with torch.inference_mode():
        same(there.eval()(y), model.eval()(x), "inference mode")
    raises(NotImplementedError, lambda: torch.compile(there), "torch.compile is refused", "TORCHDYNAMO_DISABLE=1")


def loader_and_files():
    data = TensorDataset(torch.arange(40.0).view(20, 2))
    total = torch.zeros(2, device="npu")
    for (batch,) in DataLoader(data, batch_size=4, num_workers=1, pin_memory=True):
        total += batch.to("npu", non_blocking=True).sum(0)
    same(total, torch.arange(40.0).view(20, 2).sum(0), "DataLoader")
    file = io.BytesIO()
    torch.save({"x": total * 2, "state": torch.npu.get_rng_state()}, file)
    file.seek(0)
    loaded = torch.load(file)
    same(loaded["x"], total.cpu() * 2, "torch.save")


def child(folder):
    torch.save((torch.ones(3, device="npu") * 3).cpu(), os.path.join(folder, "child.pt"))


def processes():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_child, (folder,), nprocs=1)
        assert torch.equal(torch.load(os.path.join(folder, "child.pt")), torch.full((3,), 3.0))


def run_child(rank, folder):
    import ferry_acl.torch  # noqa: F401

    child(folder)


def sparse_and_nested():
    x, y = pair(4, 4)
    s, t = x.relu().to_sparse(), y.relu().to_sparse()
    same(torch.sparse.mm(t, y), torch.sparse.mm(s, x), "sparse mm")
    same((t + t).to_dense(), (s + s).to_dense(), "sparse add")
    same((t * 2).coalesce().values(), (s * 2).coalesce().values(), "sparse mul")
    c, d = x.relu().to_sparse_csr(), x.relu().to_sparse_csr().npu()
    same(d @ y, c @ x, "csr")
    a, b = torch.randn(2, 3), torch.randn(4, 3)
    n, m = torch.nested.nested_tensor([a, b]), torch.nested.nested_tensor([a.npu(), b.npu()])
    same(torch.nested.to_padded_tensor(m * 2, 0.0), torch.nested.to_padded_tensor(n * 2, 0.0), "nested")
    j = torch.nested.nested_tensor([a.npu(), b.npu()], layout=torch.jagged)
    same((j.sin() * 2).values(), torch.cat([a, b]).sin() * 2, "jagged")


def transforms():
    x, y = pair(3, 3)
    same(torch.vmap(lambda row: (row * row).sum())(y), torch.vmap(lambda row: (row * row).sum())(x), "vmap")
    same(torch.func.grad(lambda a: nn.functional.linear(a, a).sum())(y), torch.func.grad(lambda a: nn.functional.linear(a, a).sum())(x), "func.grad")
    z = torch.randn(2, 2, dtype=torch.double, device="npu", requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: nn.functional.linear(a, a), (z,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda a: nn.functional.linear(a, a), (z,))


def devices_and_threads():
    x = torch.randn(4, 4, device="npu:1")
    assert (x @ x).device.index == 1 and torch.equal((x @ x).cpu(), x.cpu() @ x.cpu())
    generator = torch.Generator("npu:1").manual_seed(3)
    same(torch.randn(3, device="npu:1", generator=generator), torch.randn(3, generator=torch.Generator().manual_seed(3)), "the second device")
    done = []

    def work():
        z = torch.randn(4, 8).npu().requires_grad_()
        nn.Linear(8, 8).npu()(z).square().sum().backward()
        done.append(torch.isfinite(z.grad).all().item())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 8, done


def graphs_take_no_operators():
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    side = torch.npu.Stream()

    def capture():
        with torch.npu.graph(graph, stream=side):
            x.add_(1)

    raises(RuntimeError, capture, "cannot be captured")
    torch.npu.set_stream(torch.npu.default_stream())


if __name__ == "__main__":
    main(
        in_place_and_views, copies_and_casts, results_given, lists_and_numbers, random_numbers, recurrent_and_attention, scaled_gradients,
        hooks_and_checkpoints, loader_and_files, processes, sparse_and_nested, transforms, devices_and_threads, graphs_take_no_operators,
    )
