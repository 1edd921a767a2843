"""Products of matrices, piece by piece, as ``fusegrad_parallel`` runs them: LLVM IR that calls the BLAS of numpy.

One piece is one matrix of a stack, or some rows or columns of a single product. Its context is an array of i64:
"""

from __future__ import annotations

# Addresses of gemm and of the first elements; whether a and b are transposed in memory; sizes of a piece, of the whole,
# and from piece to piece; leading dimensions; bytes from piece to piece, in two levels (piece = outer * inner + rest).
CONTEXT = (
    "gemm", "turned_a", "turned_b", "m", "n", "k", "whole_m", "whole_n", "step_m", "step_n", "a", "lda", "b", "ldb",
    "c", "ldc", "inner", "outer_a", "inner_a", "outer_b", "inner_b", "outer_c", "inner_c",
)  # fmt: skip
SYMBOLS = ("fusegrad_pieces_f32", "fusegrad_pieces_f64")


def text(wide: bool) -> str:
    """The module; ``wide``: BLAS takes sizes of 64 bits."""
    return "\n".join([_pieces("f32", "float", wide), _pieces("f64", "double", wide), _MIN]) + "\n"


_MIN = "declare i64 @llvm.smin.i64(i64, i64)"


def _pieces(short: str, number: str, wide: bool) -> str:
    size = "i64" if wide else "i32"
    lines = []
    for k, name in enumerate(CONTEXT):
        kind = "ptr" if name in ("gemm", "a", "b", "c") else "i64"
        lines.append(f"  %{name}.at = getelementptr i64, ptr %ctx, i64 {k}")
        lines.append(f"  %{name} = load {kind}, ptr %{name}.at")
    for name in ("turned_a", "turned_b"):
        lines.append(f"  %{name}.code = trunc i64 %{name} to i32")
    for name in ("lda", "ldb", "ldc", "k"):
        lines.append(f"  %{name}.s = {'add i64 0,' if wide else 'trunc i64'} %{name}{'' if wide else ' to i32'}")
    body = []
    for side, own in (("m", "m"), ("n", "n")):
        body += [
            f"  %{side}.done = mul i64 %i, %step_{own}",
            f"  %{side}.left = sub i64 %whole_{own}, %{side}.done",
            f"  %{side}.here = call i64 @llvm.smin.i64(i64 %{own}, i64 %{side}.left)",
            f"  %{side}.s = {'add i64 0,' if wide else 'trunc i64'} %{side}.here{'' if wide else ' to i32'}",
        ]
    for name in ("a", "b", "c"):
        body += [
            f"  %{name}.far = mul i64 %o, %outer_{name}",
            f"  %{name}.near = mul i64 %r, %inner_{name}",
            f"  %{name}.sum = add i64 %{name}.far, %{name}.near",
            f"  %{name}.here = getelementptr i8, ptr %{name}, i64 %{name}.sum",
        ]
    return "\n".join(
        [
            f"define void @fusegrad_pieces_{short}(ptr %ctx, i64 %lo, i64 %hi) nounwind {{",
            "entry:",
            *lines,
            "  br label %next",
            "next:",
            "  %i = phi i64 [%lo, %entry], [%i.next, %piece]",
            "  %more = icmp slt i64 %i, %hi",
            "  br i1 %more, label %piece, label %done",
            "piece:",
            "  %o = sdiv i64 %i, %inner",
            "  %r = srem i64 %i, %inner",
            *body,
            f"  call void %gemm(i32 101, i32 %turned_a.code, i32 %turned_b.code, {size} %m.s, {size} %n.s, "
            f"{size} %k.s, {number} 1.0, ptr %a.here, {size} %lda.s, ptr %b.here, {size} %ldb.s, {number} 0.0, "
            f"ptr %c.here, {size} %ldc.s)",
            "  %i.next = add i64 %i, 1",
            "  br label %next",
            "done:",
            "  ret void",
            "}",
        ]
    )
