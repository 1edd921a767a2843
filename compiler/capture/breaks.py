"""Numbered reasons for graph breaks and for running a frame as plain Python, and the exceptions that carry them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reason:
    """One numbered reason: title, what it means, what to do about it."""

    code: str
    title: str
    meaning: str
    hint: str


REASONS: dict[str, Reason] = {}


def _reason(code: str, title: str, meaning: str, hint: str) -> str:
    REASONS[code] = Reason(code, title, meaning, hint)
    return code


BRANCH = _reason(
    "FG001",
    "data-dependent branch",
    "An `if`, `while`, `and`, `or`, `not` or `assert` asks for the value of a tensor. The graph so far is run, "
    "Python takes the branch, and capture goes on after it.",
    "Choose with tensors instead: `fusegrad.where(condition, a, b)`; or move the branch out of the hot function.",
)
VALUE = _reason(
    "FG002",
    "data-dependent value",
    "The value of a tensor leaves the graph: `.item()`, `float()`, `int()`, `.tolist()`, `.numpy()`, its text.",
    "Keep it a tensor as long as possible; read values at the end, outside of the compiled function.",
)
CALL = _reason(
    "FG003",
    "call that is not captured",
    "A function whose effects or results capture does not know (C code, files, time) is called for real, at every "
    "call, in its place; so is a draw of a random number whose value decides what is computed.",
    "Move the call out of the compiled function; mark a pure tensor function with `fusegrad.compiler.allow_in_graph`.",
)
NESTED = _reason(
    "FG004",
    "break inside an inlined call",
    "A called function contains something that breaks the graph. It is called for real; its code is compiled apart.",
    "See the break inside of the called function.",
)
INSTRUCTION = _reason(
    "FG005",
    "instruction that is not captured",
    "The evaluator does not take this Python instruction (on these operands).",
    "Rewrite the line in simpler Python, or move it out of the compiled function.",
)
OBJECT = _reason(
    "FG006",
    "object that is not understood",
    "An operation on an object whose behaviour capture does not know (a C type, a custom `__getattribute__`, ...).",
    "Read what you need from the object outside and pass it in.",
)
ITERATOR = _reason(
    "FG007",
    "iterator made elsewhere",
    "The loop runs over an iterator that existed before (a data loader, a file, a generator): each `next()` is real.",
    "Compile the loop's body as a function of its own.",
)
REBUILD = _reason(
    "FG008",
    "value that can't be rebuilt",
    "At a break every live value must exist for real; this one (a running generator, a C iterator) can't be rebuilt, "
    "so it is made for real where it was created.",
    "Finish with the generator or iterator before the break.",
)
EXCEPT = _reason(
    "FG009",
    "exception from before the break",
    "An exception that captured code did not raise itself (a call for real did, or it was passed in) is raised, or "
    "split by `except*`: that runs for real, so that its traceback and context are Python's own.",
    "Raise a new exception, or handle it without raising it again.",
)
DEPTH = _reason(
    "FG010",
    "calls nested too deeply",
    "Inlining stops at a depth (recursion); the inner call is made for real and compiled apart.",
    "Use a loop for deep recursion.",
)
DISABLED = _reason(
    "FG011",
    "disabled function",
    "The function is marked with `fusegrad.compiler.disable`.",
    "Remove the mark, or call it outside of compiled code.",
)
FRAME = _reason(
    "FG012",
    "frame that is not captured",
    "This kind of function (async generator, class body, unknown bytecode) runs as plain Python; a coroutine function "
    "that captured code calls is called for real.",
    "Compile the functions it calls.",
)
RAISES = _reason(
    "FG013",
    "exception leaves the frame",
    "The code raises; it is run as plain Python from the last break so that error and traceback are Python's own.",
    "Nothing to do if the exception is meant.",
)
INTERNAL = _reason(
    "FG014",
    "fault inside of the compiler",
    "Capture or compilation failed by a fault of fusegrad; the frame runs as plain Python.",
    "Please report it, with the function.",
)
LIMIT = _reason(
    "FG015",
    "too many versions",
    "The function was compiled for too many kinds of arguments; further kinds run as plain Python.",
    "The warning names the guard that keeps failing: pass the changing value as a tensor, or mark it dynamic.",
)
AUTOGRAD = _reason(
    "FG016",
    "autograd that is not captured",
    "Hooks, gradients of tensors computed outside, or other autograd state that the graph can't hold.",
    "Call it outside of the compiled function.",
)
ALIAS = _reason(
    "FG017",
    "overlapping memory",
    "Tensors that share memory are written to; the graph can't express how they overlap.",
    "Clone one of them first.",
)
MODE = _reason(
    "FG019",
    "a mode that compiled code does not serve",
    "The call is made under hooks on saved tensors, in anomaly mode or while lines are traced, which look at each"
    " operator; it runs as plain Python.",
    "Leave the mode to run compiled code.",
)
NUMBER = _reason(
    "FG021",
    "number that decides what is computed",
    "A call needs the value of a number that changes from call to call: how often a loop runs (`range(n)`), a size "
    "that the operator looks at, a setting that it can't take from outside. From the third value on the call runs for "
    "real, instead of compiling the code for each of them.",
    "Pass the number as a tensor where the operator takes one; mark what takes few values with "
    "`fusegrad.compiler.mark_static`, or compile with `dynamic=False`.",
)
CONTROL = _reason(
    "FG020",
    "structured control flow that is not captured",
    "`cond`, `while_loop`, `scan`, `map` or `associative_scan` is called with a function that can't be a part of a "
    "graph: it draws random numbers (in `scan` and `map`: over more than 64 slices), changes objects or tensors that "
    "it did not make, raises, or returns what eager code refuses or other numbers than the other branch. The call runs "
    "eagerly.",
    "Return what changes instead of storing it; draw random numbers outside and pass them in.",
)


@dataclass(frozen=True)
class BreakRecord:
    """One break that happened: reason, detail, and the user's line."""

    code: str
    detail: str
    file: str
    line: int
    kind: str = "break"  # or "plain"

    def __str__(self) -> str:
        r = REASONS[self.code]
        return f"{self.file}:{self.line}: {self.code} {r.title}: {self.detail}"


class Break(Exception):
    """The current instruction can't be part of the graph. ``clean``: nothing was evaluated for it yet."""

    def __init__(self, code: str, detail: str, clean: bool = False) -> None:
        super().__init__(f"{code} {detail}")
        self.code, self.detail, self.clean = code, detail, clean
        self.where: tuple[str, int] | None = None


class Restart(Exception):
    """Analyse the unit again with one more known fact (already stored)."""


class Refuse(Exception):
    """The frame can't be captured from this state: run it as plain Python."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code} {detail}")
        self.code, self.detail = code, detail


class Raised(Exception):
    """An exception of the evaluated program (not of the evaluator)."""

    def __init__(self, exc: Any) -> None:  # a placeholder, if it existed before
        super().__init__()
        self.exc = exc


class Leak(BaseException):
    """Code that runs for real touched a placeholder of a pre-existing object."""


class GraphBreakError(RuntimeError):
    """``fullgraph=True`` and the graph would break: file and line, reason, way out."""

    def __init__(self, record: BreakRecord) -> None:
        r = REASONS[record.code]
        super().__init__(
            f"{record.file}:{record.line}: {record.code} {r.title}: {record.detail}. fullgraph=True allows no graph"
            f" break here. {r.hint} (or compile without fullgraph=True)"
        )
        self.record = record


def pages() -> dict[str, Any]:
    """Text of the docs page of every reason (docs/breaks/*.md is generated from it)."""
    return {r.code: f"# {r.code}: {r.title}\n\n{r.meaning}\n\n**What to do.** {r.hint}\n" for r in REASONS.values()}
