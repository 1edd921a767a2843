"""Derivatives of small arrays as the numpy calls that their rules come to.

Most rules are a few operators on tensors, and on small arrays what they cost is not numpy's calls but the Tensors,
checks and functions between. A rule's calls depend on shapes, layouts, dtypes, attributes and numbers alone (one that
looks at values can't be noted), so it runs once on tensors that only know these; what it calls becomes one generated
function of arrays, kept for all nodes that are alike. Passes that record no graph run it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from . import callfast, callnode, dtypes
from .autograd.node import Node
from .autograd.saved import freed_error
from .deferred import deferred
from .dispatch import DENSE, FAST, fit_number, metas_of, promoted
from .dispatch import cast_array as cast
from .handler import Ref, active
from .meta import Meta, is_contiguous
from .op import Op
from .tensor import Storage, Tensor, wrap_ref

AFTER = 16  # a derivative is noted when it was asked for so many times: that costs as much as fifty passes save
MOST = 256  # noted derivatives of one operator, after which it starts again, and notes what is asked for more often
LARGEST = 1 << 14  # elements: `fused_grads` may do better from here
UNUSUAL = (ValueError, TypeError, AttributeError, IndexError, OverflowError, FloatingPointError, RuntimeWarning)


class CannotNote(Exception):
    """What a rule asks for is not known without the values, or is not an operator."""


class Noting:
    """The handler of stand-ins: notes the operators that are called, as lines of a function of arrays."""

    level = 0
    noting = True  # see ``ops._native.plain_arrays``

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], list[str], bool]] = []  # names made, lines, whether it can't fail
        self.env: dict[str, Any] = {**callnode.ENV, **callfast.ENV, "cast": cast, "where": np.where}
        self.env["__name__"] = "fusegrad.calls"  # numpy's warnings from there are not shown
        self.made = 0

    def place(self, meta: Meta, text: str) -> Tensor:
        """The stand-in that lines call ``text``."""
        ref = Ref(self, meta)  # type: ignore[arg-type]
        ref.text = text  # type: ignore[attr-defined]
        return wrap_ref(ref)

    def input(self, a: np.ndarray, text: str) -> Tensor:
        """The stand-in of an array."""
        steps = tuple([s // a.itemsize for s in a.strides])
        return self.place(
            Meta(a.shape, dtypes.FROM_NUMPY[a.dtype], None if is_contiguous(a.shape, steps) else steps), text
        )

    def constant(self, value: Any) -> str:
        name = f"c{len(self.env)}"
        self.env[name] = value
        return name

    def alias(self, src: Tensor) -> Tensor:
        return wrap_ref(src._g)

    def text_of(self, t: Any) -> str:
        """What lines call a stand-in. CannotNote for a tensor that has data: a rule's own, perhaps changed later."""
        ref = t._g
        if t._data is not None or ref.handler is not self:
            raise CannotNote("a tensor of its own")
        return ref.text

    def dispatch(self, op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
        """Note a call as `dispatch.run_kernel` would make it."""
        if op.kind == "random" or "draw" in attrs or op.meta is None or op.n_out < 1:
            raise CannotNote(op.name)
        if "dtype" in attrs and attrs["dtype"] is None and op.kind == "create":
            raise CannotNote("the default dtype")
        metas = metas_of(args)
        if (refuse := op.fields.get("refuse")) is not None:
            refuse(*metas)
        common = promoted(op, args) if op.promote != "none" else None
        if op.promote == "float" and not any([isinstance(m, Meta) and not m.weak and m.dtype is common for m in metas]):
            raise CannotNote("the default dtype")
        if op.name == "mul" and _is_one(args[1]) and isinstance(args[0], Tensor) and args[0].dtype is common:
            return args[0]
        arrays = self.operands(op, args, common)
        found = op.meta(*metas, **attrs)
        where = {k: self.constant(v) for k, v in attrs.items()}
        direct = None
        if op.name in DIRECT and all([m.numel < LARGEST for m in (found, *metas)]):
            direct = DIRECT[op.name](self, metas, *arrays, **attrs)
        call = direct or callfast.call_of(op, arrays, where, self.constant(op.kernel))
        names = [f"v{self.made + i}" for i in range(op.n_out)]
        self.made += op.n_out
        lines = [f"{', '.join(names)} = {call}"]
        outs = [found] if op.n_out == 1 else [*found]
        for name, meta in zip(names, outs, strict=True):
            if not direct and not (isinstance(op.kernel, np.ufunc) and meta.shape):
                lines.append(f"if type({name}) is not ndarray: {name} = asarray({name})")
                if op.kind in DENSE:
                    lines.append(f"elif not {name}.flags.c_contiguous: {name} = {name}.copy()")
        self.calls.append((names, lines, direct is not None))
        placed = [self.place(m, n) for m, n in zip(outs, names, strict=True)]
        return placed[0] if op.n_out == 1 else tuple(placed)

    def lines_for(self, results: str) -> list[str]:
        """The lines that lead to ``results``: what a rule made for its shape alone is left out."""
        kept: list[list[str]] = []
        text = results
        for names, lines, sure in reversed(self.calls):
            if not sure or any([re.search(rf"\b{n}\b", text) for n in names]):
                kept.append(lines)
                text += "\n" + lines[0]
        return [x for lines in reversed(kept) for x in lines]

    def operands(self, op: Op, args: tuple, common: Any) -> list[str]:
        """The expressions of the operands, cast as `dispatch.arrays_of` casts them."""
        only = op.fields.get("promote_params")
        out = []
        for p, a in zip(op.sig.tensors, args, strict=True):
            to = common if only is None or p.name in only else None
            if isinstance(a, tuple):
                if to is not None:
                    raise CannotNote("a list that is promoted")
                out.append(f"[{', '.join(map(self.text_of, a))}]")
            elif isinstance(a, Tensor):
                text = self.text_of(a)
                out.append(text if to is None or a.dtype is to else f"cast({text}, {self.constant(to.np)})")
            elif a is None:
                out.append("None")
            else:
                out.append(self.constant(a if to is None else _number(op, fit_number(a, to), to)))
        return out


def _where(n: Noting, metas: list, condition: str, x: str, y: str) -> str | None:
    fits = metas[0].dtype is dtypes.bool_ and metas[1].dtype is metas[2].dtype
    return f"where({condition}, {x}, {y})" if fits else None


def _mask_fill(n: Noting, metas: list, x: str, mask: str, value: Any, invert: bool) -> str | None:
    if metas[1].dtype is not dtypes.bool_:
        return None
    d = metas[0].dtype
    number = n.constant(np.array(dtypes.element(value, d), d.np))
    return f"where({mask}, {f'{x}, {number}' if invert else f'{number}, {x}'})"


def _slice(n: Noting, metas: list, x: str, dim: int, start: Any, stop: Any, step: int) -> str:
    return f"{x}[{n.constant((slice(None),) * dim + (slice(start, stop, step),))}]"


def _view(n: Noting, metas: list, x: str, size: tuple) -> str | None:
    return f"{x}.reshape({n.constant(size)})" if metas[0].strides is None else None


def _unsqueeze(n: Noting, metas: list, x: str, dim: int) -> str:
    return f"{x}[{n.constant((slice(None),) * dim + (None,))}]"


def _transpose(n: Noting, metas: list, x: str, dim0: int, dim1: int) -> str | None:
    return f"{x}.swapaxes({dim0}, {dim1})" if metas[0].shape else None


def _full(n: Noting, metas: list, size: tuple, value: Any, dtype: Any) -> str:
    return f"{n.constant(np.full(size, dtypes.element(value, dtype), dtype.np))}.copy()"


DIRECT: dict[str, Any] = {
    "where": _where,
    "mask_fill": _mask_fill,
    "slice": _slice,
    "view": _view,
    "unsqueeze": _unsqueeze,
    "transpose": _transpose,
    "full": _full,
}  # operators whose kernels ask again what is known here


def _is_one(a: Any) -> bool:
    return (type(a) is float or type(a) is int) and a == 1


def _number(op: Op, value: Any, d: dtypes.dtype) -> Any:
    """A number as ufuncs take it fastest: an array of no dimensions, of the dtype that numpy would give it."""
    plain = type(value) is float or type(value) is int
    if plain and d.is_floating_point and isinstance(op.kernel, np.ufunc) and abs(value) < np.finfo(d.np).max:
        return np.array(value, d.np)
    return value


class Noted:
    """``on_arrays`` of an operator whose rules are noted."""

    def __init__(self, op: Op) -> None:
        self.op, self.plans, self.asked = op, {}, {}  # type: ignore[var-annotated]
        self.times = 1  # how many times as often as ``AFTER`` says (ever new shapes)
        self.names = [f"x{i}" for i in range(len(op.sig.tensors))]

    def new(self, key: Any, node: Node, g: np.ndarray) -> Any:
        """The function for nodes like this one; False where there is none, None if it is too early to say."""
        asked = self.asked
        count = asked[key] = asked.get(key, 0) + 1
        if count < AFTER * self.times:
            if len(asked) > 4 * MOST:
                asked.clear()
            return None
        if len(self.plans) >= MOST:
            self.plans.clear()
            asked.clear()
            self.times = min(self.times * 8, 1 << 20)
        try:
            found = self.note(node, g)
        except Exception:  # whatever the rules ask for that a stand-in does not know
            found = False
        self.plans[key] = found
        return found

    def note(self, node: Node, g: np.ndarray) -> Any:
        """The rules' calls for one node, as a function of the gradient, the saved inputs and the saved outputs."""
        noting, like = Noting(), Node()
        like.op, like.edges, like.nrs, like.attrs = node.op, node.edges, node.nrs, dict(node.attrs)
        like.shape, like.dtype, like.hooks = node.shape, node.dtype, None
        like.versions = tuple([0 for _ in node.saved])
        like.saved = tuple([noting.input(s._data, f"x{i}") if type(s) in FAST else s for i, s in enumerate(node.saved)])
        if node.out is None:
            like.out = None
        else:
            like.out = []
            for i, kept in enumerate(node.out):
                st = Storage()
                st.version = 0
                like.out.append(None if kept is None else (noting.input(kept[0], f"o{i}")._g, st, 0))
        grads = [noting.input(g, "g"), *[None] * (self.op.n_out - 1)]
        with active(noting):
            if self.op.n_out > 1:
                from .autograd.fitting import materialized  # above this module

                grads = materialized(like, grads)
            results = self.op.backward(like, grads)
        given = {"g", *self.names, *(f"o{i}" for i in range(self.op.n_out))}
        texts = ["None" if r is None else noting.text_of(r) for r in results]
        if any(t in given and t != "g" for t in texts):
            raise CannotNote("a gradient that is a saved tensor")
        head = ", ".join(["g", *self.names, *(f"o{i}" for i in range(self.op.n_out))])
        end = f"return ({''.join(t + ', ' for t in texts)})"
        lines = [f"def run({head}):", *noting.lines_for(end), end]
        exec(compile("\n    ".join(lines), f"<fusegrad noted {self.op.name}>", "exec"), noting.env)
        return noting.env["run"]


def _reading(op: Op) -> tuple[list[str], list[str]]:
    """Lines that read what a node keeps (``x0``, ``o0``...), and the expressions of the key."""
    names = {n for r in op.rules.values() for n in r.names}
    lines, key = [], ["g.shape", "g.strides", "g.dtype"]
    for i, p in enumerate(op.sig.tensors):
        key.append(f"e[{i}] is None")
        if not names & {p.name, p.name + "_meta"}:
            lines.append(f"x{i} = None")
            continue
        lines += [
            f"x{i} = k{i} = saved[{i}]",
            f"if type(x{i}) is Tensor or type(x{i}) in FAST:",
            f"    st, x{i} = x{i}._st, x{i}._data",
            f"    if x{i} is None or st is not None and st.version != node.versions[{i}]: return None",
            f"    k{i} = x{i}.shape, x{i}.strides, x{i}.dtype",
            f"elif type(x{i}) is Meta: k{i} = 0, k{i}.shape, k{i}.strides, k{i}.dtype",
            f"elif type(x{i}) is float or type(x{i}) is int:",
            f"    if not x{i}: return None",  # a zero's sign is not in the key
            f"    k{i} = type(x{i}), x{i}",
            f"elif x{i} is not None: return None",
        ]
        key.append(f"k{i}")
    outs = {i for i in range(op.n_out) if f"out{i}" in names or i == 0 and "out" in names}
    for i in range(op.n_out):
        lines.append(f"o{i} = {f'q{i} = ' if i in outs else ''}None")
        if i in outs:
            lines += [
                f"if node.out is not None and node.out[{i}] is not None:",
                f"    if type(node.out[{i}]) is not tuple: return None",  # packed by hooks
                f"    o{i}, st, version = node.out[{i}]",
                f"    if type(o{i}) is not ndarray or st.version != version: return None",
                f"    q{i} = o{i}.shape, o{i}.strides, o{i}.dtype",
            ]
            key.append(f"q{i}")
    if op.n_out > 1:
        key += ["node.shape", "node.dtype"]
    if op.sig.attrs:
        lines += [
            "attrs = node.attrs",
            "a = None",
            # (0.0 and -0.0 are equal)
            "if attrs is not DEFAULTS:",
            "    a = tuple([(type(v), repr(v) if type(v) is float and not v else v) for v in attrs.values()])",
        ]
        key.append("a")
    return lines, key


def source(op: Op) -> tuple[str, dict[str, Any]]:
    """Source and globals of the function that reads a node, finds what was noted for nodes like it, and runs that."""
    noted = Noted(op)
    env: dict[str, Any] = {
        "FAST": FAST,
        "Tensor": Tensor,
        "Meta": Meta,
        "ndarray": np.ndarray,
        "freed_error": freed_error,
        "UNUSUAL": UNUSUAL,
        "NEW": noted.new,
        "PLANS": noted.plans,
        "LARGEST": LARGEST,
        "DEFAULTS": getattr(op.fn, "__globals__", {}).get("DEFAULTS"),
        "__name__": "fusegrad.calls",
    }
    lines, key = _reading(op)
    given = ", ".join(["g", *noted.names, *(f"o{i}" for i in range(op.n_out))])
    text = [
        "def on_arrays(node, g):",
        "    saved = node.saved",
        "    if saved is None: raise freed_error()",
        "    if g.size >= LARGEST: return None",
        "    e = node.edges",
        *("    " + x for x in lines),
        "    try:",
        f"        key = ({', '.join(key)})",
        "        run = PLANS.get(key)",
        "        if run is None: run = NEW(key, node, g)",
        f"        return run({given}) if run else None",
        "    except UNUSUAL: return None",
    ]
    return "\n".join(text), env


def or_noted(op: Op, form: Any) -> Any:
    """``form``, the array form that an entry has, and where that gives None what is noted of the rules."""
    from .autograd.array_pass import fitted  # above this module

    noted = deferred("on_arrays", f"<fusegrad noted {op.name}>", lambda: source(op))

    def on_arrays(node: Node, g: np.ndarray) -> Any:
        found: Any = form(node, g)
        if found is not None:
            return found
        found = noted(node, g)
        if found is None:
            return None
        pairs = zip(found, node.edges, node.nrs, strict=True)
        return [None if x is None or e is None else fitted(x, e, nr, node.seq) for x, e, nr in pairs]

    return on_arrays


def can_be_noted(op: Op) -> bool:
    """Whether the rules of an operator may have a noted form."""
    if op.n_out < 1 or op.kind == "random" or op.fields.get("draws") or not op.rules or op.fields.get("partial"):
        return False
    return all(p.type in ("T", "Tn") for p in op.sig.tensors)
