"""Integer polynomials in canonical form: the arithmetic under symbolic sizes.

A `Poly` is a sum of monomials with integer coefficients. A monomial is a sorted tuple of atoms (repeated for powers);
an `Atom` is a symbol or one opaque integer operation (`floordiv`, `mod`, `max`, `min`) on polynomials. Two polynomials
that are equal as polynomials over their atoms have the same text, hash and terms, whatever the order of construction.
Nothing here knows bounds or contexts: that is `sizes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd

MAX_TERMS = 256  # a product with more terms is refused: real shapes have a handful, hostile text could have millions
MAX_DEGREE = 32


class SizeTooComplex(ValueError):
    """A size expression grew past what any real shape needs."""


class Atom:
    """A symbol (`kind == "symbol"`, `text` is its name) or an opaque operation on polynomials."""

    __slots__ = ("kind", "args", "text", "_hash")

    def __init__(self, kind: str, args: tuple, text: str) -> None:
        self.kind, self.args, self.text = kind, args, text
        self._hash = hash(text)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and self.text == other.text)

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Atom) -> bool:
        return self.text < other.text

    def __repr__(self) -> str:
        return f"Atom({self.text})"


Monomial = tuple[Atom, ...]


def _order(item: tuple[Monomial, int]) -> tuple:
    mono = item[0]
    return (-len(mono), tuple(a.text for a in mono))


class Poly:
    """An immutable canonical polynomial; `terms` is sorted: higher degree first, the constant last."""

    __slots__ = ("terms", "_hash", "_text")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        items = [(m, c) for m, c in terms.items() if c]
        if len(items) > 1:
            items.sort(key=_order)
            if len(items) > MAX_TERMS:
                raise SizeTooComplex(f"a size expression has {len(items)} terms; at most {MAX_TERMS} are supported")
        self.terms = tuple(items)
        self._hash: int | None = None
        self._text: str | None = None

    # ---- construction ----
    @staticmethod
    def const(value: int) -> Poly:
        return Poly({(): value})

    @staticmethod
    def symbol(name: str) -> Poly:
        return Poly({(Atom("symbol", (), name),): 1})

    @staticmethod
    def atom(atom: Atom) -> Poly:
        return Poly({(atom,): 1})

    # ---- queries ----
    def as_int(self) -> int | None:
        """The value if this is a constant, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def constant(self) -> int:
        """The constant term."""
        return self.terms[-1][1] if self.terms and not self.terms[-1][0] else 0

    def single_atom(self) -> Atom | None:
        """The atom if this polynomial is exactly one atom with coefficient 1."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def atoms(self) -> set[Atom]:
        """The atoms at the top level (not those inside opaque atoms)."""
        return {a for m, _ in self.terms for a in m}

    def symbols(self) -> set[str]:
        """Names of all symbols, those inside opaque atoms included."""
        out: set[str] = set()
        for a in self.atoms():
            if a.kind == "symbol":
                out.add(a.text)
            else:
                for p in a.args:
                    out |= p.symbols()
        return out

    def content(self) -> int:
        """Greatest common divisor of the coefficients of the non-constant terms (0 for a constant)."""
        g = 0
        for m, c in self.terms:
            if m:
                g = gcd(g, c)
        return g

    # ---- arithmetic ----
    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for m, c in other.terms:
            terms[m] = terms.get(m, 0) + c
        return Poly(terms)

    def __sub__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for m, c in other.terms:
            terms[m] = terms.get(m, 0) - c
        return Poly(terms)

    def __neg__(self) -> Poly:
        return Poly({m: -c for m, c in self.terms})

    def __mul__(self, other: Poly) -> Poly:
        if len(self.terms) * len(other.terms) > 64 * MAX_TERMS:
            raise SizeTooComplex("a product of size expressions has too many terms")
        terms: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                key = tuple(sorted(m + n)) if m and n else m or n
                if len(key) > MAX_DEGREE:
                    raise SizeTooComplex(f"a size expression has a degree above {MAX_DEGREE}")
                terms[key] = terms.get(key, 0) + c * d
        return Poly(terms)

    def scale(self, k: int) -> Poly:
        return Poly({m: c * k for m, c in self.terms})

    def shift(self, k: int) -> Poly:
        return self + Poly.const(k)

    def divide_exact(self, k: int) -> Poly:
        """All coefficients divided by `k` (which must divide them)."""
        return Poly({m: c // k for m, c in self.terms})

    def __pow__(self, n: int) -> Poly:
        if n < 0 or n > MAX_DEGREE:
            raise SizeTooComplex(f"a size to the power {n} is not supported")
        out = Poly.const(1)
        for _ in range(n):
            out = out * self
        return out

    # ---- identity ----
    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Poly) and self.terms == other.terms)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.terms)
        return self._hash

    def __str__(self) -> str:
        if self._text is None:
            self._text = _text(self)
        return self._text

    def __repr__(self) -> str:
        return f"Poly({self})"

    # ---- evaluation ----
    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value with each symbol replaced by an int; KeyError names a missing symbol."""
        total = 0
        for m, c in self.terms:
            for a in m:
                c *= _evaluate_atom(a, env)
            total += c
        return total

    def substitute(self, get: Callable[[Atom], Poly | None]) -> Poly:
        """Replace atoms by `get(atom)`; where that is None, opaque atoms are rebuilt from their new arguments."""
        cache: dict[Atom, Poly] = {}
        changed = False
        for a in self.atoms():
            new = get(a)
            if new is None and a.kind != "symbol":
                new = build(a.kind, [p.substitute(get) for p in a.args])
                new = None if new.single_atom() == a else new
            if new is not None:
                cache[a] = new
                changed = True
        if not changed:
            return self
        out = Poly({})
        for m, c in self.terms:
            kept = tuple(a for a in m if a not in cache)
            part = Poly({kept: c})
            for a in m:
                if a in cache:
                    part = part * cache[a]
            out = out + part
        return out


def _evaluate_atom(a: Atom, env: Mapping[str, int]) -> int:
    if a.kind == "symbol":
        return env[a.text]
    values = [p.evaluate(env) for p in a.args]
    if a.kind == "floordiv":
        return values[0] // values[1]
    if a.kind == "mod":
        return values[0] % values[1]
    return max(values) if a.kind == "max" else min(values)


# ---- text ----
def _factor_text(a: Atom) -> str:
    return a.text if a.kind in ("symbol", "max", "min") else f"({a.text})"


def _mono_text(m: Monomial) -> str:
    parts: list[str] = []
    i = 0
    while i < len(m):
        n = 1
        while i + n < len(m) and m[i + n] == m[i]:
            n += 1
        parts.append(_factor_text(m[i]) + (f"**{n}" if n > 1 else ""))
        i += n
    return "*".join(parts)


def _text(p: Poly) -> str:
    if not p.terms:
        return "0"
    alone = p.single_atom()
    if alone is not None:
        return alone.text
    out = ""
    for m, c in p.terms:
        size = abs(c)
        if not m:
            body = str(size)
        else:
            body = _mono_text(m) + (f"*{size}" if size != 1 else "")
        if not out:
            out = body if c > 0 else f"-{body}"
        else:
            out += f" + {body}" if c > 0 else f" - {body}"
    return out


def _operand_text(p: Poly) -> str:
    a = p.single_atom()
    value = p.as_int()
    plain = a.kind in ("symbol", "max", "min") if a is not None else value is not None and value >= 0
    return str(p) if plain else f"({p})"


# ---- opaque operations, canonical ----
ZERO = Poly({})
ONE = Poly.const(1)


def build(kind: str, args: Iterable[Poly]) -> Poly:
    """The canonical polynomial of `kind` ("floordiv", "mod", "max", "min") on `args`."""
    args = list(args)
    if kind == "floordiv":
        return floordiv(args[0], args[1])
    if kind == "mod":
        return mod(args[0], args[1])
    return extremum(kind, args)


def _split(p: Poly, d: int) -> tuple[Poly, Poly]:
    """(q, r) with p == d*q + r and every coefficient of r in 0..d-1."""
    q: dict[Monomial, int] = {}
    r: dict[Monomial, int] = {}
    for m, c in p.terms:
        k, rest = divmod(c, d)
        if k:
            q[m] = k
        if rest:
            r[m] = rest
    return Poly(q), Poly(r)


def floordiv(p: Poly, d: Poly) -> Poly:
    """p // d with Python's rounding. A symbolic `d` is taken to be non-zero (the caller has checked)."""
    dv = d.as_int()
    if dv == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if dv is None:
        q = exact_quotient(p, d)
        return q if q is not None else _opaque("floordiv", (p, d))
    if dv < 0:
        return floordiv(-p, Poly.const(-dv))
    q, r = _split(p, dv)
    if r.as_int() is not None:  # 0 <= r < d
        return q
    g = gcd(r.content(), dv)
    if g > 1:
        dv //= g
        r = Poly({m: c // g for m, c in r.terms})  # the constant is floored too, which is right for a floor
        if dv == 1:
            return q + r
    inner = (r - Poly.const(r.constant)).single_atom()
    if inner is not None and inner.kind == "floordiv":
        e = inner.args[1].as_int()
        if e is not None and e > 0:  # (x//e + k)//d == (x + k*e)//(d*e)
            return q + floordiv(inner.args[0].shift(r.constant * e), Poly.const(dv * e))
    return q + _opaque("floordiv", (r, Poly.const(dv)))


def mod(p: Poly, d: Poly) -> Poly:
    """p % d with Python's sign. A symbolic `d` is taken to be non-zero (the caller has checked)."""
    dv = d.as_int()
    if dv == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if dv is None:
        return ZERO if exact_quotient(p, d) is not None else _opaque("mod", (p, d))
    if dv < 0:
        return -mod(-p, Poly.const(-dv))
    _, r = _split(p, dv)
    if r.as_int() is not None:
        return r
    g = gcd(gcd(r.content(), r.constant), dv)
    if g > 1:
        return mod(r.divide_exact(g), Poly.const(dv // g)).scale(g)
    return _opaque("mod", (r, Poly.const(dv)))


def extremum(kind: str, args: Iterable[Poly]) -> Poly:
    """max or min of polynomials: flattened, sorted, those that differ by a constant merged."""
    flat: list[Poly] = []
    for p in args:
        a = p.single_atom()
        flat.extend(a.args if a is not None and a.kind == kind else (p,))
    best: dict[Poly, int] = {}
    pick = max if kind == "max" else min
    for p in flat:
        body = p - Poly.const(p.constant)
        best[body] = pick(best[body], p.constant) if body in best else p.constant
    kept = sorted((b.shift(c) for b, c in best.items()), key=str)
    if len(kept) == 1:
        return kept[0]
    return _opaque(kind, tuple(kept))


def _opaque(kind: str, args: tuple[Poly, ...]) -> Poly:
    if kind == "floordiv":
        text = f"{_operand_text(args[0])}//{_operand_text(args[1])}"
    elif kind == "mod":
        text = f"{_operand_text(args[0])} % {_operand_text(args[1])}"
    else:
        text = f"{kind}({', '.join(map(str, args))})"
    return Poly.atom(Atom(kind, args, text))


def exact_quotient(p: Poly, d: Poly) -> Poly | None:
    """q with p == q*d as polynomials, or None. `d` is not a constant."""
    if p == ZERO:
        return ZERO
    lead_m, lead_c = d.terms[0]
    quotient: dict[Monomial, int] = {}
    rest = p
    for _ in range(4 * MAX_TERMS):
        if not rest.terms:
            return Poly(quotient)
        m, c = rest.terms[0]
        left = _remove(m, lead_m)
        if left is None or c % lead_c:
            return None
        quotient[left] = quotient.get(left, 0) + c // lead_c
        rest = rest - Poly({left: c // lead_c}) * d
    return None


def _remove(m: Monomial, part: Monomial) -> Monomial | None:
    """The monomial m / part, or None if part does not divide m."""
    left = list(m)
    for a in part:
        if a not in left:
            return None
        left.remove(a)
    return tuple(left)
