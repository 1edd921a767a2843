"""Fast paths of tensors beside numbers: the values, dtypes and errors that the dispatcher gives."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import bind, families
from fusegrad.autograd.modes import slow_paths
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor

families.load_all()
NUMBERS = [0, 1, -3, 2, 2**24, 2**40, 2.0, 2.5, 1 / 3, 1e-40, 3.3e38, 1e39, -0.0, True, float("inf"), float("nan")]
TAKE_NUMBERS = [o for o in TABLE.values() if [p.type for p in o.sig.tensors] in (["Tn", "Tn"], ["T", "Tn"])]
KINDS = [fg.int64, fg.int32, fg.uint8, fg.bool, fg.float32, fg.float64, fg.float16]


def both(run) -> list:
    """What ``run()`` gives on fast paths and by the dispatcher: bytes, shape and dtype, or the error."""
    found = []
    for slow in (0, 1):
        slow_paths(slow)
        try:
            t = run()
            a = t._data
            found.append((a.tobytes(), a.shape, a.dtype, type(t), t._rg, t._st and t._st.version))
        except Exception as e:  # noqa: BLE001  (compared)
            found.append((type(e), str(e)))
        finally:
            slow_paths(-slow)
    return found


def forms(op, made, number) -> list:
    """The calls of an operator on the tensor ``made()`` and the number."""
    runs = [lambda: op.fn(made(), number)]
    if op.sig.tensors[0].type == "Tn":
        runs.append(lambda: op.fn(number, made()))
    if op.inplace:
        runs.append(lambda: bind._inplace(op)(made(), number))
    return runs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_beside_tensors(kind):
    """Every operator that takes a number, the number first or second, methods and in-place forms."""
    done = 0
    for op in TAKE_NUMBERS:
        if not all(p.has_default for p in op.sig.attrs):
            continue
        for number in NUMBERS:
            for a in (np.array([1, 5, 0, 3]), np.array([[-2], [7]]), np.array(4)):
                values = (abs(a) if kind is fg.uint8 else a).tolist()
                for run in forms(op, lambda v=values: fg.tensor(v, dtype=kind), number):
                    fast, slow = both(run)
                    assert fast == slow, (op.name, number, a, kind)
                    done += 1
    assert done > 500


def changed(k, sign: str, number) -> Tensor:
    """What ``k += number`` leaves in ``k``."""
    names = {"k": k, "n": number}
    exec(f"k {sign}= n", names)
    assert names["k"] is k
    return k


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "//", "%", "**", "<", "==", "&", "|", "<<"])
def test_special_methods_beside_ints(sign, kind):
    """``k + 1``, ``1 - k`` and ``k += 1`` of every dtype."""
    for number in NUMBERS:
        for text in (f"k {sign} n", f"n {sign} k"):
            fast, slow = both(lambda t=text, n=number: eval(t, {"k": fg.tensor([3, 1], dtype=kind), "n": n}))
            assert fast == slow, (text, number, kind)
        if sign not in ("<", "=="):
            fast, slow = both(lambda n=number: changed(fg.tensor([3, 1], dtype=kind), sign, n))
            assert fast == slow, (sign, number, kind)


def test_counting_keeps_the_tensor():
    """A counter of int64 counts in its own memory, and a view of it sees that."""
    k = fg.zeros(2, dtype=fg.int64)
    part, version = k[1:], k._version
    assert k.add_(1) is k
    k += 2
    assert part.tolist() == [3] and k._version == version + 2
    with pytest.raises(RuntimeError, match="can't be cast"):
        k.add_(0.5)
    with pytest.raises(RuntimeError, match="can't be cast"):
        k.div_(2)
    assert k.tolist() == [3, 3]
