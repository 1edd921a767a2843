"""Truth, identity, operators, comparisons and text of values."""

from __future__ import annotations

import collections
import functools
import operator
import types
from typing import Any

import numpy as np

from fusegrad.place import Size
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks, texts
from .acting import refuse_acting
from .ahead import compute, is_array
from .breaks import Break, Raised, Refuse
from .contracts import result_of
from .handled import TraceOf
from .numbers import fixed_exponent
from .objects import mro_lookup
from .shown import concrete, escaped
from .subclasses import plain_value
from .values import (
    NULL,
    DictRef,
    ForeignMethod,
    ListRef,
    ObjRef,
    SetRef,
    SymFloat,
    class_of,
    fixed_key,
    is_a,
    is_foreign,
    plain_container,
)

_REPEATED = (list, tuple, str, bytes, collections.deque)
_OPS = {
    n: getattr(operator, n) for n in "add and_ floordiv lshift matmul mul mod or_ pow rshift sub truediv xor".split()
}
_IOPS = {n: getattr(operator, "i" + n.rstrip("_")) for n in _OPS}
_SET_METHODS = {"or_": "update", "and_": "intersection_update", "sub": "difference_update",
                "xor": "symmetric_difference_update"}  # fmt: skip
_MIRROR = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "gt": "lt", "ge": "le"}


class Operators:
    """Mixin of the evaluator."""

    cap: Any
    real: Any
    call: Any
    native: Any
    content: Any
    items_of: Any
    length: Any
    user_method: Any
    raw_dict: Any

    # ---- operators

    def truth(self, v: Any) -> bool:
        """``bool(v)``; a break for a tensor."""
        t = type(v)
        if t is bool:
            return v
        if v is None:
            return False
        if issubclass(t, Tensor):
            raise Break(breaks.BRANCH, "branch on the value of a tensor", clean=True)
        if t in (ListRef, SetRef, DictRef):
            return self.length(v) > 0
        if t is ObjRef and (plain := plain_value(self.cap, v)) is not v:
            return self.truth(plain)
        if t is ObjRef or (t.__flags__ & (1 << 9) and t is not SymFloat and t is not SymInt):
            for name in ("__bool__", "__len__"):
                m = self.user_method(v, name)
                if m is not NULL:
                    return bool(result_of(name, self.call(m, [v], {})))
            if t is ObjRef:
                cls = class_of(v)
                raw = None if hasattr(cls, "__bool__") else self.raw_dict(v, "__len__")
                if raw is not None:
                    return self.length(raw) > 0
                if hasattr(cls, "__bool__") or hasattr(cls, "__len__"):
                    raise Break(breaks.OBJECT, f"truth of a {cls.__name__}", clean=True)
                return True
        if is_foreign(v) or t.__name__ in ("ForeignMethod", "SuperValue", "GenValue"):
            return True
        return self.real(bool, v)

    def same(self, a: Any, b: Any) -> bool:
        """``a is b``."""
        if a is b and type(a) not in (range, frozenset):
            return True
        if SymInt in (type(a), type(b)) and class_of(a) is int and class_of(b) is int:
            if not a == b:
                return False
            if -5 <= int(a) <= 256:  # Python has one object for each of these
                return True
            raise Break(breaks.OBJECT, "identity of a large number", clean=True)
        if is_foreign(a) and is_foreign(b):
            sa, sb = a.source, b.source
            one = a.obj is b.obj  # texts and the like that change have a placeholder each
            if sa.kind != "const" or sb.kind != "const":
                word = "is" if one else "is not"
                self.cap.guard(f"{self.cap.tok(sa)} {word} {self.cap.tok(sb)}", "identity", sa.path())
            return one
        for ref, other in ((a, b), (b, a)):
            if is_foreign(ref) and ref.obj is other:  # a mark of the library that real code put somewhere
                c = self.cap
                c.guard(f"{c.tok(ref.source)} is {c.consts.name(other)}", "identity", ref.source.path())
                return True
        ia, ib = self.cap.input_of.get(id(a)), self.cap.input_of.get(id(b))
        if ia is not None and ib is not None:
            self.cap.guard(f"{self.cap.tok(ia.source)} is not {self.cap.tok(ib.source)}", "identity", ia.source.path())
            return False
        sa, sb = self.cap.origin.get(id(a)), self.cap.origin.get(id(b))
        if sa is not None and sb is not None:  # functions, methods, tuples and the like from before
            if sa.kind != "const" or sb.kind != "const":
                self.cap.guard(f"{self.cap.tok(sa)} is not {self.cap.tok(sb)}", "identity", sa.path())
            return False
        if type(a) is type(b) and type(a) in (Size, range, frozenset):  # equal ones may be one object, or not
            raise Refuse(breaks.OBJECT, "identity of constants that are equal")
        if type(a) is TraceOf and type(b) is TraceOf and a.exc is b.exc:
            raise Break(breaks.OBJECT, "tracebacks are compared", clean=True)  # each frame adds to them
        return False

    def unary(self, name: str, v: Any) -> Any:
        m = self.user_method(v, f"__{name}__")
        if m is not NULL:
            return self.call(m, [v], {})
        v = plain_value(self.cap, v)
        if is_foreign(v):
            done = compute(self, getattr(operator, name), [v], {}) if is_array(v) else NULL
            if done is not NULL:
                return done
            raise Break(breaks.OBJECT, f"operator on a {class_of(v).__name__}", clean=True)
        return self.real(getattr(operator, name), fixed_key(v) if name == "invert" else v)

    def binary(self, name: str, a: Any, b: Any, inplace: bool) -> Any:
        """``a op b`` or ``a op= b``."""
        if (
            inplace
            and type(a) in (ListRef, SetRef, DictRef)
            and plain_container(a.obj)
            and self._changes_itself(name.rstrip("_"), a, b)
        ):
            return self._inplace_container(name, a, b)
        b = self._beside(a, b)
        r = self._user_binary(name.rstrip("_"), a, b, inplace)
        if r is not NULL:
            return r
        for v in (a, b):
            if type(v) in (ListRef, DictRef) and type(v.obj) not in (list, dict, collections.deque):
                raise Break(breaks.OBJECT, f"operator on a {class_of(v).__name__}", clean=True)
        if (is_array(a) or is_array(b)) and not inplace:
            done = compute(self, _OPS[name], [a, b], {})
            if done is not NULL:
                return done
        text = texts.joined(self, [a, b]) if name == "add" else None
        if text is not None:
            return text
        a, b = self.operand(a), self.operand(b)
        if issubclass(type(a), Tensor) or issubclass(type(b), Tensor):
            a, b = map(self.native, fixed_exponent(name, [a, b]))
        if name == "mod" and type(a) in (str, bytes):
            given = list(b) if type(b) is tuple else [b]
            places = ", ".join(["{}"] * len(given))
            form = f"{a!r}".replace("{", "{{").replace("}", "}}") + f" % ({places},)"
            text = texts.formatted(self, given, form, lambda *n: a % n) if type(a) is str else None
            if text is not None:
                return text
            b = concrete(self, b)
        if inplace and not issubclass(type(a), (Tensor, dict, set, list, collections.deque)):
            inplace = False
        if inplace and name == "add" and issubclass(type(a), (list, collections.deque)):
            if self.one_by_one(b, lambda x: self.real(a.append, x), issubclass(type(a), list)):
                return a
            b = self.items_of(b, sized=issubclass(type(a), list))
        if name == "mul":
            for v, by in ((a, b), (b, a)):
                if issubclass(type(v), _REPEATED):
                    refuse_acting("a sequence is repeated by", by, names=("__index__",))
        fn = (_IOPS if inplace else _OPS)[name]
        if type(a) not in (SymInt, SymFloat) and type(b) not in (SymInt, SymFloat):
            return self.real(fn, a, b)
        return self._number_op(fn, a, b)

    def _beside(self, a: Any, b: Any) -> Any:
        """A number of numpy's that changes, as a tensor on its left takes it: as Python's."""
        if type(b) is ObjRef and issubclass(type(a), Tensor) and is_a(b.obj, (np.integer, np.floating)):
            return self.cap.realize(b.obj.item(), b.source.call("{}.item()"))
        return b

    def _number_op(self, fn: Any, a: Any, b: Any) -> Any:
        """An operator on a number that changes; on its value where the symbolic number does not take it."""
        if not (is_a(a, (np.generic, np.ndarray)) or is_a(b, (np.generic, np.ndarray))):
            try:
                return self.real(fn, a, b)
            except (Raised, Refuse):
                pass
        return self.real(fn, fixed_key(a), fixed_key(b))

    def operand(self, v: Any) -> Any:
        """An operand for a real operator: content of containers, else the value; breaks for other objects."""
        v = self.content(v)
        if is_foreign(v):
            raise Break(breaks.OBJECT, f"operator on a {class_of(v).__name__}", clean=True)
        return v

    def _inplace_container(self, name: str, a: Any, b: Any) -> Any:
        if type(a) is ListRef and name == "add":
            self.list_method(a, "extend", [b])
        elif type(a) is ListRef and name == "mul" and type(b) is int:
            self.real(_IOPS[name], self.list_items(a), b)
            a.dirty = True
        elif type(a) is DictRef and name == "or_":
            for k, v in self.mapping_of(b).items():
                self.dict_set(a, k, v)
        elif type(a) is SetRef and name in ("or_", "and_", "sub", "xor"):
            self.change_set(a, _SET_METHODS[name], [b])
        else:
            raise Break(breaks.OBJECT, "in-place operator on a container", clean=True)
        return a

    def _user_binary(self, name: str, a: Any, b: Any, inplace: bool) -> Any:
        tries = []
        if inplace:
            if self._changes_itself(name, a, b):
                return NULL
            tries.append((a, f"__i{name}__", b))
        first, second = (a, f"__{name}__", b), (b, f"__r{name}__", a)
        if name == "mod" and type(a) in (str, bytes) and not issubclass(class_of(b), type(a)):
            return NULL  # text is filled in first
        ca, cb = class_of(a), class_of(b)
        if ca is not cb and issubclass(cb, ca):
            self.cap.class_guard(cb, second[1], mro_lookup(cb, second[1])[1])
        if ca is not cb and issubclass(cb, ca) and mro_lookup(cb, second[1])[1] is not mro_lookup(ca, second[1])[1]:
            tries += [second, first]
        else:
            tries += [first, second] if ca is not cb else [first]
        for obj, method, other in tries:
            m = self.user_method(obj, method)
            if m is not NULL:
                r = self.call(m, [obj, other], {})
                if r is not NotImplemented:
                    return r
            elif obj is a and _answers(ca, cb):
                return NULL  # before the other is asked
        return NULL

    def _changes_itself(self, name: str, a: Any, b: Any) -> bool:
        """Whether ``a op= b`` is the in-place operator of the container that the class of ``a`` is made from: it comes
        before an ``__or__`` or ``__add__`` of the user's."""
        ca = class_of(a)
        if not issubclass(ca, (list, dict, set, collections.deque)):
            return False
        if name in ("add", "mul") and not ca.__flags__ & (1 << 9):
            return self.user_method(b, f"__r{name}__") is NULL  # else that comes first
        if name == "mul":
            return False
        if issubclass(ca, set) and not issubclass(class_of(b), (set, frozenset)):
            return False
        return mro_lookup(ca, f"__i{name}__")[1] is not NULL and self.user_method(a, f"__i{name}__") is NULL

    def compare(self, name: str, a: Any, b: Any) -> Any:
        """``a == b`` and the other comparisons."""
        b = self._beside(a, b)
        ca, cb = class_of(a), class_of(b)
        if type(a) is ObjRef or type(b) is ObjRef:
            a, b = plain_value(self.cap, a), plain_value(self.cap, b)
        ways = [(a, name, b), (b, _MIRROR[name], a)]
        if ca is not cb and issubclass(cb, ca):  # a subclass is asked first
            ways.reverse()
        asked = []  # the objects whose own method did not know the other
        for obj, method, other in ways:
            m = self.user_method(obj, f"__{method}__")
            if m is NULL and method == "ne" and mro_lookup(class_of(obj), "__ne__")[0] is object:
                m = self.user_method(obj, "__eq__")
                if m is not NULL:
                    r = self.call(m, [obj, other], {})
                    if r is not NotImplemented:
                        return not self.truth(r)
                    asked.append(obj)
                    continue
            if m is not NULL:
                r = self.call(m, [obj, other], {})
                if r is not NotImplemented:
                    return r
                asked.append(obj)
            elif obj is a and (ca is not cb or name in ("eq", "ne")) and _answers(ca, cb):
                break  # before the other is asked
        if is_array(a) or is_array(b):
            done = compute(self, getattr(operator, name), [a, b], {})
            if done is not NULL:
                return done
        if (type(a) is ObjRef or type(b) is ObjRef) and name in ("eq", "ne"):
            for x, other in ((a, b), (b, a)):
                if any(x is o for o in asked) and self._unknown_to(other, x):
                    continue
                if type(x) is ObjRef and type(x.obj).__eq__ is not object.__eq__:
                    raise Break(breaks.OBJECT, f"== of a {class_of(x).__name__}", clean=True)
            return self.same(a, b) == (name == "eq")
        if type(a) is DictRef or type(b) is DictRef:
            ordered = (
                issubclass(class_of(a), collections.OrderedDict),
                issubclass(class_of(b), collections.OrderedDict),
            )
            if all(ordered):
                raise Break(breaks.OBJECT, "comparison of ordered dicts", clean=True)
        if name in ("eq", "ne") and type(a) is ForeignMethod and type(b) is ForeignMethod:
            return (a.name == b.name and self.same(a.ref, b.ref)) == (name == "eq")
        if name in ("eq", "ne") and (one := self._one_object(a, b)) is not None:
            return one == (name == "eq")
        a, b = self.operand(a), self.operand(b)
        if issubclass(type(a), Tensor) or issubclass(type(b), Tensor):
            a, b = self.native(a), self.native(b)
        elif (
            type(a) in (list, tuple)
            and type(b) is type(a)
            and name in ("eq", "ne")
            and not (isinstance_plain(a) and isinstance_plain(b))
        ):
            eq = len(a) == len(b) and all(
                x is y or self.truth(self.compare("eq", x, y)) for x, y in zip(a, b, strict=False)
            )
            return eq == (name == "eq")
        elif type(a) is dict and type(b) is dict and name in ("eq", "ne") and any(map(_stands, a.values())):
            eq = len(a) == len(b) and all(
                k in b and (x is b[k] or self.truth(self.compare("eq", x, b[k]))) for k, x in a.items()
            )
            return eq == (name == "eq")
        refuse_acting("a comparison reads", a, b)
        if is_a(a, (np.generic, np.ndarray)) or is_a(b, (np.generic, np.ndarray)):  # numpy compares in its own dtype
            a, b = fixed_key(a), fixed_key(b)
        return self.real(getattr(operator, name), a, b)

    def _one_object(self, a: Any, b: Any) -> bool | None:
        """``a == b`` of what Python compares by identity, and of methods by that of their objects; None for the rest.

        The values that stand for them here are made anew: they can't answer themselves.
        """
        t = type(a)
        if t is not type(b) and not (is_a(a, type) and is_a(b, type)):
            return None
        if t in (types.FunctionType, functools.partial) or (is_a(a, type) and t.__eq__ is type(b).__eq__ is _TYPE_EQ):
            return self.same(a, b)
        if t is types.MethodType:
            return self.same(a.__func__, b.__func__) and self.same(a.__self__, b.__self__)
        return None

    @staticmethod
    def _unknown_to(other: Any, x: Any) -> bool:
        """Whether == of ``other`` has no answer for the object ``x`` (its own method is asked elsewhere)."""
        return type(other) is ObjRef or (
            class_of(other) in _OF_THEIR_KIND and not issubclass(class_of(x), _OF_THEIR_KIND)
        )

    # ---- strings

    def format_value(self, v: Any, conversion: int, spec: str | None) -> Any:
        """One f-string field."""
        if type(v) in (SymInt, SymFloat) and (spec is None or type(spec) is str):
            return texts.field(self, v, conversion, spec or "")
        if texts.is_text(v) and (spec is None or type(spec) is str):
            return texts.of_text(self, v, conversion, spec or "")
        plain = conversion == 0 and spec == "" and not issubclass(type(v), Tensor)
        if conversion == 1 or (plain and self.user_method(v, "__format__") is NULL):
            text = self.call(str, [v], {})
        elif conversion in (2, 3):
            text = self.call(repr, [v], {})
            text = escaped(text) if conversion == 3 else text
        else:
            text = v
        if spec is None or (type(text) is str and spec == ""):
            return text
        return self.call(format, [text, spec], {})


_TYPE_EQ = type.__eq__
# Classes and what their own operators take besides: the other's reflected method is not asked then.
_TAKEN: tuple[tuple[type, tuple[type, ...]], ...] = (
    (Tensor, (int, float, complex)), (complex, (int, float, complex)), (float, (int, float)), (int, (int,)),
    (set, (set, frozenset)), (frozenset, (set, frozenset)),
)  # fmt: skip


def _stands(v: Any) -> bool:
    """Whether a value is made anew here for what Python compares by identity, or holds such."""
    kinds = (types.FunctionType, types.MethodType, functools.partial, type, ForeignMethod, tuple, list)
    return is_a(v, kinds) and not isinstance_plain(v)


def _answers(cls: type, other: type) -> bool:
    """Whether own operators of a number, a set or a tensor have an answer for the other class."""
    return next((issubclass(other, taken) for kind, taken in _TAKEN if issubclass(cls, kind)), False)


# Classes whose == knows nothing but these, and the classes made from them.
_OF_THEIR_KIND = (int, float, str, bytes, bool, type(None), list, tuple, dict, set, frozenset, range)


def isinstance_plain(v: Any) -> bool:
    """Numbers, strings and containers of them: comparing them is harmless."""
    t = type(v)
    if t in (tuple, list):
        return all(isinstance_plain(x) for x in v)
    return t in (int, float, str, bool, type(None), bytes, SymInt, SymFloat)
