"""Schedulers that step inside of compiled code: the same rates as in eager, one compile for the whole schedule."""

import warnings

import pytest

import fusegrad as T

L, O = T.optim.lr_scheduler, T.optim


def sgd(p):
    return O.SGD(p, lr=0.1, momentum=0.9)


def adam(p):
    return O.Adam(p, lr=0.01)


MAKE = {
    "step": lambda o: L.StepLR(o, 5),
    "multi": lambda o: L.MultiStepLR(o, [3, 9, 15]),
    "constant": lambda o: L.ConstantLR(o, 0.5, 5),
    "linear": lambda o: L.LinearLR(o, 0.1, 1, 5),
    "exponential": lambda o: L.ExponentialLR(o, 0.9),
    "polynomial": lambda o: L.PolynomialLR(o, 20, 2.0),
    "cosine": lambda o: L.CosineAnnealingLR(o, 10),
    "restarts": lambda o: L.CosineAnnealingWarmRestarts(o, 5, 2),
    "lambda": lambda o: L.LambdaLR(o, lambda e: (e + 1) / 10 if e < 10 else 0.95**e),
    "factor": lambda o: L.MultiplicativeLR(o, lambda e: 0.95),
    "cyclic": lambda o: L.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "triangular2": lambda o: L.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="triangular2", cycle_momentum=False),
    "own scale": lambda o: L.CyclicLR(o, 0.01, 0.1, step_size_up=3, scale_fn=lambda x: 0.9**x),
    "one cycle": lambda o: L.OneCycleLR(o, 0.5, total_steps=30),
    "three phases": lambda o: L.OneCycleLR(o, 0.5, total_steps=30, anneal_strategy="linear", three_phase=True),
    "plateau": lambda o: L.ReduceLROnPlateau(o, patience=2),
    "sequence": lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1, 5), L.ExponentialLR(o, 0.9)], [5]),
    "chain": lambda o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 5), L.ExponentialLR(o, 0.9)]),
}  # fmt: skip


def train(make, optimizer, compiled, after=lambda sched, log: None, calls=20):
    w = T.ones(3, requires_grad=True)
    opt = optimizer([w])
    sched = make(opt)
    log = []

    def step(x):
        opt.zero_grad()
        loss = ((w - x) ** 2).sum()
        loss.backward()
        opt.step()
        if isinstance(sched, L.ReduceLROnPlateau):
            sched.step(loss.detach())
        else:
            sched.step()
        after(sched, log)
        return loss.detach()

    f = T.compile(step) if compiled else step
    seen, error = [], None
    try:
        for _ in range(calls):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loss = f(T.zeros(3)).item()
            group = opt.param_groups[0]
            seen.append((loss, [group.get(k) for k in ("lr", "momentum", "betas")], list(sched.get_last_lr())))
    except Exception as e:
        error = (type(e).__name__, str(e))
    state = {k: v for k, v in sched.state_dict().items() if isinstance(v, (int, float))}
    return [s[0] for s in seen], w.tolist(), [s[1:] for s in seen], state, log, error


def compare(*args, compiles=1, breaks=0, **kw):
    T.compiler.reset()
    got, want = train(*args, True, **kw), train(*args, False, **kw)
    assert got[2:] == want[2:]
    assert got[0] == pytest.approx(want[0], rel=1e-4) and got[1] == pytest.approx(want[1], rel=1e-4, abs=1e-6)
    s = T.compiler.stats()
    assert s["plain_frames"] <= (got[5] is not None) and s["graph_breaks"] <= breaks, s["break_reasons"]
    assert s["compiles"] <= compiles, s["recompile_reasons"]


@pytest.mark.parametrize("optimizer", [sgd, adam])
@pytest.mark.parametrize("name", MAKE)
def test_scheduler(name, optimizer):
    compare(MAKE[name], optimizer)


def test_code_after_a_tame_step():
    compare(MAKE["multi"], sgd, after=lambda sched, log: log.append(len(log)), compiles=2)


def test_rates_that_are_read():
    """The captured code looks at the rate that was set: the schedule is evaluated with it."""

    def after(sched, log):
        log.append(sched.get_last_lr()[0])
        log.append(sched.last_epoch)

    compare(MAKE["exponential"], sgd, after=after)
    compare(MAKE["multi"], sgd, after=after, compiles=6, breaks=1)


def test_branches_that_are_read_do_not_reach_the_limit():
    """A triangle has a corner every three steps: after three versions the call runs between two graphs."""
    compare(MAKE["cyclic"], sgd, after=lambda sched, log: log.append(sched.get_last_lr()[0]), compiles=8, breaks=1,
            calls=60)  # fmt: skip


def test_functions_of_the_user_run_in_order():
    """What a lambda sees and leaves: effects of the code before it, none of the code behind it."""

    def run(compiled):
        w = T.ones(2, requires_grad=True)
        opt = sgd([w])
        log = []

        def rate(n):
            log.append(("rate", n, list(box)))
            return 0.9**n

        box = [0]
        sched = L.LambdaLR(opt, rate)

        def step(x):
            opt.zero_grad()
            (w * x).sum().backward()
            opt.step()
            box.append(1)
            sched.step()
            box.append(2)

        f = T.compile(step) if compiled else step
        for _ in range(3):
            f(T.ones(2))
        return log, box, w.tolist(), opt.param_groups[0]["lr"]

    assert run(True) == run(False)


def test_an_error_of_the_schedule():
    """Past its last step: the error, and everything before it done and nothing behind it."""
    make = lambda o: L.OneCycleLR(o, 0.5, total_steps=5)  # noqa: E731
    compare(make, sgd, calls=9)
    compare(make, sgd, calls=9, after=lambda sched, log: log.append(1), compiles=4)

    def run(compiled):
        w = T.ones(2, requires_grad=True)
        opt = sgd([w])
        sched = make(opt)

        def step(x):
            opt.zero_grad()
            (w * x).sum().backward()
            opt.step()
            try:
                sched.step()
            except ValueError as e:
                return str(e)

        f = T.compile(step) if compiled else step
        return [f(T.ones(2)) for _ in range(8)]

    assert run(True) == run(False)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_traceback_of_a_schedule(depth):
    """Each frame of the program with its own line, though the step runs behind the region."""

    def frames(compiled):
        w = T.ones(2, requires_grad=True)
        opt = sgd([w])
        sched = L.OneCycleLR(opt, 0.5, total_steps=3)

        def deeper():
            sched.step()

        def deep():
            if depth == 2:
                deeper()
            else:
                sched.step()

        def step(x):
            loss = (w * x).sum()
            loss.backward()
            opt.step()

            if depth:
                deep()
            else:
                sched.step()
            return loss

        f = T.compile(step) if compiled else step
        with pytest.raises(ValueError) as e:
            for _ in range(9):
                f(T.ones(2))
        mine = [t for t in e.traceback if t.frame.code.raw.co_filename == __file__]
        return [(t.frame.code.raw.co_name, t.lineno) for t in mine][1:]

    T.compiler.reset()
    eager, got = frames(False), frames(True)
    assert len(eager) == depth + 1 and got[-depth - 1 :] == eager


def test_scheduler_before_the_optimizer():
    """The optimizer's step reads the rate that the schedule has just set."""

    def run(compiled):
        w = T.ones(2, requires_grad=True)
        opt = sgd([w])
        sched = MAKE["cosine"](opt)

        def step(x):
            opt.zero_grad()
            (w * x).sum().backward()
            sched.step()
            opt.step()

        f = T.compile(step) if compiled else step
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(6):
                f(T.ones(2))
        return w.tolist(), opt.param_groups[0]["lr"]

    (a, lr), (b, want) = run(True), run(False)
    assert lr == want and a == pytest.approx(b, rel=1e-5)
