"""What is known about symbolic sizes, and what follows from it: the proof half of a `SizeContext`.

Facts are intervals of polynomials (a symbol's bounds are the simplest), polynomials known not to be zero, and
symbols found equal to something else. Proofs are sound and incomplete: they answer True, False or None (unknown),
and never record anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from math import lcm

from .polynomial import Atom, Poly, extremum, floordiv

Interval = tuple[int | None, int | None]
DEPTH = 4  # how many opaque terms a proof may unfold, one inside the other
FUEL = 48  # how many it may unfold in all (an answer is then "unknown")
TOTAL = 200_000  # ... in the life of one context: hostile files may ask endlessly


def negate(v: int | None) -> int | None:
    return None if v is None else -v


def intersect(a: Interval, b: Interval) -> Interval:
    lo = a[0] if b[0] is None else b[0] if a[0] is None else max(a[0], b[0])
    hi = a[1] if b[1] is None else b[1] if a[1] is None else min(a[1], b[1])
    return lo, hi


def _plain_bound(p: Poly, ranges: Mapping[Atom, Interval]) -> int | None:
    """Lower bound of a sum whose atoms may be unbounded below: only linear terms help."""
    total = 0
    for m, c in p.terms:
        if not m:
            total += c
            continue
        if len(m) > 1:
            return None
        end = ranges[m[0]][0 if c > 0 else 1]
        if end is None:
            return None
        total += c * end
    return total


class Facts:
    """Intervals, inequalities and equalities of sizes, with the decision procedure over them."""

    def __init__(self) -> None:
        self._names: list[str] = []  # symbols, oldest first
        self._ranges: dict[Poly, Interval] = {}  # primitive polynomial without constant -> known interval
        self._nonzero: set[Poly] = set()
        self._equal: dict[str, Poly] = {}  # symbol -> what it was found equal to
        self._cache: dict[tuple[Poly, int], int | None] = {}  # proved bounds, until a new fact arrives
        self._simple: dict[Atom, Poly] = {}  # simplified opaque terms, until a new fact arrives
        self._fuel = self._queries = self._spent = 0

    # ---- proofs: True, False or None for unknown; never record ----
    def known_zero(self, p: Poly) -> bool | None:
        """Whether p == 0, if the facts decide it."""
        with self._query():
            return self._known_zero(p)

    def known_nonneg(self, p: Poly) -> bool | None:
        """Whether p >= 0, if the facts decide it."""
        with self._query():
            return self._known_nonneg(p)

    def interval(self, p: Poly) -> Interval:
        """Proved bounds of p (None: none)."""
        with self._query():
            p = self.simplify(p)
            return self.lower(p, DEPTH), negate(self.lower(-p, DEPTH))

    @contextlib.contextmanager
    def _query(self) -> Iterator[None]:
        """Limits the work of one question, those it leads to included."""
        if not self._queries:
            self._fuel = FUEL if self._spent < TOTAL else 0
        self._queries += 1
        try:
            yield
        finally:
            self._queries -= 1

    def _known_zero(self, p: Poly) -> bool | None:
        p = self.simplify(p)
        value = p.as_int()
        if value is not None:
            return value == 0
        g = p.content()
        if p.constant % g:
            return False
        if g > 1:
            p = p.divide_exact(g)
        if p in self._nonzero or -p in self._nonzero:
            return False
        lo = self.lower(p, DEPTH)
        if lo is not None and lo > 0:
            return False
        hi = negate(self.lower(-p, DEPTH))
        if hi is not None and hi < 0:
            return False
        return True if lo == 0 and hi == 0 else None

    def _known_nonneg(self, p: Poly) -> bool | None:
        given, p = p, self.simplify(p)
        value = p.as_int()
        if value is not None:
            return value >= 0
        lo = self.lower(p, DEPTH)
        if lo is not None and lo >= 0:
            return True
        hi = negate(self.lower(-p, DEPTH))
        if hi is not None and hi < 0:
            return False
        for q, answer in ((given, True), ((-given).shift(-1), False)):
            weaker = self._without_remainders(q)
            if weaker is not None and self._known_nonneg(weaker):
                return answer
        return None

    def _without_remainders(self, p: Poly) -> Poly | None:
        """At most p: its remainders by positive sizes d in their place have the worse of 0 and d - 1; None for none."""
        out = p
        for m, c in p.terms:
            if len(m) == 1 and m[0].kind == "mod" and (self.lower(self.simplify(m[0].args[1]), 1) or 0) >= 1:
                out -= Poly({m: c})
                if c < 0:
                    out += m[0].args[1].shift(-1).scale(c)
        return None if out == p else out

    def simplify(self, p: Poly) -> Poly:
        """`p` with the known equalities applied and `mod` written by `floordiv` (so that (x//d)*d + x%d is x)."""
        return p.substitute(self._rewrite)

    def _rewrite(self, a: Atom) -> Poly | None:
        if a.kind == "symbol":
            return self._equal.get(a.text)
        if a not in self._simple:
            self._simple[a] = self._simplify_opaque(a)
        return self._simple[a]

    def _simplify_opaque(self, a: Atom) -> Poly:
        args = [self.simplify(q) for q in a.args]
        if a.kind == "mod":
            whole = floordiv(args[0], args[1])
            return args[0] - args[1] * whole
        if a.kind in ("max", "min"):
            return self._extremum(a.kind, args)
        return floordiv(*args)

    def lower(self, p: Poly, depth: int) -> int | None:
        """A proved lower bound of p, or None."""
        key = (p, depth)
        if key not in self._cache:
            self._cache[key] = self._prove_bound(p, depth)
        return self._cache[key]

    def _prove_bound(self, p: Poly, depth: int) -> int | None:
        best = self._interval_bound(p)
        known = self._fact_bound(p)
        if known is not None and (best is None or known > best):
            best = known
        if depth and (best is None or best <= 0):
            for weaker, scale in self._weaken(p):
                if self._fuel <= 0 or (best is not None and best > 0):
                    break
                self._fuel -= 1
                self._spent += 1
                low = self.lower(self.simplify(weaker), depth - 1)
                if low is not None:
                    low = -((-low) // scale)
                    best = low if best is None or low > best else best
        return best

    def _interval_bound(self, p: Poly) -> int | None:
        """Lower bound by interval arithmetic after moving each atom's lower bound to zero."""
        shifts: dict[Atom, Poly] = {}
        spans: dict[Atom, int | None] = {}
        for a in p.atoms():
            lo, hi = self._atom_interval(a)
            if lo is None:
                return _plain_bound(p, {b: self._atom_interval(b) for b in p.atoms()})
            spans[a] = None if hi is None else hi - lo
            if lo:
                shifts[a] = Poly.atom(a).shift(lo)
        if shifts:
            moved = Poly({})
            for m, c in p.terms:
                part = Poly.const(c)
                for a in m:
                    part = part * (shifts.get(a) or Poly.atom(a))
                moved = moved + part
        else:
            moved = p
        total = 0
        for m, c in moved.terms:
            if not m:
                total += c
            elif c < 0:
                for a in m:
                    span = spans[a]
                    if span is None:
                        return None
                    c *= span
                total += c
        return total

    def _atom_interval(self, a: Atom) -> Interval:
        lo, hi = self._ranges.get(Poly.atom(a), (None, None))
        if a.kind == "symbol":
            return lo, hi
        own = self._opaque_interval(a)
        return intersect((lo, hi), own)

    def _opaque_interval(self, a: Atom) -> Interval:
        ranges = [(self.lower(q, 1), negate(self.lower(-q, 1))) for q in a.args]
        if a.kind in ("max", "min"):
            lows = [r[0] for r in ranges if r[0] is not None]
            highs = [r[1] for r in ranges if r[1] is not None]
            every_low, every_high = len(lows) == len(ranges), len(highs) == len(ranges)
            if a.kind == "max":  # at least the largest of the lower bounds that are known
                return max(lows) if lows else None, max(highs) if every_high else None
            return min(lows) if every_low else None, min(highs) if highs else None
        (lo, hi), (dlo, dhi) = ranges
        if dlo is None or dlo < 1:
            return None, None
        if a.kind == "mod":
            return 0, None if dhi is None else dhi - 1
        low = None if lo is None else (lo // dlo if lo < 0 else 0 if dhi is None else lo // dhi)
        high = None if hi is None else (hi // dlo if hi >= 0 else -1 if dhi is None else hi // dhi)
        return low, high

    def _fact_bound(self, p: Poly) -> int | None:
        """Lower bound from the recorded interval of this very polynomial, up to a constant and a factor."""
        body = p - Poly.const(p.constant)
        g = body.content()
        body = body.divide_exact(g)
        lo = self._ranges.get(body, (None, None))[0]
        if lo is None:
            hi = self._ranges.get(-body, (None, None))[1]
            lo = None if hi is None else -hi
        return None if lo is None else g * lo + p.constant

    def _weaken(self, p: Poly) -> Iterable[tuple[Poly, int]]:
        """Polynomials q with scale*p >= q, opaque terms replaced by bounds in their own arguments."""
        yield from self._weaken_quotients(p)
        for m, c in p.terms:
            if len(m) != 1 or m[0].kind == "symbol":
                continue
            a = m[0]
            rest = p - Poly({m: c})
            if a.kind == "max" and c > 0 or a.kind == "min" and c < 0:
                for q in a.args:
                    yield rest + q.scale(c), 1
            elif a.kind == "floordiv":
                d = a.args[1].as_int()
                if d is not None and d > 0:
                    e = a.args[0] if c < 0 else a.args[0].shift(1 - d)
                    yield rest.scale(d) + e.scale(c), d
                elif d is None and c < 0 and self.known_nonneg(a.args[1].shift(-1)):
                    if self.known_nonneg(a.args[0]):  # x // d <= x for x >= 0, d >= 1
                        yield rest + a.args[0].scale(c), 1

    def _weaken_quotients(self, p: Poly) -> Iterable[tuple[Poly, int]]:
        """All terms x//d with a constant d at once, if there are several."""
        terms = [(m[0], c) for m, c in p.terms if len(m) == 1 and m[0].kind == "floordiv"]
        terms = [(a, c) for a, c in terms if (a.args[1].as_int() or 0) > 0]
        scale = lcm(*(a.args[1].as_int() or 1 for a, _ in terms))
        if len(terms) < 2 or scale > 1 << 20:
            return
        out = (p - Poly({(a,): c for a, c in terms})).scale(scale)
        for a, c in terms:
            d = a.args[1].as_int() or 1
            e = a.args[0] if c < 0 else a.args[0].shift(1 - d)
            out = out + e.scale(c * (scale // d))
        yield out, scale

    def _extremum(self, kind: str, args: list[Poly]) -> Poly:
        kept: list[Poly] = []
        sign = 1 if kind == "max" else -1
        for p in args:
            if any(self.known_nonneg((q - p).scale(sign)) for q in kept):
                continue
            kept = [q for q in kept if not self.known_nonneg((p - q).scale(sign))] + [p]
        return extremum(kind, kept)

    # ---- learning ----
    def _forget(self) -> None:
        self._cache.clear()
        self._simple.clear()

    def learn(self, rel: str, p: Poly) -> None:
        self._forget()
        body = p - Poly.const(p.constant)
        g = body.content()
        if not g:
            return
        if body.terms[0][1] < 0:
            g = -g  # primitive bodies start with a positive coefficient
        body = body.divide_exact(g)
        lo, hi = self._ranges.get(body, (None, None))
        if rel == ">=":  # g*body + constant >= 0
            new = (-(p.constant // g), None) if g > 0 else (None, p.constant // -g)
            self._ranges[body] = intersect((lo, hi), new)
        elif rel == "==":
            v = -p.constant // g
            self._ranges[body] = (v, v)
            self._solve(body.shift(-v))
        elif p.constant % g == 0:
            v = -p.constant // g
            self._nonzero.add(body.shift(-v))
            if lo is None and hi is None:
                lo, hi = self.lower(body, 1), negate(self.lower(-body, 1))
            if lo == v or hi == v:
                edge = (v + 1, None) if lo == v else (None, v - 1)
                self._ranges[body] = intersect((lo, hi), edge)

    def _solve(self, p: Poly) -> None:
        """p == 0: replace the youngest symbol that occurs once, linearly, by the rest."""
        inside = set()
        for a in p.atoms():
            if a.kind != "symbol":
                for q in a.args:
                    inside |= q.symbols()
        for name in reversed(self._names):
            a = Atom("symbol", (), name)
            uses = [(m, c) for m, c in p.terms if a in m]
            if len(uses) == 1 and uses[0][0] == (a,) and abs(uses[0][1]) == 1 and name not in inside:
                value = (p - Poly({(a,): uses[0][1]})).scale(-uses[0][1])
                lo, hi = self._ranges.get(Poly.symbol(name), (None, None))
                self._equal[name] = value
                for other, known in list(self._equal.items()):
                    self._equal[other] = self.simplify(known)
                if value.as_int() is None:
                    if lo is not None:
                        self.learn(">=", value.shift(-lo))
                    if hi is not None:
                        self.learn(">=", (-value).shift(hi))
                return
