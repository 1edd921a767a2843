"""Datasets, loaders, checkpointing, save and load, distributions."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.utils.checkpoint import checkpoint
from fusegrad.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)


def numbers(n=10):
    return TensorDataset(fg.arange(n), fg.arange(n) * 2.0)


def test_batches_and_last_batch():
    got = [a.tolist() for a, _ in DataLoader(numbers(), 4)]
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    loader = DataLoader(numbers(), 4, drop_last=True)
    assert len(loader) == len(list(loader)) == 2


def test_shuffle_is_a_permutation_and_reproducible():
    def order(seed):
        fg.manual_seed(seed)
        return [i for a, _ in DataLoader(numbers(), 3, shuffle=True) for i in a.tolist()]

    assert sorted(order(1)) == list(range(10)) and order(1) == order(1) != order(2)


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_keep_the_order(workers):
    got = [i for a, _ in DataLoader(numbers(20), 3, num_workers=workers) for i in a.tolist()]
    assert got == list(range(20))


class Broken(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        raise KeyError("nothing here")


def test_worker_errors_reach_the_user():
    with pytest.raises(KeyError, match="nothing here"):
        list(DataLoader(Broken(), num_workers=1))


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 7, step))


def test_iterable_dataset():
    assert [b.tolist() for b in DataLoader(Stream(), 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    got = sorted(i for b in DataLoader(Stream(), 2, num_workers=2) for i in b.tolist())
    assert got == list(range(7))
    with pytest.raises(ValueError, match="shuffle"):
        DataLoader(Stream(), shuffle=True)


def test_collate_containers():
    data = [{"x": np.ones(2), "y": (i, 0.5), "s": "a"} for i in range(3)]
    (batch,) = DataLoader(data, 3)
    assert batch["x"].shape == (3, 2) and batch["y"][0].tolist() == [0, 1, 2] and batch["s"] == ["a"] * 3
    assert batch["y"][1].dtype is fg.float64
    with pytest.raises(TypeError, match="default_collate"):
        list(DataLoader([object()]))


def test_splits_and_samplers():
    a, b = random_split(numbers(), [0.7, 0.3])
    assert sorted(int(x[0]) for part in (a, b) for x in (part[i] for i in range(len(part)))) == list(range(10))
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(numbers(), [3, 3])
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(ConcatDataset([numbers(3), numbers(2)])) == 5
    assert set(WeightedRandomSampler([0.0, 1.0, 0.0], 5)) == {1}


def test_checkpoint_gives_the_same_gradients():
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh())
    x = fg.randn(6, 3, requires_grad=True)
    grads = []
    for run in (net, lambda x: checkpoint(net, x, use_reentrant=False)):
        fg.manual_seed(4)
        x.grad = None
        net.zero_grad()
        run(x).sum().backward()
        grads.append((x.grad.clone(), net[0].weight.grad.clone()))
    assert all(fg.equal(a, b) for a, b in zip(*grads, strict=True))


def round_trip(obj):
    f = io.BytesIO()
    fg.save(obj, f)
    return fg.load(io.BytesIO(f.getvalue()))


def test_save_load_values():
    t = fg.randn(2, 3)
    obj = {"t": t, 3: (1, None, True, "x", math.inf, b"\x00"), "n": [{"again": t}, np.int64(4), fg.float16, range(3)]}
    got = round_trip(obj)
    assert fg.equal(got["t"], t) and got[3] == obj[3] and got["n"][1:] == [4, fg.float16, range(3)]
    assert got["n"][0]["again"] is got["t"]


def test_save_keeps_tied_memory_and_kinds():
    w = nn.Parameter(fg.ones(3))
    got = round_trip({"a": w.detach(), "b": w.detach(), "p": w})
    got["a"][0] = 5.0
    assert got["b"][0].item() == 5.0 and isinstance(got["p"], nn.Parameter) and got["p"].requires_grad


def test_save_state_dicts(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    opt = fg.optim.Adam(net.parameters())
    net(fg.randn(5, 3)).sum().backward()
    opt.step()
    path = tmp_path / "model.fg"
    fg.save({"net": net.state_dict(), "opt": opt.state_dict()}, path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.fg"]
    got = fg.load(path)
    twin = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    twin.load_state_dict(got["net"])
    again = fg.optim.Adam(twin.parameters())
    again.load_state_dict(got["opt"])
    assert fg.equal(again.state[twin[0].weight]["exp_avg"], opt.state[net[0].weight]["exp_avg"])


def test_save_refuses_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "x"
    fg.save([1], path)
    with pytest.raises(TypeError, match=r"type Linear at object\['m'\].*state_dict"):
        fg.save({"m": nn.Linear(1, 1)}, path)
    assert fg.load(path) == [1]
    with pytest.raises(IsADirectoryError):
        fg.save([1], tmp_path)


def test_damaged_files_are_refused():
    f = io.BytesIO()
    fg.save({"w": fg.arange(6.0), "n": [1, 2]}, f)
    raw = f.getvalue()
    for cut in range(0, len(raw), 13):
        with pytest.raises(RuntimeError):
            fg.load(io.BytesIO(raw[:cut]))
    for i in range(0, len(raw), 5):
        changed = bytearray(raw)
        changed[i] ^= 4
        with pytest.raises(RuntimeError):
            fg.load(io.BytesIO(bytes(changed)))


def test_distributions():
    n = fg.distributions.Normal(fg.tensor([0.0, 1.0]), fg.tensor([1.0, 2.0]))
    assert n.log_prob(fg.tensor([0.0, 1.0])).tolist() == pytest.approx([-0.9189385, -1.6120857])
    fg.manual_seed(0)
    s = n.sample((20000,))
    assert s.mean(0).tolist() == pytest.approx([0, 1], abs=0.05)
    assert s.std(0).tolist() == pytest.approx([1, 2], rel=0.03)
    c = fg.distributions.Categorical(probs=fg.tensor([1.0, 3.0]))
    assert c.log_prob(fg.tensor(1)).item() == pytest.approx(math.log(0.75))
    assert c.sample((4000,)).float().mean().item() == pytest.approx(0.75, abs=0.03)
    with pytest.raises(ValueError, match="GreaterThan"):
        fg.distributions.Normal(0.0, -1.0)
    loc = fg.tensor(0.5, requires_grad=True)
    fg.distributions.Normal(loc, 1.0).rsample().backward()
    assert loc.grad.item() == 1.0
