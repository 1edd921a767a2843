"""Kernels with constant tables next to nests that are shared."""

import warnings

import fusegrad as torch


def test_tables_of_functions_and_of_shared_nests_have_different_names():
    """Equal nests are compiled once and called with tables of arguments; sin and cos bring tables of their own."""

    def f():
        out = []
        for _ in range(2):
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            w = torch.tensor([3.0, 4.0], requires_grad=True)
            (x * w).sin().sum().backward()
            out += [x.grad, w.grad]
        return out

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        got = torch.compile(f)()
    assert not [w for w in found if "no code could be generated" in str(w.message)]
    for x, y in zip(got, f(), strict=True):
        torch.testing.assert_close(x, y)
