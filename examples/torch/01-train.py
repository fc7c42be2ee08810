"""A transformer with dropout trains on device "npu" with AdamW, and its losses and weights are the CPU's own.

    ferry run --torch -- python examples/torch/01-train.py
"""
import torch
from torch import nn

STEPS = 20


class Model(nn.Module):
    """A small language model."""

    def __init__(self, words=50, width=32):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
        return self.head(self.layers(self.embedding(tokens), mask=mask, is_causal=True))


def train(device):
    """The losses and the weights after some steps."""
    torch.manual_seed(0)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 50, (8, 17), generator=torch.Generator().manual_seed(1)).to(device)
    # Weights were drawn by the CPU's generator, wherever they are now; dropout draws from the device's.
    torch.manual_seed(2)
    losses = []
    for _ in range(STEPS):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [weight.detach().cpu() for weight in model.parameters()]


cpu, npu = train("cpu"), train("npu")
assert cpu[0] == npu[0], f"losses differ: {cpu[0]} {npu[0]}"
assert all(torch.equal(one, other) for one, other in zip(cpu[1], npu[1])), "weights differ"
assert npu[0][-1] < npu[0][0], "the loss does not fall"
print(f"ok: {STEPS} steps, the loss falls from {npu[0][0]:.4f} to {npu[0][-1]:.4f}, as on the CPU to the bit")
