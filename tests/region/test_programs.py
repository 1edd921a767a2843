"""Whole training steps: one region, no break, at most two compiles with a smaller last batch, state as in eager."""

import numpy as np
import pytest
from programs import PROGRAMS

import fusegrad as T

nn = T.nn


def leaves(v, path=""):
    """(path, leaf) of nested dicts, lists and tuples."""
    if isinstance(v, dict):
        for k, x in v.items():
            yield from leaves(x, f"{path}.{k}")
    elif isinstance(v, (list, tuple)):
        for k, x in enumerate(v):
            yield from leaves(x, f"{path}[{k}]")
    else:
        yield path, v


def same(got, want, tol=2e-5):
    got, want = list(leaves(got)), list(leaves(want))
    assert [p for p, _ in got] == [p for p, _ in want]
    for (path, a), (_, b) in zip(got, want, strict=True):
        assert type(a) is type(b), path
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape, path
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol, err_msg=path)
        else:
            assert a == b, path


def train(make, compiled):
    program = make(T)
    before = [id(p) for p in program.parameters()]
    T.manual_seed(1)
    f = T.compile(program.step) if compiled else program.step
    outs = [f(*batch) for batch in program.batches]
    outs = [np.array(x.numpy()) for y in outs for x in (y if isinstance(y, tuple) else (y,))]
    assert [id(p) for p in program.parameters()] == before
    assert {id(p) for g in program.opt.param_groups for p in g["params"]} <= set(before)
    return {"outs": outs, **program.state(), "random": T.rand(3).tolist()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    T.compiler.reset()
    got = train(PROGRAMS[name], True)
    s = T.compiler.stats()
    assert s["graph_breaks"] == s["plain_frames"] == 0, s["break_reasons"]
    assert s["compiles"] == s["graphs"] <= 2, s["recompile_reasons"]
    same(got, train(PROGRAMS[name], False))


O = T.optim
OPTIMIZERS = {
    "sgd": lambda p: O.SGD(p, 0.1),
    "momentum": lambda p: O.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda p: O.SGD(p, 0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": lambda p: O.Adam(p, 0.1),
    "amsgrad": lambda p: O.AdamW(p, 0.1, amsgrad=True),
    "rmsprop": lambda p: O.RMSprop(p, 0.1, momentum=0.5, centered=True),
    "adagrad": lambda p: O.Adagrad(p, 0.1, initial_accumulator_value=0.3),
    "adadelta": lambda p: O.Adadelta(p, 0.1),
    "adamax": lambda p: O.Adamax(p, 0.1),
    "nadam": lambda p: O.NAdam(p, 0.1),
    "radam": lambda p: O.RAdam(p, 0.1),
    "asgd": lambda p: O.ASGD(p, 0.1),
    "rprop": lambda p: O.Rprop(p, 0.1),
    "adafactor": lambda p: O.Adafactor(p, 0.1),
}  # fmt: skip


def state_of(opt):
    return {"groups": [{k: v for k, v in g.items() if k != "params"} for g in opt.param_groups],
            "state": [{k: np.array(v.numpy()) for k, v in opt.state[p].items()} if p in opt.state else None
                      for g in opt.param_groups for p in g["params"]]}  # fmt: skip


def problem(make):
    """Two parameters that get gradients (one has zeros in it), one that gets none."""
    T.manual_seed(0)
    w, b, unused = T.randn(3, 4), T.tensor([0.5, -0.0, 2.0, 0.0]), T.ones(2)
    params = [v.requires_grad_() for v in (w, b, unused)]
    opt = make(params)

    def step(x, scale):
        opt.zero_grad()
        ((x @ w).tanh() * scale * b).sum().backward()
        opt.step()

    return params, opt, step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_first_step_is_like_the_later_ones(name):
    """One compile for the step that makes the state and those that use it; everything as in eager after each."""
    T.compiler.reset()
    scale = T.tensor([1.0, 0.0, -0.0, -2.0])  # gradients of both zeros
    (p1, o1, s1), (p2, o2, s2) = problem(OPTIMIZERS[name]), problem(OPTIMIZERS[name])
    c = T.compile(s1)
    for k in range(4):
        x = T.ones(2, 3) * (k + 1)
        c(x, scale), s2(x, scale)
        same(state_of(o1), state_of(o2))
        for a, b in zip(p1, p2, strict=True):
            same(np.array(a.detach().numpy()), np.array(b.detach().numpy()))
            assert (a.grad is None) is (b.grad is None)
            assert (np.signbit(a.detach().numpy()) == np.signbit(b.detach().numpy())).all()
        if k == 0 and name == "momentum":
            for a, b in zip(p1[:2], p2[:2], strict=True):
                buffers = [o.state[p]["momentum_buffer"].numpy() for o, p in ((o1, a), (o2, b))]
                assert (np.signbit(buffers[0]) == np.signbit(buffers[1])).all()
    s = T.compiler.stats()
    assert s["compiles"] == 1 and not s["graph_breaks"] and not s["plain_frames"], s


def test_dampening_has_a_first_step_of_its_own():
    T.compiler.reset()
    (p1, o1, s1), (p2, o2, s2) = (problem(lambda p: O.SGD(p, 0.1, momentum=0.9, dampening=0.5)) for _ in range(2))
    c = T.compile(s1)
    for _ in range(3):
        c(T.ones(2, 3), T.ones(4)), s2(T.ones(2, 3), T.ones(4))
        same(state_of(o1), state_of(o2))
    assert T.compiler.stats()["compiles"] == 2


def test_an_error_in_the_first_step_leaves_no_state():
    """State made for a call is taken away when the call turns out to fail before it."""
    model = nn.Linear(2, 3)
    opt = O.Adam(model.parameters(), 0.1)

    @T.compile
    def step(x, y):
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()

    for _ in range(2):
        with pytest.raises(IndexError):
            step(T.ones(2, 2), T.tensor([0, 7]))
        assert not opt.state
    step(T.ones(2, 2), T.tensor([0, 2]))
    assert len(opt.state) == 2 and opt.state[model.weight]["step"].item() == 1


def test_a_break_before_the_step_and_an_error_at_it():
    w = T.ones(2, requires_grad=True)
    opt = O.Adam([w], 0.1)
    seen = []

    def look():
        seen.append(len(opt.state))
        if len(seen) == 1:
            raise ValueError("first")

    look = T.compiler.disable(look)

    @T.compile
    def step(x):
        opt.zero_grad()
        (w * x).sum().backward()
        look()
        opt.step()

    with pytest.raises(ValueError):
        step(T.ones(2))
    assert not opt.state
    step(T.ones(2))
    step(T.ones(2))
    assert seen == [0, 0, 1] and opt.state[w]["step"].item() == 2


def test_hooks_and_own_subclasses_see_no_early_state():
    """State is made early only where nothing can look at it in between."""
    seen = []

    class Mine(O.Adam):
        def _start(self, p, state, group):
            seen.append(float(p.detach().sum()))
            super()._start(p, state, group)

    def run(compiled):
        seen.clear()
        w = T.ones(2, requires_grad=True)
        opt = Mine([w], 0.1)

        def step(x):
            opt.zero_grad()
            (w * x).sum().backward()
            with T.no_grad():
                w.mul_(3.0)
            opt.step()

        f = T.compile(step) if compiled else step
        for _ in range(3):
            f(T.ones(2))
        return list(seen), w.tolist(), state_of(opt)

    same(run(True), run(False))


def test_settings_changed_in_the_step():
    """Initial state that depends on a setting which the step itself changes."""

    def run(compiled):
        w = T.ones(2, requires_grad=True)
        opt = O.Rprop([w], 0.1)

        def step(x):
            for g in opt.param_groups:
                g["lr"] = 0.25
            opt.zero_grad()
            (w * x).sum().backward()
            opt.step()

        f = T.compile(step) if compiled else step
        for _ in range(3):
            f(T.ones(2))
        return w.tolist(), state_of(opt)

    same(run(True), run(False))


def test_gradients_that_are_replaced_need_no_guard():
    """zero_grad at the start: whatever stands in ``.grad``, one compile; where it is read, it is guarded."""
    w = T.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()

    T.compiler.reset()
    c = T.compile(step)
    for g in (None, T.zeros(3), T.ones(3), None):
        w.grad = g
        c(T.full((3,), 2.0))
        assert w.grad.tolist() == [2.0] * 3 and w.grad is not g
    assert T.compiler.stats()["compiles"] == 1

    def adds(x):
        (w * x).sum().backward()

    c = T.compile(adds)
    for g, want in ((None, 2.0), (T.ones(3), 3.0), (None, 2.0)):
        w.grad = g
        c(T.full((3,), 2.0))
        assert w.grad.tolist() == [want] * 3
    old = w.grad
    T.compile(lambda: setattr(w, "grad", None))()
    assert w.grad is None and old.tolist() == [2.0] * 3


class Counter:
    def __init__(self):
        self.n, self.x, self.items, self.d = 0, 1.0, [0, 5], {"k": 0}


total = 0


def test_numbers_that_the_code_itself_changes_compile_once():
    """A counter in an attribute, item, list, global or cell is a run-time input from the first compile on."""
    cell = 0.5

    def f(c, x):
        global total
        nonlocal cell
        c.n += 1
        c.x *= 0.5
        c.items[0] += 2
        c.d["k"] += 1
        total += 1
        cell += 0.25
        return x * c.n + c.x * c.items[0] + c.d["k"] * total + cell

    T.compiler.reset()
    counter, k = Counter(), T.compile(f)
    got = [k(counter, T.ones(2)).tolist() for _ in range(5)]
    counts = (counter.n, counter.x, counter.items, counter.d, total, cell)
    s = T.compiler.stats()
    assert s["compiles"] == 1, s["recompile_reasons"]
    globals()["total"], cell = 0, 0.5
    counter = Counter()
    assert got == [f(counter, T.ones(2)).tolist() for _ in range(5)]
    assert counts == (counter.n, counter.x, counter.items, counter.d, total, cell)


def test_values_of_which_only_the_shape_matters():
    """ones_like of a product whose array does not exist yet when the ones are written; sizes known at run time only."""
    w, v, b = T.randn(3, 1), T.randn(1, 4), T.randn(1)

    def f(x):
        u = x @ w + b
        return T.ones_like(u) @ v, u * 2, T.zeros_like(u.tanh()) + 1

    c = T.compile(f, options={"cache": False, "check": True})
    for n in (200, 197, 150):
        x = T.randn(n, 3)
        for got, want in zip(c(x), f(x), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_pinn_of_a_usual_size():
    same(*(train(lambda T: PROGRAMS["pinn"](T, width=16, points=200), c) for c in (True, False)), tol=1e-3)
