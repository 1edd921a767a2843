"""What a custom Function's ``ctx`` may be used for beside saving tensors."""

import gc
import weakref

import fusegrad as torch


def test_a_context_dies_with_the_graph():
    """Also when it holds the output: weak references to ``ctx`` show it (a cycle is left to the collector)."""
    refs = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, keep):
            refs.append(weakref.ref(ctx))
            y = x * 2
            if keep:
                ctx.y = y
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    x = torch.ones(2, requires_grad=True)
    for keep in (False, True):
        y = Double.apply(x, keep)
        y.sum().backward()
        del y
        gc.collect()
        assert refs.pop()() is None
