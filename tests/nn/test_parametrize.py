"""Parameters computed from others, averaged models, the adaptive softmax."""

import copy
import pickle

import numpy as np
import pytest

import fusegrad as torch
from fusegrad import nn
from fusegrad.nn.utils import parametrizations, prune
from fusegrad.nn.utils import parametrize as P
from fusegrad.optim import swa_utils


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a):
        return a.triu()


class Scale(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x * self.k


class Product(nn.Module):
    def forward(self, a, b):
        return a * b

    def right_inverse(self, w):
        return w / 2, torch.full_like(w, 2)


def linear(*rows):
    m = nn.Linear(len(rows[0]), len(rows), bias=False)
    m.weight.data = torch.tensor(rows)
    return m


def test_a_symmetric_weight():
    m = linear([1.0, 2.0], [3.0, 4.0])
    original = m.weight
    assert P.register_parametrization(m, "weight", Symmetric()) is m
    assert m.weight.tolist() == [[1.0, 2.0], [2.0, 4.0]] and isinstance(m, nn.Linear)
    assert P.is_parametrized(m, "weight") and not P.is_parametrized(m, "bias")
    assert [n for n, _ in m.named_parameters()] == ["parametrizations.weight.original"]
    assert m.parametrizations.weight.original is original
    m(torch.tensor([[1.0, 10.0]])).sum().backward()
    assert original.grad.tolist() == [[1.0, 11.0], [0.0, 10.0]]
    m.weight = torch.tensor([[5.0, 6.0], [6.0, 7.0]])
    assert original.tolist() == [[5.0, 6.0], [0.0, 7.0]] and m.weight[1, 0] == 6.0
    P.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and m.weight is original and original.tolist() == [[5.0, 6.0], [6.0, 7.0]]


def test_chains_several_originals_and_buffers():
    m = linear([1.0, 2.0])
    P.register_parametrization(m, "weight", Scale(2))
    P.register_parametrization(m, "weight", Scale(3))
    assert m.weight.tolist() == [[6.0, 12.0]] and len(m.parametrizations.weight) == 2
    with pytest.raises(RuntimeError, match="right_inverse"):
        m.weight = torch.ones(1, 2)
    P.remove_parametrizations(m, "weight", leave_parametrized=False)
    assert m.weight.tolist() == [[1.0, 2.0]]
    P.register_parametrization(m, "weight", Product())
    assert sorted(m.state_dict()) == ["parametrizations.weight.original0", "parametrizations.weight.original1"]
    other = linear([0.0, 0.0])
    P.register_parametrization(other, "weight", Product())
    other.load_state_dict(m.state_dict())
    assert other.weight.tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="sequence"):
        P.remove_parametrizations(m, "weight", leave_parametrized=False)
    P.remove_parametrizations(m, "weight")
    assert isinstance(m.weight, nn.Parameter) and m.weight.requires_grad and m.weight.tolist() == [[1.0, 2.0]]
    b = nn.BatchNorm1d(2)
    P.register_parametrization(b, "running_mean", Scale(2))
    assert "parametrizations.running_mean.original" in dict(b.named_buffers())


def test_copies_caches_and_what_is_refused():
    m = linear([1.0, 2.0])
    P.register_parametrization(m, "weight", Scale(2))
    c = copy.deepcopy(m)
    c.parametrizations.weight.original.data.fill_(1.0)
    assert c.weight.tolist() == [[2.0, 2.0]] and m.weight.tolist() == [[2.0, 4.0]]
    P.remove_parametrizations(c, "weight")
    assert P.is_parametrized(m) and m.weight.tolist() == [[2.0, 4.0]]
    assert m.weight is not m.weight
    with P.cached():
        assert m.weight is m.weight
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(m)
    with pytest.raises(ValueError, match="does not have a parameter"):
        P.register_parametrization(m, "nothing", Scale(2))
    with pytest.raises(ValueError, match="does not have a parametrization"):
        P.remove_parametrizations(m, "nothing")

    class Part(nn.Module):
        def forward(self, x):
            return x[:, :1]

    with pytest.raises(ValueError, match="shape"):
        P.register_parametrization(linear([1.0, 2.0]), "weight", Part())
    assert P.register_parametrization(linear([1.0, 2.0]), "weight", Part(), unsafe=True).weight.shape == (1, 1)


@pytest.mark.parametrize("dim,norms", [(0, [[5.0], [1.0]]), (1, [[3.0, 17**0.5]]), (None, 26**0.5)])
def test_weight_norm(dim, norms):
    m = linear([3.0, 4.0], [0.0, 1.0])
    parametrizations.weight_norm(m, dim=dim)
    np.testing.assert_allclose(m.parametrizations.weight.original0.tolist(), norms, rtol=1e-6)
    np.testing.assert_allclose(m.weight.tolist(), [[3.0, 4.0], [0.0, 1.0]], rtol=1e-6)
    m(torch.tensor([[1.0, 2.0]]))[0, 0].backward()
    if dim == 0:  # along the direction (3, 4) / 5 of the row
        assert m.parametrizations.weight.original0.grad.flatten().tolist() == pytest.approx([2.2, 0.0])
        assert m.parametrizations.weight.original1.grad[0].tolist() == pytest.approx([1 - 1.32, 2 - 1.76], abs=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_the_old_weight_norm():
    m = nn.utils.weight_norm(linear([3.0, 4.0], [0.0, 1.0]))
    assert sorted(n for n, _ in m.named_parameters()) == ["weight_g", "weight_v"]
    m.weight_g.data.mul_(2)
    assert m(torch.tensor([[1.0, 1.0]])).tolist() == [[14.0, 2.0]]
    with pytest.raises(RuntimeError, match="two weight_norm"):
        nn.utils.weight_norm(m)
    nn.utils.remove_weight_norm(m)
    assert m.weight.tolist() == [[6.0, 8.0], [0.0, 2.0]] and isinstance(m.weight, nn.Parameter)
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_weight_norm(m)


def test_spectral_norm():
    m = linear([3.0, 0.0], [0.0, 1.0])
    parametrizations.spectral_norm(m, n_power_iterations=20)
    np.testing.assert_allclose(m.weight.tolist(), [[1.0, 0.0], [0.0, 1 / 3]], atol=1e-5)
    m.eval()
    m.weight.sum().backward()  # of w / w[0, 0]
    np.testing.assert_allclose(
        m.parametrizations.weight.original.grad.tolist(), [[-1 / 9, 1 / 3], [1 / 3, 1 / 3]], atol=1e-4
    )
    c = nn.Conv2d(2, 3, 2)
    parametrizations.spectral_norm(c, n_power_iterations=60)
    assert torch.linalg.svdvals(c.weight.flatten(1))[0].item() == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("how", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_orthogonal(how, shape):
    torch.manual_seed(0)
    m = nn.Linear(shape[1], shape[0])
    parametrizations.orthogonal(m, orthogonal_map=how)

    def distance():
        q = m.weight if shape[0] >= shape[1] else m.weight.t()
        return (q.t() @ q - torch.eye(min(shape))).abs().max().item()

    opt = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(2):
        assert distance() < 1e-5
        opt.zero_grad()
        (m.weight**3).sum().backward()
        assert m.parametrizations.weight.original.grad.abs().sum() > 0
        opt.step()
    wanted = torch.linalg.qr(torch.rand(max(shape), min(shape)))[0]
    wanted = wanted if shape[0] >= shape[1] else wanted.t()
    m.weight = wanted
    np.testing.assert_allclose(m.weight.tolist(), wanted.tolist(), atol=1e-5)


@pytest.mark.parametrize("make", [
    lambda m: P.register_parametrization(m, "weight", Symmetric()), parametrizations.weight_norm,
    parametrizations.orthogonal,
])  # fmt: skip
def test_compiled(make):
    torch.manual_seed(0)
    m = make(nn.Linear(3, 3))
    n = copy.deepcopy(m)
    f = torch.compile(lambda x: (n(x) ** 2).sum())
    for _ in range(3):
        x = torch.rand(4, 3)
        (m(x) ** 2).sum().backward()
        f(x).backward()
        for p, q in zip(m.parameters(), n.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.tolist(), q.grad.tolist(), rtol=1e-4, atol=1e-5)
            p.data = q.data = p.data - 0.1 * p.grad


def test_averaged_models():
    m = linear([1.0, 1.0])
    mean, ema = swa_utils.AveragedModel(m), swa_utils.AveragedModel(m, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    one = swa_utils.AveragedModel(m, avg_fn=swa_utils.get_ema_avg_fn(0.5))
    for _ in range(3):
        for a in (mean, ema, one):
            a.update_parameters(m)
        m.weight.data.add_(2)
    assert mean.module.weight.tolist() == [[3.0, 3.0]] and int(mean.n_averaged) == 3  # of 1, 3, 5
    assert ema.module.weight[0, 0].item() == pytest.approx(0.9 * 1.2 + 0.1 * 5) and one.module.weight[0, 0] == 3.5
    assert mean(torch.ones(1, 2)).item() == 6.0 and sorted(mean.state_dict()) == ["module.weight", "n_averaged"]


def test_batch_norms_made_anew_and_rates():
    m = nn.Sequential(nn.BatchNorm1d(1))
    m.eval()
    swa_utils.update_bn([torch.tensor([[0.0], [2.0]]), (torch.tensor([[2.0], [4.0]]), 0)], m)
    assert m[0].running_mean.tolist() == [2.0] and m[0].running_var.tolist() == [2.0] and m[0].momentum == 0.1
    assert not m.training
    p = torch.ones(1, requires_grad=True)
    p.grad = torch.ones(1)
    opt = torch.optim.SGD([p], 0.1)
    sched, rates = swa_utils.SWALR(opt, 0.02, anneal_epochs=2, anneal_strategy="linear"), []
    for _ in range(4):
        opt.step()
        sched.step()
        rates += sched.get_last_lr()
    assert rates == pytest.approx([0.06, 0.02, 0.02, 0.02])


def test_adaptive_softmax():
    torch.manual_seed(0)
    m = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [2, 5], div_value=2.0)
    assert [tuple(p.shape) for p in m.parameters()] == [(4, 4), (2, 4), (3, 2), (1, 4), (5, 1)]
    x, y = torch.rand(6, 4).requires_grad_(), torch.tensor([0, 1, 2, 5, 9, 4])
    logs = m.log_prob(x)
    np.testing.assert_allclose(logs.exp().sum(1).tolist(), [1.0] * 6, rtol=1e-5)
    out, loss = m(x, y)
    np.testing.assert_allclose(out.tolist(), logs[torch.arange(6), y].tolist(), rtol=1e-5)
    assert loss.item() == pytest.approx(-out.mean().item()) and m.predict(x).tolist() == logs.argmax(1).tolist()
    (g,) = torch.autograd.grad(loss, x, retain_graph=True)
    (want,) = torch.autograd.grad(-logs[torch.arange(6), y].mean(), x)
    np.testing.assert_allclose(g.tolist(), want.tolist(), atol=1e-6)
    assert m(x[3], y[3]).output.item() == pytest.approx(out[3].item(), rel=1e-5)
    for bad in ([5, 2], [2, 10], [0, 3], [2, 2], []):
        with pytest.raises(ValueError, match="cutoffs"):
            nn.AdaptiveLogSoftmaxWithLoss(4, 10, bad)
    with pytest.raises(RuntimeError, match="Target values"):
        m(x, y + 5)
    with pytest.raises(RuntimeError, match="same size"):
        m(x, y[:2])


def ramp():
    m = nn.Linear(4, 3)
    with torch.no_grad():
        m.weight.copy_(torch.arange(12.0).view(3, 4) - 5)
    return m


def test_pruning_keeps_the_parameter_and_a_mask():
    m = ramp()
    assert prune.l1_unstructured(m, "weight", amount=0.25) is m and prune.is_pruned(m)
    assert sorted(m.state_dict()) == ["bias", "weight_mask", "weight_orig"] and type(m.weight) is torch.Tensor
    assert m.weight.tolist() == [[-5, -4, -3, -2], [0, 0, 0, 2], [3, 4, 5, 6]]
    prune.ln_structured(m, "weight", amount=1, n=2, dim=0)
    assert m.weight_mask.tolist() == [[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]]
    m(torch.ones(1, 4)).sum().backward()
    assert m.weight_orig.grad.tolist() == m.weight_mask.tolist()
    prune.custom_from_mask(m, "bias", torch.tensor([1, 0, 1]))
    prune.remove(m, "weight")
    assert isinstance(m.weight, nn.Parameter) and m.weight.tolist() == [[-5, -4, -3, -2], [0] * 4, [3, 4, 5, 6]]
    assert prune.is_pruned(m) and "weight_mask" not in dict(m.named_buffers())
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(m, "weight")


def test_pruning_of_several_and_refusals():
    m, k = ramp(), nn.Linear(2, 1)
    with torch.no_grad():
        k.weight.copy_(torch.tensor([[0.5, -9.0]]))
    prune.global_unstructured([(m, "weight"), (k, "weight")], prune.L1Unstructured, amount=4)
    assert k.weight.tolist() == [[0, -9]] and m.weight_mask.sum() == 9
    for amount, error in ((-1, ValueError), (1.5, ValueError), ("a", TypeError), (100, ValueError)):
        with pytest.raises(error):
            prune.l1_unstructured(nn.Linear(2, 2), "weight", amount)
    fresh = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="multidimensional"):
        prune.ln_structured(fresh, "bias", amount=1, n=2, dim=0)
    assert sorted(fresh.state_dict()) == ["bias", "weight"]
    assert prune.L1Unstructured(amount=2).prune(torch.tensor([3.0, -1.0, 2.0, 0.5])).tolist() == [3, 0, 2, 0]
