"""Random programs, exported: recorded, saved, loaded, and run beside the plain function for sizes that are allowed.

A program becomes ``main(x, y, z, q)``: everything else it takes is made inside, from the first call of the case, and of
what it returns the tensors count. A program that export refuses (with one of its own errors) is passed over; so are
those that say what a file can't hold (`LEFT_OUT`), and those that fail themselves for the example.

Compared after every call: results (values, dtypes, shapes, ``requires_grad``), errors (that there is one), arguments,
module state, gradients, random state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import random
import re
import warnings
from typing import Any

import fuzz_run
from fusegrad.export import Dim, ExportError, export, load, save

import fusegrad as T
from fusegrad.errors import DataDependentError, NotRecordedError
from fusegrad.sizes import ConstraintError

REFUSALS = (ExportError, DataDependentError, NotRecordedError, ConstraintError)
KERNELS_EVERY = 4  # every n-th program runs compiled; the others are replayed on eager operators
TENSORS = ("x", "y", "z", "q")
FUNCTIONS = [k for k, v in fuzz_run.BASE.items() if isinstance(v, type) and issubclass(v, T.autograd.Function)]
# What docs/export.md says is no part of a program: Python state that is read and written, what runs for real once, what
# is done on errors, custom backwards, hooks, graphs that were freed, layers that the code makes itself.
LEFT_OUT = re.compile(
    r"\b(global|bump|GL|G|GD|cls_k|memo|keep|TABLE|METER|Meter|CACHE|OPT|SCHED|LOG|logging|COMPILE|random\.\w+|np\.random|id|"
    r"hash|manual_seed|fork_rng|is_compiling|set_default_dtype|counter|nonlocal|try|suppress|Swallow|register_\w+|"
    rf"retain_graph|backward|autograd\.grad|Blocks|nn\.\w+|{'|'.join(FUNCTIONS)})\b"
)
KINDS = {"y": ("own", "stride", "double", "expanded"), "z": ("dense", "transposed", "stride")}
MAIN = """
def main({tensors}):
    made = f({arguments})
    return [t for t in TREE(made) if isinstance(t, T.Tensor)]
"""


COPIES = re.compile(r"\b(reshape|flatten|contiguous|ravel)\b")  # views or copies, by the layout
WRITES = re.compile(r"\w_\(|\] [^=!<>]?=[^=]|\w [-+*/]= |\bout=")


def possible(case: fuzz_run.Case) -> bool:
    """Whether the program says nothing that a file can't hold, nor depends on the layout of arguments by what it writes
    to them (they are recorded as dense tensors).
    """
    dense = all(case.calls[0][name] in ("own", "double", "dense") for name in KINDS)
    by_layout = not dense and COPIES.search(case.text) and WRITES.search(case.text)
    return LEFT_OUT.search(case.text) is None and not by_layout


def make(seed: int) -> fuzz_run.Case:
    """The case of a seed: arguments of the kinds that exports take, of several sizes."""
    case = fuzz_run.make(seed)
    rng = random.Random(-seed)
    first = dict(case.calls[0], m=rng.choice((2, 3, 4)))
    for name, kinds in KINDS.items():
        first[name] = rng.choice(kinds)
    first["grad"] = rng.choice(("none", "leaf"))
    first["outer"], first["off"], first["between"] = "backward", "", ""
    low = rng.choice((0, 1, 2, 2))
    first["sizes"] = [low, rng.choice((4, 6, 9))] if rng.random() < 0.8 else []
    sizes = [rng.randint(*first["sizes"]) for _ in range(3)] if first["sizes"] else [first["m"]] * 2
    calls = [first, *(dict(first, m=m, seed=k) for k, m in enumerate(sizes, 1))]
    options = {} if seed % KERNELS_EVERY == 0 else {"interpret": True}
    return dataclasses.replace(case, calls=calls, options=options, dynamic=None)


def _leaves(value: Any) -> list[Any]:
    """What is in nested containers, in order."""
    if isinstance(value, dict):
        return [x for v in value.values() for x in _leaves(v)]
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in _leaves(v)]
    return [value]


def _space(case: fuzz_run.Case) -> dict[str, Any]:
    """A namespace with the program and ``main`` in it."""
    ns = fuzz_run.space(case, False)
    c = case.calls[0]
    code = ns["f"].__code__
    plain = {
        "n": c["n"], "s": c["s"], "flag": c["flag"], "log": [], "st": {1, c["n"]} if c["extra"] else {"u"},
        "lst": [1] if c["extra"] else [], "d": {"k": c["n"]},
    }  # fmt: skip
    ns["S"] = c["s"]
    texts = {k: repr(v) for k, v in plain.items()} | {"s": "S", "mod": "MOD", "o": f"Obj({c['n']})"}
    texts["dq"] = "collections.deque([0], maxlen=4)"
    texts |= {k: k for k in TENSORS}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = [f"{k}={texts[k]}" for k in names if k in texts]
    used = [k for k in TENSORS if k in names] or ["x"]
    ns["TREE"], ns["LOG"] = _leaves, fuzz_run.LOG
    exec(MAIN.format(tensors=", ".join(used), arguments=", ".join(given)), ns)
    return ns


def _arguments(ns: dict[str, Any], c: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    tensors, leaves = fuzz_run._tensors({k: v for k, v in c.items() if k != "mark"})
    names = ns["main"].__code__.co_varnames[: ns["main"].__code__.co_argcount]
    return [tensors[k] for k in names], leaves


def _exported(case: fuzz_run.Case) -> tuple[Any, dict[str, Any]] | None:
    """The program as it comes back from its file; None: it is refused. Any other error is export's fault."""
    ns = _space(case)
    c = case.calls[0]
    args, _ = _arguments(ns, c)
    names = ns["main"].__code__.co_varnames[: len(args)]
    shapes = None
    if c["sizes"]:
        m = Dim("m", min=c["sizes"][0], max=c["sizes"][1])
        shapes = {k: {0: m} for k in names}
    try:
        program = export(ns["main"], tuple(args), dynamic_shapes=shapes)
    except REFUSALS:
        return None
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return load(file).module(compile="interpret" not in case.options), ns


def _shown(f: Any, ns: dict[str, Any], c: dict[str, Any], state: Any) -> list[Any]:
    """What a call shows: results, arguments, state, gradients, random state."""
    args, leaves = _arguments(ns, c)
    T.manual_seed(7 + c["seed"])
    fuzz_run.LOG.drain()
    outs: list[Any] = []
    error = ""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            outs = list(f(*args))
    except Exception as e:
        error = f"{type(e).__name__}: {e}"
    backward = ""
    if not error:
        try:
            fuzz_run._outer(c, tuple(outs), leaves)
        except Exception as e:
            backward = f"{type(e).__name__}: {e}"
    params = state()
    with T.no_grad():
        seen = [
            _facts(outs),
            _facts(args),
            _facts(params.values()),
            _facts([t.grad for t in (*leaves, *params.values())]),
        ]
    for t in params.values():
        t.grad = None
    return [bool(error), *seen, bool(backward), T.rand(1).item(), error or backward]


def _facts(tensors: Any) -> list[Any]:
    return [t if t is None else [t.dtype.name, t.requires_grad, t.detach().numpy().copy()] for t in tensors]


DONE: list[fuzz_run.Case] = []  # the programs that were exported
PARTS = ("raises", "results", "arguments", "state", "gradients", "backward", "random")


def difference(case: fuzz_run.Case) -> tuple[str, str] | None:
    """(kind, description) of the first difference between the plain function and the loaded program."""
    if not possible(case):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _difference(case)


def _difference(case: fuzz_run.Case) -> tuple[str, str] | None:
    ns = _space(case)
    first = _shown(ns["main"], ns, case.calls[0], dict)
    if first[0]:
        return None  # the program fails for its example
    ns = _space(case)
    made = _exported(case)
    if made is None:
        return None
    module, _ = made
    DONE.append(case)
    own = lambda: {} if "MOD" not in ns else dict(_named(ns["MOD"], "MOD."))
    theirs = lambda: {k: v for k, v in own_of(module).items() if k in own()}
    for k, c in enumerate(case.calls):
        want = _shown(ns["main"], ns, c, lambda: {n: t for n, t in own().items() if n in own_of(module)})
        got = _shown(module, ns, c, theirs)
        bad = [n for n in range(len(PARTS)) if not fuzz_run.alike(want[n], got[n])]
        if bad and not (want[0] and got[0]):
            lines = [f"call {k} {c}", f"  errors: plain {want[-1]!r}, loaded {got[-1]!r}"]
            for n in bad[:3]:
                lines += [f"  {PARTS[n]}:", f"    plain  {fuzz_run._short(want[n], got[n])}"]
                lines += [f"    loaded {fuzz_run._short(got[n], want[n])}"]
            return "export " + "+".join(PARTS[n] for n in bad), "\n".join(lines)
        if want[0] or got[0]:
            return None  # both fail: in-place changes before it may differ
    return None


def _named(module: Any, prefix: str) -> list[tuple[str, Any]]:
    return [(prefix + k, p) for k, p in module.state_dict(keep_vars=True).items()]


def own_of(module: Any) -> dict[str, Any]:
    """State of a loaded program, by name."""
    return dict(_named(module, ""))
