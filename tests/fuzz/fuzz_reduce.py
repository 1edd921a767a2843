"""Makes a failing program small: deletes statements and calls, unwraps blocks, takes parts of expressions.

A change is kept while the same kind of difference remains.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Iterator

from fuzz_run import CHANGES, PLAIN, Case
from fuzz_wide import KINDS


def _bodies(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(getattr(node, name, None), list) and getattr(node, name):
                yield node, name


def _deleted(tree: ast.Module) -> Iterator[ast.Module]:
    """The program without one statement, or with a block in place of its statement."""
    places = [(i, name, k) for i, (node, name) in enumerate(_bodies(tree)) for k in range(len(getattr(node, name)))]
    for i, name, k in reversed(places):
        new = copy.deepcopy(tree)
        node, _ = list(_bodies(new))[i]
        statements = getattr(node, name)
        old = statements.pop(k)
        if not statements and name == "body":
            statements.append(ast.Pass())
        if not (isinstance(node, ast.Module) or (isinstance(old, ast.Pass) and len(statements) == 1)):
            yield new
        inner = (
            [s for part in ("body", "orelse", "finalbody") for s in getattr(old, part, []) or []]
            if isinstance(old, ast.stmt)
            else []
        )
        if inner and not isinstance(old, (ast.FunctionDef, ast.ClassDef)):
            again = copy.deepcopy(tree)
            node, _ = list(_bodies(again))[i]
            getattr(node, name)[k : k + 1] = copy.deepcopy(inner)
            yield again


def _simpler(tree: ast.Module) -> Iterator[ast.Module]:
    """The program with one expression replaced by a part of it, or by x."""
    count = sum(isinstance(n, ast.expr) for n in ast.walk(tree))
    for i in range(count):
        node = [n for n in ast.walk(tree) if isinstance(n, ast.expr)][i]
        if isinstance(node, (ast.Name, ast.Constant)) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            continue
        parts = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr) and not isinstance(c, ast.Starred)]
        for part in [*parts, ast.Name("x", ast.Load())]:
            yield _swapped(tree, node, part)
        if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) > 1:
            for k in range(len(node.elts)):
                less = copy.copy(node)
                less.elts = node.elts[:k] + node.elts[k + 1 :]
                yield _swapped(tree, node, less)


def _swapped(tree: ast.Module, old: ast.AST, new: ast.AST) -> ast.Module:
    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return copy.deepcopy(new) if node is old else super().generic_visit(_shallow(node))

    return Swap().visit(tree)


def _shallow(node: ast.AST) -> ast.AST:
    new = copy.copy(node)
    for name, value in ast.iter_fields(new):
        if isinstance(value, list):
            setattr(new, name, list(value))
    return new


def _fewer_calls(case: Case) -> Iterator[Case]:
    for k in range(len(case.calls)):
        if len(case.calls) > 1:
            yield dataclasses.replace(case, calls=case.calls[:k] + case.calls[k + 1 :])
    plain = {key: PLAIN[key] for key in CHANGES} | {key: kinds[0] for key, kinds in KINDS.items()} | {"globals": ""}
    for key, simple in plain.items():
        if any(c.get(key, simple) != simple for c in case.calls):
            yield dataclasses.replace(case, calls=[{**c, key: simple} for c in case.calls])
            for k, c in enumerate(case.calls):
                if c.get(key, simple) != simple:
                    yield dataclasses.replace(case, calls=[*case.calls[:k], {**c, key: simple}, *case.calls[k + 1 :]])
    if case.dynamic is not None:
        yield dataclasses.replace(case, dynamic=None)
    if case.options != {"interpret": True}:
        yield dataclasses.replace(case, options={"interpret": True})
        if len(case.options) > 1:
            yield dataclasses.replace(case, options={k: v for k, v in case.options.items() if k == "interpret"})


def _texts(case: Case, make: Callable[[ast.Module], Iterator[ast.Module]]) -> Iterator[Case]:
    for tree in make(ast.parse(case.text)):
        try:
            text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        except Exception:
            continue
        if text != case.text:
            yield dataclasses.replace(case, text=text)


def reduced(case: Case, same: Callable[[Case], bool], budget: int = 600) -> Case:
    """The smallest case found with ``same``; at most ``budget`` trials."""
    steps: list[Callable[[Case], Iterator[Case]]] = [
        _fewer_calls,
        lambda c: _texts(c, _deleted),
        _fewer_calls,
        lambda c: _texts(c, _simpler),
    ]
    changed = True
    while changed and budget > 0:
        changed = False
        for step in steps:
            again = True
            while again and budget > 0:
                again = False
                for new in step(case):
                    budget -= 1
                    if budget <= 0:
                        break
                    if same(new):
                        case, again, changed = new, True, True
                        break
    return case
