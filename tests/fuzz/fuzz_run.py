"""Runs a random program eager and compiled over a series of calls, and compares everything that a caller can see.

Compared after every call: results, arguments, globals, modules and optimizer state as a graph of objects (who is the
same object, which tensors share memory), values, dtypes, shapes, strides, ``requires_grad``, leaf or not, gradients,
exceptions (class, arguments, line), printed and logged text in order, grad modes, random state.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import io
import itertools
import logging
import math
import operator
import random
import re
import types
from typing import Any

import fuzz_callers
import fuzz_callers_prelude
import fuzz_later
import fuzz_more
import fuzz_operators as operators
import fuzz_prelude as prelude
import fuzz_prelude_more as prelude_more
import fuzz_projects
import fuzz_projects_prelude
import fuzz_sizes
import fuzz_users
import fuzz_wide
import fuzz_wide_prelude as wide_prelude
import numpy as np
from fuzz_arguments import more_arguments, of_dtype
from fuzz_writer import Writer

import fusegrad as T
from fusegrad import nn
from fusegrad.utils.checkpoint import checkpoint

BASE: dict[str, Any] = {
    "T": T, "nn": nn, "np": np, "math": math, "functools": functools, "collections": collections,
    "contextlib": contextlib, "itertools": itertools, "operator": operator, "random": random, "logging": logging,
    "checkpoint": checkpoint, "copy": copy, "dataclasses": dataclasses, **prelude.NAMES, **prelude_more.NAMES,
    **wide_prelude.NAMES, **fuzz_projects_prelude.NAMES, **fuzz_callers_prelude.NAMES,
}  # fmt: skip
TOLERANCE = {"float16": 2e-2, "float32": 3e-4, "float64": 1e-7}
WIDE = "xdt"  # a call with this key has the arguments of fuzz_wide.py
KERNELS_EVERY = 16  # every n-th seed runs real kernels; the others interpret the regions' graphs


@dataclasses.dataclass
class Case:
    """A program, the calls made on it, and how it is compiled."""

    text: str
    calls: list[dict[str, Any]]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    dynamic: bool | None = None


def make(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    more = seed >= fuzz_more.FIRST
    sizes = seed >= fuzz_sizes.FIRST
    wide = seed >= fuzz_wide.FIRST
    users = seed >= fuzz_users.FIRST
    callers = seed >= fuzz_callers.FIRST
    level = more + sizes + wide + users + (seed >= fuzz_projects.FIRST) + callers + (seed >= fuzz_later.FIRST)
    text = Writer(rng, big=rng.random() < 0.12, level=level).program()
    kernels = seed % KERNELS_EVERY == 0
    options: dict[str, Any] = {} if kernels else {"interpret": True}
    if rng.random() < 0.05:
        options["check"] = True
    if kernels and rng.random() < 0.2:
        options["fuse"] = False
    dynamic = rng.choice([True, False]) if rng.random() < 0.15 else None
    made = calls(rng, rng.choice((3, 3, 4, 5)))
    if sizes:
        dynamic = rng.choice((True, True, True, False, None, None, None, None, None, None))
        _more_sizes(rng, made)
    if more and "mod" in text:
        for c in made[1:]:
            c["between"] = rng.choice(("", "", *BETWEEN))
    if wide:
        fuzz_wide.changes(rng, made)
    if callers:
        fuzz_callers.changes(rng, made, text)
    return Case(text, made, options, dynamic)


CHANGES: dict[str, Any] = {
    "m": lambda r: r.choice((0, 1, 2, 2, 3, 3, 4, 5)),
    "n": lambda r: r.randint(-1, 4),
    "s": lambda r: r.uniform(-2, 2),
    "flag": lambda r: r.random() < 0.5,
    "extra": lambda r: r.random() < 0.5,
    "y": lambda r: r.choice(
        ("own", "own", "own", "same", "view", "overlap", "stride", "double", "expanded", "parameter")
    ),
    "z": lambda r: r.choice(("dense", "dense", "transposed", "stride", "of_x")),
    "grad": lambda r: r.choice(("none", "none", "none", "node", "leaf")),
    "off": lambda r: r.choice(("", "", "", "no_grad", "inference")),
    "outer": lambda r: r.choice(("backward", "backward", "backward", "double", "none")),
}


def _replace_weight(mod: Any) -> None:
    mod.a.weight = nn.Parameter(mod.a.weight.detach() * 0.5)


BETWEEN: dict[str, Any] = {  # what the caller does to the module between two calls
    "eval": lambda mod: mod.eval(),
    "train": lambda mod: mod.train(),
    "freeze": lambda mod: mod.a.requires_grad_(False),
    "thaw": lambda mod: mod.requires_grad_(True),
    "no grads": lambda mod: mod.zero_grad(),
    "replace": _replace_weight,
    "data": lambda mod: mod.a.weight.data.mul_(0.5),
    "hook": lambda mod: mod.a.register_forward_hook(lambda m, a, r: r * 2),
    "no hooks": lambda mod: mod.a._forward_hooks.clear(),
    "load": lambda mod: mod.load_state_dict({k: v * 0.5 for k, v in mod.state_dict().items()}, strict=False),
    "layer": lambda mod: mod.layers.__setitem__(1, nn.ReLU()),
    "scale": lambda mod: setattr(mod, "scale", mod.scale * 0.5),
}


PLAIN = {"m": 2, "n": 1, "s": 0.5, "flag": False, "extra": False, "y": "own", "z": "dense", "grad": "none", "off": "",
         "outer": "none"}  # fmt: skip


def plain_call(**changes: Any) -> dict[str, Any]:
    """A call with the simplest arguments, but for ``changes``."""
    return {**PLAIN, "seed": 0, **changes}


def calls(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Argument sets for a series of calls: some things change from call to call."""
    base = {k: change(rng) for k, change in CHANGES.items()}
    base["m"] = rng.choice((2, 3))
    out = []
    for k in range(count):
        c = {**base, **{key: change(rng) for key, change in CHANGES.items() if rng.random() < 0.22}}
        c["seed"] = k
        out.append(c)
    return out


def _more_sizes(rng: random.Random, made: list[dict[str, Any]]) -> None:
    """Sizes and floats that change more often; sometimes dimensions that are marked from the start."""
    marked = rng.random() < 0.15
    for c in made:
        if rng.random() < 0.5:
            c["m"] = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8))
        if rng.random() < 0.15:
            c["s"] = rng.choice((0.0, -0.0, 1.0, -1.0, 2, 0.5, float("inf"), float("nan"), 1e-9, 3e9))
        if marked:
            c["mark"] = True


# ---- the namespace and the arguments


@functools.lru_cache(maxsize=4)
def _code(text: str) -> types.CodeType:
    return compile(text, "<fuzz>", "exec")


def space(case: Case, compiled: bool) -> dict[str, Any]:
    """A fresh namespace with the program in it."""
    ns = dict(BASE, __name__="fuzz_program", **operators.constants(case.text))
    ns["COMPILE"] = functools.partial(T.compile, options=case.options) if compiled else lambda f: f
    exec(prelude.HEAD_CODE, ns)
    if re.search(r"\b(keep|memo|TABLE|Meter|METER|CACHE)\b", case.text):
        exec(prelude_more.HEAD_CODE, ns)
    if re.search(r"\b(mod|MOD|OPT|SCHED)\b", case.text):
        T.manual_seed(11)
        net = ns["MOD"] = prelude.Net(norm="norm" not in case.text or len(case.text) % 2 == 0)
        kind = len(case.text) % 3
        make_opt = (functools.partial(T.optim.SGD, momentum=0.9), T.optim.Adam, T.optim.AdamW)[kind]
        if kind:  # no division by the rounding errors of a gradient that is zero
            make_opt = functools.partial(make_opt, eps=1e-2)
        ns["OPT"] = make_opt(net.parameters(), lr=0.05)
        ns["SCHED"] = T.optim.lr_scheduler.StepLR(ns["OPT"], 1, gamma=0.5)
    if WIDE in case.calls[0]:
        wide_prelude.state(ns, case.text)
        fuzz_users.state(ns, case.text)
        if fuzz_projects_prelude.USED.search(case.text):
            fuzz_projects_prelude.state(ns)
    if fuzz_callers.KEY in case.calls[0]:
        fuzz_callers_prelude.state(ns)
        if fuzz_later.USED.search(case.text):
            fuzz_later.state(ns)
    exec(_code(case.text), ns)
    return ns


def _tensors(c: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """x, y, z, q of a call, and the leaves behind them."""
    rng = np.random.default_rng(c["seed"])
    m = c["m"]
    data = of_dtype(rng.standard_normal(2 * m + 4), c.get("xdt", "float32"))
    asks = data.dtype.kind == "f"
    x = T.from_numpy(data[:m] if c["y"] == "overlap" else data[:m].copy())
    leaves = []
    if c["grad"] == "leaf" and asks:
        leaves.append(x.requires_grad_())
    elif c["grad"] == "node" and asks:
        leaves.append(x.requires_grad_())
        x = x * 1
    y = _second(c["y"], x, data, rng, m)
    if c["grad"] != "none" and c["y"] in ("own", "double", "parameter"):
        leaves.append(y.requires_grad_())
    rows = rng.standard_normal((m, 3)).astype("float32")
    if c["z"] == "transposed":
        rows = np.ascontiguousarray(rows.T).T
    elif c["z"] == "stride":
        rows = rng.standard_normal((m, 6)).astype("float32")[:, ::2]
    z = x.unsqueeze(1).expand(-1, 3) if c["z"] == "of_x" else T.from_numpy(rows)
    q = T.from_numpy(rng.integers(0, max(m, 1), m))
    return {"x": x, "y": y, "z": z, "q": q}, leaves


def _second(kind: str, x: Any, data: np.ndarray, rng: Any, m: int) -> Any:
    if kind == "same":
        return x
    if kind == "view":
        return x[:]
    if kind == "overlap":
        return T.from_numpy(data[1 : m + 1])
    if kind == "stride":
        return T.from_numpy(rng.standard_normal(2 * m).astype("float32")[::2])
    if kind == "double":
        return T.from_numpy(rng.standard_normal(m))
    if kind == "expanded":
        return T.from_numpy(rng.standard_normal(1).astype("float32")).expand(m)
    y = T.from_numpy(rng.standard_normal(m).astype("float32"))
    return nn.Parameter(y) if kind == "parameter" else y


def _arguments(ns: dict[str, Any], c: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    args, leaves = _tensors(c)
    if c.get("mark"):
        for name in "xyzq":
            T.compiler.mark_dynamic(args[name], 0)
    x, y, extra = args["x"], args["y"], c["extra"]
    args.update(n=c["n"], s=c["s"], flag=c["flag"], log=[], mod=ns.get("MOD"), o=ns["Obj"](c["n"]))
    args["lst"] = [1, y] if extra else []
    args["d"] = {"k": c["n"], "q1": x} if extra else {"k": 1}
    if WIDE in c:
        more_arguments(ns, c, args, leaves)
    if fuzz_callers.KEY in c:
        fuzz_callers.more_arguments(ns, c, args, leaves)
    args["st"] = {1, c["n"]} if extra else {"u"}
    args["dq"] = collections.deque([y, 1] if extra else [0], maxlen=4)
    return args, leaves


# ---- what a caller can see


class View:
    """Values as comparable data: tensors and containers by number, so that identity is part of it."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.keep: list[Any] = []
        self.tensors: list[Any] = []

    def of(self, v: Any) -> Any:
        t = type(v)
        if t is np.ndarray:
            return ("array", v.dtype.name, v.shape, v.copy())
        if v is None or t in (int, bool, str, bytes, float, complex) or isinstance(v, (np.generic, T.dtype)):
            return v
        if isinstance(v, T.Tensor):
            return ("tensor", self._number(v, self.tensors))
        if t is tuple or isinstance(v, T.Size):
            return [t.__name__, *map(self.of, v)]
        if id(v) in self.seen:
            return ("seen", self.seen[id(v)])
        self.seen[id(v)] = len(self.seen)
        self.keep.append(v)
        return self._object(v, t)

    def _number(self, v: Any, tensors: list[Any]) -> int:
        for k, u in enumerate(tensors):
            if u is v:
                return k
        tensors.append(v)
        return len(tensors) - 1

    def _object(self, v: Any, t: type) -> Any:
        name = t.__name__
        if isinstance(v, (list, tuple, collections.deque)):
            return [name, *map(self.of, v)]
        if isinstance(v, dict):
            return [name, *([self.of(k), self.of(x)] for k, x in v.items())]
        if isinstance(v, (set, frozenset)):
            return [name, *sorted(map(repr, v))]
        if isinstance(v, nn.Module):
            keys = ("training", "calls", "last", "scale", "extra")
            return [
                name,
                *(self.of(v.__dict__.get(k)) for k in keys),
                [[k, self.of(p)] for k, p in v.state_dict(keep_vars=True).items()],
            ]
        if isinstance(v, BaseException):
            return [name, self.of(v.args)]
        if hasattr(t, "__slots__") and not hasattr(v, "__dict__"):
            return [name, *(self.of(getattr(v, k, None)) for k in t.__slots__)]
        if isinstance(v, (type, types.ModuleType, types.FunctionType, types.GeneratorType)) or not hasattr(
            v, "__dict__"
        ):
            return (name, getattr(v, "__name__", ""))
        return [name, self.of(vars(v))]

    def facts(self, inner: set[int]) -> list[Any]:
        """What each tensor is; its gradient among the tensors.

        ``inner``: ids of tensors that layers and optimizers change; how many operators they use for it is their matter.
        """
        out: list[Any] = []
        k = 0
        while k < len(self.tensors):
            t = self.tensors[k]
            with T.no_grad():
                a = t.detach().numpy()
            try:
                leaf: Any = t.is_leaf
            except RuntimeError:  # a view that lost its history says so when it is asked
                leaf = "refused"
            grad = self.of(t.grad) if leaf is True else None
            steps = tuple(s for s, n in zip(a.strides, a.shape, strict=True) if n > 1) if a.size else ()
            version = None if t.is_inference() or id(t) in inner else t._version
            out.append([type(t).__name__, a.dtype.name, a.shape, steps, t.requires_grad, leaf, grad, version, a.copy()])
            k += 1
        return out

    def shared(self) -> list[tuple[int, int]]:
        """Pairs of tensors with common memory."""
        arrays = [t.detach().numpy() for t in self.tensors]
        return [
            (i, j)
            for j, b in enumerate(arrays)
            for i, a in enumerate(arrays[:j])
            if a.size and b.size and np.may_share_memory(a, b)
        ]


def _outer(c: dict[str, Any], result: Any, leaves: list[Any]) -> Any:
    """Differentiates what came out, as a caller would."""
    if c["outer"] == "none" or not isinstance(result, tuple):
        return None
    outs = {id(t): t for t in result if isinstance(t, T.Tensor) and t.requires_grad and t.dtype.is_floating_point}
    total = sum((t.to(T.float32) * 0.5).sum() for t in outs.values())
    if not isinstance(total, T.Tensor):
        return None
    if c["outer"] == "backward":
        total.backward()
        return None
    first = T.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    again = sum(g.pow(2).sum() for g in first if g is not None and g.requires_grad)
    if isinstance(again, T.Tensor):
        again.backward()
    return first


def _where(e: BaseException) -> int:
    """The line of the program that the exception's traceback ends in."""
    tb, line = e.__traceback__, 0
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == "<fuzz>":
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


def _raised(e: BaseException, view: View) -> list[Any]:
    text = re.sub(r"\[s?\d+\]", "...", UNSTABLE.sub("...", str(e)))
    if any(said in text for said in UNUSABLE):
        text = UNUSABLE[0]
    # CPython 3.11 gives an unbound local the line before once the code is warm (a fused instruction)
    return ["raised", type(e).__name__, text, 0 if isinstance(e, UnboundLocalError) else _where(e)]


# A graph that was both freed and had a saved tensor changed: eager finds one of the two first, by the order of its
# nodes; a region is one node and may find the other. Both are true, both are RuntimeErrors.
UNUSABLE = ("Trying to backward through the graph a second time", "modified by an inplace operation")
# names of nodes (a region's has one of its own), places in memory; which view of some memory a refusal names
UNSTABLE = re.compile(r"grad_fn=<\w+>|\w+Backward0|0x[0-9a-f]+|Output \d+ of \w+")
PARTS = ("result", "outer", "arguments", "globals", "module", "tensors", "memory", "printed", "modes", "random")


def _call(ns: dict[str, Any], f: Any, c: dict[str, Any]) -> list[Any]:
    """One call and everything it changed, in the order of `PARTS`."""
    if c.get("between") and "MOD" in ns:
        with contextlib.suppress(RuntimeError):  # inference tensors refuse some
            BETWEEN[c["between"]](ns["MOD"])
    if c.get("globals"):
        with contextlib.suppress(Exception):
            exec(fuzz_wide.BETWEEN[c["globals"]], ns)
    if c.get("before"):
        with contextlib.suppress(Exception):
            exec(fuzz_callers.BETWEEN[c["before"]], ns)
    args, leaves = _arguments(ns, c)
    names = f.__wrapped__.__code__ if hasattr(f, "__wrapped__") else f.__code__
    pos = names.co_varnames[: names.co_argcount]
    given = [args[k] for k in pos if k in args]
    kw = {k: args[k] for k in names.co_varnames[names.co_argcount : names.co_argcount + names.co_kwonlyargcount]}
    if "extra" in pos:
        kw = {"w": c["n"]} if c["flag"] else {"extra": 4}
    view, out, records = View(), io.StringIO(), ns["LOG"]
    ns["GL"].clear()
    off = {"": contextlib.nullcontext, "no_grad": T.no_grad, "inference": T.inference_mode}[c["off"]]
    result: Any = None
    outer: Any = None
    with contextlib.redirect_stdout(out):
        try:
            with off():
                how = c.get(fuzz_callers.KEY)
                result = fuzz_callers.called(how, f, given, kw) if how else f(*given, **kw)
            shown = ["ok", view.of(result)]
        except Exception as e:
            shown = _raised(e, view)
    if shown[0] == "ok":
        try:
            did = fuzz_callers.after(ns, c, result, args, leaves) if "then" in c else None
            outer = ["ok", view.of(_outer(c, result, leaves) if did is None else did)]
        except Exception as e:
            outer = _raised(e, view)[:3]
    state = [view.of(args), view.of(leaves)]
    globals_ = [view.of(ns[k]) for k in ("G", "GL", "GD", "GT")] + [ns["Obj"].cls_k]
    if "METER" in ns:
        globals_ += [view.of(ns["METER"]), view.of(ns["CACHE"]), ns["Meter"].made]
    if WIDE in c:
        globals_ += wide_prelude.seen(ns, view.of) + fuzz_users.seen(ns, view.of)
        globals_ += fuzz_projects_prelude.seen(ns, view.of)
        globals_ += fuzz_callers_prelude.seen(ns, view.of) + fuzz_later.seen(ns, view.of)
    module = [view.of(ns["MOD"]), view.of(ns["OPT"].state_dict())] if "MOD" in ns else None
    tensors = view.facts(_inner(ns))
    modes = (
        T.is_grad_enabled(),
        T.is_inference_mode_enabled(),
        T.get_default_dtype(),
        len(logging.getLogger("fuzz").handlers),
    )
    draws = (T.rand(1).item(), random.random(), np.random.rand())
    return [
        shown,
        outer,
        state,
        globals_,
        module,
        tensors,
        view.shared(),
        [out.getvalue(), *records.drain()],
        modes,
        draws,
    ]


def _inner(ns: dict[str, Any]) -> set[int]:
    """Buffers, parameters and optimizer state of a program."""
    found: list[Any] = fuzz_projects_prelude.inner(ns) + fuzz_callers_prelude.inner(ns) + fuzz_later.inner(ns)
    for net, opt in (("MOD", "OPT"), ("CNET", "COPT")):
        if net in ns:
            found += [*ns[net].parameters(), *ns[net].buffers()]
            found += [v for state in ns[opt].state.values() for v in state.values()]
    return set(map(id, found))


class _Records(logging.Handler):
    """Collects the messages of the logger "fuzz"."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def drain(self) -> list[str]:
        got, self.texts = self.texts, []
        return got


LOG = _Records()
logging.getLogger("fuzz").addHandler(LOG)
logging.getLogger("fuzz").propagate = False


def run(case: Case, compiled: bool) -> list[list[Any]]:
    """What every call of the series shows."""
    ns = space(case, compiled)
    ns["LOG"] = LOG
    f = ns["f"]
    if compiled and "EAGER" not in ns:  # some programs have compiled parts alone
        f = T.compile(f, options=case.options, dynamic=case.dynamic)
    T.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    return [_call(ns, f, c) for c in case.calls]


# ---- comparing

NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def alike(a: Any, b: Any, tol: float = 3e-4) -> bool:
    """Equal, floats within the tolerance of their dtype."""
    kind = type(a)
    if kind in (str, int, bool, type(None)) and type(b) is kind and a == b:
        return True
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind != "f":
            return bool(np.array_equal(a, b))
        if a.tobytes() == b.tobytes():
            return True
        tol = TOLERANCE[a.dtype.name]
        finite = np.abs(a[np.isfinite(a)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        return bool(np.allclose(a, b, rtol=tol, atol=tol * min(scale, 1e6), equal_nan=True))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if kind is not type(b):
        return False
    if isinstance(a, float):
        return a == b or math.isclose(a, b, rel_tol=tol, abs_tol=tol) or (a != a and b != b)
    if isinstance(a, str) and a != b:
        a, b = (UNSTABLE.sub("...", text) for text in (a, b))
        x, y = NUMBER.findall(a), NUMBER.findall(b)
        return NUMBER.sub("#", a) == NUMBER.sub("#", b) and all(
            math.isclose(float(p), float(q), rel_tol=1e-3, abs_tol=1e-3) for p, q in zip(x, y, strict=True)
        )
    if isinstance(a, np.floating):
        return alike(float(a), float(b), TOLERANCE[a.dtype.name])
    return bool(a == b)


def difference(case: Case) -> tuple[str, str] | None:
    """(kind, description) of the first difference between eager and compiled; None: there is none."""
    want = run(case, False)
    got = run(case, True)
    for k, (w, g) in enumerate(zip(want, got, strict=True)):
        bad = [n for n, (p, q) in enumerate(zip(w, g, strict=True)) if not alike(p, q)]
        if bad:
            kind = _kind(w, g, bad)
            lines = [f"call {k} {case.calls[k]}"]
            for n in bad[:4]:
                lines += [f"  {PARTS[n]}:", f"    eager    {_short(w[n], g[n])}", f"    compiled {_short(g[n], w[n])}"]
            return kind, "\n".join(lines)
    return None


def _kind(w: list[Any], g: list[Any], bad: list[int]) -> str:
    if w[0][0] != g[0][0]:
        return "raises" if g[0][0] == "raised" else "does not raise"
    if w[0][0] == "raised" and 0 in bad:
        return "class" if w[0][1] != g[0][1] else "message" if w[0][2] != g[0][2] else "line"
    return "+".join(PARTS[n] for n in bad)


def _short(a: Any, b: Any) -> str:
    """The parts of a list that differ."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return (
            "["
            + ", ".join(f"{k}: {_short(x, y)}" for k, (x, y) in enumerate(zip(a, b, strict=True)) if not alike(x, y))
            + "]"
        )
    return repr(a)[:600]
