"""Symbolic sizes: arithmetic and comparison against plain ints, guards, refusals, text."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegrad import sizes
from fusegrad.sizes import ConstraintError, SizeContext, SymInt, evaluate, known_eq, known_ge, parse_expr, same

NAMES = ("a", "b", "c")
OPS = ("+", "-", "*", "//", "%", "max", "min", "neg")


def context(env, mode="guard", low=0, high=None):
    ctx = SizeContext(mode)
    return ctx, {n: ctx.symbol(n, v, min=min(low, v), max=high) for n, v in env.items()}


def apply(op, x, y):
    if op == "//":
        return x // y
    if op == "%":
        return x % y
    if op in ("max", "min"):
        return (sizes.sym_max if op == "max" else sizes.sym_min)(x, y)
    return {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "neg": lambda: -x}[op]()


trees = st.recursive(
    st.sampled_from(NAMES) | st.integers(-6, 9),
    lambda inner: st.tuples(st.sampled_from(OPS), inner, inner),
    max_leaves=7,
)
envs = st.fixed_dictionaries({n: st.integers(0, 12) for n in NAMES})


def build(tree, env):
    if isinstance(tree, str):
        return env[tree]
    if isinstance(tree, int):
        return tree
    op, x, y = tree
    return apply(op, build(x, env), build(y, env))


def divides_by_zero(tree, env):
    try:
        build(tree, env)
    except ZeroDivisionError:
        return True
    return False


@settings(max_examples=400, deadline=None)
@given(trees, envs, envs)
def test_an_expression_has_the_value_plain_ints_give_for_every_size(tree, env, other):
    if divides_by_zero(tree, env) or divides_by_zero(tree, other):
        return
    ctx, syms = context(env)
    value = build(tree, syms)
    assert evaluate(value, env) == build(tree, env)
    if all(g.check(other) for g in ctx.guards):
        assert evaluate(value, other) == build(tree, other)
    if isinstance(value, SymInt):
        assert value.hint == build(tree, env)
        again = parse_expr(str(value), ctx)
        assert evaluate(again, other) == evaluate(value, other)
        assert str(again) == str(value) and same(again, value) and hash(again) == hash(value)
        assert eval(sizes.as_python(value), dict(env)) == value.hint


@settings(max_examples=400, deadline=None)
@given(trees, trees, st.sampled_from(("==", "!=", "<", "<=", ">", ">=")), envs, envs)
def test_a_comparison_answers_as_ints_do_and_its_guards_imply_it(left, right, rel, env, other):
    if any(divides_by_zero(t, e) for t in (left, right) for e in (env, other)):
        return
    ctx, syms = context(env)
    ask = sizes._RELATIONS[rel]
    answer = ask(build(left, syms), build(right, syms))
    assert type(answer) is bool
    assert answer == ask(build(left, env), build(right, env))
    assert all(g.check(env) for g in ctx.guards), [str(g) for g in ctx.guards]
    if all(g.check(other) for g in ctx.guards):
        assert answer == ask(build(left, other), build(right, other))
    before = len(ctx.guards)
    assert ask(build(left, syms), build(right, syms)) == answer
    assert len(ctx.guards) == before, "the second question must follow from the first guard"


def test_a_guard_is_recorded_once() -> None:
    ctx, syms = context({"a": 0, "b": 1, "c": 0})
    a, b = syms["a"], syms["b"]
    for _ in range(2):
        assert a == 0 * (a // (a + b))
    assert [str(g) for g in ctx.guards] == ["a + b != 0", "a == 0"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(trees, trees, st.sampled_from(("==", "<", ">="))), min_size=2, max_size=4), envs, envs)
def test_answers_after_several_guards_hold_wherever_all_the_guards_hold(questions, env, other):
    if any(divides_by_zero(t, e) for q in questions for t in q[:2] for e in (env, other)):
        return
    ctx, syms = context(env)
    answers = [sizes._RELATIONS[r](build(a, syms), build(b, syms)) for a, b, r in questions]
    for where in (env, other):
        if all(g.check(where) for g in ctx.guards):
            assert answers == [sizes._RELATIONS[r](build(a, where), build(b, where)) for a, b, r in questions]


@settings(max_examples=300, deadline=None)
@given(trees, trees, st.sampled_from(("==", "<", ">=")), st.lists(envs, min_size=3, max_size=6))
def test_constrain_mode_answers_only_what_holds_for_every_size(left, right, rel, places):
    if any(divides_by_zero(t, e) for t in (left, right) for e in places):
        return
    ctx, syms = context(places[0], "constrain", 0, 12)
    try:
        answer = sizes._RELATIONS[rel](build(left, syms), build(right, syms))
    except ConstraintError as e:
        assert "dimensions" in str(e)
        return
    for env in places:
        assert answer == sizes._RELATIONS[rel](build(left, env), build(right, env))
    assert not ctx.guards


def s4():
    ctx, syms = context({"a": 4, "b": 4, "c": 7})
    return ctx, syms["a"], syms["b"], syms["c"]


def test_arithmetic_mixes_with_ints_and_builtins():
    _, a, b, c = s4()
    assert str(a * 4 + 2) == "a*4 + 2"
    assert str(sum([a, b, 3])) == "a + b + 3"
    assert str(math.prod((a, 3, b, 1))) == "a*b*3"
    assert str(2 - a) == "-a + 2" and str((a + 1) * (a - 1)) == "a**2 - 1"
    assert a - a == 0 and type(a - a) is int and type(a * 0) is int
    assert str((a * 4 + 2) // 4) == "a" and str((a * 2 + 6) // 4) == "((a + 1)//2) + 1"
    assert str((a // 2) // 3) == "a//6" and str((7 * a) % 7) == "0"
    assert f"{a}" == "a" and f"{a:d}" == "a" and f"{a:>3}" == "  a"
    assert divmod(a * 3 + 1, 3)[1] == 1


def test_exact_division_by_symbolic_sizes():
    ctx, a, b, c = s4()
    assert same((a * b * c * 6) // (a * 2), b * c * 3)
    assert same((a * b + b) // (a + 1), b)
    assert (a * b) % b == 0
    assert [str(g) for g in ctx.guards] == ["a != 0", "b != 0"]


def test_guards_read_well_know_the_line_and_are_not_repeated():
    ctx, a, b, c = s4()
    assert a != 1
    assert not (c < b)
    assert a == b and b == a and a * 3 == b * 3
    assert a % 2 == 0 and (a % 2) + 3 == 3
    assert [g.text for g in ctx.guards] == ["a != 1", "c >= b", "a == b", "a % 2 == 0"]
    file, line = ctx.guards[0].loc
    assert file == __file__ and line > 100


def test_facts_decide_later_questions():
    ctx, a, b, c = s4()
    assert a >= 2 and a * 2 >= 4 and a != 0 and a > 1 and not a < 1
    assert len(ctx.guards) == 1
    assert a * b == 16
    n = len(ctx.guards)
    assert a * b * 2 > 31 and len(ctx.guards) == n


def test_bounds_prove_without_guards():
    ctx = SizeContext()
    n, m = ctx.symbol("n", 4, min=1, max=64), ctx.symbol("m", 3, min=2)
    assert n >= 1 and n <= 64 and n < 65 and n != 0 and n + m > 2 and n * m >= n and n * m - m >= 0
    assert (n + 1) // 2 >= 1 and n // 2 <= 32 and n % 4 < 4 and n - n % 4 >= 0 and (n // 4) * 4 <= n
    assert (n // 4) * 4 + n % 4 == n
    assert sizes.sym_max(n, 3) >= n and sizes.sym_min(n, m) <= m and sizes.sym_max(n, n + 1) == n + 1
    assert 2 * n != 3 and 4 * n + 2 != 4 * m
    assert ctx.bounds(n * 2 + 1) == (3, 129) and ctx.bounds(m) == (2, None)
    assert not ctx.guards
    assert known_eq(n, 5) is None and known_eq(n, 65) is False and known_ge(m, 2) is True and known_eq(3, 3) is True


def test_becoming_a_number_guards_equality():
    ctx, a, b, c = s4()
    assert list(range(a)) == [0, 1, 2, 3] and [0, 1, 2, 3, 4, 5][:a] == [0, 1, 2, 3]
    assert [str(g) for g in ctx.guards] == ["a == 4"]
    assert c / 2 == 3.5 and math.sqrt(b) == 2.0 and c * 0.5 == 3.5 and 1.0 - b == -3.0 and b**-1 == 0.25
    assert a in (1, 4) and max(a, c) == 7 and bool(a)


def test_in_max_and_bool_ask():
    ctx, a, b, c = s4()
    assert c in (7, a) and max(a, c) is c and bool(b)
    assert [str(g) for g in ctx.guards] == ["c == 7", "a <= 7", "b != 0"] or len(ctx.guards) >= 2


def test_float_comparisons():
    ctx = SizeContext()
    n = ctx.symbol("n", 4, min=2, max=9)
    assert n > 1.5 and n < 9.5 and n <= 9.0 and n >= 2.0 and n != 2.5 and not n == 0.5 and n < math.inf
    assert n != math.nan and not n < math.nan
    assert not ctx.guards


def test_constrain_mode_refuses_with_relation_range_line_and_repair():
    ctx = SizeContext("constrain")
    b, s = ctx.symbol("batch", 4, min=2, max=16), ctx.symbol("s", 4, min=2)
    assert b >= 2 and b != 1 and b * s > 3
    with pytest.raises(ConstraintError, match=r"batch == 4.*batch in 2\.\.16 \(here 4\).*static"):
        bool(b == 4)
    with pytest.raises(ConstraintError, match=r"test_sizes.py:\d+: .*batch == s.*one Dim for both"):
        bool(b == s)
    with pytest.raises(ConstraintError, match=r"batch <= 8.*Dim\('batch', max=8\)"):
        bool(b <= 8)
    with pytest.raises(ConstraintError, match="batch == 4"):
        range(b)
    assert not ctx.guards and known_eq(b, 4) is None


def test_an_unstated_minimum_may_be_raised_to_one():
    ctx = SizeContext("constrain")
    n = ctx.symbol("n", 4, soft=True)
    m = ctx.symbol("m", 4)
    assert n != 0 and (n * 6) // n == 6
    assert ctx.raised == {"n": 1}
    with pytest.raises(ConstraintError):
        bool(m != 0)
    with pytest.raises(ConstraintError):
        bool(n >= 2)


def test_contexts_do_not_mix_and_bad_symbols_are_refused():
    a = SizeContext().symbol("a", 3)
    with pytest.raises(ValueError, match="different captures"):
        a + SizeContext().symbol("b", 3)
    with pytest.raises(ValueError, match="allowed 4..8"):
        SizeContext().symbol("a", 3, min=4, max=8)
    with pytest.raises(ValueError, match="empty"):
        SizeContext().symbol("a", 3, min=4, max=3)
    with pytest.raises(ValueError, match="identifier"):
        SizeContext().symbol("a b", 3)
    with pytest.raises(TypeError):
        a + "x"
    assert (a == "x") is False and a != None  # noqa: E711
    with pytest.raises(ZeroDivisionError):
        a // 0
    with pytest.raises(ZeroDivisionError):
        5 % SizeContext().symbol("z", 0)


@pytest.mark.parametrize(
    "text",
    ["", "a +", "a b", "(a", "a)", "q", "a // 0", "a ** b", "a$", "__import__('os')", "(" * 5000, "1" * 30, "a**99",
     "a.b", "-" * 50 + "a", "(a+b+c+1)**32", "max(", "max()", "a[0]"],
)  # fmt: skip
def test_bad_expressions_are_refused(text):
    ctx, *_ = s4()
    with pytest.raises(ValueError):
        parse_expr(text, ctx)


def test_parsing_is_not_exponential():
    ctx, *_ = s4()
    text = "a"
    for i in range(30):
        text = f"max({text} // 3, b % {i + 2})"
    value = parse_expr(text, ctx)
    assert bool(value >= 0)


def test_same_and_sizes_of_shapes():
    ctx, a, b, _ = s4()
    assert same((a, 3), (a, 3)) and not same((a, 3), (b, 3)) and not same((a,), (a, a)) and not same(a, 4)
    assert same(None, None) and not same((1,), None)
    assert not ctx.guards and {(a, 3): 1}[(a, 3)] == 1
    assert sizes.sym_prod(()) == 1 and sizes.sym_prod((2, 3)) == 6 and sizes.hint_of(a) == 4 and sizes.hint_of(3) == 3
    assert sizes.is_int(a) and sizes.is_int(3) and not sizes.is_int(True) and not sizes.is_int(2.0)
    assert ctx.where_text() == "a in 0.., b in 0.., c in 0.."
    assert sizes.as_python(a * 2, {"a": "x0"}) == "x0*2"


def test_proofs_have_a_bounded_cost():
    ctx = SizeContext("constrain")
    ctx.symbol("a", 4, 0, 100), ctx.symbol("b", 4)
    text = " + ".join(f"(a*{i}+b)//{i + 3}" for i in range(1, 25))
    left, right = parse_expr(text, ctx), parse_expr(text.replace("b)", "b*2)"), ctx)
    assert known_ge(left, right + 1) is None and known_eq(left, right) is None
    assert known_ge(left + 3, left) is True and ctx._spent < 500


def test_remainders_by_sizes_lie_below_them():
    ctx = SizeContext("constrain")
    ctx.symbol("a", 4, 1, 100), ctx.symbol("b", 5, 2), ctx.symbol("z", 3)

    def ge(left, right):
        return known_ge(parse_expr(left, ctx), parse_expr(right, ctx))

    for n in ("a", "b"):
        for p in ("1", "7", "a*b", "b + 3"):
            r = f"({p}) % {n}"
            assert ge(r, "0") is True and ge(n, f"{r} + 1") is True and ge(r, n) is False and ge("-1", r) is False
            assert ge(f"2*{n}", f"{r} + 2") is True and ge(f"5*({r})", "0") is True and ge(f"-3*({r})", "1") is False
    assert ge("a", "7 % b") is None and ge("7 % a", "1") is None and ge("b", "7 % b + 2") is None
    assert ge("7 % z", "0") is None  # z may be 0
    assert ge("7 % a + 7 % b", "0") is True and ge("a + b", "7 % a + 7 % b + 2") is True
