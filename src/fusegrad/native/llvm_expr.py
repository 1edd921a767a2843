"""Scalar expressions -> LLVM IR text, one lane or many.

A `Writer` collects the text of one LLVM function.  `Values` emits expressions at the current place: with width 1 as
scalars, else as vectors of `width` lanes.  What does not depend on the lane loop stays scalar and is splatted where
it is used. No fast-math flags: every operation is IEEE's, so that a kernel gives what numpy's operators give; vector
math asks for fma explicitly.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Callable

from fusegrad.dtypes import dtype, float16, float32, float64, int32, int64

from .scalar import Expr, Size, UnsupportedScalar

TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "half",
    "i8": "i8",
    "u8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "b1": "i1",
}
MEMORY = {**TYPES, "b1": "i8"}
# 512-bit vectors where the processor has them: measured faster for these loops (docs/decisions/0001)
VECTOR = '"prefer-vector-width"="512" "min-legal-vector-width"="512"'
SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}


def llvm_type(dt: dtype, width: int = 1) -> str:
    return TYPES[dt.short] if width == 1 else f"<{width} x {TYPES[dt.short]}>"


def vector(scalar: str, width: int) -> str:
    return scalar if width == 1 else f"<{width} x {scalar}>"


def constant(dt: dtype, value: object, width: int = 1) -> str:
    """Constant operand without its type."""
    if dt.category == 2:
        if dt is float16:
            text = f"0xH{struct.unpack('>H', struct.pack('>e', value))[0]:04X}"
        else:
            text = f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
    elif dt.category == 0:
        text = "true" if value else "false"
    else:
        text = str(value)
    return text if width == 1 else f"splat ({TYPES[dt.short]} {text})"


class Writer:
    """Text of one LLVM function: the current block's lines, fresh names, stack slots at the entry."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.block = "entry"
        self._n = 0

    def name(self) -> str:
        self._n += 1
        return f"%v{self._n}"

    def label(self, hint: str) -> str:
        self._n += 1
        return f"{hint}{self._n}"

    def op(self, text: str) -> str:
        """Emit `name = text` and return the name."""
        v = self.name()
        self.lines.append(f"  {v} = {text}")
        return v

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def slot(self, type_: str, count: int = 1, align: int = 64) -> str:
        """Stack memory allocated at function entry."""
        v = self.name()
        self.allocas.append(
            f"  {v} = alloca {type_}, i64 {count}, align {align}"
            if count != 1
            else f"  {v} = alloca {type_}, align {align}"
        )
        return v

    def call(self, result: str, function: str, args: list[tuple[str, str]]) -> str:
        """Call an intrinsic or external function; declares it."""
        self.module.declare(result, function, [t for t, _ in args])
        text = f"call {result} @{function}({', '.join(f'{t} {v}' for t, v in args)})"
        if result == "void":
            self.do(text)
            return ""
        return self.op(text)

    def splat(self, type_: str, value: str, width: int) -> str:
        """Scalar operand -> vector operand."""
        if width == 1:
            return value
        first = self.op(f"insertelement <{width} x {type_}> poison, {type_} {value}, i64 0")
        return self.op(
            f"shufflevector <{width} x {type_}> {first}, <{width} x {type_}> poison, <{width} x i32> zeroinitializer"
        )


class Module:
    """Declarations, constant tables and functions of one module."""

    def __init__(self) -> None:
        self.declared: dict[str, str] = {}
        self.tables: dict[tuple, str] = {}
        self.functions: list[str] = []
        self.private: dict[str, str] = {}  # helper functions by name

    def declare(self, result: str, function: str, types: list[str]) -> None:
        self.declared.setdefault(function, f"declare {result} @{function}({', '.join(types)})")

    def table(self, dt: dtype, values: tuple) -> str:
        key = (dt.short, values)
        if key not in self.tables:
            self.tables[key] = f"@table{len(self.tables)}"
        return self.tables[key]

    def text(self) -> str:
        parts = []
        for (short, values), name in self.tables.items():
            t = TYPES[short]
            dt = {"f32": float32, "f64": float64, "i32": int32, "i64": int64}[short]
            items = ", ".join(f"{t} {constant(dt, v)}" for v in values)
            parts.append(f"{name} = private unnamed_addr constant [{len(values)} x {t}] [{items}], align 64")
        return "\n".join([*parts, *self.declared.values(), *self.private.values(), *self.functions, ""])


_FLOAT_OP = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fmod": "frem"}
_INT_OP = {"add": "add", "sub": "sub", "mul": "mul", "and_": "and", "or_": "or", "xor": "xor"}
_INTRINSIC = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "roundeven",
    "abs": "fabs",
    "fma": "fma",
    "copysign": "copysign",
}
_FCMP = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_ICMP = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def emit_op(w: Writer, e: Expr, args: list[str], width: int) -> str:
    """Emit a primitive whose arguments are operands of the same width; memory and control flow are not done here."""
    op, dt = e.op, e.dtype
    t = llvm_type(dt, width)
    source = e.args[0].dtype
    if op in _ICMP:
        code = f"fcmp {_FCMP[op]}" if source.category == 2 else f"icmp {_compare_int(op, source)}"
        return w.op(f"{code} {llvm_type(source, width)} {args[0]}, {args[1]}")
    if op in ("cast", "bitcast"):
        if op == "bitcast":
            return w.op(f"bitcast {llvm_type(source, width)} {args[0]} to {t}")
        return _cast(w, args[0], source, dt, width)
    if op == "where":
        return w.op(f"select {vector('i1', width)} {args[0]}, {t} {args[1]}, {t} {args[2]}")
    if dt.category == 2:
        if op in _FLOAT_OP:
            return w.op(f"{_FLOAT_OP[op]} {t} {args[0]}, {args[1]}")
        if op == "neg":
            return w.op(f"fneg {t} {args[0]}")
        if op == "ldexp":
            t32, s = llvm_type(int32, width), SUFFIX[TYPES[dt.short]]
            name = f"llvm.ldexp.{s}.i32" if width == 1 else f"llvm.ldexp.v{width}{s}.v{width}i32"
            return w.call(t, name, [(t, args[0]), (t32, args[1])])
        if op in _INTRINSIC:
            suffix = SUFFIX[TYPES[dt.short]]
            name = f"llvm.{_INTRINSIC[op]}.{suffix if width == 1 else f'v{width}{suffix}'}"
            return w.call(t, name, [(t, a) for a in args])
    elif op in _INT_OP:
        return w.op(f"{_INT_OP[op]} {t} {args[0]}, {args[1]}")
    elif op == "neg":
        return w.op(f"sub {t} {constant(dt, 0, width)}, {args[0]}")
    elif op == "abs":
        minus = w.op(f"sub {t} {constant(dt, 0, width)}, {args[0]}")
        less = w.op(f"icmp slt {t} {args[0]}, {constant(dt, 0, width)}")
        return w.op(f"select {vector('i1', width)} {less}, {t} {minus}, {t} {args[0]}")
    elif op == "not_":
        return w.op(f"xor {t} {args[0]}, {constant(dt, True if dt.category == 0 else -1, width)}")
    elif op in ("shl", "shr", "lshr"):
        return _shift(w, e, args, t, width)
    elif op == "trunc_div":
        return _int_divide(w, e, args, t, width)
    raise UnsupportedScalar(f"{op} of {dt.name}")


def _compare_int(op: str, dt: dtype) -> str:
    code = _ICMP[op]
    return "u" + code[1:] if code[0] == "s" and (dt.category == 0 or not dt.is_signed) else code


def _shift(w: Writer, e: Expr, args: list[str], t: str, width: int) -> str:
    """Amounts beyond the width give 0 (or the sign): LLVM leaves them undefined."""
    dt, amount = e.dtype, e.args[1]
    bits = dt.itemsize * 8
    code = "lshr" if e.op == "shr" and not dt.is_signed else {"shl": "shl", "shr": "ashr", "lshr": "lshr"}[e.op]
    if amount.op == "const" and 0 <= amount.attr < bits:
        return w.op(f"{code} {t} {args[0]}, {args[1]}")
    inside = w.op(f"icmp ult {t} {args[1]}, {constant(dt, bits, width)}")
    limit = bits - 1 if code == "ashr" else 0
    safe = w.op(f"select {vector('i1', width)} {inside}, {t} {args[1]}, {t} {constant(dt, limit, width)}")
    result = w.op(f"{code} {t} {args[0]}, {safe}")
    if code == "ashr":
        return result
    return w.op(f"select {vector('i1', width)} {inside}, {t} {result}, {t} {constant(dt, 0, width)}")


def _int_divide(w: Writer, e: Expr, args: list[str], t: str, width: int) -> str:
    """Truncating division; by zero gives 0, and the smallest number by -1 gives itself."""
    dt, y = e.dtype, e.args[1]
    if y.op == "const" and y.attr not in (0, -1):
        return w.op(f"{'sdiv' if dt.is_signed else 'udiv'} {t} {args[0]}, {args[1]}")
    flag = vector("i1", width)
    zero = w.op(f"icmp eq {t} {args[1]}, {constant(dt, 0, width)}")
    if dt.itemsize < 8:  # double holds the quotient of two 32-bit integers exactly enough: truncation is right
        f = llvm_type(float64, width)
        code = "s" if dt.is_signed else "u"
        x = w.op(f"{code}itofp {t} {args[0]} to {f}")
        z = w.op(f"{code}itofp {t} {args[1]} to {f}")
        z = w.op(f"select {flag} {zero}, {f} {constant(float64, 1.0, width)}, {f} {z}")
        wide = llvm_type(int64, width)
        q = w.op(f"fptosi {f} {w.op(f'fdiv {f} {x}, {z}')} to {wide}")
        q = w.op(f"trunc {wide} {q} to {t}")
    else:
        minus = w.op(f"icmp eq {t} {args[1]}, {constant(dt, -1, width)}")
        bad = w.op(f"or {flag} {zero}, {minus}")
        d = w.op(f"select {flag} {bad}, {t} {constant(dt, 1, width)}, {t} {args[1]}")
        q = w.op(f"sdiv {t} {args[0]}, {d}")
        negated = w.op(f"sub {t} {constant(dt, 0, width)}, {args[0]}")
        q = w.op(f"select {flag} {minus}, {t} {negated}, {t} {q}")
    return w.op(f"select {flag} {zero}, {t} {constant(dt, 0, width)}, {t} {q}")


def _cast(w: Writer, x: str, source: dtype, target: dtype, width: int) -> str:
    s, t = llvm_type(source, width), llvm_type(target, width)
    if target.category == 0:
        code = "fcmp une" if source.category == 2 else "icmp ne"
        return w.op(f"{code} {s} {x}, {constant(source, 0, width)}")
    if source.category == 2 and target.category == 2:
        return w.op(f"{'fpext' if target.itemsize > source.itemsize else 'fptrunc'} {s} {x} to {t}")
    if target.category == 2:
        return w.op(f"{'sitofp' if source.category and source.is_signed else 'uitofp'} {s} {x} to {t}")
    if source.category == 2:  # by way of a wider integer, as C compilers do; freeze: out of range is any number, not UB
        wide = target if target.itemsize >= 4 else int32
        v = w.op(f"fptosi {s} {x} to {llvm_type(wide, width)}")
        v = w.op(f"freeze {llvm_type(wide, width)} {v}")
        return v if wide is target else w.op(f"trunc {llvm_type(wide, width)} {v} to {t}")
    if source.category == 0 or target.itemsize > source.itemsize:
        return w.op(f"{'sext' if source.category and source.is_signed else 'zext'} {s} {x} to {t}")
    if target.itemsize < source.itemsize:
        return w.op(f"trunc {s} {x} to {t}")
    return x


def emit_size(size: Size, op: Callable[[str], str], param: Callable[[str], str]) -> str:
    """int64 operand of a Size; op(text) emits an instruction, param(name) gives a size parameter."""
    return str(size) if isinstance(size, int) else _size(ast.parse(size, mode="eval").body, op, param)


def _size(node: ast.expr, op: Callable[[str], str], param: Callable[[str], str]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return param(node.id)
    if isinstance(node, ast.UnaryOp):
        return op(f"sub i64 0, {_size(node.operand, op, param)}")
    if isinstance(node, ast.Call):
        values = [_size(a, op, param) for a in node.args]
        code = "slt" if node.func.id == "min" else "sgt"  # type: ignore[attr-defined]
        out = values[0]
        for v in values[1:]:
            flag = op(f"icmp {code} i64 {out}, {v}")
            out = op(f"select i1 {flag}, i64 {out}, i64 {v}")
        return out
    assert isinstance(node, ast.BinOp)
    x, y = _size(node.left, op, param), _size(node.right, op, param)
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        code = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}[type(node.op)]
        return op(f"{code} i64 {x}, {y}")
    zero = op(f"icmp eq i64 {y}, 0")
    y = op(f"select i1 {zero}, i64 1, i64 {y}")
    q, r = op(f"sdiv i64 {x}, {y}"), op(f"srem i64 {x}, {y}")
    negative = op(f"icmp slt i64 {op(f'xor i64 {r}, {y}')}, 0")
    adjust = op(f"and i1 {negative}, {op(f'icmp ne i64 {r}, 0')}")
    if isinstance(node.op, ast.FloorDiv):
        return op(f"sub i64 {q}, {op(f'zext i1 {adjust} to i64')}")
    return op(f"add i64 {r}, {op(f'select i1 {adjust}, i64 {y}, i64 0')}")
