"""How programs are called, and what the caller does around the calls; programs of seeds from `FIRST` on have this.

Under managers, in threads, inside of transforms (`HOW`); hooks, changes, several and late backward passes after the
call (`THEN`); copies, pickles, resets and other states between calls (`BETWEEN`); eager programs around compiled parts
(`WRAPS`); arguments of more kinds (`KINDS`); the statements of fuzz_callers_statements.py.
"""

from __future__ import annotations

import collections
import contextlib
import random
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from fuzz_callers_statements import STATEMENTS

import fusegrad as T
from fusegrad import nn

__all__ = ["ARGUMENTS", "BETWEEN", "FIRST", "HOW", "KINDS", "STATEMENTS", "THEN", "WRAPS", "changes", "wrapped"]

FIRST = 12_000_000
KEY = "how"  # a call with this key is one of this grammar
ARGUMENTS = ("cfg", "en", "net", "into", "neg", "inf", "acc", "ii", "bb", "arr", "cb", "sh", "sd")

KINDS: dict[str, tuple[str, ...]] = {  # what an argument is, on each call; the first is the plainest
    "cfg": ("setting", "setting", "tuple", "bare tuple", "tensor rate", "int rate"),
    "en": ("RED", "BLUE", "LOW", "HIGH"),
    "net": ("linear", "linear", "fresh", "sequential", "deep", "frozen", "compiled", "norm"),
    "into": ("right", "empty", "double", "row", "asks", "of_x", "turned"),
    "neg": ("flipped", "flipped", "stepped", "rows", "offset"),
    "inf": ("inference", "inference", "view", "plain"),
    "acc": ("leaf", "leaf", "with grad", "hooked", "parameter", "same"),
    "ii": ("doubled", "doubled", "zeros", "empty", "all", "int32"),
    "bb": ("random", "random", "none", "all", "turned"),
    "arr": ("float", "float", "double", "ints", "turned", "empty"),
    "cb": ("lambda", "closure", "partial", "decorated", "bound", "module", "function"),
    "sh": ("square", "circle", "two", "shape"),
    "sd": ("flat", "flat", "more", "other dtype"),
}
HOW = ("", "", "", "", "", "thread", "saved", "anomaly", "deterministic", "handling", "generator",
       "partial", "double", "grad", "grad", "jvp", "jvp")  # fmt: skip
THEN = ("", "", "", "hooks", "arguments changed", "results changed", "again", "each", "late", "twice", "batched",
        "inputs", "views", "given", "multi")  # fmt: skip

BETWEEN: dict[str, str] = {  # what happens between two calls, in the program's globals
    "copied": "DEEP.enc = copy.deepcopy(DEEP.enc)",
    "pickled": "STACK[:] = pickle.loads(pickle.dumps(STACK))",
    "number": "SIX_K = SIX_K + 1",
    "float": "SIX_K = 0.5",
    "parametrized": "parametrize.register_parametrization(DEEP.enc, 'bias', Positive())",
    "plain again": "parametrize.remove_parametrizations(PARAM, 'weight')",
    "loaded": "DEEP.load_state_dict({k: v * 0.9 for k, v in DEEP.state_dict().items()})",
    "tied": "STACK[1].weight = STACK[0].weight",
    "frozen": "DEEP.requires_grad_(False)",
    "thawed": "DEEP.requires_grad_(True)",
    "eval": "DEEP.eval(); PARAM.eval()",
    "hook": "DEEP.enc.register_forward_hook(lambda m, a, r: r * 0.5)",
    "gradient hook": "LEAF.register_hook(lambda g: g * 2)",
    "accumulated": "LEAF.grad = T.ones(3)",
    "stepped": "LEAF.data = LEAF.data * 0.5",
    "asks": "LEAF.requires_grad_(not LEAF.requires_grad)",
    "lr": "DOPT.param_groups[0]['lr'] = 0.2",
    "optimizer": "DOPT = groups(DEEP, T.optim.SGD, momentum=0.5); DSCHED = T.optim.lr_scheduler.StepLR(DOPT, 1)",
    "buffer": "BUF = T.ones(3, 4).t()",
    "array": "NPBUF *= 2; NPBUF[0, 0] = 7",
    "order": "DEEP.order.append('enc')",
    "class": "Scale.forward = lambda self, w: w * self.by * 2; Counted.runs = 3",
    "function": "OwnMap.backward = staticmethod(lambda ctx, g: (g * 3, None))",
    "reset": "T.compiler.reset()",
    "collected": "gc.collect()",
    "doubled": "DEEP.double(); DEEP.float()",
    "deeper": "DEEP.heads['z'] = nn.Parameter(T.ones(3))",
    "inference": "with T.inference_mode(): BUF = T.ones(4, 3) * 2",
    "generator": "SGEN.manual_seed(5)",
    "decorated": "area = repeated(1)(area)",
    "removed": "STACK.pop() if len(STACK) > 1 else None",
}
WRAPS = ("", "", "", "", "eager", "deepcopied", "pickled", "thread", "checkpointed", "vmapped", "gradient", "jacobian",
         "second order", "saved", "scanned", "chained", "finally", "class with state")  # fmt: skip


DIFFERENTIATES = re.compile(r"backward\(|requires_grad_\(|autograd\.|_grad|step\(|mod\b|MOD|OPT|[a-z]_\(")
TRANSFORMED = ("vmapped", "gradient", "jacobian")


def wrapped(kind: str, body: str, names: list[str], signature: str) -> str | None:
    """The program whose body (indented once) is a compiled part of an eager one; None: of another kind."""
    if kind in TRANSFORMED and DIFFERENTIATES.search(body):
        return None  # both sides refuse it
    args = ", ".join(names)
    head = f"def f({signature}):\n"
    deeper = "".join("    " + line + "\n" for line in body.splitlines())
    if kind in ("deepcopied", "pickled", "class with state"):
        again = {"deepcopied": "copy.deepcopy(PROGRAM)", "pickled": "pickle.loads(pickle.dumps(PROGRAM))"}.get(kind)
        if kind == "pickled":
            again = "PROGRAM if PROGRAM.runs > 1 else copy.copy(PROGRAM)"
        state = "    global PROGRAM\n" if again else ""
        again = f"    PROGRAM = {again}\n" if again else ""
        return (
            "EAGER = True\nclass Program(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.runs, self.w = 0, nn.Parameter(T.ones(3))\n"
            f"    def forward(self, {args}):\n        self.runs += 1\n        self.w.data.add_(1)\n{deeper}"
            f"T.manual_seed(3)\nPROGRAM = COMPILE(Program())\n{head}{state}    out = PROGRAM({args})\n{again}"
            "    return (*out, PROGRAM.runs, PROGRAM.w)\n"
        )
    mapped = f"T.func.vmap(lambda x: total(part({args})), randomness='same')(T.stack([x, x * 2]))"
    use = {
        "eager": f"    return part({args})\n",
        "thread": f"    out = worker(part, {args})\n    return (*out, *part({args}))\n",
        "checkpointed": f"    return (checkpoint(lambda x: total(part({args})), x, use_reentrant=False),)\n",
        "vmapped": f"    return ({mapped},)\n",
        "gradient": f"    return (T.func.grad(lambda x: total(part({args})))(x),)\n",
        "jacobian": f"    return (T.func.jacrev(lambda x: total(part({args})) * x)(x),)\n",
        "second order": (
            f"    x = x.detach().requires_grad_()\n    g, = T.autograd.grad(total(part({args})), x, create_graph=True,"
            " allow_unused=True)\n    if g is None or not g.requires_grad: return (g,)\n"
            "    return (g, *T.autograd.grad(g.pow(2).sum(), x, allow_unused=True))\n"
        ),
        "saved": f"    with T.autograd.graph.saved_tensors_hooks(*packed([], 0)): out = part({args})\n    return out\n",
        "scanned": f"    for rep in range(3): out = part({args})\n    return out\n",
        "chained": (
            f"    out = part({args})\n    u = out[0]\n"
            "    if isinstance(u, T.Tensor) and u.shape == x.shape and u.dtype == x.dtype:\n        x = u\n"
            f"    return (*part({args}), *out)\n"
        ),
        "finally": (
            f"    try:\n        out = part({args})\n    except Exception as e:\n"
            "        raise RuntimeError(type(e).__name__) from e\n"
            f"    finally:\n        GL.append(len(GL))\n    return (*out, *part({args}))\n"
        ),
    }.get(kind)
    return None if use is None else f"EAGER = True\n@COMPILE\ndef part({args}):\n{body}\n{head}{use}"


def changes(rng: random.Random, made: list[dict[str, Any]], text: str) -> None:
    """Add the kinds of `KINDS`, `HOW` and `THEN` to a series of calls; some change between calls."""
    base = {k: rng.choice(v) if rng.random() < 0.6 else v[0] for k, v in KINDS.items()}
    ways = HOW[:-4] if DIFFERENTIATES.search(text) else HOW
    off = rng.random() < 0.7
    how, then = rng.choice(ways), rng.choice(THEN)
    odds = rng.choice((0.0, 0.1, 0.3))
    for k, c in enumerate(made):
        c.update(base)
        c.update({name: rng.choice(v) for name, v in KINDS.items() if k and rng.random() < odds})
        c["off"] = "" if off else c["off"]
        c[KEY] = rng.choice(ways) if rng.random() < 0.2 else how
        c["then"] = rng.choice(THEN) if rng.random() < 0.3 else then
        if k and rng.random() < 0.3:
            c["before"] = rng.choice(list(BETWEEN))


# ---- arguments


def more_arguments(ns: dict[str, Any], c: dict[str, Any], args: dict[str, Any], leaves: list[Any]) -> None:
    """Add the arguments named by `ARGUMENTS`, of the kinds that the call ``c`` says."""
    rng = np.random.default_rng([c["seed"], 2])
    x, y, m, n, s = args["x"], args["y"], c["m"], c["n"], c["s"]
    args["cfg"] = {
        "setting": lambda: ns["Setting"](s), "tuple": lambda: ns["Config6"](s, (c["key"],), y),
        "bare tuple": lambda: ns["Config6"](), "tensor rate": lambda: ns["Setting"](y),
        "int rate": lambda: ns["Setting"](n, ns["Color"].BLUE, [1], args["mask"]),
    }[c["cfg"]]()  # fmt: skip
    args["en"] = (ns["Color"] if c["en"] in ("RED", "BLUE") else ns["Level"])[c["en"]]
    args["net"] = _net(ns, c["net"])
    args["into"] = _out(c["into"], x, m, leaves)
    args["neg"] = _negative(rng, c["neg"], m)
    args["inf"] = _inference(c["inf"], rng.standard_normal(m).astype("float32"))
    args["acc"] = _accumulating(ns, c["acc"], leaves)
    args["ii"] = T.from_numpy(
        {"zeros": np.zeros((2, 4), int), "empty": np.zeros((2, 0), int), "all": np.arange(8).reshape(2, 4)}.get(
            c["ii"], rng.integers(0, 3, (2, m + 2)).astype("int32" if c["ii"] == "int32" else "int64")
        )
    )
    flags = {"none": np.zeros((m, 3), bool), "all": np.ones((m, 3), bool)}.get(c["bb"], rng.random((m, 3)) > 0.5)
    args["bb"] = T.from_numpy(np.ascontiguousarray(flags.T).T if c["bb"] == "turned" else flags)
    arr = rng.standard_normal((2, 3)).astype("float64" if c["arr"] == "double" else "float32")
    args["arr"] = {"ints": (arr * 3).astype(int), "turned": np.asfortranarray(arr), "empty": arr[:0]}.get(c["arr"], arr)
    args["cb"] = _callback(ns, c)
    args["sh"] = {
        "square": lambda: ns["Square"](x, n), "circle": lambda: ns["Circle"](y),
        "two": lambda: [ns["Square"](x), ns["Circle"](x, 2)], "shape": lambda: ns["Shape"](n),
    }[c["sh"]]()  # fmt: skip
    args["sd"] = collections.OrderedDict(w=T.from_numpy(rng.standard_normal((2, 3)).astype("float32")), b=T.ones(m))
    if c["sd"] != "flat":
        args["sd"].update({"more": {"n": T.tensor(n)}, "other dtype": {"w": T.ones(3, dtype=T.float64)}}[c["sd"]])


def _net(ns: dict[str, Any], kind: str) -> Any:
    have = ns.setdefault("_nets", {})
    if kind in have:
        return have[kind]
    with T.random.fork_rng():
        T.manual_seed(31)
        if kind == "fresh":
            return nn.Linear(3, 3)
        make: dict[str, Callable[[], Any]] = {
            "linear": lambda: nn.Linear(3, 3), "sequential": lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh()),
            "deep": lambda: nn.Sequential(nn.Sequential(nn.LayerNorm(3), nn.GELU()), nn.Linear(3, 3, bias=False)),
            "frozen": lambda: nn.Linear(3, 3).requires_grad_(False), "compiled": lambda: ns["COMPILE"](nn.Linear(3, 3)),
            "norm": lambda: nn.BatchNorm1d(3),
        }  # fmt: skip
        have[kind] = make[kind]()
    return have[kind]


def _out(kind: str, x: Any, m: int, leaves: list[Any]) -> Any:
    if kind == "of_x":
        return x.detach()
    if kind == "asks":
        leaves.append(T.zeros(m, requires_grad=True))
        return leaves[-1]
    return {
        "right": lambda: T.zeros(m), "empty": lambda: T.empty(0), "double": lambda: T.zeros(m, dtype=T.float64),
        "row": lambda: T.zeros(2, m)[1], "turned": lambda: T.zeros(m, 2)[:, 0],
    }[kind]()  # fmt: skip


def _negative(rng: Any, kind: str, m: int) -> Any:
    data = rng.standard_normal(2 * m + 3).astype("float32")
    return T.from_numpy(
        {"flipped": data[:m][::-1], "stepped": data[: 2 * m][::-2], "offset": data[3 : m + 3]}.get(
            kind, np.ascontiguousarray(data[: 2 * m].reshape(2, m)[::-1])[0]
        )
    )


def _inference(kind: str, data: np.ndarray) -> Any:
    if kind == "plain":
        return T.from_numpy(data)
    with T.inference_mode():
        made = T.tensor(data)
        return made[:] if kind == "view" else made


def _accumulating(ns: dict[str, Any], kind: str, leaves: list[Any]) -> Any:
    if kind == "same":
        return ns["LEAF"]
    leaf = T.tensor([1.0, -2.0, 0.5])
    leaf = nn.Parameter(leaf) if kind == "parameter" else leaf.requires_grad_()
    if kind == "with grad":
        leaf.grad = T.ones(3)
    if kind == "hooked":
        leaf.register_hook(lambda g: g * 2)
    leaves.append(leaf)
    return leaf


def _callback(ns: dict[str, Any], c: dict[str, Any]) -> Any:
    n = c["n"]
    return {
        "lambda": lambda: ns["helper"], "closure": lambda: lambda u: u * n, "module": nn.Tanh,
        "partial": lambda: ns["functools"].partial(ns["helper"], k=n), "function": lambda: T.tanh,
        "decorated": lambda: ns["repeated"](2)(lambda u: u + n), "bound": lambda: ns["Setting"](c["s"]).__call__,
    }[c["cb"]]()  # fmt: skip


# ---- calls


def _float(u: Any) -> bool:
    return isinstance(u, T.Tensor) and u.dtype.is_floating_point


def _reached(out: Any) -> Any:
    """What the results of a call that depend on an input of a transform sum to."""
    parts = [u.float().sum() for u in out if _float(u)] if isinstance(out, tuple) else []
    return sum(parts, T.zeros(()))


def called(kind: str, f: Callable[..., Any], given: list[Any], kw: dict[str, Any]) -> Any:
    """The value of ``f(*given, **kw)``, called in the way ``kind``."""
    if kind == "thread":
        return in_thread(lambda: f(*given, **kw))
    if kind in ("grad", "jvp") and given and _float(given[0]):
        fn = lambda u: _reached(f(u, *given[1:], **kw))
        if kind == "grad":
            return (T.func.grad(fn)(given[0]),)
        return T.func.jvp(fn, (given[0],), (T.ones_like(given[0]),))
    if kind == "generator":
        return next(iter([f(*given, **kw) for _ in (1,)]))
    if kind == "partial":
        return T.utils._pytree.tree_map(lambda g: g(), [lambda: f(*given, **kw)])[0]
    if kind == "handling":
        try:
            raise KeyError("before")
        except KeyError:
            return f(*given, **kw)
    with MANAGERS.get(kind, contextlib.nullcontext)():
        return f(*given, **kw)


def in_thread(fn: Callable[[], Any]) -> Any:
    """The value of ``fn`` in a thread; its error here."""
    out: list[Any] = []

    def run() -> None:
        try:
            out.extend((fn(), None))
        except Exception as e:
            out.extend((None, e))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if out[1] is not None:
        raise out[1]
    return out[0]


@contextlib.contextmanager
def _default_double() -> Any:
    T.set_default_dtype(T.float64)
    try:
        yield
    finally:
        T.set_default_dtype(T.float32)


@contextlib.contextmanager
def _deterministic() -> Any:
    T.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        T.use_deterministic_algorithms(False)


MANAGERS: dict[str, Callable[[], Any]] = {
    "saved": lambda: T.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t),
    "anomaly": lambda: T.autograd.set_detect_anomaly(True),
    "deterministic": _deterministic,
    "double": _default_double,
}


# ---- what comes after a call


def after(
    ns: dict[str, Any], c: dict[str, Any], result: Any, args: dict[str, Any], leaves: list[Any]
) -> list[Any] | None:
    """Does with the results what ``c["then"]`` says; a value to compare. None: what the other grammars do."""
    kind = c["then"]
    late, ns["_late"] = ns.get("_late"), None
    if late is not None:
        late.backward()
    outs = list({id(u): u for u in result if _float(u) and u.requires_grad}.values()) if type(result) is tuple else []
    if not kind or not outs:
        return None
    if kind == "arguments changed":
        with T.no_grad():
            for name in "xyz":
                args[name].add_(1)
    elif kind == "results changed":
        for u in outs:
            u.detach().mul_(2)
    elif kind == "views":
        outs = [u * 1 if u.is_leaf else u.mul_(2) for u in outs]
    elif kind == "hooks":
        for k, u in enumerate(outs):
            u.register_hook(lambda g, k=k: g * (k + 2))
            u.retain_grad()
    seen: list[Any] = []
    if kind == "multi" and leaves:
        T.autograd.graph.register_multi_grad_hook(leaves, lambda gs: seen.append([g is None for g in gs]))
    if kind == "each":
        for u in outs:
            u.sum().backward(retain_graph=True)
        return seen
    if kind in ("batched", "given"):
        return [*seen, *_given(kind, outs, leaves)]
    total = sum((u.float() * 0.5).sum() for u in outs)
    if kind == "late":
        ns["_late"] = total
    elif kind == "inputs":
        total.backward(inputs=leaves[:1] or None)
    else:
        total.backward(retain_graph=kind == "again")
        if kind in ("again", "twice"):
            total.backward()
    return [*seen, *(u.grad for u in outs if kind == "hooks")]


def _given(kind: str, outs: list[Any], leaves: list[Any]) -> list[Any]:
    """Gradients for given ones: expanded, or two at a time."""
    if not leaves:
        return []
    if kind == "given":
        ones = [T.tensor(0.5, dtype=u.dtype).expand(u.shape) for u in outs]
        found = T.autograd.grad(outs, leaves, ones, allow_unused=True)
    else:
        many = [T.stack([T.ones_like(u), T.full_like(u, 2.0)]) for u in outs]
        found = T.autograd.grad(outs, leaves, many, allow_unused=True, is_grads_batched=True)
    return [None if g is None else g.contiguous() for g in found]
