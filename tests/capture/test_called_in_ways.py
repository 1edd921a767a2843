"""What the fuzzer found with programs called in other ways (tests/fuzz/fuzz_callers.py): compiled code called inside of
transforms, errors about hooks, numbers that are NaN or missing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fusegrad as T
from fusegrad import nn

OPTIONS = [{}, {"interpret": True}]
BUFFER = T.zeros(3)
TABLE = {"rate": 0.5}


def changed(u, log):
    log.append("before")
    BUFFER.add_(1)
    return (u * BUFFER).sum()


def changed_in_part(u, log):
    log.append("before")
    BUFFER[1:].view(-1)[0] = 2
    return (u * BUFFER).sum()


def drawn(u, log):
    log.append(T.rand(1).item())
    BUFFER.copy_(T.rand(3))
    return (u * BUFFER).sum()


def given_out(u, log):
    log.append("before")
    T.sin(u.detach(), out=BUFFER)  # PyTorch lets this through
    return (u * BUFFER).sum()


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("fn", [changed, changed_in_part, drawn, given_out])
def test_a_write_that_a_transform_refuses_comes_after_what_was_before_it(fn, options):
    """The effects before it stay, the line and the shape are those of the write, draws are drawn once."""

    def outcome(f):
        T.manual_seed(1)
        BUFFER.zero_()
        log = []
        try:
            out = T.func.grad(f)(T.ones(3), log).tolist()
        except RuntimeError as e:
            tb = e.__traceback__
            lines = []
            while tb is not None:
                if tb.tb_frame.f_code.co_name == fn.__name__:
                    lines.append(tb.tb_lineno)
                tb = tb.tb_next
            out = str(e), lines[-1]
        return out, log, BUFFER.tolist(), T.rand(1).item()

    compiled = T.compile(fn, options=options)
    want = outcome(fn)
    assert outcome(compiled) == want and outcome(compiled) == want and want[1]
    assert (fn is given_out) == (type(want[0]) is list)


def seven(g):
    return T.ones(7)


@pytest.mark.parametrize("hook", [seven, lambda g: g.double(), lambda g: 3])
@pytest.mark.parametrize("outside", [True, False])
def test_errors_about_hooks_tell_their_names(hook, outside):
    def f(x, log):
        if outside:
            inner = hook
        else:

            def inner(g):
                return hook(g)

        w = x.detach().requires_grad_() * 1
        w.register_hook(inner)
        try:
            w.sum().backward()
        except (RuntimeError, TypeError) as e:
            log.append(str(e))
        return x

    want, got = [], []
    f(T.ones(4), want)
    T.compile(f)(T.ones(4), got)
    assert got == want and (hook.__name__ if outside else "inner") in want[0]


def percent(x, s, n, key):
    return x, "%s %05.1f %x" % (key, s, n)  # noqa: UP031


def formatted(x, s, n, key):
    return x, f"{key} {s} {n:+d}" + "{} {} {}".format(n, float("-inf"), s) + str([s, np.float64(2.5), n])


@pytest.mark.parametrize("fn", [percent, formatted])
def test_text_of_numbers_that_change_beside_some_that_are_not_finite(fn):
    """The text of NaN and infinity is no name of Python's: generated code raised a NameError."""
    compiled = T.compile(fn, options={"interpret": True})
    for s, n in ((0.5, 1), (1.5, 2), (math.nan, 2), (math.nan, 3), (math.inf, 4), (-0.0, 5), (-math.inf, 6)):
        assert compiled(T.ones(2), s, n, "a")[1] == fn(T.ones(2), s, n, "a")[1]


def test_a_float_that_was_compared_is_missing_at_a_later_call():
    """The compiler took what it did not find for a float that changes, and raised a TypeError of its own."""

    def f(x):
        return sorted((TABLE["rate"], 1)), x

    compiled = T.compile(f, dynamic=True)
    try:
        for rate in (0.5, 1.5, 0.25):
            TABLE["rate"] = rate
            assert compiled(T.ones(2))[0] == sorted((rate, 1))
        del TABLE["rate"]
        with pytest.raises(KeyError, match="rate"):
            compiled(T.ones(2))
    finally:
        TABLE["rate"] = 0.5


@pytest.mark.parametrize("dynamic", [True, None])
def test_errors_of_a_backward_tell_sizes_that_change(dynamic):
    """The failing call was given a 0-d tensor; its message told of the symbol of a size."""

    def f(x, log):
        w = x.detach().requires_grad_() * 1
        w.register_hook(lambda g: T.ones(7))
        try:
            w.sum().backward()
        except RuntimeError as e:
            log.append(str(e))
        return x

    compiled = T.compile(f, dynamic=dynamic)
    for n in (4, 5, 6, 0):
        want, got = [], []
        f(T.ones(n), want)
        compiled(T.ones(n), got)
        assert got == want and f"[{n}] to [7]" in got[0]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("given", [True, False])
def test_out_of_another_size_is_resized(options, dynamic, given):
    """A result of one element was written to all of them."""

    def f(z, n, into):
        into = into if given else T.zeros(n)
        shown = T.sum(z, 1, out=into)
        return shown, into * 1, into.shape

    compiled = T.compile(f, options=options, dynamic=dynamic)
    for m, n in ((3, 3), (2, 2), (1, 3), (1, 1), (4, 2), (0, 2), (3, 0), (1, 0), (2, 2)):
        z = T.arange(3.0 * m).view(m, 3)
        one, two = T.zeros(n), T.zeros(n)
        want, got = f(z, n, one), compiled(z, n, two)
        assert [t.tolist() for t in got[:2]] == [t.tolist() for t in want[:2]] and got[2] == want[2] == (m,)
        assert one.tolist() == two.tolist() and one._version == two._version


def layer_made_inside(z, w):
    return nn.Linear(3, 3)(z)


def leaf_behind_an_operator(z, w):
    return z @ (T.ones(3, requires_grad=True) * 2)


def leaf_beside_another(z, w):
    return z * T.ones(3, requires_grad=True) + w * 2


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("fn", [layer_made_inside, leaf_behind_an_operator, leaf_beside_another])
@pytest.mark.parametrize("asked", [False, True], ids=["backward", "grad"])
def test_what_is_kept_for_a_leaf_made_inside_may_not_change(fn, options, asked):
    """Nobody sees the gradient of such a leaf; eager code computes it, and refuses where what it needs was changed.
    ``autograd.grad`` of other leaves goes past it."""

    def outcome(f, change):
        z, w = T.ones(2, 3), T.ones(3, requires_grad=True)
        out = f(z, w).sum()
        if change:
            z.add_(1)
        try:
            if asked:
                return T.autograd.grad(out, w, allow_unused=True)[0] is None
            out.backward()
            return w.grad is None
        except RuntimeError as e:
            return str(e)[:30]

    compiled = T.compile(fn, options=options)
    for change in (False, True, False):
        want = outcome(fn, change)
        assert outcome(compiled, change) == want
        assert (type(want) is str) == (change and not asked)


def writes(y):
    BUFFER.add_(1)
    return y * BUFFER.sum()


def keeps(y):
    return (BUFFER * BUFFER).sum() * y


@pytest.mark.parametrize("fn, asks", [(writes, False), (keeps, True)])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_global_that_becomes_an_inference_tensor(fn, asks, options, monkeypatch):
    """Its mark was guarded for arguments alone, and not for leaves that ask for gradients: no error."""
    compiled = T.compile(fn, options=options)

    def given(y, buffer):
        return (buffer * buffer).sum() * y

    with_argument = T.compile(given, options=options)
    for k in range(4):
        with T.inference_mode(k == 2):
            buffer = T.ones(3, requires_grad=asks)
        monkeypatch.setitem(globals(), "BUFFER", buffer)
        if k != 2:
            assert compiled(T.ones(2)).shape == with_argument(T.ones(2), buffer).shape == (2,)
            continue
        for run in (fn, compiled):
            with pytest.raises(RuntimeError, match="nference"):
                run(T.ones(2))
        if asks:
            for call in (given, with_argument):
                with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
                    call(T.ones(2), buffer)


class Old(T.autograd.Function):
    @staticmethod
    def forward(ctx, u):
        return u * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("options", OPTIONS)
def test_a_custom_function_without_setup_context_is_refused_by_transforms(options):
    """Also where it was compiled outside of any."""
    compiled = T.compile(lambda u: Old.apply(u).sum(), options=options)
    for _ in range(3):
        for asks in (False, True):
            u = T.ones(2, requires_grad=asks)
            assert compiled(u).item() == compiled(u * 1).item() == 4.0
            for given in (u, u * 1):
                with pytest.raises(RuntimeError, match="it must override the setup_context staticmethod"):
                    T.func.grad(compiled)(given)
                with pytest.raises(RuntimeError, match="it must override the setup_context staticmethod"):
                    T.func.grad(lambda v: (v * compiled(T.ones(2))).sum())(given)


def with_flag(x):
    y = x.detach()
    y.requires_grad = True
    return T.autograd.grad((y * y).sum(), y)[0] + x


def with_method(x):
    y = x.detach().requires_grad_()
    return T.autograd.grad((y * y).sum(), y)[0] + x


def with_retain(x):
    y = x * 2
    if y.requires_grad:
        y.retain_grad()
    return y + x


@pytest.mark.parametrize("f", [with_flag, with_method, with_retain])
@pytest.mark.parametrize("order", ["plain first", "transformed first"])
def test_what_transforms_refuse(f, order):
    """``requires_grad_`` and ``retain_grad`` in code that was compiled outside of a transform, or is called in one."""

    def told(g):
        def transformed():
            try:
                return T.func.grad(lambda x: g(x).sum())(T.ones(3)).tolist()
            except RuntimeError as e:
                return str(e)

        x = T.ones(3).requires_grad_()
        calls = [lambda: g(x).tolist(), transformed]
        return [call() for call in (calls if order == "plain first" else calls[::-1])]

    want = told(f)
    assert told(T.compile(f)) == want
    assert any("being transformed" in str(w) for w in want)
