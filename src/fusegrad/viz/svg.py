"""The drawing as SVG."""

from __future__ import annotations

from html import escape

from .layout import place
from .model import Box, Model

_CHAR, _LINE, _PAD = 7.3, 16.0, 9.0
_LONGEST = 64  # characters of a row
_FILL = {
    "leaf": ("#dbeafe", "#2563eb"),
    "op": ("#ffffff", "#64748b"),
    "group": ("#f1f5f9", "#64748b"),
    "output": ("#dcfce7", "#16a34a"),
}
_INK = {"plain": "#0f172a", "saved": "#9a3412", "grad": "#15803d", "warn": "#b91c1c", "note": "#64748b"}
_LEGEND = (("leaf", "leaf"), ("op", "operator (its grad_fn)"), ("output", "output"))
_MARGIN, _HEAD = 16.0, 62.0


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _size(box: Box) -> tuple[float, float]:
    title = box.title + (f"  #{box.number}" if box.kind == "op" else "")
    chars = max([len(title) + 1, *(len(_short(row)) for _, row in box.rows)])
    return chars * _CHAR + 2 * _PAD, (len(box.rows) + 1) * _LINE + 2 * _PAD - 4


def draw(model: Model) -> str:
    """An SVG document: data flows downwards, gradients back along the arrows."""
    sizes = [_size(b) for b in model.boxes]
    layout = place(sizes, model.arrows)
    notes = [model.summary, *model.notes]
    width = max(layout.width, 640.0, *(len(n) * _CHAR for n in notes)) + 2 * _MARGIN
    top = _HEAD + (len(notes) - 1) * _LINE
    height = layout.height + top + _MARGIN
    left = (width - layout.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', '
        'monospace" font-size="12">',
        f"<title>{escape('dynamic graph: ' + model.summary)}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0,0.5 L8,4 L0,7.5 z" fill="#475569"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        *_header(notes),
    ]
    for (s, t), points in zip(model.arrows, layout.paths, strict=True):
        moved = [(x + left, y + top) for x, y in points]
        parts.append(
            f'<path class="arrow" data-from="{s}" data-to="{t}" d="{_curve(moved)}" fill="none" '
            'stroke="#475569" stroke-width="1.2" marker-end="url(#tip)"/>'
        )
    for i, (box, (w, h), (x, y)) in enumerate(zip(model.boxes, sizes, layout.places, strict=True)):
        parts += _box(i, box, x - w / 2 + left, y + top, w, h)
    return "\n".join([*parts, "</svg>"])


def _header(notes: list[str]) -> list[str]:
    """The summary and the legend."""
    parts = []
    for i, note in enumerate(notes):
        weight = ' font-weight="bold"' if i == 0 else ""
        parts.append(f'<text x="{_MARGIN}" y="{20 + i * _LINE}" fill="#0f172a"{weight}>{escape(note)}</text>')
    x, y = _MARGIN, 26 + (len(notes) - 1) * _LINE
    for kind, label in _LEGEND:
        fill, line = _FILL[kind]
        parts.append(f'<rect x="{x:.0f}" y="{y + 4}" width="11" height="11" rx="2" fill="{fill}" stroke="{line}"/>')
        parts.append(f'<text x="{x + 16:.0f}" y="{y + 14}" fill="#475569">{label}</text>')
        x += 16 + len(label) * _CHAR + 18
    parts.append(f'<text x="{x:.0f}" y="{y + 14}" fill="#475569">arrows: data; gradients go back along them</text>')
    return parts


def _curve(points: list[tuple[float, float]]) -> str:
    """A smooth path with vertical tangents through the points."""
    (x0, y0), *rest = points
    out = [f"M{x0:.1f},{y0:.1f}"]
    for x, y in rest:
        bend = (y - y0) * 0.45
        out.append(f"C{x0:.1f},{y0 + bend:.1f} {x:.1f},{y - bend:.1f} {x:.1f},{y:.1f}")
        x0, y0 = x, y
    return " ".join(out)


def _box(i: int, box: Box, x: float, y: float, w: float, h: float) -> list[str]:
    fill, line = _FILL[box.kind]
    dash = ' stroke-dasharray="5 3"' if box.kind == "group" else ""
    radius = 10 if box.kind in ("leaf", "output") else 3
    rows = "\n".join([box.title, *(row for _, row in box.rows)])
    tip = escape(f"{box.tip}\n{rows}" if box.tip else rows)
    left, line_y = x + _PAD, y + _PAD + 9
    parts = [
        f'<g class="box" data-box="{i}"><title>{tip}</title>',
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius}" fill="{fill}" '
        f'stroke="{line}" stroke-width="1.3"{dash}/>',
        f'<text x="{left:.1f}" y="{line_y:.1f}" font-weight="bold" fill="#0f172a">{escape(_short(box.title))}</text>',
    ]
    if box.kind == "op":
        right = x + w - _PAD
        parts.append(f'<text x="{right:.1f}" y="{line_y:.1f}" text-anchor="end" fill="#94a3b8">#{box.number}</text>')
    for k, (style, row) in enumerate(box.rows, 1):
        at = line_y + k * _LINE
        parts.append(f'<text x="{left:.1f}" y="{at:.1f}" fill="{_INK[style]}">{escape(_short(row))}</text>')
    return [*parts, "</g>"]
