"""DataLoader with workers, forked and spawned, whose batches are pinned and go to the device while the next one is loaded."""
import torch
from kit import main, same, values
from torch.utils.data import DataLoader, Dataset

COUNT = 24


class Rows(Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return index, values(4096, index)


def load(**options):
    loader, seen = DataLoader(Rows(), batch_size=4, **options), 0
    for indices, rows in loader:
        device = rows.to("npu", non_blocking=True)
        back = device.cpu()
        for index, row in zip(indices.tolist(), back):
            same(row, values(4096, index), f"row {index} with {options}")
            seen += 1
    assert seen == COUNT, f"{seen} rows with {options}"


def no_workers():
    load()
    load(pin_memory=True)


def forked_workers():
    # The device is in use already: workers only make rows.
    torch.zeros(8).npu()
    load(num_workers=2, multiprocessing_context="fork")
    load(num_workers=2, multiprocessing_context="fork", pin_memory=True)


def spawned_workers():
    load(num_workers=2, multiprocessing_context="spawn", pin_memory=True, persistent_workers=True)


if __name__ == "__main__":
    main(no_workers, forked_workers, spawned_workers)
