"""Optimizers against plain numpy formulas, their state, options, hooks and schedulers."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn, optim

ALL = [
    (optim.SGD, {"lr": 0.05}),
    (optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.Adam, {"lr": 0.05, "amsgrad": True}),
    (optim.AdamW, {"lr": 0.05}),
    (optim.RMSprop, {"lr": 0.02, "momentum": 0.5, "centered": True}),
    (optim.Adagrad, {"lr": 0.3}),
    (optim.Adadelta, {"lr": 5.0}),
    (optim.Adamax, {"lr": 0.1}),
    (optim.NAdam, {"lr": 0.05}),
    (optim.RAdam, {"lr": 0.1}),
    (optim.ASGD, {"lr": 0.05}),
    (optim.Rprop, {"lr": 0.05}),
]


def problem(seed=0):
    rng = np.random.default_rng(seed)
    w = fg.tensor(rng.normal(size=(4, 2)), requires_grad=True)
    x, y = fg.tensor(rng.normal(size=(16, 4))), fg.tensor(rng.normal(size=(16, 2)))
    return w, lambda: ((x @ w - y) ** 2).mean()


def run(opt, loss, steps):
    values = []
    for _ in range(steps):
        opt.zero_grad()
        value = loss()
        value.backward()
        opt.step()
        values.append(value.item())
    return values


@pytest.mark.parametrize(("cls", "settings"), ALL, ids=lambda v: getattr(v, "__name__", ""))
def test_descends_and_resumes(cls, settings):
    w, loss = problem()
    opt = cls([w], **settings)
    values = run(opt, loss, 40)
    assert values[-1] < values[0]
    saved, state = w.detach().clone(), copy.deepcopy(opt.state_dict())
    expected = run(opt, loss, 5)
    w2, loss2 = problem()
    with fg.no_grad():
        w2.copy_(saved)
    again = cls([w2], **settings)
    again.load_state_dict(state)
    np.testing.assert_allclose(run(again, loss2, 5), expected, rtol=1e-12)


def test_adam_follows_the_paper():
    w, loss = problem()
    p, m, v = w.detach().numpy().copy(), 0.0, 0.0
    opt = optim.Adam([w], lr=0.1, betas=(0.8, 0.9), eps=1e-6)
    for t in range(1, 6):
        opt.zero_grad()
        loss().backward()
        g = w.grad.numpy().copy()
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        p = p - 0.1 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.9**t)) + 1e-6)
        opt.step()
        np.testing.assert_allclose(w.detach().numpy(), p, rtol=1e-10)
    assert opt.state[w]["step"].item() == 5


def test_fast_and_general_updates_agree():
    """Contiguous arrays take the fused path, a transposed parameter the operators."""
    one, loss = problem()
    base = fg.tensor(one.detach().numpy().T.copy())
    two = base.t().requires_grad_()
    assert not two.is_contiguous()
    for cls in (optim.Adam, optim.SGD):
        a, b = cls([one], lr=0.1), cls([two], lr=0.1)
        for _ in range(3):
            g = fg.randn(4, 2, dtype=fg.float64)
            one.grad, two.grad = g, g.clone()
            a.step()
            b.step()
        np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), rtol=1e-12)


def test_step_counts_versions():
    w, loss = problem()
    opt = optim.Adam([w])
    out = (w * w).sum()
    loss().backward()
    opt.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_groups_and_errors():
    a, b = fg.ones(1, requires_grad=True), fg.ones(1, requires_grad=True)
    opt = optim.SGD([{"params": [a], "lr": 1.0}, {"params": [b]}], lr=0.1)
    a.grad, b.grad = fg.ones(1), fg.ones(1)
    opt.step()
    assert a.item() == 0.0 and abs(b.item() - 0.9) < 1e-7
    with pytest.raises(ValueError, match="more than one parameter group"):
        opt.add_param_group({"params": [a]})
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([], lr=1)
    with pytest.raises(TypeError, match="iterable of Tensors"):
        optim.SGD(a, lr=1)
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([a * 2], lr=1)
    with pytest.raises(ValueError, match="Invalid learning rate"):
        optim.Adam([a], lr=-1)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.SGD([a], lr=1).load_state_dict(opt.state_dict())


def test_maximize_and_closure():
    a = fg.zeros(1, requires_grad=True)
    opt = optim.SGD([a], lr=1.0, maximize=True)

    def closure():
        opt.zero_grad()
        loss = 3 * a.sum()
        loss.backward()
        return loss

    assert opt.step(closure).item() == 0.0 and a.item() == 3.0


def test_hooks():
    w, loss = problem()
    opt, seen = optim.SGD([w], lr=0.1), []
    opt.register_step_pre_hook(lambda o, args, kw: seen.append("pre"))
    handle = opt.register_step_post_hook(lambda o, args, kw: seen.append("post"))
    run(opt, loss, 1)
    handle.remove()
    run(opt, loss, 1)
    assert seen == ["pre", "post", "pre"]


def test_lbfgs_minimises_a_quadratic():
    w, loss = problem()
    opt = optim.LBFGS([w], line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        value = loss()
        value.backward()
        return value

    opt.step(closure)
    loss().backward()
    assert w.grad.abs().max().item() < 1e-5
    with pytest.raises(TypeError, match="closure"):
        opt.step()


def rates(make, steps):
    w = fg.ones(1, requires_grad=True)
    opt = optim.SGD([w], lr=1.0, momentum=0.9)
    scheduler = make(opt)
    out = []
    for _ in range(steps):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    return out


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: optim.lr_scheduler.StepLR(o, 2, 0.1), [1, 1, 0.1, 0.1, 0.01]),
        (lambda o: optim.lr_scheduler.MultiStepLR(o, [1, 3], 0.5), [1, 0.5, 0.5, 0.25, 0.25]),
        (lambda o: optim.lr_scheduler.ExponentialLR(o, 0.5), [1, 0.5, 0.25, 0.125]),
        (lambda o: optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)), [1, 0.5, 1 / 3, 0.25]),
        (lambda o: optim.lr_scheduler.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1, 1]),
        (lambda o: optim.lr_scheduler.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1, 1]),
        (lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 2), [1, 0.5, 0, 0.5, 1]),
        (lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2), [1, 0.5, 1, 0.5]),
        (lambda o: optim.lr_scheduler.PolynomialLR(o, 4), [1, 0.75, 0.5, 0.25, 0, 0]),
        (
            lambda o: optim.lr_scheduler.SequentialLR(
                o, [optim.lr_scheduler.ConstantLR(o, 0.1, 2), optim.lr_scheduler.ExponentialLR(o, 0.5)], [2]
            ),
            [0.1, 0.1, 1, 0.5],
        ),
    ],
)
def test_schedulers(make, expected):
    np.testing.assert_allclose(rates(make, len(expected)), expected, atol=1e-12)


def test_one_cycle_reaches_its_maximum_and_moves_momentum():
    w = fg.ones(1, requires_grad=True)
    opt = optim.SGD([w], lr=0.1, momentum=0.9)
    scheduler = optim.lr_scheduler.OneCycleLR(opt, max_lr=1.0, total_steps=10)
    seen = []
    for _ in range(10):
        seen.append((opt.param_groups[0]["lr"], opt.param_groups[0]["momentum"]))
        opt.step()
        if len(seen) < 10:
            scheduler.step()
    lrs = [lr for lr, _ in seen]
    assert max(lrs) == pytest.approx(1.0) and lrs[0] == pytest.approx(0.04) and lrs[-1] < 1e-4
    assert seen[lrs.index(max(lrs))][1] == pytest.approx(0.85)


def test_reduce_on_plateau():
    w = fg.ones(1, requires_grad=True)
    opt = optim.SGD([w], lr=1.0)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.1)
    for metric in (1.0, 1.0, 1.0, fg.tensor(1.0)):
        scheduler.step(metric)
    assert opt.param_groups[0]["lr"] == pytest.approx(0.1)


def test_clip_grad():
    p = fg.zeros(3, requires_grad=True)
    p.grad = fg.tensor([3.0, 0.0, 4.0])
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(5.0)
    assert p.grad.norm().item() == pytest.approx(1.0, rel=1e-5)
    nn.utils.clip_grad_value_([p], 0.5)
    assert p.grad.max().item() == 0.5
    p.grad = fg.full((3,), float("nan"))
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


@pytest.mark.parametrize("reset", ["optimizer", "module"])
def test_zeroed_gradients_stay_the_same_tensors(reset):
    """zero_grad(set_to_none=False) writes zeros into the gradients: whoever holds one sees them."""
    m = fg.nn.Linear(2, 1, bias=False)
    o = fg.optim.SGD(m.parameters(), lr=0.1)
    (m.weight * m.weight).sum().backward(create_graph=True)
    held = m.weight.grad
    for zero in (lambda: (o if reset == "optimizer" else m).zero_grad(set_to_none=False),) * 2:
        for f in (zero, fg.compile(zero)):
            f()
            assert m.weight.grad is held and held.tolist() == [[0, 0]] and not held.requires_grad
            m.weight.grad.add_(1)


def test_state_dict_of_an_optimizer_without_state():
    p = fg.ones(2, requires_grad=True)
    o = fg.optim.SGD([p], lr=0.1)
    p.grad = fg.ones(2)
    o.step()
    assert o.state_dict()["state"] == {}


def test_fused_and_foreach_exclude_each_other() -> None:
    p = [fg.nn.Parameter(fg.ones(2))]
    for make in (optim.Adam, optim.AdamW, optim.SGD, optim.Adagrad):
        with pytest.raises(RuntimeError, match="`fused` and `foreach`"):
            make(p, lr=0.1, fused=True, foreach=True)
        with pytest.raises(RuntimeError, match="`fused` does not support"):
            make(p, lr=0.1, fused=True, differentiable=True)


def test_text_of_two_groups_has_an_empty_line_between() -> None:
    o = optim.SGD([{"params": [fg.nn.Parameter(fg.ones(1))]}, {"params": [fg.nn.Parameter(fg.ones(1))]}], lr=0.1)
    assert "weight_decay: 0\n\nParameter Group 1\n" in repr(o)


def test_total_norm_of_order_zero_counts_gradients() -> None:
    """The norm of the norms, as in PyTorch: with order 0 the number of gradients that are not all zero."""
    for grads, total in (([fg.tensor([3.0, 4.0])], 1.0), ([fg.ones(2), fg.zeros(2), fg.ones(1)], 2.0)):
        assert fg.nn.utils.get_total_norm(grads, 0.0).item() == total


@pytest.mark.parametrize(
    "options, w_want, v_want",
    [
        ({}, [[0.05714, 0.69212, 0.97884], [0.04425, -0.7555, -0.80754]],
         [[0.91005, 0.63724], [-0.36533, -0.81831], [-0.48537, 0.26549]]),
        ({"nesterov": False, "adjust_lr_fn": "match_rms_adamw"},
         [[0.01726, 0.78109, 0.90979], [0.10383, -0.74444, -0.90416]],
         [[0.95103, 0.57625], [-0.39238, -0.93461], [-0.60118, 0.2816]]),
    ],
)  # fmt: skip
def test_muon_makes_its_steps_orthogonal(options, w_want, v_want):
    w = nn.Parameter(fg.arange(6.0).view(2, 3).sin())
    v = nn.Parameter(fg.arange(6.0).view(3, 2).cos())
    opt = optim.Muon([w, v], lr=0.1, **options)
    for _ in range(2):
        opt.zero_grad()
        ((w @ v) ** 2).sum().backward()
        opt.step()
    np.testing.assert_allclose(w.detach().numpy(), w_want, atol=1e-4)
    np.testing.assert_allclose(v.detach().numpy(), v_want, atol=1e-4)
    assert list(opt.state_dict()["state"][0]) == ["momentum_buffer"]


def test_muon_takes_matrices_only():
    with pytest.raises(ValueError, match="2D"):
        optim.Muon([nn.Parameter(fg.ones(3))])
    with pytest.raises(ValueError, match="Adjust"):
        optim.Muon([nn.Parameter(fg.ones(3, 3))], adjust_lr_fn="x")


@pytest.mark.parametrize(
    "make,options",
    [
        (optim.RMSprop, {}),
        (optim.Adagrad, {}),
        (optim.RAdam, {}),
        (optim.Adam, {}),
        (optim.Adam, {"weight_decay": 0.1}),
    ],
)
def test_derivatives_through_two_steps(make, options) -> None:
    def stepped(w):
        p = w.clone()
        opt = make([p], lr=0.1, differentiable=True, **options)
        for k in range(2):
            p.grad = (w + k) ** 2
            opt.step()
        return p.sum()

    w = fg.tensor([1.0, 2.0], dtype=fg.float64, requires_grad=True)
    (g,) = fg.autograd.grad(stepped(w), w)
    for i in range(2):
        d = fg.zeros(2, dtype=fg.float64)
        d[i] = 1e-6
        with fg.no_grad():
            near = (stepped(w + d) - stepped(w - d)) / 2e-6
        assert abs(g[i].item() - near.item()) < 1e-5
