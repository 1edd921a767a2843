"""Schedulers that step inside of compiled code: the same rates as in eager, few compiles."""

import pytest

import fusegrad as T

L = T.optim.lr_scheduler
MAKE = {
    "multi": (lambda o: L.MultiStepLR(o, [3, 9]), 6),
    "linear": (lambda o: L.LinearLR(o, 0.1, 1, 5), 3),
    "cosine": (lambda o: L.CosineAnnealingLR(o, 10), 3),
    "lambda": (lambda o: L.LambdaLR(o, lambda e: 0.95**e), 2),
    "one cycle": (lambda o: L.OneCycleLR(o, 0.5, total_steps=30), 3),
    "sequence": (lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1, 5), L.ExponentialLR(o, 0.9)], [5]), 5),
}


def train(make, compiled):
    w = T.ones(3, requires_grad=True)
    opt = T.optim.SGD([w], lr=0.1)
    sched = make(opt)

    def step(x):
        opt.zero_grad()
        loss = ((w - x) ** 2).sum()
        loss.backward()
        opt.step()
        sched.step()
        return loss

    f = T.compile(step) if compiled else step
    losses = [f(T.zeros(3)).item() for _ in range(25)]
    return losses, w.tolist(), opt.param_groups[0]["lr"], sched.get_last_lr()


@pytest.mark.parametrize("name", MAKE)
def test_scheduler(name):
    make, limit = MAKE[name]
    T.compiler.reset()
    got, want = train(make, True), train(make, False)
    assert got[2:] == want[2:]
    assert got[0] == pytest.approx(want[0], rel=1e-5) and got[1] == pytest.approx(want[1], rel=1e-5)
    s = T.compiler.stats()
    assert s["compiles"] <= limit and not s["plain_frames"], s
