"""Branches, loops, breaks, exceptions, with, match, recursion."""

import contextlib

import pytest
from helpers import check, run

import fusegrad as T

x, y = T.arange(3.0), T.ones(3) * 2


def test_branches_on_python_values():
    def f(x, k, s):
        if k > 2 and s == "a":
            x = x * 2
        elif k is None or not s:
            x = x - 1
        while k < 3:
            k += 1
            x = x + k
            if k == 2:
                continue
            if s == "stop":
                break
        else:
            x = x * 10
        return x if s else -x

    check(f, (x, 3, "a"), (x, 0, ""), (x, 1, "stop"), breaks=0)


def test_branch_on_tensor_in_loop():
    def f(x):
        n = 0
        while x.sum() < 50:
            x = x * 2
            n += 1
            if x.max() > 20:
                x = x - 1
                continue
            x = x + 1
        return x, n

    check(f, (x,), (y,), plain=0)


def test_and_or_not_on_tensors():
    def f(x, y):
        a = x.sum() > 2 and y.sum() > 2
        b = x.sum() > 100 or y
        c = not (x.sum() > 2)
        return a, b, c, (1 if x[0] else 2)

    check(f, (x, y), (y, x), plain=0)


def test_item_and_float():
    def f(x):
        k = x.sum().item()
        z = x * k
        if k > 2:
            z = z + float(z[1])
        return z, int(z.sum()), z.tolist()

    check(f, (x,), (y,), plain=0)


def test_break_inside_called_function():
    def inner(v, log):
        log.append(v * 1)
        if v.sum() > 3:
            return v * 2
        return v - 1

    def f(x, log):
        a = x + 1
        b = inner(a, log)
        c = inner(b - 5, log)
        return a, b + c, len(log)

    check(f, (x, []), (y, [1]), plain=0)


def test_break_in_nested_call_with_defaults_and_closure():
    k = 3.0

    def inner(v, a=2, *rest, b=1.5, **kw):
        if v.sum() > 3:
            return v * a + k + len(rest) + sum(kw.values())
        return v - b

    def f(x):
        return inner(x), inner(x, 3), inner(x, 1, 5, 6, b=2.5, z=7), inner(v=x * 3, a=4)

    check(f, (x,), (y,), plain=0)


def test_print_with_values(capsys):
    def f(x):
        y = x + 1
        print("sum", y.sum().item(), f"{y[0]:.2f}")
        return y * 2

    c = T.compile(f)
    c(x), c(x)
    out = capsys.readouterr().out
    f(x), f(x)
    assert capsys.readouterr().out == out


def test_try_except():
    def f(x, k):
        try:
            z = x * 2
            if k == 0:
                raise ValueError("zero", k)
            if k == 1:
                z = z + {}["missing"]
            if k == 2:
                z = z.view(7)
            if k == 3:
                1 / 0  # noqa: B018
        except ValueError as e:
            return z, e.args, "value"
        except (KeyError, ZeroDivisionError) as e:
            z = z - 1
            return z, type(e).__name__
        except Exception:
            return z, "other"
        else:
            z = z + 100
        finally:
            x = x + 1
        return z, x

    check(f, *((x, k) for k in range(5)), breaks=0)


def test_errors_are_eager_errors():
    def f(x, k):
        z = x + 1
        if k == 0:
            return z @ T.ones(5, 5)
        if k == 1:
            return z.nope
        if k == 2:
            raise RuntimeError("mine")
        if k == 3:
            return undefined_name  # noqa: F821
        if k == 4:
            return z[10]
        return f(x)

    check(f, *((x, k) for k in range(6)), breaks=0, plain=None)


def test_error_after_a_break_has_python_traceback():
    import traceback

    def f(x):
        k = x.sum().item()
        z = x * k
        return z @ T.ones(7, 7)  # the line

    c = T.compile(f)
    with pytest.raises(RuntimeError) as e:
        c(x)
    assert traceback.extract_tb(e.value.__traceback__)
    lines = [fr.line for fr in traceback.extract_tb(e.value.__traceback__) if fr.filename == __file__]
    assert "the line" in lines[-1]


def test_break_inside_try():
    def f(x, k):
        log = []
        try:
            v = x.sum().item()
            log.append(v)
            if k:
                raise KeyError(v)
            w = int("5" if v < 5 else "no")
            return w, x * v, log
        except KeyError as e:
            log.append(e.args)
        except ValueError:
            log.append("bad")
            x = x + 1
        finally:
            log.append("end")
        return x, log

    check(f, (x, 0), (x, 1), (y, 0), plain=None)


def test_real_error_in_broken_call_is_caught():
    def boom(v):
        if v.sum() > 3:
            raise ValueError(float(v.sum()))
        return v

    def f(x):
        try:
            z = boom(x * 2)
        except ValueError as e:
            return x - 1, e.args
        return z + 1

    check(f, (x,), (x * 0,), plain=None)


def test_with_grad_modes():
    w = T.ones(3, requires_grad=True)

    def f(x):
        with T.no_grad():
            a = x * 2
            with T.enable_grad():
                b = a * x
            c = b + 1
        d = c * x
        return a, b, c, d, T.is_grad_enabled()

    check(f, (w,), breaks=0)

    @T.no_grad()
    def g(x):
        return x * 3

    def h(x):
        return g(x), x * 2

    check(h, (w,), breaks=0)


def test_break_inside_no_grad():
    w = T.ones(3, requires_grad=True)

    def f(x):
        with T.no_grad():
            a = x * 2
            if a.sum() > 3:
                a = a + 1
            b = a * x
        return a, b, x * 2

    check(f, (w,), (T.zeros(3, requires_grad=True),), plain=0)
    assert T.is_grad_enabled()


class Manager:
    def __init__(self, log, swallow):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self.log

    def __exit__(self, kind, exc, tb):
        self.log.append(kind.__name__ if kind else "out")
        return self.swallow


def test_user_managers():
    def f(x, log, bad, swallow):
        with Manager(log, swallow) as m:
            m.append("body")
            x = x * 2
            if bad:
                raise ValueError("bad")
            x = x + 1
        return x, len(log)

    check(f, (x, [], False, False), (x, [], True, True), breaks=0)
    check(f, (x, [], True, False), breaks=0, plain=None)

    @contextlib.contextmanager
    def cm(log):
        log.append("a")
        try:
            yield 5
        finally:
            log.append("b")

    def g(x, log):
        with cm(log) as k:
            x = x * k
            if x.sum() > 3:
                x = x + 1
        return x

    check(g, (x, []), (x * 0, []), plain=None)
    check(lambda x, log: [g(x, log), contextlib.nullcontext(3)][0], (x, []), plain=None)


def test_generators():
    def gen(n, x):
        try:
            for i in range(n):
                got = yield x * i
                if got:
                    x = x + got
        finally:
            log.append("closed")
        return 7

    log = []

    def f(x):
        del log[:]
        g = gen(3, x)
        a = next(g)
        b = g.send(2)
        rest = list(g)
        h = gen(5, x)
        next(h)
        h.close()

        def outer():
            r = yield from gen(2, x)
            yield r

        return a, b, rest, sum(v * 2 for v in rest), list(outer()), list(log), next(iter([]), None)

    check(f, (x,), breaks=0)


def test_live_generator_at_a_break():
    def gen(x):
        while True:
            x = x + 1
            yield x

    def f(x):
        g = gen(x)
        a = next(g)
        if a.sum() > 3:
            a = a * 2
        return a, next(g)

    check(f, (x,), (x - 5,), plain=None)


def test_match():
    def f(x, v):
        match v:
            case {"op": "mul", "by": k, **rest}:
                return x * k, rest
            case [a, b, *c]:
                return x * a + b, c
            case int(n) | float(n) if n > 3:
                return x + n
            case str() as s:
                return x, s
            case None:
                return -x
            case _:
                return x

    check(f, *((x, v) for v in ({"op": "mul", "by": 3, "z": 1}, [1, 2, 3, 4], 5, 4.5, 1, "s", None)), breaks=0)


def test_recursion():
    def fact(x, n):
        return x if n <= 1 else fact(x * n, n - 1)

    check(fact, *((x, n) for n in range(5)), breaks=0)

    def deep(x, n):
        return x if n == 0 else deep(x + 1, n - 1)

    check(deep, (x, 200), plain=None)

    def collatz(x):
        if x.sum() < 2:
            return x
        return collatz(x / 2) + 1

    check(collatz, (x * 10,), plain=None)


def test_assert_and_walrus():
    def f(x, n):
        assert n > 0, f"n is {n}"
        if (m := n * 2) > 3:
            x = x * m
        return x, m

    check(f, (x, 1), (x, 5), breaks=0)
    check(f, (x, -1), plain=None)


def test_fullgraph_error_names_line_and_way_out():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y
        return x

    with pytest.raises(T.compiler.GraphBreakError) as e:
        T.compile(f, fullgraph=True)(x)
    text = str(e.value)
    assert f":{f.__code__.co_firstlineno + 2}:" in text and "where" in text and "FG001" in text
    assert run(T.compile(lambda x: x * 2, fullgraph=True), (x,)) == run(lambda x: x * 2, (x,))


def test_del_and_unbound():
    def f(x, k):
        z = x * 2
        del z
        if k:
            z = x
        return z

    check(f, (x, 1), breaks=0)
    check(f, (x, 0), plain=None)


def test_tracebacks_have_the_users_lines_alone():
    import traceback

    def inner(a):
        raise KeyError("x")

    def f(a, k):
        if a.sum() > 100:
            a = a + 1
        return inner(a)

    c = T.compile(f)
    for _ in range(2):
        with pytest.raises(KeyError) as e:
            c(x, 1)
        frames = traceback.extract_tb(e.value.__traceback__)
        assert [fr.name for fr in frames][-2:] == ["f", "inner"] and "raise KeyError" in frames[-1].line
        assert {fr.filename for fr in frames} == {__file__}, frames
        assert len(frames) <= 5, frames


def test_errors_of_data_are_those_of_eager():
    """A wrong class, row or index in the data: the same exception and text, at the first and at later calls."""
    F = T.nn.functional
    good, bad = T.tensor([0, 2]), T.tensor([0, 9])
    x = T.arange(6.0).view(2, 3)
    check(lambda t: F.cross_entropy(x, t), (good,), (bad,))
    check(lambda t: F.nll_loss(x, t, reduction="sum"), (good,), (bad,))
    check(lambda t: F.embedding(t, x.t()), (good,), (bad,))
    check(lambda t: x.index_select(1, t) * 2, (good,), (bad,))
    check(lambda t: x[:, t] * 2, (good,), (bad,))
    check(lambda t: x.gather(1, t.view(2, 1)) * 2, (good,), (bad,))


def test_indices_of_equal_elements_are_checked():
    """A gather from a tensor of equal elements needs no index, but a wrong one is refused all the same."""
    good, bad = T.tensor([0, 1]), T.tensor([0, 70])
    check(lambda i: T.zeros(3, 4)[i] + 1, (good,), (bad,))
    check(lambda i: T.ones(3, 1).expand(3, 4).gather(1, i.view(-1, 1)), (good,), (bad,))
    check(lambda i: T.ones(5, 2).index_select(0, i) * 2, (good,), (bad,))
    check(lambda i: T.nn.functional.cross_entropy(T.ones(2, 3), i), (good,), (bad,))
    check(lambda i: T.nn.functional.embedding(i, T.zeros(5, 2)), (good,), (bad,))


def test_a_checkpointed_function_that_changes_objects_or_buffers_runs_twice():
    from fusegrad.utils.checkpoint import checkpoint

    calls, seen = [0], {}

    def counted(x):
        calls[0] += 1
        return x.sin()

    def noted(x):
        seen[len(seen)] = x.shape
        return x.sin()

    T.manual_seed(0)
    norm = T.nn.Sequential(T.nn.Linear(3, 3), T.nn.BatchNorm1d(3), T.nn.Tanh())
    plain = T.nn.Sequential(T.nn.Linear(3, 3), T.nn.BatchNorm1d(3), T.nn.Tanh())
    plain.load_state_dict(norm.state_dict())
    for body, reentrant in ((counted, False), (noted, False), (norm, False), (norm, True), (counted, True)):
        f = T.compile(lambda x, body=body, r=reentrant: checkpoint(body, x, use_reentrant=r).sum())
        for _ in range(2):
            x = T.randn(4, 3, requires_grad=True)
            f(x).backward()
            if body is norm:
                y = x.detach().clone().requires_grad_()
                checkpoint(plain, y, use_reentrant=reentrant).sum().backward()
                assert T.allclose(x.grad, y.grad, atol=1e-6)
                assert T.allclose(norm[1].running_mean, plain[1].running_mean)
                assert norm[1].num_batches_tracked == plain[1].num_batches_tracked
    assert calls == [8] and len(seen) == 4


def test_a_pure_checkpointed_function_stays_in_the_graph():
    from fusegrad.utils.checkpoint import checkpoint

    T.compiler.reset()
    lin = T.nn.Linear(3, 3)
    f = T.compile(lambda x: checkpoint(lambda t: lin(t).tanh(), x, use_reentrant=False).sum(), fullgraph=True)
    for _ in range(2):
        f(T.ones(2, 3, requires_grad=True)).backward()
    assert T.compiler.stats()["graph_breaks"] == 0


@pytest.mark.parametrize("options", [{}, {"interpret": True}], ids=["kernels", "interpreter"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("same", [False, True])
def test_gradients_of_a_branch_that_are_one_tensor(options, sign, same):
    """The gradient of ``u - w`` is the cotangent twice: no fault of the user's functions."""

    def f(x, y):
        return T.cond(x.sum() > 0, lambda u, w: (u * w).sin(), lambda u, w: u - w, (y, x if not same else y))

    found = []
    for g in (f, T.compile(f, options=options)):
        x = (T.tensor([0.3, 0.5]) * sign).requires_grad_()
        y = T.tensor([1.0, 2.0], requires_grad=True)
        first = T.autograd.grad(g(x, y).sum(), [x, y], create_graph=True, allow_unused=True)
        again = sum((t.pow(2) * y).sum() for t in first if t is not None)
        again.backward()
        found.append(
            [
                None if t is None else t.numpy().round(4).tolist()
                for t in (*(t if t is None else t.detach() for t in first), y.grad)
            ]
        )
    assert found[0] == found[1]
