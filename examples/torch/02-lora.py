"""A LoRA fine-tune: a frozen linear layer on the device learns by two narrow matrices beside it, under autocast and with a GradScaler.

    ferry run --torch -- python examples/torch/02-lora.py
"""
import torch
from torch import nn


class Lora(nn.Module):
    """A linear layer that stays as it is, and what is learnt beside it."""

    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def tune(device):
    torch.manual_seed(0)
    model = nn.Sequential(Lora(nn.Linear(16, 32)), nn.GELU(), Lora(nn.Linear(32, 16))).to(device)
    frozen = [layer.base.weight.detach().cpu() for layer in (model[0], model[2])]
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer, scaler = torch.optim.AdamW(learning, lr=1e-2), torch.amp.GradScaler(device, init_scale=256.0)
    x = torch.randn(64, 16).to(device)
    losses = []
    for _ in range(30):
        with torch.autocast(device, torch.bfloat16):
            loss = nn.functional.mse_loss(model(x).float(), x.flip(1))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert all(torch.equal(layer.base.weight.cpu(), weight) for layer, weight in zip((model[0], model[2]), frozen)), "the base has changed"
    return losses


losses = tune("npu")
assert losses == tune("cpu"), "the losses are not the CPU's"
assert losses[-1] < 0.9 * losses[0], losses
print(f"ok: the loss falls from {losses[0]:.4f} to {losses[-1]:.4f} while the base stays")
