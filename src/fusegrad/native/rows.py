"""Definitions of row kernels: statistics of each row of a C-contiguous [n, m], then something for each element.

Each function gives the kernel for a dtype. Parameters: arrays read, arrays written, numbers, then n and m.
"""

from __future__ import annotations

from typing import Any

from fusegrad.dtypes import dtype, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, ScalarParam, SizeParam, Store
from .scalar import Expr, b

AT = {"i": "m", "j": 1}  # element j of row i
ROW = {"i": 1}  # what belongs to the row
COLUMN = {"j": 1}  # what belongs to the column
ROW_START = {"i": "m"}

Stores = dict[str, tuple[Expr, dict]]


class Rows:
    """A kernel over rows while it is written down.

    ``read`` and ``write`` name the arrays; ``each(reduces, stores)`` adds a pass over every row's elements, ``once`` a
    value for each row.
    """

    def __init__(self, name: str, d: dtype, read: str, write: str, numbers: str = "") -> None:
        self.name, self.d = name, d
        self.phases: list[Any] = []
        self.nests: list[Any] = []
        self.params: list[Any] = [ArrayParam(x, d) for x in read.split()]
        self.params += [ArrayParam(x, d, True) for x in write.split()]
        self.params += [ScalarParam(x, d) for x in numbers.split()]
        self.sums = 0

    def load(self, name: str, terms: dict = AT) -> Expr:
        """One element of an array."""
        return b.load(name, self.d, terms=terms)

    def number(self, name: str) -> Expr:
        """A number given by the caller."""
        return b.scalar(name, self.d)

    def width(self) -> Expr:
        """m as a number of the dtype."""
        return b.cast(b.size("m"), self.d)

    def reduce(self, combine: str, *values: Expr, stores: Stores | None = None) -> list[Expr]:
        """Reductions of values over each row, in one pass that may store as well."""
        names = [f"r{self.sums + k}" for k in range(len(values))]
        self.sums += len(values)
        reduces = tuple(Reduce(n, combine, v) for n, v in zip(names, values, strict=True))
        self.phases.append(Phase((Loop("j", "m"),), reduces, _stores(stores or {})))
        return [b.acc(r.name, r.dtype) for r in reduces]

    def each(self, **stores: Expr) -> None:
        """Store into every element of the row."""
        self.phases.append(Phase((Loop("j", "m"),), (), _stores({k: (v, AT) for k, v in stores.items()})))

    def once(self, **stores: Expr) -> None:
        """Store one value for the row."""
        self.phases.append(Phase((), (), _stores({k: (v, ROW) for k, v in stores.items()})))

    def end(self, note: str = "") -> None:
        """The nest over rows is complete."""
        self.nests.append(Nest((Loop("i", "n"),), tuple(self.phases), note))
        self.phases = []

    def columns(self, **values: Expr) -> None:
        """A nest of its own: sums down the columns."""
        reduces = tuple(Reduce(f"c_{k}", "add", v) for k, v in values.items())
        phases = (
            Phase((Loop("i", "n"),), reduces),
            Phase((), (), _stores({k: (b.acc(f"c_{k}", v.dtype), COLUMN) for k, v in values.items()})),
        )
        self.nests.append(Nest((Loop("j", "m"),), phases, "sums of columns"))

    def kernel(self) -> Kernel:
        if self.phases:
            self.end()
        return Kernel(self.name, (*self.params, SizeParam("n"), SizeParam("m")), tuple(self.nests))


def _stores(stores: Stores) -> tuple[Store, ...]:
    return tuple(Store(name, value, terms=terms) for name, (value, terms) in stores.items())


def softmax(d: dtype) -> Kernel:
    """y = exp(x) normalised to sum 1: x, y."""
    k = Rows("softmax", d, "x", "y")
    (top,) = k.reduce("max", k.load("x"))
    e = b.exp(k.load("x") - top)
    (total,) = k.reduce("add", e, stores={"y": (e, AT)})
    k.each(y=k.load("y") / total)
    return k.kernel()


def log_softmax(d: dtype) -> Kernel:
    """y = log(softmax(x)): x, y."""
    k = Rows("log_softmax", d, "x", "y")
    (top,) = k.reduce("max", k.load("x"))
    shifted = k.load("x") - top
    (total,) = k.reduce("add", b.exp(shifted))
    k.each(y=shifted - b.log(total))
    return k.kernel()


def softmax_grad(d: dtype) -> Kernel:
    """y = out * (g - sum(g * out)): g, out, y."""
    k = Rows("softmax_grad", d, "g out", "y")
    g, out = k.load("g"), k.load("out")
    (total,) = k.reduce("add", g * out)
    k.each(y=out * (g - total))
    return k.kernel()


def log_softmax_grad(d: dtype) -> Kernel:
    """y = g - exp(out) * sum(g): g, out, y."""
    k = Rows("log_softmax_grad", d, "g out", "y")
    (total,) = k.reduce("add", k.load("g"))
    k.each(y=k.load("g") - b.exp(k.load("out")) * total)
    return k.kernel()


# ---- normalisation by mean and variance


def _normalised(k: Any, place: dict[str, Any], weight: bool, bias: bool) -> Kernel:
    """The passes of a normalisation: mean, variance around it, values; ``place``: where weights and biases are."""
    (total,) = k.reduce("add", k.load("x"))
    mean = total / k.width()
    centred = k.load("x") - mean
    (squares,) = k.reduce("add", centred * centred)
    var = squares / k.width()
    k.once(mean=mean, var=var)
    y = centred * b.rsqrt(var + k.number("eps"))
    y = y * k.load("w", place) if weight else y
    k.each(y=y + k.load("v", place) if bias else y)
    return k.kernel()


def norm(d: dtype, weight: bool, bias: bool) -> Kernel:
    """y = (x - mean) / sqrt(var + eps) * w + v over rows: x, [w], [v], y, mean, var, eps."""
    k = Rows("norm", d, "x" + " w" * weight + " v" * bias, "y mean var", "eps")
    return _normalised(k, COLUMN, weight, bias)


def _xhat(k: Rows) -> tuple[Expr, Expr]:
    """The normalised element, and the factor of its row."""
    rstd = b.rsqrt(k.load("var", ROW) + k.number("eps"))
    return (k.load("x") - k.load("mean", ROW)) * rstd, rstd


def norm_grad(d: dtype, weight: bool) -> Kernel:
    """The derivative of ``norm`` for x: g, x, mean, var, [w], y, eps."""
    k = Rows("norm_grad", d, "g x mean var" + " w" * weight, "y", "eps")
    xhat, rstd = _xhat(k)
    g = k.load("g") * k.load("w", COLUMN) if weight else k.load("g")
    plain, along = k.reduce("add", g, g * xhat)
    k.each(y=(g - (plain + xhat * along) / k.width()) * rstd)
    return k.kernel()


def norm_grad_params(d: dtype) -> Kernel:
    """The derivatives of ``norm`` for w and v: g, x, mean, var, gw, gv, eps."""
    k = Rows("norm_grad_params", d, "g x mean var", "gw gv", "eps")
    k.columns(gw=k.load("g") * _xhat(k)[0], gv=k.load("g"))
    return k.kernel()


def rms_norm(d: dtype, weight: bool) -> Kernel:
    """y = x * r * w over rows, r = 1 / sqrt(mean(x^2) + eps): x, [w], y, r, eps."""
    k = Rows("rms_norm", d, "x" + " w" * weight, "y r", "eps")
    (squares,) = k.reduce("add", k.load("x") * k.load("x"))
    r = b.rsqrt(squares / k.width() + k.number("eps"))
    k.once(r=r)
    y = k.load("x") * r
    k.each(y=y * k.load("w", COLUMN) if weight else y)
    return k.kernel()


def rms_norm_grad(d: dtype, weight: bool) -> Kernel:
    """The derivative of ``rms_norm`` for x: g, x, r, [w], y."""
    k = Rows("rms_norm_grad", d, "g x r" + " w" * weight, "y")
    r = k.load("r", ROW)
    xhat = k.load("x") * r
    g = k.load("g") * k.load("w", COLUMN) if weight else k.load("g")
    (along,) = k.reduce("add", g * xhat)
    k.each(y=(g - xhat * (along / k.width())) * r)
    return k.kernel()


def rms_norm_grad_weight(d: dtype) -> Kernel:
    """The derivative of ``rms_norm`` for w: g, x, r, gw."""
    k = Rows("rms_norm_grad_weight", d, "g x r", "gw")
    k.columns(gw=k.load("g") * (k.load("x") * k.load("r", ROW)))
    return k.kernel()


# ---- the same for channels: x[n, c, l], or x[n, c] for l = 1


class Channels(Rows):
    """A kernel over the channels of [n, c, l]; ``flat``: of [n, c]."""

    def __init__(self, name: str, d: dtype, read: str, write: str, numbers: str = "", flat: bool = False) -> None:
        super().__init__(name, d, read, write, numbers)
        self.flat = flat
        self.inner = (Loop("i", "n"),) if flat else (Loop("i", "n"), Loop("k", "l"))
        self.at: dict[str, Any] = {"i": "c", "j": 1} if flat else {"i": "c*l", "j": "l", "k": 1}

    def load(self, name: str, terms: dict | None = None) -> Expr:
        return b.load(name, self.d, terms=self.at if terms is None else terms)

    def width(self) -> Expr:
        return b.cast(b.size("n" if self.flat else "n*l"), self.d)

    def reduce(self, combine: str, *values: Expr, stores: Stores | None = None) -> list[Expr]:
        found = super().reduce(combine, *values, stores=stores)
        last = self.phases[-1]
        self.phases[-1] = Phase(self.inner, last.reduces, last.stores)
        return found

    def each(self, **stores: Expr) -> None:
        self.phases.append(Phase(self.inner, (), _stores({k: (v, self.at) for k, v in stores.items()})))

    def once(self, **stores: Expr) -> None:
        self.phases.append(Phase((), (), _stores({k: (v, COLUMN) for k, v in stores.items()})))

    def kernel(self) -> Kernel:
        sizes = [SizeParam(s) for s in ("n", "c") + (() if self.flat else ("l",))]
        return Kernel(self.name, (*self.params, *sizes), (Nest((Loop("j", "c"),), tuple(self.phases)),))


def channel_norm(d: dtype, weight: bool, bias: bool, flat: bool) -> Kernel:
    """``norm`` over all but the channels: x, [w], [v], y, mean, var, eps."""
    k = Channels("channel_norm", d, "x" + " w" * weight + " v" * bias, "y mean var", "eps", flat)
    (total,) = k.reduce("add", k.load("x"))
    mean = total / k.width()
    centred = k.load("x") - mean
    (squares,) = k.reduce("add", centred * centred)
    var = squares / k.width()
    k.once(mean=mean, var=var)
    factor = b.rsqrt(var + k.number("eps"))
    y = centred * (factor * k.load("w", COLUMN) if weight else factor)
    k.each(y=y + k.load("v", COLUMN) if bias else y)
    return k.kernel()


def channel_norm_grad(d: dtype, weight: bool, flat: bool) -> Kernel:
    """Its derivatives for x, w and v: g, x, mean, var, [w], y, gw, gv, eps."""
    k = Channels("channel_norm_grad", d, "g x mean var" + " w" * weight, "y gw gv", "eps", flat)
    rstd = b.rsqrt(k.load("var", COLUMN) + k.number("eps"))
    xhat = (k.load("x") - k.load("mean", COLUMN)) * rstd
    g = k.load("g")
    plain, along = k.reduce("add", g, g * xhat)
    k.once(gw=along, gv=plain)
    factor = rstd * k.load("w", COLUMN) if weight else rstd
    k.each(y=(g - (plain + xhat * along) / k.width()) * factor)
    return k.kernel()


def running_norm(d: dtype, weight: bool, bias: bool, flat: bool) -> Kernel:
    """y = x * scale + (v - mean * scale), scale = w / sqrt(var + eps), by the given mean and var of each channel:
    x, mean, var, [w], [v], y, eps.
    """
    k = Channels("running_norm", d, "x mean var" + " w" * weight + " v" * bias, "y", "eps", flat)
    scale = b.rsqrt(k.load("var", COLUMN) + k.number("eps"))
    scale = scale * k.load("w", COLUMN) if weight else scale
    moved = k.load("mean", COLUMN) * scale
    k.each(y=k.load("x") * scale + (k.load("v", COLUMN) - moved if bias else -moved))
    return k.kernel()


def running_norm_grad(d: dtype, weight: bool, flat: bool) -> Kernel:
    """Its derivatives for x, w and v: g, x, mean, var, [w], y, gw, gv, eps."""
    k = Channels("running_norm_grad", d, "g x mean var" + " w" * weight, "y gw gv", "eps", flat)
    rstd = b.rsqrt(k.load("var", COLUMN) + k.number("eps"))
    g = k.load("g")
    plain, along = k.reduce("add", g, g * ((k.load("x") - k.load("mean", COLUMN)) * rstd))
    k.once(gw=along, gv=plain)
    k.each(y=g * (rstd * k.load("w", COLUMN) if weight else rstd))
    return k.kernel()


def running_update(d: dtype) -> Kernel:
    """mean and var (both written) move towards m and factor * v: m, v, mean, var, keep, momentum, factor, then n."""
    at = {"i": 1}
    keep, momentum, factor = (b.scalar(x, d) for x in ("keep", "momentum", "factor"))
    stores = (
        Store("mean", b.load("mean", d, terms=at) * keep + b.load("m", d, terms=at) * momentum, terms=at),
        Store("var", b.load("var", d, terms=at) * keep + b.load("v", d, terms=at) * factor * momentum, terms=at),
    )
    params = [ArrayParam(x, d) for x in ("m", "v")] + [ArrayParam(x, d, True) for x in ("mean", "var")]
    params += [ScalarParam(x, d) for x in ("keep", "momentum", "factor")]
    return Kernel("running_update", (*params, SizeParam("n")), (Nest((Loop("i", "n"),), (Phase((), (), stores),)),))


# ---- the same for groups of channels: x[n, q, c, l], c channels in each of q groups


GROUPED = {"i": "q*c*l", "h": "c*l", "j": "l", "k": 1}
GROUP = {"i": "q", "h": 1}
IN_GROUP = {"h": "c", "j": 1}


class Groups(Rows):
    """A kernel over the groups of [n, q, c, l]."""

    def load(self, name: str, terms: dict = GROUPED) -> Expr:
        return b.load(name, self.d, terms=terms)

    def width(self) -> Expr:
        return b.cast(b.size("c*l"), self.d)

    def reduce(self, combine: str, *values: Expr, stores: Stores | None = None) -> list[Expr]:
        found = super().reduce(combine, *values, stores=stores)
        self.phases[-1] = Phase((Loop("j", "c"), Loop("k", "l")), self.phases[-1].reduces)
        return found

    def each(self, **stores: Expr) -> None:
        inner = (Loop("j", "c"), Loop("k", "l"))
        self.phases.append(Phase(inner, (), _stores({k: (v, GROUPED) for k, v in stores.items()})))

    def once(self, **stores: Expr) -> None:
        self.phases.append(Phase((), (), _stores({k: (v, GROUP) for k, v in stores.items()})))

    def end(self, note: str = "") -> None:
        self.nests.append(Nest((Loop("i", "n"), Loop("h", "q")), tuple(self.phases), note))
        self.phases = []

    def columns(self, **values: Expr) -> None:
        reduces = tuple(Reduce(f"c_{k}", "add", v) for k, v in values.items())
        once = _stores({k: (b.acc(f"c_{k}", v.dtype), IN_GROUP) for k, v in values.items()})
        phases = (Phase((Loop("i", "n"), Loop("k", "l")), reduces), Phase((), (), once))
        self.nests.append(Nest((Loop("h", "q"), Loop("j", "c")), phases, "sums of channels"))

    def kernel(self) -> Kernel:
        if self.phases:
            self.end()
        return Kernel(self.name, (*self.params, *(SizeParam(s) for s in "nqcl")), tuple(self.nests))


def group_norm(d: dtype, weight: bool, bias: bool) -> Kernel:
    """``norm`` over groups of channels: x, [w], [v], y, mean, var, eps."""
    k = Groups("group_norm", d, "x" + " w" * weight + " v" * bias, "y mean var", "eps")
    return _normalised(k, IN_GROUP, weight, bias)


def group_norm_grad(d: dtype, weight: bool) -> Kernel:
    """Its derivatives for x, w and v: g, x, mean, var, [w], y, gw, gv, eps."""
    k = Groups("group_norm_grad", d, "g x mean var" + " w" * weight, "y gw gv", "eps")
    rstd = b.rsqrt(k.load("var", GROUP) + k.number("eps"))
    xhat = (k.load("x") - k.load("mean", GROUP)) * rstd
    g = k.load("g") * k.load("w", IN_GROUP) if weight else k.load("g")
    plain, along = k.reduce("add", g, g * xhat)
    k.each(y=(g - (plain + xhat * along) / k.width()) * rstd)
    k.end()
    k.columns(gw=k.load("g") * xhat, gv=k.load("g"))
    return k.kernel()


# ---- losses of class indices


def cross_entropy(d: dtype, reduction: str) -> Kernel:
    """loss = -log softmax at the target, 0 where it is ignored, and total = its sum or mean: x, target (int64), logp,
    loss, [total,] ignored (int64). IndexError for a target that is no class.
    """
    whole = reduction != "none"
    k = Rows("cross_entropy", d, "x", "logp loss" + " total" * whole)
    k.params.insert(1, ArrayParam("target", int64))
    k.params.append(ScalarParam("ignored", int64))
    target = b.load("target", int64, terms=ROW)
    counts = b.ne(target, b.scalar("ignored", int64))
    (top,) = k.reduce("max", k.load("x"))
    (total,) = k.reduce("add", b.exp(k.load("x") - top))
    k.each(logp=k.load("x") - top - b.log(total))
    place = b.check(b.where(counts, target, b.const(0, int64)), "m", 1, wrap=False)
    picked = b.load("logp", d, terms=ROW_START, gather=[(place, 1)])
    zero = b.const(0, d)
    k.once(loss=b.where(counts, -picked, zero))
    k.end("log probabilities")
    if whole:
        rows = (Loop("i", "n"),)
        reduces = [Reduce("all", "add", b.load("loss", d, terms=ROW))]
        if reduction == "mean":
            reduces.append(Reduce("count", "add", b.cast(counts, d)))
        value = b.acc("all", d) / b.acc("count", d) if reduction == "mean" else b.acc("all", d)
        phases = (Phase(rows, tuple(reduces)), Phase((), (), (Store("total", value),)))
        k.nests.append(Nest((), phases, reduction))
    found = k.kernel()
    return Kernel(found.name, found.params, found.nests, errors=("Target {index} is out of bounds.",))


def cross_entropy_grad(d: dtype, reduction: str) -> Kernel:
    """(exp(logp) - one hot) * g, divided by the number of targets for "mean", 0 where they are ignored:
    g (one for each row for "none"), logp, target (int64), y, [count,] ignored (int64).
    """
    mean = reduction == "mean"
    k = Rows("cross_entropy_grad", d, "g logp", "y" + " count" * mean)
    k.params.insert(2, ArrayParam("target", int64))
    k.params.append(ScalarParam("ignored", int64))
    target = b.load("target", int64, terms=ROW)
    counts = b.ne(target, b.scalar("ignored", int64))
    g = b.load("g", d, terms=ROW if reduction == "none" else ())
    if mean:
        reduces = (Reduce("all", "add", b.cast(counts, d)),)
        phases = (Phase((Loop("i", "n"),), reduces), Phase((), (), (Store("count", b.acc("all", d)),)))
        k.nests.append(Nest((), phases, "targets that count"))
        g = g / b.load("count", d)
    zero, one = b.const(0, d), b.const(1, d)
    hit = b.where(b.eq(b.index("j"), target), one, zero)
    k.each(y=(b.exp(k.load("logp")) - hit) * b.where(counts, g, zero))
    return k.kernel()


# ---- reductions


def reduction(d: dtype, what: str, columns: bool) -> Kernel:
    """sum, mean, max, min, prod, norm, nansum, var or std of each row of [n, m], or of each column: x, y, for var and
    std what the squares are divided by.
    """
    spread = what in ("var", "std")
    numbers = "over" * spread
    k = Channels(what, d, "x", "y", numbers, flat=True) if columns else Rows(what, d, "x", "y", numbers)
    x = k.load("x")
    value = x * x if what == "norm" else b.where(b.isnan(x), b.const(0, d), x) if what == "nansum" else x
    (y,) = k.reduce({"max": "max", "min": "min", "prod": "mul"}.get(what, "add"), value)
    if what == "norm":
        y = b.sqrt(y)
    elif what == "mean":
        y = y / k.width()
    elif spread:
        centred = x - y / k.width()
        (squares,) = k.reduce("add", centred * centred)
        y = squares / k.number("over")
        y = b.sqrt(y) if what == "std" else y
    k.once(y=y)
    return k.kernel()
