"""Checkpoints that keep the results of some operators: what is computed again, and what is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

F = nn.functional
aten = fg.ops.aten


def block(x, w):
    y = F.dropout((x @ w).sin().view(-1).exp()).view(3, 3)
    y = F.gelu(F.linear(y, w, w[0]))
    values, _ = y.topk(2)
    return (values * F.softmax(F.dropout(values), -1)).sum() + fg.rand(()) * y.mean()


def gradients(context_fn):
    fg.manual_seed(0)
    x, w = fg.randn(3, 3, requires_grad=True), fg.randn(3, 3, requires_grad=True)
    extra = {"use_reentrant": False, "context_fn": context_fn} if context_fn else None
    loss = checkpoint(block, x, w, **extra) if extra else block(x, w)
    loss.backward()
    return [loss.detach().numpy(), x.grad.numpy(), w.grad.numpy(), fg.rand(()).numpy()]


def policy(kept, ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if str(op).split(".")[1] in kept else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize(
    "chosen",
    [
        [],
        [aten.mm.default, aten.addmm.default],
        [aten.topk.default, aten.dropout.default, fg.exp],
        [F.linear, fg.matmul, aten.rand.default],
        lambda ctx, op, *args, **kwargs: True,
        lambda ctx, op, *args, **kwargs: False,
        partial(policy, {"mm", "gelu", "dropout"}),
        partial(policy, {"_softmax", "topk", "add", "view"}),
        lambda ctx, op, *args, **kwargs: CheckpointPolicy.PREFER_CPU_OFFLOAD,
    ],
)
def test_gradients_do_not_depend_on_what_is_kept(chosen) -> None:
    got = gradients(lambda: create_selective_checkpoint_contexts(chosen))
    for a, b in zip(gradients(None), got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_kept_results_are_not_computed_again(monkeypatch) -> None:
    ran = []
    from fusegrad.utils import selective

    real = selective.run_kernel
    monkeypatch.setattr(selective, "run_kernel", lambda op, *rest: ran.append(op.name) or real(op, *rest))
    x, w = fg.randn(3, 3, requires_grad=True), fg.randn(3, 3, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, [aten.mm.default])
    y = checkpoint(lambda x: (x @ w).sin().exp().sum(), x, use_reentrant=False, context_fn=contexts)
    assert ran == ["matmul", "sin", "exp", "sum"]
    ran.clear()
    y.backward()
    assert ran == ["sin", "exp"]


def test_what_a_policy_is_asked() -> None:
    asked = []

    def policy(ctx, op, *args, **kwargs):
        assert not ctx.is_recompute
        asked.append((op, len(args)))
        assert (args[0] * 2).shape == args[0].shape  # it may compute

    x, w = fg.randn(3, 3, requires_grad=True), fg.randn(3, 3)
    contexts = partial(create_selective_checkpoint_contexts, policy)
    y = checkpoint(
        lambda x: F.linear((x @ w).view(-1).view(3, 3), w).sum(), x, use_reentrant=False, context_fn=contexts
    )
    y.backward()
    ops = [op for op, _ in asked]
    assert [str(op) for op in ops] == [f"aten.{n}.default" for n in ("mm", "view", "view", "mm", "sum")]
    assert ops[0] == aten.mm.default and ops[0] != aten.bmm.default and ops[0] == fg.matmul and ops[0] != fg.add
    assert ops[3] == F.linear and ops[3] in {aten.mm.default} and ops[3].name() == "aten::mm"
    assert aten.add.Tensor == aten.add_.Scalar and aten.mm(w, w).shape == (3, 3)
    with pytest.raises(AttributeError):
        _ = aten.no_such_operator


def test_refusals() -> None:
    for wrong in ("mm", 3, None, (fg.mm,)):
        with pytest.raises(TypeError, match="function or a list"):
            create_selective_checkpoint_contexts(wrong)
    for wrong in ([3], [lambda x: x], [aten.mm]):
        with pytest.raises(ValueError, match="OpOverload"):
            create_selective_checkpoint_contexts(wrong)
    x, w = fg.randn(3, 3, requires_grad=True), fg.randn(3, 3)

    def run(f, **options):
        return checkpoint(
            f, x, use_reentrant=False,
            context_fn=lambda: create_selective_checkpoint_contexts([aten.mm.default], **options),
        )  # fmt: skip

    def changes(x):
        y = x @ w
        y.add_(1)
        return y.sin().sum()

    with pytest.raises(RuntimeError, match="mutated: the result of matmul"):
        run(changes).backward()
    run(changes, allow_cache_entry_mutation=True).backward()
    run(lambda x: (F.linear(x.exp(), w)).add_(1).sum()).backward()  # nothing is computed after it in the second run
    y = run(lambda x: (x @ w).sin().exp().sum())
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only allowed to backward once"):
        y.backward()
    calls = []

    def another(x):
        calls.append(0)
        return ((x @ w).sin() if len(calls) == 1 else (x @ w).cos().sin()).exp().sum()

    with pytest.raises(RuntimeError, match="same in both runs"):
        run(another).backward()
    assert fg.ones(2).add(1).sum() == 4  # the mode is over


def test_selective_checkpoints_in_compiled_code() -> None:
    """By a list the compiler chooses what is kept; contexts of the program's own are entered as in eager code."""
    asked = []
    by_list = partial(create_selective_checkpoint_contexts, [aten.mm.default])
    by_code = partial(create_selective_checkpoint_contexts, lambda ctx, op, *a, **k: asked.append(str(op)))
    x, w = fg.randn(3, 3, requires_grad=True), fg.randn(3, 3)

    def run(x, by):
        return checkpoint(lambda x: (x @ w).sin().exp().sum(), x, use_reentrant=False, context_fn=by) * 2

    for by in (by_list, by_code, lambda: create_selective_checkpoint_contexts([fg.mm])):
        compiled = fg.compile(run)
        for _ in range(3):
            asked.clear()
            got = fg.autograd.grad(compiled(x, by), x)[0]
            assert asked == (
                ["aten.mm.default", "aten.sin.default", "aten.exp.default", "aten.sum.default"] if by is by_code else []
            )
            assert fg.allclose(got, fg.autograd.grad(run(x, by), x)[0])
    for by, breaks in ((by_list, 0), (by_code, 1)):
        fg.compiler.reset()
        fg.compile(run)(x, by)
        assert fg.compiler.stats()["graph_breaks"] == breaks
