"""What forward changes besides its state and arguments: tensors it makes itself may change, others are refused."""

from __future__ import annotations

import gc
import pathlib
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fusegrad.export import ExportError, InputError, export, load, save

import fusegrad as T
from fusegrad import nn


def _made() -> Any:
    return T.tensor([0.0, 1.0])


def _item(x: Any) -> Any:
    t = _made()
    t[0] = x[0]
    return t * 2


def _item_of_a_result(x: Any) -> Any:
    t = _made() * 2
    t[1] = x[0]
    return t + 1


def _item_like_another(x: Any) -> Any:
    t = T.zeros_like(_made())
    t[1] = x[0]
    return t + 1


def _rows(x: Any) -> Any:
    t = T.tensor([[0.0, 0.0], [0.0, 0.0]])
    for i in range(2):
        t[i] = x * i
    return t.sum(0)


def _number_after_use(x: Any) -> Any:
    t = _made()
    y = x + t
    t[0] = 5
    return y, x + t


def _view_after_use(x: Any) -> Any:
    t = _made()
    v = t[:1]
    y = x + t
    v.add_(1)
    return y, x + t, x + v


def _numbers_then_tensors(x: Any) -> Any:
    t = _made()
    t.mul_(3)
    t.add_(x)
    t.mul_(2)
    return t


def _copied_into_a_view(x: Any) -> Any:
    t = _made()
    v, same = t[:1], t.detach()
    v.copy_(x[:1])
    return t + 1, v * 2, same


def _out(x: Any) -> Any:
    t = _made()
    T.add(x, 1, out=t)
    return t + 1


def _other_memory(x: Any) -> Any:
    t = _made()
    y = x * t
    t.data = T.tensor([3.0, 4.0])
    return x + t, y


def _array(x: Any) -> Any:
    t = T.from_numpy(np.zeros(2, np.float32))
    t += x
    t += 1
    return t


def _mask(x: Any) -> Any:
    t = _made()
    t[T.tensor([False, True])] = x[1]
    return t * x


def _differentiated(x: Any) -> Any:
    w = x.detach().requires_grad_()
    t = _made()
    t[0] = w[1] * 3
    return T.autograd.grad((t * t).sum(), w)[0]


INSIDE: list[Callable[[Any], Any]] = [
    _item, _item_of_a_result, _item_like_another, _rows, _number_after_use, _view_after_use, _numbers_then_tensors,
    _copied_into_a_view, _out, _other_memory, _array, _mask, _differentiated,
]  # fmt: skip


@pytest.mark.parametrize("f", INSIDE, ids=lambda f: f.__name__.strip("_"))
def test_tensors_made_inside_may_change(f: Callable[[Any], Any]) -> None:
    program = export(f, (T.zeros(2),))
    for how in (True, False):
        run = program.module(compile=how)
        for x in (T.tensor([10.0, 20.0]), T.tensor([-1.0, 0.5])):  # twice: nothing is left of the first call
            got, want = run(x), f(x)
            for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
                assert a.tolist() == b.tolist()


OUTER = T.zeros(3)
FROZEN = nn.Parameter(T.zeros(3))


class Model(nn.Module):
    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = (change,)
        self.w = nn.Parameter(T.ones(3))
        self.plain = T.zeros(3)
        self.kept = [T.zeros(3)]
        self.optimizer = T.optim.SGD([self.w], lr=0.1)

    def forward(self, x: Any) -> Any:
        return x + self.change[0](self, x)


def _plus(self: Any, x: Any) -> Any:
    self.plain += 1
    return self.plain


def _under_no_grad(self: Any, x: Any) -> Any:
    with T.no_grad():
        return FROZEN.add_(x)


def _step(self: Any, x: Any) -> Any:
    loss = (self.w * x).sum()
    loss.backward()
    self.optimizer.step()
    self.zero_grad()
    return loss.detach()


def _backward(self: Any, x: Any) -> Any:
    loss = (self.w * x).sum()
    loss.backward()
    return loss.detach()


def _set_data(self: Any, x: Any) -> Any:
    self.plain.data = T.tensor([1.0, 1.0, 1.0])
    return self.plain


def _set_grad(self: Any, x: Any) -> Any:
    self.plain.grad = T.ones(3)
    return self.plain


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "an attribute by a number": (_plus, "register_buffer"),
    "an attribute by a tensor": (lambda self, x: self.plain.add_(x), "register_buffer"),
    "an item": (lambda self, x: self.plain.__setitem__(0, 5.0) or self.plain, "register_buffer"),
    "in a list": (lambda self, x: self.kept[0].add_(1), "register_buffer"),
    "a view": (lambda self, x: self.plain[:1].add_(1), "register_buffer"),
    "of the module that the function is in": (lambda self, x: OUTER.add_(1), "register_buffer"),
    "by a tensor, of the module that the function is in": (lambda self, x: OUTER.add_(x), "register_buffer"),
    "copied into": (lambda self, x: self.plain.copy_(x), "register_buffer"),
    "as out": (lambda self, x: T.add(x, x, out=self.plain), "register_buffer"),
    "a parameter of nobody": (_under_no_grad, "autograd.grad"),
    "an optimizer's step": (_step, "autograd.grad"),
    "gradients left behind": (_backward, r"\.grad of self\.w"),
    "other memory": (_set_data, r"\.data"),
    "a gradient set": (_set_grad, r"\.grad"),
    "the seed": (lambda self, x: T.manual_seed(3) and T.rand(3), "manual_seed"),
    "a number of random": (lambda self, x: x * random.random(), "Python's random"),
    "numbers of numpy": (lambda self, x: x * float(np.random.rand()), "numpy.random"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_changes_are_refused_and_undone(name: str) -> None:
    change, words = REFUSED[name]
    m = Model(change)
    before = (T.random.default_generator.state, random.getstate(), np.random.get_state()[1].tolist())
    with pytest.raises(ExportError, match=words) as e:
        export(m, (T.ones(3),))
    if "register_buffer" in words:
        assert str(e.value).startswith(f"{__file__}:")  # leads with the user's line
    for t in (m.plain, m.kept[0], OUTER, FROZEN):
        assert t.tolist() == [0.0, 0.0, 0.0] and t.grad is None
    assert m.w.tolist() == [1.0, 1.0, 1.0] and m.w.grad is None
    assert before == (T.random.default_generator.state, random.getstate(), np.random.get_state()[1].tolist())


def test_what_the_collector_has_put_away_counts_too() -> None:
    gc.freeze()
    try:
        test_other_changes_are_refused_and_undone("of the module that the function is in")
    finally:
        gc.unfreeze()


def test_a_training_step_by_gradients_as_values() -> None:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(T.ones(3))

        def forward(self, x: Any) -> Any:
            loss = (self.w * x).sum() ** 2
            (g,) = T.autograd.grad(loss, self.w)
            with T.no_grad():
                self.w -= 0.1 * g
            return loss.detach()

    plain, m = Step(), Step()
    run = export(m, (T.ones(3),)).module()
    for x in (T.tensor([1.0, 0.0, 2.0]), T.tensor([0.5, 1.0, 0.0])):
        assert run(x).item() == pytest.approx(plain(x).item())
    assert run.state_dict()["w"].tolist() == pytest.approx(plain.w.tolist())


@pytest.mark.parametrize("layout", [lambda t: t.T, lambda t: t[:, ::2], lambda t: t[:, :1].expand(4, 4), T.clone])
def test_constants_of_every_layout_go_through_a_file(layout: Any, tmp_path: pathlib.Path) -> None:
    w = layout(T.arange(16.0).reshape(4, 4))

    def f(x: Any) -> Any:
        return (x[:, None] + w).sum(1) * w.reshape(-1)[:4] + w.exp()[0, 0]

    save(export(f, (T.zeros(4),)), tmp_path / "c.fgx")
    x = T.tensor([1.0, 2.0, 3.0, 4.0])
    for how in (True, False):
        T.testing.assert_close(load(tmp_path / "c.fgx").module(compile=how)(x), f(x))


def _holder(forward: Any, **state: Any) -> Any:
    m = type("Holder", (nn.Module,), {"forward": forward})()
    for name, value in state.items():
        m.register_buffer(name, value)
    return m


def test_a_change_that_is_seen_through_other_memory_is_refused() -> None:
    """In a file each tensor has its own memory."""
    whole = T.zeros(4)
    views = _holder(lambda self, x: (self.a.add_(x), self.b * 2)[1], a=whole, b=whole[:2])
    with pytest.raises(ExportError, match="a is changed by forward and shares memory with b"):
        export(views, (T.ones(4),))
    attribute = _holder(lambda self, x: (self.a.add_(x), self.held["v"] * 2)[1], a=whole)
    attribute.held = {"v": whole[1:]}
    with pytest.raises(ExportError, match="shares memory with held"):
        export(attribute, (T.ones(4),))
    halves = _holder(lambda self, x: (self.a.add_(x), self.b * 2)[1], a=whole[:2], b=whole[2:])
    assert export(halves, (T.ones(2),)).module(compile=False)(T.ones(2)).tolist() == [0, 0]
    for forward in (lambda self, x: (self.a.add_(1), x + self.a)[1], lambda self, x: (x.add_(1), x + self.a)[1]):
        run = export(_holder(forward, a=T.zeros(3)), (T.zeros(3),)).module(compile=False)
        with pytest.raises(InputError, match=r"x: shares memory with self\.a, and one of the two is changed"):
            run(run.a)
        assert run(T.zeros(3)).tolist() == [1, 1, 1]


def test_other_threads_train_meanwhile() -> None:
    """Their gradients are no change by forward, and stay; exports of one module wait for one another."""
    go, w, m = threading.Event(), T.ones(2, requires_grad=True), nn.Linear(2, 2)

    def train() -> None:
        go.wait(60)
        (w * 3).sum().backward()

    other = threading.Thread(target=train)
    other.start()

    def f(x: Any) -> Any:
        go.set()
        other.join()
        return x * 2

    export(f, (T.ones(2),))
    assert w.grad.tolist() == [3, 3]
    found: list[Any] = []
    many = [threading.Thread(target=lambda: found.append(str(export(m, (T.ones(2),))))) for _ in range(4)]
    for t in many:
        t.start()
    for t in many:
        t.join()
    assert len(found) == 4 and len(set(found)) == 1 and m(T.ones(2)).shape == (2,)


def item_changed(x, i):
    x[i].add_(1)
    return x * 1


def item_of_a_result_changed(x, i):
    y = x * 2
    y[:, i].zero_()
    return y


def source_changed(x, i):
    v = x[i]
    x.mul_(2)
    return v * 1


def source_changed_and_returned(x, i):
    v = x[i]
    x.mul_(2)
    return v


def augmented(x, i):
    for k in range(2):
        x[i - k] += 1
    return x * 1


def written(x, i):
    for _ in range(2):
        x[i] = x[i - 1] * 2
    return x + 1


def used_before(x, i):
    v = x[i].sin()
    x.mul_(2)
    return v + x


@pytest.mark.parametrize("f", [item_changed, item_of_a_result_changed, source_changed, source_changed_and_returned])
def test_items_at_a_tensor_without_dimensions_are_views(f):
    """Where they lie depends on data: what is written to them would be lost in a program."""
    with pytest.raises(ExportError, match="an item at the place that a 0-d tensor says is a view"):
        export(f, (T.ones(2, 2), T.tensor(1)))


@pytest.mark.parametrize("f", [augmented, written, used_before])
def test_items_at_a_tensor_without_dimensions_that_need_no_view(f):
    x, program = T.arange(4.0).view(2, 2), export(f, (T.ones(2, 2), T.tensor(1))).module()
    for place in (0, 1):
        a, b = x.clone(), x.clone()
        assert program(a, T.tensor(place)).tolist() == f(b, T.tensor(place)).tolist() and a.tolist() == b.tolist()
