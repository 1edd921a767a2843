"""The op table: one entry per operator, and the registry that everything else reads.

    @op("tanh(input: T)", kind="pointwise", promote="float", inplace=True)
    class tanh:
        kernel = np.tanh
        def vjp(g, out): return g * (1 - out * out)
        def scalar(b, x): return b.tanh(x)

The class body is a namespace; the decorated name becomes an ``Op``. See docs/architecture.md for every field.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np

from .families import Table, operators

KINDS = ("pointwise", "reduce", "view", "gather", "extern", "create", "random", "composite")
TENSOR_TYPES = ("T", "Tn", "T[]")
TYPES = (*TENSOR_TYPES, "int", "float", "bool", "num", "str", "any", "dtype", "dim", "dim+1", "dims", "ints", "shape")

TABLE: Table[Op] = Table(operators(0))
FUNCTIONS: Table[Function] = Table(operators(1))


class Param:
    """One parameter of an operator."""

    __slots__ = ("name", "type", "optional", "default", "keyword")

    def __init__(
        self,
        name: str,
        type: str,  # noqa: A002
        optional: bool = False,
        default: Any = inspect.Parameter.empty,
        keyword: bool = False,
    ) -> None:
        self.name, self.type, self.optional = name, type, optional
        self.default, self.keyword = default, keyword

    @property
    def is_tensor(self) -> bool:
        return self.type in TENSOR_TYPES

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty


class Signature:
    """Parsed form of ``"sum(input: T, dim: dims? = None, *, dtype: dtype? = None)"``."""

    __slots__ = ("name", "params", "text", "tensors", "attrs")

    def __init__(self, name: str, params: tuple[Param, ...], text: str) -> None:
        self.name, self.params, self.text = name, params, text
        self.tensors = tuple(p for p in params if p.is_tensor)
        self.attrs = tuple(p for p in params if not p.is_tensor)


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


_CONSTANTS = {"None": None, "True": True, "False": False, "0": 0, "1": 1, "-1": -1, "inf": float("inf")}


def _default(text: str) -> Any:
    """The value of a default: a constant, or a literal."""
    return _CONSTANTS[text] if text in _CONSTANTS else ast.literal_eval(text)


def parse_signature(text: str) -> Signature:
    """Parse the signature mini-language. ValueError for anything it does not know."""
    m = re.fullmatch(r"\s*([\w.]+)\s*\((.*)\)\s*", text, re.S)
    if not m:
        raise ValueError(f"not a signature: {text!r}")
    params, keyword = [], False
    for part in _split(m[2]):
        if part == "*":
            keyword = True
            continue
        left, _, default = part.partition("=")
        name, _, kind = (s.strip(" *") for s in left.partition(":"))
        optional = kind.endswith("?")
        kind = kind.rstrip("?").strip()
        if kind not in TYPES:
            raise ValueError(f"{m[1]}: parameter {name!r} has unknown type {kind!r}; known: {', '.join(TYPES)}")
        value = _default(default.strip()) if default else inspect.Parameter.empty
        params.append(Param(name, kind, optional, value, keyword))
    return Signature(m[1], tuple(params), text.strip())


def _pre(b: Any, x: Any, **attrs: Any) -> Any:
    return x


def _end(b: Any, acc: Any, n: Any, **attrs: Any) -> Any:
    return acc


class Reduce:
    """How a reduction lowers: combine all ``pre(x)``, then ``finish(accumulator, number of elements)``."""

    __slots__ = ("combine", "pre", "finish")

    def __init__(self, combine: str, pre: Callable[..., Any] = _pre, finish: Callable[..., Any] = _end) -> None:
        self.combine, self.pre, self.finish = combine, pre, finish


class Scan(Reduce):
    """A running reduction along ``dim``: the accumulator is stored at every element; ``down``: from the last element to
    the first. Combine "linear": ``acc = acc * factor + x`` for operands (factor, x); going down, the factor is that of
    the element before.
    """

    __slots__ = ("down",)

    def __init__(self, combine: str, pre: Callable[..., Any] = _pre, down: bool = False) -> None:
        super().__init__(combine, pre)
        self.down = down


class Sample:
    """Arguments of one test call. Tensors may be given as numpy arrays; ``grad=False`` leaves gradchecks out."""

    def __init__(self, *args: Any, grad: bool = True, **kwargs: Any) -> None:
        self.args, self.kwargs, self.grad = args, kwargs, grad


def t(*shape: int, low: float | None = None, high: float | None = None, dtype: Any = None, seed: int = 0) -> np.ndarray:
    """A reproducible array for samples: uniform in [low, high), else normal; small integers or bits for other dtypes.

    float64 unless ``dtype`` (a fusegrad dtype) says otherwise.
    """
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    kind = np.dtype(np.float64) if dtype is None else dtype.np
    if kind.kind == "f":
        x = rng.normal(size=shape) if low is None else rng.uniform(low, high, shape)  # type: ignore[arg-type]
    elif kind.kind == "b":
        x = rng.integers(0, 2, shape)
    else:
        x = rng.integers(int(low) if low is not None else (0 if kind.kind == "u" else -9), int(high or 10), shape)
    return np.asarray(x).astype(kind)


class Rule:
    """A vjp rule and what its parameter names ask to be saved."""

    __slots__ = ("fn", "names")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        code = getattr(fn, "__code__", None)
        self.names = code.co_varnames[: code.co_argcount] if code else tuple(inspect.signature(fn).parameters)


class Op:
    """One operator: see the module docstring. Calling it dispatches (eager, graph, batched) and records the tape."""

    names: tuple[str, ...] = ()
    dunder: tuple[str, ...] = ()
    inplace: bool = False
    method: bool = True
    function: bool = True
    n_out: int = 1
    nondiff: bool = False
    meta: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    scalar: Callable[..., Any] | None = None
    reduce: Reduce | None = None
    scan: Scan | None = None
    decompose: Callable[..., Any] | None = None
    batch: Any = None
    ref: Callable[..., Any] | None = None
    samples: Callable[[], Iterator[Sample]] | None = None
    errors: Callable[[], Iterator[tuple]] | None = None
    doc: str = ""
    module: str = ""
    # filled in by the dispatcher's generator
    fn: Any = None
    first: Any = None  # of an operator with several results: the call that returns the first alone
    backward: Any = None
    on_arrays: Any  # see ``backgen.arrays_of``
    given_as: str

    def __init__(
        self,
        sig: Signature,
        kind: str,
        promote: str,
        kernel: Callable[..., Any],
        *,
        rules: dict[str, Rule] | None = None,
        fields: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.sig, self.kind, self.promote, self.kernel = sig, kind, promote, kernel
        self.rules, self.fields = rules or {}, fields or {}
        self.plans: dict[Any, Any] = {}  # what nodes keep, by which inputs need a gradient
        self.__dict__.update(others)

    @property
    def name(self) -> str:
        return self.sig.name

    __call__: Any = property(attrgetter("fn"))  # no frame of its own

    def __repr__(self) -> str:
        return f"<op {self.sig.text}>"

    def __reduce__(self) -> tuple:
        return lookup, (self.name,)

    def __deepcopy__(self, memo: dict) -> Op:
        return self


class Inline:
    """The usual call of a function is one operator's: what is published then has the operator's fast path inside.

    ``when``: condition, in the names of the function's parameters and of the operands' arrays (``a0``, ``a1``... in
    the order of the operator's parameters; ``arrays`` for a list), under which the function does nothing but call
    ``op`` with ``given``: names of tensors, expressions of attributes in canonical form (``when`` holds where they are
    evaluated), by the operator's parameters; those left out have the same name in both. ``ints``: a parameter that must
    be a tuple of ints, none below ``least``. ``call``: the expression of the result, if not the kernel's call.
    ``kind``: the namedtuple that several results become. ``using``: objects that the expressions name.
    """

    __slots__ = ("op", "when", "ints", "least", "call", "kind", "using", "given")

    def __init__(
        self,
        op: Op,
        when: str = "",
        *,
        ints: str = "",
        least: int = 0,
        call: str = "",
        kind: type | None = None,
        using: dict[str, Any] | None = None,
        **given: str,
    ) -> None:
        self.op, self.when, self.ints, self.least, self.call, self.given = op, when, ints, least, call, given
        self.kind, self.using = kind, using or {}


class Function:
    """Plain Python made of operators, published under PyTorch's name."""

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        names: tuple[str, ...],
        dunder: tuple[str, ...],
        method: bool,
        function: bool,
        samples: Callable[[], Iterator[Sample]] | None,
        doc: str,
        module: str,
        types: str = "",
        direct: bool = False,
        inline: Inline | None = None,
    ) -> None:
        self.name, self.fn, self.names, self.dunder = name, fn, names, dunder
        self.types, self.direct, self.inline = types, direct, inline
        self.method, self.function, self.samples, self.doc, self.module = method, function, samples, doc, module


def lookup(name: str) -> Op:
    """The table's entry of that name. KeyError names the operator."""
    try:
        return TABLE[name]
    except KeyError:
        raise KeyError(f"fusegrad has no operator {name!r}") from None


class Late:
    """An entry of the table by name, looked up when first called.

    Rules of one family may use operators of another (the derivative of ``slice`` is ``slice_backward``, whose
    derivative is ``slice``): by name, so that the families' files need not import each other in a circle.
    """

    __slots__ = ("name", "table", "found")

    def __init__(self, name: str, table: dict[str, Any]) -> None:
        self.name, self.table, self.found = name, table, self._find

    __call__: Any = property(attrgetter("found"))

    def _find(self, *args: Any, **kwargs: Any) -> Any:
        self.found = self.table[self.name].fn
        return self.found(*args, **kwargs)


def late_op(name: str) -> Late:
    """The operator of that name, which may be defined later."""
    return Late(name, TABLE)


def late_function(name: str) -> Late:
    """The published function of that name, which may be defined later."""
    return Late(name, FUNCTIONS)


on_op: list[Callable[[Op], None]] = []
"""What is done with each new operator: ``callgen`` generates its function and backward, ``bind`` publishes it."""
on_function: list[Callable[[Function], None]] = []
"""What is done with each new function."""


def _publish(entry: Any, steps: list[Callable[[Any], None]]) -> None:
    from . import bind  # noqa: F401  (above this module: it and what it imports fill the lists)

    for step in steps:
        step(entry)


def op(
    signature: str,
    *,
    kind: str,
    promote: str = "none",
    inplace: bool = False,
    names: tuple[str, ...] = (),
    dunder: tuple[str, ...] = (),
    method: bool | None = None,
    function: bool = True,
    n_out: int = 1,
    nondiff: bool = False,
) -> Callable[[type], Op]:
    """Make the decorated class body an entry of the table. ValueError at import for an incomplete entry.

    ``n_out``: number of outputs; -1 if it depends on the call (a tuple). ``method=None``: a Tensor method unless the
    name is dotted or the operator has no tensor argument.
    """
    sig = parse_signature(signature)
    seen_attr = False
    for p in sig.params:
        if p.is_tensor and seen_attr and not p.has_default and not p.keyword:
            raise ValueError(f"{sig.name}: tensor parameters come first")
        seen_attr = seen_attr or not p.is_tensor
    if kind not in KINDS:
        raise ValueError(f"{sig.name}: unknown kind {kind!r}")
    if promote not in ("none", "same", "float", "compare"):
        raise ValueError(f"{sig.name}: unknown promote {promote!r}")

    def build(cls: type) -> Op:
        body = {k: v for k, v in vars(cls).items() if not k.startswith("__")}
        body = {k: (v.__func__ if isinstance(v, staticmethod) else v) for k, v in body.items()}
        flag = body.pop("nondiff", nondiff)
        rules = {k[4:]: Rule(body.pop(k)) for k in list(body) if k.startswith("vjp_")}
        if "vjp" in body:
            rules["*"] = Rule(body.pop("vjp"))
        known = {
            k: body.pop(k, None)
            for k in (
                "kernel",
                "meta",
                "jvp",
                "scalar",
                "reduce",
                "scan",
                "decompose",
                "batch",
                "ref",
                "samples",
                "errors",
            )
        }
        if known["kernel"] is None:
            raise ValueError(f"operator {sig.name} has no kernel")
        entry = Op(
            sig,
            kind,
            promote,
            names=names,
            dunder=dunder,
            inplace=inplace,
            n_out=n_out,
            nondiff=bool(flag),
            method=bool(sig.tensors) and "." not in sig.name if method is None else method,
            function=function,
            rules=rules,
            doc=inspect.cleandoc(cls.__doc__ or ""),
            module=_family(),
            fields=body,
            **known,
        )
        _check(entry)
        if TABLE.defined(sig.name):
            raise ValueError(f"operator {sig.name} is defined twice")
        TABLE[sig.name] = entry
        _publish(entry, on_op)
        return entry

    return build


def _family() -> str:
    """The file that is being imported now: it may define entries with a helper of another file."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_globals.get("__name__", "")


def _check(entry: Op) -> None:
    """An entry must say how it differentiates; its rules may name only what exists."""
    if not entry.rules and not entry.nondiff and entry.kind not in ("create", "random"):
        raise ValueError(f"operator {entry.name} has no vjp: give one, or say nondiff = True")
    params = {p.name for p in entry.sig.params}
    outs = {"out"} | {f"out{i}" for i in range(max(entry.n_out, 0))}
    gs = {"g", "need"} | {f"g{i}" for i in range(max(entry.n_out, 0))}
    hidden = {"seed", "draw"} if entry.kind in ("random", "composite") else set()
    for target, rule in entry.rules.items():
        if target != "*" and target not in {p.name for p in entry.sig.tensors}:
            raise ValueError(f"operator {entry.name}: vjp_{target}, but there is no tensor parameter {target!r}")
        for n in rule.names:
            if n not in params | outs | gs | hidden and n.removesuffix("_meta") not in params:
                raise ValueError(f"operator {entry.name}: vjp names {n!r}, which is no parameter, output or cotangent")


def function(
    signature: str,
    *,
    method: bool | None = None,
    names: tuple[str, ...] = (),
    dunder: tuple[str, ...] = (),
    function: bool = True,
    samples: Callable[[], Iterator[Sample]] | None = None,
    direct: bool = False,
    inline: Inline | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Publish plain Python under PyTorch's name (and as a method, unless the name is dotted).

    ``signature``: the name, and the types of the parameters whose arguments are checked: ``"dot(input: T, tensor: T)"``
    (defaults are those of the Python function). ``direct``: its operators do that. ``inline``: the operator that is all
    that a usual call does. See ``public``.
    """
    name = signature.partition("(")[0]

    def build(fn: Callable[..., Any]) -> Callable[..., Any]:
        if FUNCTIONS.defined(name):
            raise ValueError(f"function {name} is defined twice")
        as_method = "." not in name if method is None else method
        types = signature if signature != name else ""
        doc = inspect.getdoc(fn) or ""
        made = Function(name, fn, names, dunder, as_method, function, samples, doc, _family(), types, direct, inline)
        FUNCTIONS[name] = made
        _publish(made, on_function)
        return fn

    return build
