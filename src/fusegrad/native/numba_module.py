"""A Kernel through numba: sources, compiled functions, and the module that CPython calls.

Only the small launch module is LLVM text of ours; its nest functions unpack ctx and jump to numba's code.  numba's
code is not kept on disk.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from .layout import CELLS
from .llvm_expr import TYPES, Module
from .llvm_module import Launch
from .llvm_nest import Slots
from .nest import ArrayParam, Kernel, ScalarParam
from .numba_source import SourcePrinter
from .params import slot_names
from .plan import plan

_alive: list[Any] = []  # numba's compiled code, for the life of the process


def sources(kernel: Kernel) -> list[tuple[str, dict]]:
    """(Python source, constants) of each nest."""
    names = slot_names(kernel)
    row = [s for s in kernel.scratch if s.scope == "row"]
    out = []
    for k, nest in enumerate(plan(kernel)):
        printer = SourcePrinter(nest, f"nest{k}", names, row)
        out.append((printer.text(), printer.constants))
    return out


def source(kernel: Kernel) -> str:
    """All of a kernel's numba source, for readers."""
    return "\n\n".join(text for text, _ in sources(kernel))


def _arguments(kernel: Kernel) -> list[tuple[str, str, bool]]:
    """(name, dtype short, is pointer) in slot order."""
    found = []
    for p in kernel.params:
        short = p.dtype.short if isinstance(p, (ArrayParam, ScalarParam)) else "i64"
        found.append((p.name, short, isinstance(p, ArrayParam)))
    return found + [(s.name, s.dtype.short, True) for s in kernel.scratch if s.scope != "row"]


def _trampoline(kernel: Kernel, k: int, prefix: str, slots: Slots) -> str:
    """nest k: ctx slots -> numba's calling convention."""
    lines, args = [], []
    for j, (_, short, is_pointer) in enumerate(_arguments(kernel)):
        t = "ptr" if is_pointer else "double" if short in ("f32", "f64") else "i64"
        lines += [f"  %p{j} = getelementptr i64, ptr %ctx, i64 {j}", f"  %v{j} = load {t}, ptr %p{j}"]
        if is_pointer or short in ("f64", "i64"):
            args.append(f"{t} %v{j}")
        elif short == "f32":
            lines.append(f"  %w{j} = fptrunc double %v{j} to float")
            args.append(f"float %w{j}")
        elif short == "b1":
            lines += [f"  %b{j} = icmp ne i64 %v{j}, 0", f"  %w{j} = zext i1 %b{j} to i8"]
            args.append(f"i8 %w{j}")
        else:
            lines.append(f"  %w{j} = trunc i64 %v{j} to {TYPES[short]}")
            args.append(f"{TYPES[short]} %w{j}")
    call = ", ".join(["ptr %result", "ptr %problem", *args, "i64 %lo", "i64 %hi", "ptr %error"])
    return "\n".join(
        [
            f"define internal void @nest{k}(ptr %ctx, i64 %lo, i64 %hi) nounwind {{",
            *lines,
            f"  %error = getelementptr i64, ptr %ctx, i64 {slots.error}",
            "  %result = alloca ptr",
            "  %problem = alloca ptr",
            f"  %at = getelementptr ptr, ptr @{prefix}_nests, i64 {k}",
            "  %f = load ptr, ptr %at",
            f"  %code = call i32 %f({call})",
            "  ret void",
            "}",
        ]
    )


def compile_numba(kernel: Kernel, prefix: str) -> Callable[..., None]:
    """The kernel as a callable, by way of numba."""
    from . import jit, numba_raw
    from .launch import make_callable

    slots = Slots(slot_names(kernel))
    nests = plan(kernel)
    module = Module()
    module.functions += [_trampoline(kernel, k, prefix, slots) for k in range(len(nests))]
    module.functions += Launch(kernel, nests, slots, module, prefix).functions()
    head = (
        f"@{prefix}_cells = global [{len(CELLS)} x ptr] zeroinitializer, align 8\n"
        f"@{prefix}_nests = global [{max(len(nests), 1)} x ptr] zeroinitializer, align 8\n"
    )
    code = jit.compile_text(head + module.text())
    cells, call, run, table = jit.load(code, [f"{prefix}_{s}" for s in ("cells", "call", "run", "nests")])
    types = [
        numba_raw.pointer(short) if is_pointer else numba_raw.number(short)
        for _, short, is_pointer in _arguments(kernel)
    ]
    types += [numba_raw.number("i64"), numba_raw.number("i64"), numba_raw.pointer("i64")]
    for k, (text, constants) in enumerate(sources(kernel)):
        space = dict(numba_raw.namespace())
        for name, (dt, value) in constants.items():
            space[name] = np.array(value, dt.np) if isinstance(value, tuple) else dt.np.type(value)
        exec(compile(text, f"<kernel {kernel.name} nest {k}>", "exec"), space)
        address, keep = numba_raw.compile_function(space[f"nest{k}"], types)
        _alive.append(keep)
        ctypes.c_void_p.from_address(table + 8 * k).value = address
    return make_callable(kernel, cells, call, run)
