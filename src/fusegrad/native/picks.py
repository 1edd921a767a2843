"""Kernels that read, add or combine elements at index tensors: gather, scatter_add, index_add, scatter_reduce, the
losses of class indices.
"""

from __future__ import annotations

from typing import Any

from fusegrad.dtypes import dtype, float64, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, ScalarParam, SizeParam, Store
from .scalar import Expr, Size, b


def gather(d: dtype) -> Kernel:
    """y[i, j, k] = x[i, index[i, j, k], k] for x[p, n, l] and index[p, m, l]: x, index (int64), y, p, n, m, l.

    IndexError for an index that is not in [0, n).
    """
    at = {"i": "m*l", "j": "l", "k": 1}
    place = b.check(b.load("index", int64, terms=at), "n", 1, wrap=False)
    value = b.load("x", d, terms={"i": "n*l", "k": 1}, gather=[(place, "l")])
    loops = (Loop("i", "p"), Loop("j", "m"), Loop("k", "l"))
    params = (ArrayParam("x", d), ArrayParam("index", int64), ArrayParam("y", d, True))
    nest = Nest(loops, (Phase(stores=(Store("y", value, terms=at),)),))
    sizes = tuple(SizeParam(s) for s in "pnml")
    return Kernel("gather", (*params, *sizes), (nest,), errors=("index {index} is out of bounds",))


def gather_last(d: dtype) -> Kernel:
    """``gather`` along the last dimension of many numbers: x, index (int64), y, p, n, m."""
    at = {"i": "m", "j": 1}
    place = b.check(b.load("index", int64, terms=at), "n", 1, wrap=False)
    value = b.load("x", d, terms={"i": "n"}, gather=[(place, 1)])
    params = (ArrayParam("x", d), ArrayParam("index", int64), ArrayParam("y", d, True))
    nest = Nest((Loop("i", "p"), Loop("j", "m")), (Phase(stores=(Store("y", value, terms=at),)),))
    sizes = tuple(SizeParam(s) for s in "pnm")
    return Kernel("gather_last", (*params, *sizes), (nest,), errors=("index {index} is out of bounds",))


def scatter_add(d: dtype) -> Kernel:
    """y[i, index[i, j, k], k] += x[i, j, k] in the order of j for index[p, m, l], x[p, s, l], y[p, n, l]:
    index (int64), x, y, p, n, m, l, s.

    IndexError for an index that is not in [0, n).
    """
    return _added("scatter_add", d, b.load("index", int64, terms={"i": "m*l", "j": "l", "k": 1}))


def index_add(d: dtype) -> Kernel:
    """y[i, index[j], k] += x[i, j, k] in the order of j for index[m] and the rest as for ``scatter_add``."""
    return _added("index_add", d, b.load("index", int64, terms={"j": 1}))


def _added(name: str, d: dtype, index: Any) -> Kernel:
    at, place = b.check(index, "n", 1, wrap=False), {"i": "n*l", "k": 1}
    new = b.load("y", d, terms=place, gather=[(at, "l")]) + b.load("x", d, terms={"i": "s*l", "j": "l", "k": 1})
    store = Store("y", new, terms=place, gather=[(at, "l")])
    nest = Nest((Loop("i", "p"),), (Phase((Loop("j", "m"), Loop("k", "l")), (), (store,), True),))
    params = (ArrayParam("index", int64), ArrayParam("x", d), ArrayParam("y", d, True))
    sizes = tuple(SizeParam(s) for s in "pnmls")
    return Kernel(name, (*params, *sizes), (nest,), errors=("index {index} is out of bounds",))


def scatter_reduce(d: dtype, how: str, own: bool, rows: bool) -> Kernel:
    """Elements of x[p, s, l] combined into y[p, n, l] at index[p, m, l] (``rows``: index[m]), those of one place in
    their order: index (int64), x, y, count (int64 zeros, as y; ``rows``: of n), p, n, m, l, s.

    IndexError for an index that is not in [0, n).
    """
    params = (
        *(ArrayParam("index", int64), ArrayParam("x", d)),
        *(ArrayParam("y", d, True), ArrayParam("count", int64, True)),
    )
    nests = combining(d, how, own, rows, *"pnmls")
    sizes = tuple(SizeParam(s) for s in "pnmls")
    return Kernel("scatter_reduce", (*params, *sizes), nests, errors=("index {index} is out of bounds",))


def combining(
    d: dtype, how: str, own: bool, rows: bool, p: Size, n: Size, m: Size, l: Size, s: Size, step: Size = 1
) -> tuple[Nest, ...]:
    """The nests of ``scatter_reduce``, whose arrays are named as there. ``own``: what y holds counts, too; ``step``:
    between the elements of index[m].
    """
    inside = {"k": 1} if l != 1 else {}
    where = {"j": step} if rows else {"i": _times(m, l), "j": l, **inside}
    at = b.check(b.load("index", int64, terms=where), n, 1, wrap=False)
    place = {"i": _times(n, l), **inside}
    columns = (Loop("k", l),) if inside else ()
    outer, inner = (Loop("i", p), *(columns if rows else ())), (Loop("j", m), *(() if rows else columns))
    nests = []

    def each(store: Store, note: str) -> None:
        nests.append(Nest(outer, (Phase(inner, (), (store,), True),), note))

    if not own:
        first = {"prod": 1.0, "amax": float("-inf"), "amin": float("inf")}.get(how, 0.0)
        each(Store("y", b.const(first, d), terms=place, gather=[(at, l)]), "places that start anew")
    old, x = b.load("y", d, terms=place, gather=[(at, l)]), b.load("x", d, terms={"i": _times(s, l), "j": l, **inside})
    each(Store("y", _combined(how, old, x), terms=place, gather=[(at, l)]), f"{how} at places")
    if how == "mean":
        ahead, by = ({}, 1) if rows else (place, l)
        more = b.load("count", int64, terms=ahead, gather=[(at, by)]) + 1
        counted = Store("count", more, terms=ahead, gather=[(at, by)])
        around, along = ((), (Loop("j", m),)) if rows else (outer, inner)
        nests.append(Nest(around, (Phase(along, (), (counted,), True),), "numbers of values"))
        here = {"i": _times(n, l), "j": l, **inside}
        count = b.load("count", int64, terms={"j": 1} if rows else here)
        count = b.cast(b.maximum(count + 1 if own else count, 1), float64)
        share = b.cast(b.cast(b.load("y", d, terms=here), float64) / count, d)
        nests.append(Nest((Loop("i", p), Loop("j", n), *columns), (Phase((), (), (Store("y", share, terms=here),)),)))
    return tuple(nests)


def _times(a: Size, c: Size) -> Size:
    if isinstance(a, int) and isinstance(c, int):
        return a * c
    return a if c == 1 else c if a == 1 else f"{a}*{c}"


def _combined(how: str, old: Expr, x: Expr) -> Expr:
    """The first of equal numbers (zeros of two signs), and NaN where there was one. "put": the last."""
    if how in ("amax", "amin"):
        further = b.gt(x, old) if how == "amax" else b.lt(x, old)
        return b.where(b.or_(further, b.ne(x, x)), x, old)
    return x if how == "put" else old * x if how == "prod" else old + x


def class_loss(d: dtype, reduction: str) -> Kernel:
    """-x[i, target[i]], 0 where the target is ignored; its sum or mean: x[n, m], target (int64), y, ignored, n, m.

    IndexError for a target that is no class.
    """
    rows = (Loop("i", "n"),)
    target = b.load("target", int64, terms={"i": 1})
    counts = b.ne(target, b.scalar("ignored", int64))
    place = b.check(b.where(counts, target, b.const(0, int64)), "m", 1, wrap=False)
    value = b.where(counts, -b.load("x", d, terms={"i": "m"}, gather=[(place, 1)]), b.const(0, d))
    if reduction == "none":
        nest = Nest(rows, (Phase(stores=(Store("y", value, terms={"i": 1}),)),))
    else:
        reduces = [Reduce("all", "add", value)]
        if reduction == "mean":
            reduces.append(Reduce("count", "add", b.cast(counts, d)))
        total = b.acc("all", d) / b.acc("count", d) if reduction == "mean" else b.acc("all", d)
        nest = Nest((), (Phase(rows, tuple(reduces)), Phase((), (), (Store("y", total),))))
    params = (ArrayParam("x", d), ArrayParam("target", int64), ArrayParam("y", d, True), ScalarParam("ignored", int64))
    errors = ("Target {index} is out of bounds.",)
    return Kernel("class_loss", (*params, SizeParam("n"), SizeParam("m")), (nest,), errors=errors)


def image_loss(d: dtype, inside: bool) -> Kernel:
    """y[i, k] = -x[i, target[i, k], k], 0 where the target is ignored: x[n, m, l], target (int64), y, ignored, n, m, l.
    ``inside``: logp as well, the logarithms of softmax over the middle of x, of which the losses are then.

    IndexError for a target that is no class.
    """
    at, here = {"i": "m*l", "j": "l", "k": 1}, {"i": "m*l", "k": 1}
    target = b.load("target", int64, terms={"i": "l", "k": 1})
    counts = b.ne(target, b.scalar("ignored", int64))
    place = b.check(b.where(counts, target, b.const(0, int64)), "m", 1, wrap=False)
    picked = b.load("logp" if inside else "x", d, terms=here, gather=[(place, "l")])
    loss = Store("y", b.where(counts, -picked, b.const(0, d)), terms={"i": "l", "k": 1})
    nests = [Nest((Loop("i", "n"), Loop("k", "l")), (Phase(stores=(loss,)),))]
    if inside:
        x, classes = b.load("x", d, terms=at), (Loop("j", "m"),)
        top = b.acc("top", d)
        phases = (
            Phase(classes, (Reduce("top", "max", x),)),
            Phase(classes, (Reduce("sum", "add", b.exp(x - top)),)),
            Phase(classes, (), (Store("logp", x - top - b.log(b.acc("sum", d)), terms=at),)),
        )
        nests.insert(0, Nest((Loop("i", "n"), Loop("k", "l")), phases))
    params: list[Any] = [ArrayParam("x", d), ArrayParam("target", int64), ArrayParam("y", d, True)]
    params += [ArrayParam("logp", d, True)] if inside else []
    params += [ScalarParam("ignored", int64), *(SizeParam(s) for s in "nml")]
    return Kernel("image_loss", tuple(params), tuple(nests), errors=("Target {index} is out of bounds.",))


def image_loss_grad(d: dtype) -> Kernel:
    """(exp(logp) - one hot) * g[i, k]: g, logp[n, m, l], target (int64), y, n, m, l; g is 0 at ignored targets."""
    at, here = {"i": "m*l", "j": "l", "k": 1}, {"i": "l", "k": 1}
    zero, one = b.const(0, d), b.const(1, d)
    hit = b.where(b.eq(b.index("j"), b.load("target", int64, terms=here)), one, zero)
    value = (b.exp(b.load("logp", d, terms=at)) - hit) * b.load("g", d, terms=here)
    nest = Nest((Loop("i", "n"), Loop("j", "m"), Loop("k", "l")), (Phase(stores=(Store("y", value, terms=at),)),))
    params = (ArrayParam("g", d), ArrayParam("logp", d), ArrayParam("target", int64), ArrayParam("y", d, True))
    return Kernel("image_loss_grad", (*params, *(SizeParam(s) for s in "nml")), (nest,))


def search(d: dtype, steps: int, right: bool) -> Kernel:
    """y[i] = how many of the sorted t[n] lie before x[i] (with ``right``: not after it), NaN last.

    t, x, y (int64), n, m; 0 < n < 2 ** steps. Halving steps without branches: wherever x lies costs the same.
    """
    x = b.load("x", d, terms={"i": 1})
    n, place = b.size("n"), b.const(0, int64)
    for k in reversed(range(steps)):
        further = b.add(place, 1 << k)
        t = b.load("t", d, gather=[(b.sub(b.minimum(further, n), 1), 1)])
        before = b.not_(_less(x, t, d)) if right else _less(t, x, d)
        place = b.where(b.and_(b.le(further, n), before), further, place)
    nest = Nest((Loop("i", "m"),), (Phase(stores=(Store("y", place, terms={"i": 1}),)),))
    params = (ArrayParam("t", d), ArrayParam("x", d), ArrayParam("y", int64, True), SizeParam("n"), SizeParam("m"))
    return Kernel("search", params, (nest,))


def _less(x: Expr, y: Expr, d: dtype) -> Expr:
    """The order of sorted numbers: NaN is the greatest."""
    less = b.lt(x, y)
    return b.or_(less, b.and_(b.ne(y, y), b.eq(x, x))) if d.category == 2 else less


# ---- bags: sums and extrema of rows of table[n, l] at index[m], row i belongs to bag which[i] ----

_WRONG = ("index {index} is out of bounds",)


def _row(d: dtype, weighted: bool, at: Any) -> Expr:
    place = b.check(b.load("index", int64, terms=at), "n", 1, wrap=False)
    row = b.load("table", d, terms={"k": 1}, gather=[(place, "l")])
    return row * b.load("factor", d, terms=at) if weighted else row


def _bag_params(d: dtype, *rest: Any) -> tuple:
    tables = (ArrayParam("table", d), ArrayParam("index", int64), ArrayParam("which", int64), ArrayParam("factor", d))
    return (*tables, *rest, *(SizeParam(x) for x in "nmlc"))


def bags(d: dtype, weighted: bool) -> Kernel:
    """y[which[i]] += table[index[i]] (``weighted``: times factor[i]) in the order of i: table, index, which, factor,
    y[c, l], sizes n, m, l, c. IndexError for an index that is not in [0, n); those of bags are right.
    """
    bag = b.load("which", int64, terms={"j": 1})
    value = b.load("y", d, terms={"k": 1}, gather=[(bag, "l")]) + _row(d, weighted, {"j": 1})
    store = Store("y", value, terms={"k": 1}, gather=[(bag, "l")])
    nest = Nest((Loop("k", "l"),), (Phase((Loop("j", "m"),), (), (store,), True),))
    return Kernel("bags", _bag_params(d, ArrayParam("y", d, True)), (nest,), errors=_WRONG)


def even_bags(d: dtype, weighted: bool) -> Kernel:
    """The same for bags of m rows each that follow each other (``which`` is not read): sums in registers."""
    total = Reduce("s", "sum", _row(d, weighted, {"i": "m", "j": 1}))
    store = Store("y", b.acc("s", d), terms={"i": "l", "k": 1})
    nest = Nest((Loop("i", "c"), Loop("k", "l")), (Phase((Loop("j", "m"),), (total,)), Phase((), (), (store,))))
    return Kernel("even_bags", _bag_params(d, ArrayParam("y", d, True)), (nest,), errors=_WRONG)


def largest_in_bags(d: dtype) -> Kernel:
    """The largest of each bag and column, NaN where there is one, and its index in place[c, l] (-1 before: of several
    the first): as ``bags``, with place behind y.
    """
    bag = b.load("which", int64, terms={"j": 1})
    here: Any = {"terms": {"k": 1}, "gather": [(bag, "l")]}
    old, place, x = b.load("y", d, **here), b.load("place", int64, **here), _row(d, False, {"j": 1})
    further = b.or_(b.or_(b.lt(place, b.const(0, int64)), b.gt(x, old)), b.ne(x, x))
    index = b.load("index", int64, terms={"j": 1})
    stores = (Store("y", b.where(further, x, old), **here), Store("place", b.where(further, index, place), **here))
    nest = Nest((Loop("k", "l"),), (Phase((Loop("j", "m"),), (), stores, True),))
    params = _bag_params(d, ArrayParam("y", d, True), ArrayParam("place", int64, True))
    return Kernel("largest_in_bags", params, (nest,), errors=_WRONG)


def bag_factors(d: dtype) -> Kernel:
    """y[i] = the product of table[index[i]] and factor[which[i]], rows [c, l]: as ``bags``, with y[m]."""
    bag = b.load("which", int64, terms={"i": 1})
    row = b.load("table", d, terms={"k": 1}, gather=[(b.load("index", int64, terms={"i": 1}), "l")])
    total = Reduce("s", "add", row * b.load("factor", d, terms={"k": 1}, gather=[(bag, "l")]))
    store = Store("y", b.acc("s", d), terms={"i": 1})
    nest = Nest((Loop("i", "m"),), (Phase((Loop("k", "l"),), (total,)), Phase((), (), (store,))))
    return Kernel("bag_factors", _bag_params(d, ArrayParam("y", d, True)), (nest,))
