"""The drawing as an HTML page without any other file: the SVG, zooming, marking of neighbours, the text."""

from __future__ import annotations

from html import escape

_STYLE = """
body { margin: 0; font: 14px/1.45 system-ui, sans-serif; color: #0f172a; background: #f8fafc; }
header { padding: 10px 16px; border-bottom: 1px solid #e2e8f0; background: #fff; }
header b { margin-right: 12px; }
button { font: inherit; padding: 1px 10px; }
#view { overflow: auto; height: 72vh; background: #fff; border-bottom: 1px solid #e2e8f0; text-align: center; }
pre { margin: 0; padding: 12px 16px; overflow: auto; font-size: 12px; }
.dim { opacity: 0.2; }
"""

_SCRIPT = """
const svg = document.querySelector('#view svg'), width = svg.width.baseVal.value, height = svg.height.baseVal.value;
let scale = 1;
function zoom(to) {
  scale = Math.min(4, Math.max(0.1, to));
  svg.setAttribute('width', width * scale); svg.setAttribute('height', height * scale);
}
document.querySelector('#in').onclick = () => zoom(scale * 1.25);
document.querySelector('#out').onclick = () => zoom(scale / 1.25);
document.querySelector('#fit').onclick = () => {
  const view = document.querySelector('#view');
  zoom(Math.min(view.clientWidth / width, view.clientHeight / height));
};
const boxes = [...svg.querySelectorAll('.box')], arrows = [...svg.querySelectorAll('.arrow')];
for (const box of boxes) {
  box.onmouseenter = () => {
    const near = new Set([box.dataset.box]);
    for (const a of arrows) {
      const mine = a.dataset.from === box.dataset.box || a.dataset.to === box.dataset.box;
      a.classList.toggle('dim', !mine);
      if (mine) { near.add(a.dataset.from); near.add(a.dataset.to); }
    }
    for (const b of boxes) b.classList.toggle('dim', !near.has(b.dataset.box));
  };
  box.onmouseleave = () => { for (const x of [...boxes, ...arrows]) x.classList.remove('dim'); };
}
"""


def html(svg: str, text: str, summary: str) -> str:
    """One page."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>dynamic graph</title><style>{_STYLE}</style></head>
<body>
<header><b>{escape(summary)}</b>
<button id="in">larger</button> <button id="out">smaller</button> <button id="fit">fit</button></header>
<div id="view">{svg}</div>
<pre>{escape(text)}</pre>
<script>{_SCRIPT}</script>
</body>
</html>"""
