"""Guards print as conditions that a user can read, each with the line that caused it."""

import re

from fusegrad.compiler import report

import fusegrad as T


def shown(f):
    (cache,) = [c for c in report.CACHES if c.func is f]
    return [g for u in cache.units.values() for e in u.entries for g in e.program.show()]


class Scale(T.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.k = T.nn.Linear(2, 2), 0.5

    def forward(self, x):
        return self.fc(x) * self.k


def test_guards_are_readable():
    model, table, seen = Scale(), {"a": 2.0, 1: 3}, {1, 2}
    opt = T.optim.Adam(model.parameters())

    def step(x, n):
        opt.zero_grad()
        loss = (T.relu(model(x)) * table["a"]).sum() * n + len(seen) + sum(k for k in table if k == 1) + (1 in seen)
        loss.backward()
        opt.step()
        if loss > 1e9:
            print("large")
        return loss.detach()

    c = T.compile(step)
    for n in (1, 2):
        c(T.ones(2, 2), n)
    lines = shown(step)
    assert len(lines) > 30
    for line in lines:
        assert not re.search(r"_fg|«|»", line), line
        mode = line.startswith(("grad mode", "no inference", "default dtype", "the function's"))
        assert mode or re.search(r"  # [\w<>]+(\.py)?:\d+$", line), line
    text = "\n".join(lines)
    for words in (
        "x._data.shape == (2, 2)",
        "not hasattr(Scale, 'fc')",
        "grad mode is True",
        "model.cell_contents.k == 0.5",
        "table.cell_contents['a'] == 2.0",
        "opt.cell_contents.param_groups[0]['lr'] == 0.001",
        "memory is apart",
    ):
        assert words in text, words
    here = [line for line in lines if "test_guard_text.py:" in line]
    first = step.__code__.co_firstlineno
    assert {int(line.rsplit(":", 1)[1]) for line in here} & {first + 2}, "the line of the model's call"
