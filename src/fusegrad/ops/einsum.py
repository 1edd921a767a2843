"""einsum: an equation turned into permutations, products and one matrix product a pair of operands."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..dispatch import FAST
from ..op import function
from .matmul import matmul


def _from_lists(args: tuple) -> tuple[str, list]:
    """The form einsum(x, [0, 1], y, [1, 2], [0, 2]) as an equation."""

    def letters(sub: Any) -> str:
        out = ""
        for s in sub:
            if s is Ellipsis:
                out += "..."
            elif 0 <= s < 52:
                out += chr(ord("A") + s) if s < 26 else chr(ord("a") + s - 26)
            else:
                raise RuntimeError(f"einsum(): not in range [0, 52): {s}")
        return out

    terms, tensors, i = [], [], 0
    while i < len(args) - 1:
        tensors.append(args[i])
        terms.append(letters(args[i + 1]))
        i += 2
    text = ",".join(terms)
    if i < len(args):
        text += "->" + letters(args[i])
    return text, tensors


def _split_term(term: str) -> list[str]:
    """Letters of one operand, "..." as one item. RuntimeError for anything else."""
    out, i = [], 0
    while i < len(term):
        c = term[i]
        if c == ".":
            if term[i : i + 3] != "..." or "..." in out:
                raise RuntimeError(
                    "einsum(): found '.' that is not part of any ellipsis, or more than one ellipsis, in one operand"
                )
            out.append("...")
            i += 3
        elif c.isalpha() and c.isascii():
            out.append(c)
            i += 1
        else:
            raise RuntimeError(f"einsum(): invalid subscript given: {c}, subscripts must be in [a-zA-Z]")
    return out


def _diagonals(x: Any, labels: list) -> tuple[Any, list]:
    """Repeated letters of one operand become one dimension."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand but the sizes don't match, {x.shape[j]} != "
                    f"{x.shape[i]}"
                )
            x = x.diagonal(0, i, j)
            labels = [k for n, k in enumerate(labels) if n not in (i, j)] + [c]
    return x, labels


def _arrange(x: Any, labels: list, order: list) -> Any:
    """``x`` with its dimensions in ``order``; labels it lacks become size 1."""
    have = [c for c in order if c in labels]
    perm = tuple(labels.index(c) for c in have)
    if perm != tuple(range(len(perm))):
        x = x.permute(perm)
    for i, c in enumerate(order):
        if c not in labels:
            x = x.unsqueeze(i)
    return x


def _size(x: Any, labels: list, group: list) -> Any:
    n: Any = 1
    for c in group:
        n = n * x.shape[labels.index(c)]
    return n


def _pair(a: Any, la: list, b: Any, lb: list, keep: set) -> tuple[Any, list]:
    """Contract two operands, leaving the labels in ``keep``."""
    for c in list(la):
        if c not in lb and c not in keep:
            a, la = a.sum(la.index(c)), [k for k in la if k != c]
        elif c in lb and c not in keep and a.shape[la.index(c)] != b.shape[lb.index(c)]:
            if a.shape[la.index(c)] == 1:  # a broadcast label that is summed: sum the other side
                b, lb, a, la = (
                    b.sum(lb.index(c)),
                    [k for k in lb if k != c],
                    a.squeeze(la.index(c)),
                    [k for k in la if k != c],
                )
            else:
                a, la, b, lb = (
                    a.sum(la.index(c)),
                    [k for k in la if k != c],
                    b.squeeze(lb.index(c)),
                    [k for k in lb if k != c],
                )
    for c in list(lb):
        if c not in la and c not in keep:
            b, lb = b.sum(lb.index(c)), [k for k in lb if k != c]
    summed = [c for c in la if c in lb and c not in keep]
    if not summed:
        order = [c for c in la if c in lb] + [c for c in la if c not in lb] + [c for c in lb if c not in la]
        return _arrange(a, la, order) * _arrange(b, lb, order), order
    batch = [c for c in la if c in lb and c in keep]
    only_a, only_b = [c for c in la if c not in lb], [c for c in lb if c not in la]
    shape_a = [a.shape[la.index(c)] for c in only_a]
    shape_b = [b.shape[lb.index(c)] for c in only_b]
    k = _size(a, la, summed)
    x, y = _arrange(a, la, batch + only_a + summed), _arrange(b, lb, batch + summed + only_b)
    nb = len(batch)
    x = x.reshape((*x.shape[:nb], _product(shape_a), k))
    y = y.reshape((*y.shape[:nb], k, _product(shape_b)))
    out = x.matmul(y)
    return out.reshape((*out.shape[:nb], *shape_a, *shape_b)), batch + only_a + only_b


def _product(shape: list) -> Any:
    n: Any = 1
    for s in shape:
        n = n * s
    return n


def _parse(equation: str, tensors: list) -> tuple[list[list], list]:
    """Labels of each operand and of the result; an ellipsis becomes numbered labels."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    if arrow and (">" in right or "-" in right):
        raise RuntimeError("einsum(): found more than one '->' in the equation")
    terms = [_split_term(s) for s in left.split(",")]
    if len(terms) < len(tensors):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    if len(terms) > len(tensors):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    widths, full = [], []
    for i, (term, x) in enumerate(zip(terms, tensors, strict=True)):
        extra = x.ndim - (len(term) - ("..." in term))
        if extra < 0 or (extra and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(term)}) does not match the number of "
                f"dimensions ({x.ndim}) for operand {i}" + (" and no ellipsis was given" if extra > 0 else "")
            )
        widths.append(extra)
    dots = max(widths, default=0)
    for term, extra in zip(terms, widths, strict=True):
        labels: list = []
        for c in term:
            labels += [("dots", dots - extra + k) for k in range(extra)] if c == "..." else [c]
        full.append(labels)
    every = [c for labels in full for c in labels]
    ellipsis = [("dots", k) for k in range(dots)]
    if not arrow:
        once = sorted(c for c in set(every) if isinstance(c, str) and every.count(c) == 1)
        return full, ellipsis + once
    out: list = []
    for c in _split_term(right):
        if c == "...":
            out += ellipsis
            continue
        if c in out:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
        if c not in every:
            raise RuntimeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")
        out.append(c)
    return full, out


def _check_sizes(full: list[list], tensors: list) -> None:
    sizes: dict = {}
    for i, (labels, x) in enumerate(zip(full, tensors, strict=True)):
        for c, n in zip(labels, x.shape, strict=True):
            have = sizes.setdefault(c, n)
            if have is n or have == n:
                continue
            if have == 1:
                sizes[c] = n
            elif n != 1:
                raise RuntimeError(
                    f"einsum(): subscript {c if isinstance(c, str) else '...'} has size {n} for operand {i} which "
                    f"does not broadcast with previously seen size {have}"
                )


def _contract(full: list[list], out: list, tensors: list) -> Any:
    """The result for operands with the labels ``full``."""
    _check_sizes(full, tensors)
    pairs = [_diagonals(x, labels) for x, labels in zip(tensors, full, strict=True)]
    x, labels = pairs[0]
    for i, (y, more) in enumerate(pairs[1:], 1):
        later = {c for _, ls in pairs[i + 1 :] for c in ls}
        x, labels = _pair(x, labels, y, more, later | set(out))
    drop = tuple(i for i, c in enumerate(labels) if c not in out)
    if drop:
        x, labels = x.sum(drop), [c for c in labels if c in out]
    order = tuple(labels.index(c) for c in out)
    if order != tuple(range(len(order))):
        x = x.permute(order)
    if any(x is y for y in tensors):
        x = x.view(x.shape) if x.is_contiguous() else x.permute(tuple(range(x.ndim)))
    return x


class _NotKnown(Exception):
    """Asked of a stand-in: what only the operand knows."""


class _Noted:
    """A stand-in for an operand: its methods compute shapes (on an array that takes no memory) and note the calls."""

    def __init__(self, array: Any, place: int, steps: list) -> None:
        self.array, self.place, self.steps = array, place, steps
        self.shape, self.ndim = array.shape, array.ndim

    def _then(self, array: Any, name: str, *args: Any) -> _Noted:
        self.steps.append((name, self.place, args))
        return _Noted(array, -len(self.steps), self.steps)

    def is_contiguous(self) -> bool:
        raise _NotKnown

    def sum(self, dims: Any) -> _Noted:
        gone = {dims} if type(dims) is int else {*dims}
        return self._then(_shaped(n for i, n in enumerate(self.shape) if i not in gone), "sum", dims)

    def squeeze(self, dim: int) -> _Noted:
        return self._then(self.array.squeeze(dim), "squeeze", dim)

    def unsqueeze(self, dim: int) -> _Noted:
        return self._then(_shaped((*self.shape[:dim], 1, *self.shape[dim:])), "unsqueeze", dim)

    def permute(self, dims: tuple) -> _Noted:
        return self._then(self.array.transpose(dims), "permute", dims)

    def diagonal(self, *args: int) -> _Noted:
        return self._then(self.array.diagonal(*args), "diagonal", *args)

    def reshape(self, shape: tuple) -> _Noted:
        product = self.place < 0 and self.steps[-1 - self.place][0] == "matmul"  # a result of einsum is a view of it
        return self if shape == self.shape and not product else self._then(_shaped(shape), "reshape", shape)

    def __mul__(self, other: _Noted) -> _Noted:
        return self._then(_shaped(np.broadcast_shapes(self.shape, other.shape)), "mul", other.place)

    def matmul(self, other: _Noted) -> _Noted:
        batch = np.broadcast_shapes(self.shape[:-2], other.shape[:-2])
        return self._then(_shaped((*batch, self.shape[-2], other.shape[-1])), "matmul", other.place)


def _shaped(shape: Any) -> Any:
    """An array of a shape, of one element of memory."""
    return np.broadcast_to(_ZERO, tuple(shape))


_ZERO = np.zeros((), np.int8)


@functools.lru_cache(maxsize=256)
def _plan(equation: str, shapes: tuple) -> list | None:
    """The calls that ``_contract`` makes for operands of these shapes: (name, place, arguments), where place k >= 0 is
    an operand and -k the result of call k; None where it must look at the operands themselves."""
    steps: list = []
    operands: list = [_Noted(_shaped(s), i, steps) for i, s in enumerate(shapes)]
    full, out = _parse(equation, operands)
    try:
        result = _contract(full, out, operands)
    except _NotKnown:
        return None
    return steps if steps and result.place == -len(steps) else None


def _run(steps: list, tensors: tuple) -> Any:
    made: list = []
    for name, place, args in steps:
        x = tensors[place] if place >= 0 else made[-place - 1]
        if name == "matmul" or name == "mul":
            y = tensors[args[0]] if args[0] >= 0 else made[-args[0] - 1]
            made.append(_matmul(x, y) if name == "matmul" else x * y)
        else:
            made.append(getattr(x, name)(*args))
    return made[-1]


_matmul = matmul.fn


@function("einsum", method=False)
def einsum(equation: Any, *operands: Any) -> Any:
    """Sums of products in Einstein's notation: ``einsum("bij,bjk->bik", x, y)``. RuntimeError for a bad equation."""
    if hasattr(equation, "_data"):
        equation, operands = _from_lists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    if type(equation) is str and all([type(x) in FAST and x._data is not None for x in operands]):
        steps = _plan(equation, tuple([x._data.shape for x in operands]))
        if steps is not None:
            return _run(steps, operands)
    tensors = list(operands)
    return _contract(*_parse(equation, tensors), tensors)
