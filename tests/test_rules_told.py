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
