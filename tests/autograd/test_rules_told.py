"""What is said, and what is answered: warnings, grad modes inside inference mode, questions for devices."""

import threading
import warnings

import pytest

import fusegrad as torch
from fusegrad.autograd import engine


def told(fn):
    engine._tell_of_cycle.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fn()
    return [(w.category, str(w.message), w.filename) for w in seen]


def test_a_graph_of_leaves_gradients_is_told_of_once():
    x = torch.ones(2, requires_grad=True)

    def twice():
        (x * x).sum().backward(create_graph=True)
        torch.autograd.backward((x * x).sum(), create_graph=True)

    ((category, text, file),) = told(twice)
    assert category is UserWarning and "cycle" in text and "autograd.grad" in text and file == __file__
    x.grad = None


def test_what_makes_no_cycle_is_silent():
    x = torch.ones(2, requires_grad=True)

    def others():
        y = x * 2
        torch.autograd.grad((y * y).sum(), x, create_graph=True)
        (y * y).sum().backward(create_graph=True, inputs=[y])
        (y * y).sum().backward()

    assert told(others) == []


def test_grad_mode_inside_inference_mode():
    asked = torch.is_grad_enabled
    with torch.inference_mode():
        assert not asked()
        with torch.enable_grad():
            assert asked() and torch.is_inference_mode_enabled()
            a = torch.ones(2, requires_grad=True)
            b = a * 2
            assert a.requires_grad and not b.requires_grad and b.grad_fn is None and b.is_inference()
            with torch.no_grad():
                assert not asked()
            with torch.inference_mode():
                assert not asked()
            assert asked()
        with torch.set_grad_enabled(True):
            assert asked()
        assert not asked()
        torch.set_grad_enabled(True)
        assert asked()
        with torch.inference_mode(False):
            assert asked() and not torch.is_inference_mode_enabled()
    assert asked()
    with torch.no_grad():
        with torch.inference_mode(), torch.enable_grad():
            pass
        assert not asked()
    other = []
    with torch.inference_mode(), torch.enable_grad():
        t = threading.Thread(target=lambda: other.append((asked(), torch.is_inference_mode_enabled())))
        t.start()
        t.join()
    assert other == [(True, False)]


@torch.enable_grad()
def mode_inside():
    return torch.is_grad_enabled()


def test_the_decorator_inside_inference_mode():
    with torch.inference_mode():
        assert mode_inside() and not torch.is_grad_enabled()


def test_compiled_code_answers_the_same():
    def f(x):
        seen = [torch.is_grad_enabled()]
        with torch.inference_mode():
            seen.append(torch.is_grad_enabled())
            with torch.enable_grad():
                seen.append(torch.is_grad_enabled())
                y = x * 2
            seen.append(torch.is_grad_enabled())
        return y, seen

    x = torch.ones(2)
    g = torch.compile(f)
    for _ in range(2):
        assert g(x)[1] == f(x)[1] == [True, False, True, False]
        with torch.inference_mode():
            assert g(x)[1] == f(x)[1] == [False, False, True, False]
            with torch.enable_grad():
                assert g(x)[1] == f(x)[1] == [True, False, True, False]


def scheduled(make, *calls):
    p = torch.ones(2, requires_grad=True)
    p.grad = torch.ones(2)
    opt = torch.optim.SGD([p], 0.1)
    sched = make(opt)

    def run():
        for c in calls:
            if c == "opt":
                opt.step()
            elif c == "other":
                opt.step = lambda: None
            elif c == "epoch":
                sched.step(2)
            else:
                sched.step()

    return [text for _, text, _ in told(run)]


L = torch.optim.lr_scheduler


@pytest.mark.parametrize("make", [
    lambda o: L.StepLR(o, 1), lambda o: L.ExponentialLR(o, 0.9), lambda o: L.OneCycleLR(o, 0.1, 10),
    lambda o: L.ChainedScheduler([L.ExponentialLR(o, 0.9)]),
    lambda o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 2), L.ExponentialLR(o, 0.9)], [2]),
])  # fmt: skip
def test_schedulers_say_when_they_are_called_too_early(make):
    (text,) = scheduled(make, "sched", "opt", "sched", "sched")
    assert "before optimizer.step()" in text
    assert scheduled(make, "opt", "sched", "sched", "sched", "sched") == []


def test_schedulers_say_what_else_is_odd():
    assert "deprecated" in scheduled(lambda o: L.StepLR(o, 1), "opt", "sched", "epoch")[0]
    assert "replaced" in scheduled(lambda o: L.StepLR(o, 1), "other", "sched", "sched")[0]


def test_questions_for_devices():
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    assert not torch.backends.mps.is_available() and not torch.accelerator.is_available()
    torch.backends.cudnn.benchmark = True
    torch.cuda.manual_seed_all(0)
    torch.cuda.empty_cache()
    assert torch.device("cuda" if torch.cuda.is_available() else "cpu") == torch.device("cpu")
    with pytest.raises(AssertionError, match="is_available"):
        torch.cuda.synchronize()


class Twice(torch.autograd.Function):
    """Its backward asks for a gradient of its own, under a hook on both leaves of the outer pass."""

    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, g):
        w = torch.ones(2, requires_grad=True)
        before = engine.STATE.run
        with torch.enable_grad():
            out = Own.apply(w)
        (inner,) = torch.autograd.grad(out, w, torch.ones(2))
        assert engine.STATE.run is before
        return g * inner


class Own(torch.autograd.Function):
    runs: list = []

    @staticmethod
    def forward(ctx, a):
        return a * 3

    @staticmethod
    def backward(ctx, g):
        Own.runs.append(engine.STATE.run)
        return g * 3


def test_a_short_gradient_inside_of_a_pass_has_a_run_of_its_own():
    Own.runs.clear()
    x = torch.ones(2, requires_grad=True)
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    (run,) = Own.runs
    assert run is not None and not run.into_leaves and engine.STATE.run is None


def expanded():
    return torch.zeros(1, 3).expand(4, 3)


ROWS = torch.tensor([0, 1])


@pytest.mark.parametrize("write,rows", [
    (lambda x: x.__setitem__(x == 0, 1.0), [1.0] * 3),
    (lambda x: x.__setitem__(torch.tensor([True, False, False, False]), 1.0), [1.0] * 3),
    (lambda x: x.__setitem__(torch.tensor([[True, False, False]] + [[False] * 3] * 3), torch.tensor(2.0)), [2.0, 0, 0]),
    (lambda x: x.masked_fill_(torch.tensor([True, False, True]), 1.0), [1.0, 0, 1.0]),
    (lambda x: x.__setitem__(ROWS, 1.0), [1.0] * 3),
    (lambda x: x.__setitem__(ROWS, torch.arange(6.0).reshape(2, 3)), [3.0, 4.0, 5.0]),
    (lambda x: x.index_put_((ROWS,), torch.arange(3.0)), [0.0, 1.0, 2.0]),
    (lambda x: x.index_fill_(0, ROWS, 2.0), [2.0] * 3),
    (lambda x: x.index_fill_(1, ROWS, 2.0), [2.0, 2.0, 0.0]),
])  # fmt: skip
def test_writes_at_places_of_an_expanded_tensor(write, rows):
    """They are made, with a warning; compiled code does the same."""
    x = expanded()
    (text,) = [text for _, text, _ in told(lambda: write(x))]
    assert "deprecated" in text and x.tolist() == [rows] * 4 and x._version == 1
    y = expanded()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(lambda t: (write(t), t * 2)[1])(y)
    assert y.tolist() == x.tolist()


@pytest.mark.parametrize("write", [
    lambda x: x.add_(1), lambda x: x.copy_(torch.ones(3)), lambda x: x.scatter_(0, torch.tensor([[0, 1, 2]]), 1.0),
    lambda x: x.index_add_(0, ROWS, torch.ones(2, 3)), lambda x: x.index_copy_(0, ROWS, torch.ones(2, 3)),
    lambda x: x.masked_scatter_(x == 0, torch.arange(12.0)), lambda x: x.exp_(), lambda x: x.normal_(),
])  # fmt: skip
def test_other_writes_to_expanded_tensors_are_refused(write):
    x = expanded()
    with pytest.raises(RuntimeError, match="clone"):
        write(x)
    assert x.tolist() == [[0.0] * 3] * 4


def test_expanded_tensors_may_be_seen_otherwise_in_place():
    assert expanded().t_().shape == (3, 4) and expanded().unsqueeze_(0).shape == (1, 4, 3)
    assert expanded()[:1].squeeze_().shape == (3,)


@pytest.mark.parametrize("f", [
    lambda x: x.mean(), lambda x: x.mean(0).sum(), lambda x: x.mean(1, keepdim=True).sum(), lambda x: x.std(),
    lambda x: torch.nn.functional.mse_loss(x, x.detach() + 1), lambda x: x.nanmean(),
])  # fmt: skip
def test_gradients_of_means_may_be_written_to(f):
    x = torch.rand(3, 4, requires_grad=True)
    (g,) = torch.autograd.grad(f(x), x)
    assert g.is_contiguous()
    before = g.clone()
    assert (g.mul_(2) == before * 2).all()


def test_vmap_over_counts():
    x = torch.tensor([[0, 1, 1], [2, 2, 0]])
    counts = torch.vmap(lambda a: torch.bincount(a, minlength=4))
    assert counts(x).tolist() == [[1, 2, 0, 0], [1, 0, 2, 0]]
    assert torch.vmap(counts)(x[None]).tolist() == [counts(x).tolist()]
    weighted = torch.vmap(lambda w: torch.bincount(x[0], w, 4))(torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))
    assert weighted.tolist() == [[1.0, 5.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0]]
    hist, edges = torch.vmap(lambda a: torch.histogram(a, 4, range=(0.0, 3.0)))(x.float())
    assert hist.tolist() == counts(x).tolist() and edges.tolist() == [[0.0, 0.75, 1.5, 2.25, 3.0]] * 2
    with pytest.raises(RuntimeError):
        torch.vmap(lambda a: torch.bincount(a))(torch.tensor([[0, 1], [0, 2]]))
