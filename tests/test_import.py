"""Importing fusegrad imports no operators; they arrive at first use, in any order, as if they had always been there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


def fresh(code: str) -> str:
    """What a new process prints that runs ``code``."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_lean() -> None:
    code = "import numpy, sys; before = set(sys.modules); import fusegrad; print(*set(sys.modules) - before)"
    found = set(fresh(code).split())
    families = {m for m in found if m.startswith("fusegrad.ops.")}
    assert families == {"fusegrad.ops._index"}, "the index is out of date: run python docs/build.py"
    heavy = ("fusegrad.nn", "fusegrad.optim", "fusegrad.compiler", "fusegrad.func", "pathlib", "dataclasses", "json")
    assert not found & {*heavy, "numba", "llvmlite"}


def test_an_operator_brings_its_family_and_little_else() -> None:
    code = """
import sys, fusegrad
assert fusegrad.Tensor.__dict__["sort"].family == "sort"
assert "sort" in fusegrad.op.TABLE and "nonsense" not in fusegrad.op.TABLE and fusegrad.op.TABLE.get("nonsense") is None
(fusegrad.ones(2) * 3).sum()
print(*[m for m in sys.modules if m.startswith("fusegrad.ops.") and "._" not in m])
"""
    assert set(fresh(code).split()) <= {f"fusegrad.ops.{n}" for n in ("create", "pointwise", "reduce", "view", "shape")}


@posix
def test_every_family_can_come_first() -> None:
    """Each in a fork of its own: its operators from the table, its methods on Tensor and on an instance, its functions
    from their modules are the objects that ``PUBLIC`` and Tensor have when everything is imported.
    """
    code = """
import os, sys, fusegrad
from fusegrad import families, op
index = families.read_index()
def use(names, k):
    operators, functions, methods, public = (n.split() for n in names)
    t = fusegrad.Tensor.__new__(fusegrad.Tensor)
    if k == 0:
        assert all(op.TABLE[n].name == n for n in operators) and all(op.FUNCTIONS[n].name == n for n in functions)
    for n in methods if k else ():
        method = getattr(fusegrad.Tensor, n)
        assert callable(method) and method is fusegrad.Tensor.__dict__[n], n
        assert getattr(t, n).__func__ is method, n
    for n in public:
        space, _, name = n.rpartition(".")
        module = fusegrad
        for part in space.split(".") if space else ():
            module = getattr(module, part)
        found = getattr(module, name)
        assert callable(found) and (found is families.PUBLIC[n] or name in vars(fusegrad)), n
        assert name in dir(module)
for family, names in index.items():
    for k in (0, 1):
        child = os.fork()
        if not child:
            try:
                use(names, k)
                os._exit(0)
            except BaseException:
                import traceback
                traceback.print_exc()
                print(family, file=sys.stderr)
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0, family
"""
    fresh(code)


def test_the_surface_is_the_same_without_an_index() -> None:
    """An old index (a file has another size) costs time only."""
    code = """
import sys
{setup}
import fusegrad
from fusegrad import families, op
methods = sorted(n for n in dir(fusegrad.Tensor) if callable(getattr(fusegrad.Tensor, n, None)))
print(sorted(op.TABLE), sorted(op.FUNCTIONS), methods, sorted(families.PUBLIC))
print(dir(fusegrad), dir(fusegrad.linalg), [n for n in dir(fusegrad.nn.functional) if n[0] != "_"])
"""
    without = fresh(code.format(setup="sys.modules['fusegrad.ops._index'] = None"))
    drop = "import os; scan = os.scandir; os.scandir = lambda p: scan(os.path.dirname(p))"
    old = fresh(code.format(setup=drop))  # sizes of other files
    now = fresh(code.format(setup=""))
    names = [set(text.replace("'families', ", "").split(", ")) for text in (without, old, now)]
    assert names[0] == names[1] == names[2] and len(names[0]) > 1000


def test_subclasses_reach_the_method_behind() -> None:
    code = """
import fusegrad
class Mine(fusegrad.Tensor):
    def add(self, other):
        return ("mine", super().add(other))
    def __mul__(self, other):
        return ("times", super().__mul__(other))
    def cumsum(self, dim):
        return fusegrad.Tensor.cumsum(self, dim)
import numpy as np
base = fusegrad.Tensor.__new__(fusegrad.Tensor)
x = fusegrad.tensor([1.0, 2.0]).as_subclass(Mine) if hasattr(fusegrad.Tensor, "as_subclass") else None
if x is None:
    x = fusegrad.tensor([1.0, 2.0]); x.__class__ = Mine
print(x.add(1)[0], x.add(1)[1].tolist(), (x * 2)[0], (x * 2)[1].tolist(), x.cumsum(0).tolist())
"""
    assert fresh(code).split("\n")[0] == "mine [2.0, 3.0] times [2.0, 4.0] [1.0, 3.0]"


def test_ways_of_importing() -> None:
    code = """
import builtins, pickle
import fusegrad.nn.functional as F
from fusegrad.nn.functional import gelu
from fusegrad.linalg import inv
import fusegrad.special as special
from fusegrad import tensor, sort, nn
import fusegrad
space = {}
exec("from fusegrad import *", space)
assert space["sort"] is sort and space["tensor"] is tensor and space["linalg"].inv is inv and "compile" not in space
assert F.gelu is gelu and nn.functional is F and special.erf is fusegrad.special.erf
assert pickle.loads(pickle.dumps(fusegrad.sort)) is sort
assert pickle.loads(pickle.dumps(fusegrad.op.TABLE["relu"])) is fusegrad.op.TABLE["relu"]
for module, name in ((fusegrad, "nothing"), (F, "nothing"), (fusegrad.linalg, "nothing"), (fusegrad.Tensor, "nothing")):
    assert not hasattr(module, name)
try:
    fusegrad.linalg.nothing
except AttributeError as error:
    print(error)
"""
    assert fresh(code).strip() == "module 'fusegrad.linalg' has no attribute 'nothing'"


def test_first_use_from_many_threads() -> None:
    code = """
import sys, threading, fusegrad
sys.setswitchinterval(1e-5)
calls = [lambda x: x + x, lambda x: x.sort(), lambda x: fusegrad.linalg.norm(x), lambda x: x.cumsum(0),
         lambda x: fusegrad.nn.functional.softmax(x, 0), lambda x: x[1:], lambda x: x.exp(),
         lambda x: fusegrad.nn.Linear(2, 2), lambda x: x.scatter(0, fusegrad.tensor([0]), 1.0), lambda x: x.topk(1)]
start, failed = threading.Barrier(2 * len(calls)), []
def work(f):
    start.wait()
    try:
        f(fusegrad.tensor([2.0, 1.0]))
    except BaseException as error:
        failed.append(repr(error))
threads = [threading.Thread(target=work, args=(f,)) for f in calls * 2]
[t.start() for t in threads]
[t.join() for t in threads]
print(failed)
"""
    assert fresh(code).strip() == "[]"


def test_compiled_code_finds_methods_that_were_never_used() -> None:
    code = """
import fusegrad
def f(x):
    y = fusegrad.Tensor.cumsum(x.flip(0), 0) + fusegrad.nn.functional.softplus(x).amax()
    return y - fusegrad.linalg.vector_norm(x)
c = fusegrad.compile(f, fullgraph=True)
x = fusegrad.tensor([1.0, 2.0])
print(fusegrad.allclose(c(x), f(x)))
"""
    assert fresh(code).strip() == "True"


def test_operators_of_the_compiler_are_not_published() -> None:
    code = """
import fusegrad
before = dir(fusegrad), dir(fusegrad.Tensor)
import fusegrad.compiler.ir.ops
fusegrad.op.op("test_only(input: T)", kind="pointwise", promote="float", nondiff=True)(type("x", (), {"kernel": abs}))
print((dir(fusegrad), dir(fusegrad.Tensor)) == before, "test_only" in fusegrad.op.TABLE)
"""
    assert fresh(code).strip() == "True True"
