"""torch.save and torch.load of tensors, storages and modules on the device."""
import io
import os
import tempfile

import torch
from kit import main, same, values


def tensors():
    source = {"a": values(1 << 20, 1), "b": values(999, 2).view(torch.uint8)}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tensors.pt")
        torch.save({name: tensor.npu() for name, tensor in source.items()}, path)
        for where in ("cpu", "npu", "npu:1", None):
            loaded = torch.load(path, map_location=where)
            for name, tensor in source.items():
                assert loaded[name].device.type == ("cpu" if where == "cpu" else "npu")
                same(loaded[name].cpu(), tensor, f"{name} on {where}")


def modules():
    module = torch.nn.Linear(64, 32)
    want = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    module.npu()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="cpu")
    for name, tensor in want.items():
        same(loaded[name], tensor, name)
        same(module.state_dict()[name].cpu(), tensor, f"{name} on the device")


main(tensors, modules)
