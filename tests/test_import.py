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


AT_IMPORT = {
    "fusegrad", *(f"fusegrad.{n}" for n in (
        "autograd", "autograd.modes", "autograd.node", "dtypes", "errors", "families", "handler", "heap", "linalg",
        "meta", "ops", "ops._index", "place", "size_values", "special", "tensor",
    ))
}  # fmt: skip
STANDARD = {"__future__", "_weakrefset", "abc", "contextlib", "copyreg", "ctypes", "enum", "functools", "inspect",
            "itertools", "re", "threading", "typing", "warnings", "weakref"}  # fmt: skip


def test_import_is_lean() -> None:
    """What `import fusegrad` adds to `import numpy`: these modules alone. The rest comes with what needs it."""
    code = "import numpy, sys; before = set(sys.modules); import fusegrad; print(*set(sys.modules) - before)"
    found = set(fresh(code).split())
    families = {m for m in found if m.startswith("fusegrad.ops.")}
    assert families == {"fusegrad.ops._index"}, "the index is out of date: run python docs/build.py"
    ours = {m for m in found if m.split(".")[0] == "fusegrad"}
    assert ours == AT_IMPORT
    more = {m for m in found - ours if m.split(".")[0] in sys.stdlib_module_names} - STANDARD
    assert not more, "standard modules that numpy does not need"


def test_import_of_source_is_cheap() -> None:
    """Where Python may not write bytecode (PYTHONDONTWRITEBYTECODE, a read-only folder), every import compiles the
    sources: ten microseconds a line. So their size is bounded too.
    """
    code = """
import fusegrad, sys
files = {m.__dict__.get("__file__") for n, m in sys.modules.items() if n.split(".")[0] == "fusegrad"} - {None}
print(sum(len(open(f).read()) for f in files), sum(len(open(f).read().splitlines()) for f in files))
"""
    size, lines = map(int, fresh(code).split())
    assert size < 115_000 and lines < 2_900, (size, lines)


def test_import_runs_no_generators() -> None:
    """No source is generated, no signature read, no expression compiled, no dataclass made: counted while importing."""
    code = """
import builtins, collections, collections.abc, dataclasses, inspect, re, sys, ctypes, threading, weakref, numpy
count = collections.Counter()
def watch(module, name):
    real = getattr(module, name)
    def counted(*args, **kwargs):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.split(".")[0] in ("fusegrad", "inspect", "dataclasses"):
            count[name] += 1
        return real(*args, **kwargs)
    setattr(module, name, counted)
for module, name in ((builtins, "exec"), (builtins, "eval"), (builtins, "compile"), (inspect, "signature"),
                     (inspect, "getdoc"), (inspect, "cleandoc"), (inspect, "getsource"), (re, "compile"),
                     (dataclasses, "dataclass"), (builtins, "open")):
    watch(module, name)
import fusegrad
at_import = dict(count)
fusegrad.ones(2) * 3
print(at_import, count["exec"] > 0)
"""
    assert fresh(code).strip() == "{} True"  # and the first operator is seen to generate its call


def test_eager_training_needs_no_symbolic_sizes() -> None:
    """Polynomials over sizes and the facts about them belong to capture; nor do these steps need the rare parts."""
    code = """
import sys, fusegrad as T
from fusegrad import nn
T.manual_seed(0)
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
opt = T.optim.SGD(m.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    nn.functional.cross_entropy(m(T.randn(5, 4)), T.tensor([0, 1, 2, 0, 1])).backward()
    opt.step()
print(*[n for n in sys.modules if n.startswith("fusegrad")])
"""
    found = set(fresh(code).split())
    rare = ("sizes", "size_facts", "size_floats", "polynomial", "compiler", "export", "func", "autograd.check",
            "autograd.forward_ad", "autograd.functional", "autograd.live", "copies", "printing", "testing")  # fmt: skip
    assert not found & {f"fusegrad.{n}" for n in rare}


def test_an_operator_brings_its_family_and_little_else() -> None:
    code = """
import sys, fusegrad
assert fusegrad.Tensor.__dict__["sort"].module == "fusegrad.ops.sort"
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
modules = {{n for n, v in vars(fusegrad).items() if type(v) is type(sys)}} - {{"linalg", "special", "autograd"}}
print(sorted(set(dir(fusegrad)) - modules), dir(fusegrad.linalg))
print([n for n in dir(fusegrad.nn.functional) if n[0] != "_"])
"""
    without = fresh(code.format(setup="sys.modules['fusegrad.ops._index'] = None"))
    drop = "import os; scan = os.scandir; os.scandir = lambda p: scan(os.path.dirname(p))"
    old = fresh(code.format(setup=drop))  # sizes of other files
    now = fresh(code.format(setup=""))
    names = [set(text.replace("\n", ", ").split(", ")) for text in (without, old, now)]
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


def test_no_module_adds_to_the_surface() -> None:
    """Whatever is imported later, Tensor and the package show the same names as just after `import fusegrad`."""
    code = """
import importlib, pkgutil, types
import fusegrad
def public():
    names = (n for n in dir(fusegrad) if not isinstance(fusegrad.__dict__.get(n), types.ModuleType))
    return set(dir(fusegrad.Tensor)), set(names) - set(fusegrad._MODULES)
before = public()
for m in pkgutil.walk_packages(fusegrad.__path__, "fusegrad."):
    if not m.name.endswith("__main__"):
        importlib.import_module(m.name)
import fusegrad.compiler, fusegrad.export
after = public()
print([sorted(a ^ b) for a, b in zip(before, after)])
x = fusegrad.Tensor.__new__(fusegrad.Tensor)
"""
    assert fresh(code).strip() == "[[], []]"


def test_names_of_other_modules_arrive_at_first_use() -> None:
    """Modules of the package as attributes; functions that live in them; Tensor's copies, pickles and backward."""
    code = """
import copy, pickle, sys
import fusegrad
for name in fusegrad._MODULES:
    assert getattr(fusegrad, name) is sys.modules["fusegrad." + name], name
for name in fusegrad._WHERE:
    assert getattr(fusegrad, name) is fusegrad.__dict__[name] and name in dir(fusegrad), name
x = fusegrad.tensor([1.0, 2.0], requires_grad=True)
for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
    assert again.tolist() == [1.0, 2.0] and again.requires_grad and again is not x
assert "backward" in fusegrad.Tensor.__dict__ and fusegrad.Tensor.backward.__name__ == "backward"
(x * x).sum().backward()
print(x.grad.tolist())
"""
    assert fresh(code).strip() == "[2.0, 4.0]"


@pytest.mark.parametrize("first", ["op", "bind", "callgen", "ops.pointwise", "ops.create", "inplace", "sizes", "nn",
                                   "func", "random", "autograd.engine", "autograd.function", "compiler", "export",
                                   "pytree", "dispatch", "testing", "serialization", "control"])  # fmt: skip
def test_any_module_can_be_first(first: str) -> None:
    """No module needs that another was imported before it."""
    code = f"""
import fusegrad.{first}, fusegrad
x = fusegrad.tensor([1.0, 2.0], requires_grad=True)
(x.exp() * x).add_(1.0).sum().backward()
print(x.grad.shape == x.shape, fusegrad.op.TABLE["exp"].fn is fusegrad.exp, fusegrad.Tensor.exp_.__name__)
"""
    assert fresh(code).strip() == "True True exp_"


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


def test_compiling_brings_what_it_needs() -> None:
    """Not verification, data loading and what that needs, export, numba. The capture generates short forms of calls:
    the code for tensors with data is made when one comes.
    """
    code = """
import sys, fusegrad
before = set(sys.modules)
from fusegrad import deferred
def f(x, y):
    return ((x * y).relu() + fusegrad.nn.functional.softmax(x, 0)).std()
c = fusegrad.compile(f, fullgraph=True)
x = fusegrad.tensor([1.0, 2.0], requires_grad=True)
out = c(x, fusegrad.tensor([3.0, -4.0]))
found = set(sys.modules) - before
unwanted = ("multiprocessing", "socket", "numba", "pickle", "fusegrad.utils.data", "fusegrad.export",
            "fusegrad.compiler.verification.whole", "fusegrad.compiler.verification.region_check")
stubs = {deferred._STUB_OF_TWO}
short = [n for n in ("mul", "relu", "std") if fusegrad.op.TABLE[n].fn.__code__ in stubs]
out.backward()
eager = f(x, fusegrad.tensor([3.0, -4.0]))
grown = [n for n in ("mul", "relu", "std") if fusegrad.op.TABLE[n].fn.__code__ not in stubs]
print(sorted(found & set(unwanted)), short, grown, fusegrad.allclose(eager, out))
print(fusegrad.utils.data.DataLoader.__name__)
"""
    assert fresh(code).strip() == "[] ['mul', 'relu', 'std'] ['relu', 'std'] True\nDataLoader"


def test_operators_of_the_compiler_are_not_published() -> None:
    code = """
import sys, fusegrad
def surface():
    modules = {n for n, v in vars(fusegrad).items() if type(v) is type(sys)}
    return set(dir(fusegrad)) - modules - {*fusegrad._MODULES}, dir(fusegrad.Tensor)
before = surface()
import fusegrad.compiler.ir.ops
fusegrad.op.op("test_only(input: T)", kind="pointwise", promote="float", nondiff=True)(type("x", (), {"kernel": abs}))
print(surface() == before, "test_only" in fusegrad.op.TABLE)
"""
    assert fresh(code).strip() == "True True"
