"""Grad modes, local to a thread: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class _State(threading.local):
    """Per-thread switches. ``packers``: stack of (pack, unpack) hooks for saved tensors; ``lines``: nodes keep the
    line that made them; ``dry``: code runs on shapes alone, and may change no real tensor; ``run``: the backward pass
    that this thread is in; ``mutation``: the context that lets saved tensors be changed in place; ``transforms``: how
    many reverse-mode function transforms are running; ``extent``: the innermost function transform that
    differentiates; ``asked``: the grad mode as ``is_grad_enabled`` tells it in inference mode, where nothing is
    recorded whatever was asked for; ``suspended``: a function transform runs in inference mode."""

    grad = True
    asked = False
    suspended = False
    inference = False
    multithreading = True  # what ``set_multithreading_enabled`` was told
    anomaly = False
    lines = False
    check_nan = True
    dry = False
    packers: tuple = ()
    run: Any = None
    mutation: Any = None
    meet: Any = None  # runs operators in place of their kernels (selective checkpoints)
    transforms = 0
    extent: Any = None


STATE = _State()
# When the differentiating function transforms that are running now began (in the numbers of ``node.next_seq``), of all
# threads. While there are any, tensors that no node tells the age of are marked with it (see ``node.mark_young``).
RUNNING: list[int] = []
# Threads whose grad mode is off. Empty in most programs' forward passes, so that fast paths need not ask STATE, a
# thread-local that takes 50 ns to read: ``not NO_GRAD or STATE.grad``. Only ``set_grad`` changes it.
NO_GRAD: set[int] = set()


def set_grad(mode: Any) -> None:
    """Set the grad mode of this thread. An interrupt on the way leaves it in ``NO_GRAD``, where it does no harm."""
    if mode:
        STATE.grad = True
        NO_GRAD.discard(get_ident())
    else:
        NO_GRAD.add(get_ident())
        STATE.grad = False


def ask_grad(mode: bool) -> None:
    """Set the grad mode as a program asks for it: in inference mode nothing is recorded all the same."""
    if STATE.inference:
        STATE.asked = mode
    else:
        set_grad(mode)


# How many threads are in a mode that the fast paths of operators do not handle (inference mode, saved tensor hooks,
# anomaly mode, line tracing). Non-zero sends every thread's calls through the general dispatcher, which asks STATE.
SLOW = [0]
_slow_lock = threading.Lock()


def slow_paths(step: int) -> None:
    """Count a thread into (+1) or out of (-1) the modes that need the general dispatcher."""
    with _slow_lock:
        SLOW[0] += step


class Mode:
    """A mode that works as context manager and as decorator (of functions, generators and coroutines)."""

    def _enter(self) -> Any:
        raise NotImplementedError

    def _exit(self, before: Any) -> None:
        raise NotImplementedError

    def _clone(self) -> Mode:
        return self.__class__()

    def __enter__(self) -> None:
        stack = self.__dict__.setdefault("_before", [])
        stack.append(self._enter())

    def __exit__(self, *exc: Any) -> None:
        self._exit(self.__dict__["_before"].pop())

    def __call__(self, fn: F) -> F:
        if isinstance(fn, type):
            from ..errors import warn

            warn(f"{type(self).__name__} of a class is one of its constructor: decorate the methods", FutureWarning)
        return _decorate(self, fn)


def _decorate(mode: Mode, fn: Any) -> Any:
    from .modes_decorated import decorated

    return decorated(mode, fn)


class no_grad(Mode):
    """Record no graph inside. ``with no_grad():`` or ``@no_grad()`` (``@no_grad`` works too)."""

    value = False

    def __new__(cls, fn: Any = None) -> Any:
        self = super().__new__(cls)
        return self if fn is None else _decorate(self, fn)

    def __init__(self, fn: Any = None) -> None:
        pass

    def _enter(self) -> tuple[bool, bool]:
        before = STATE.grad, STATE.asked
        ask_grad(self.value)
        return before

    def _exit(self, before: tuple[bool, bool]) -> None:
        set_grad(before[0])
        STATE.asked = before[1]


class enable_grad(no_grad):
    """Record the graph inside, also where ``no_grad`` holds outside."""

    value = True


class set_grad_enabled(Mode):
    """Set grad mode at once; as a context manager it is restored at the end."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'mode' must be bool, not {type(mode).__name__}")
        self.mode = mode
        self.prev = is_grad_enabled()
        ask_grad(mode)

    def _clone(self) -> Mode:
        return set_grad_enabled(self.mode)

    def __call__(self, fn: F) -> F:
        ask_grad(self.prev)
        return super().__call__(fn)

    def __enter__(self) -> None:
        ask_grad(self.mode)

    def __exit__(self, *exc: Any) -> None:
        ask_grad(self.prev)


class inference_mode(Mode):
    """No graph, no version counting: tensors made inside can't enter a graph later."""

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if callable(mode):
            self.mode = True
            return _decorate(self, mode)
        return self

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def _clone(self) -> Mode:
        return inference_mode(self.mode)

    def _enter(self) -> tuple[bool, bool, bool]:
        before = STATE.inference, STATE.grad, STATE.asked
        STATE.inference, STATE.asked = self.mode, False
        set_grad(not self.mode)
        slow_paths(int(self.mode) - int(before[0]))
        return before

    def _exit(self, before: tuple[bool, bool, bool]) -> None:
        slow_paths(int(before[0]) - int(STATE.inference))
        STATE.inference, grad, STATE.asked = before
        set_grad(grad)


class recorded(inference_mode):
    """``recorded(False)``: the graph is recorded, also in inference mode, whose tensors may be saved meanwhile (nothing
    of the graph is left in the end)."""

    def _clone(self) -> Mode:
        return type(self)(False)

    def _enter(self) -> tuple:
        before = STATE.suspended
        STATE.suspended = before or STATE.inference
        return before, *super()._enter()

    def _exit(self, before: tuple) -> None:
        STATE.suspended = before[0]
        super()._exit(before[1:])  # type: ignore[arg-type]


class transform(recorded):
    """``transform(False)``: inside a reverse-mode function transform."""

    def _enter(self) -> tuple:
        STATE.transforms += 1
        return super()._enter()

    def _exit(self, before: tuple) -> None:
        STATE.transforms -= 1
        super()._exit(before)


@contextlib.contextmanager
def no_extent() -> Iterator[None]:
    """Inside, no transform counts that began outside: what is captured there runs later, and is checked then."""
    before, STATE.extent = STATE.extent, None
    try:
        yield
    finally:
        STATE.extent = before


def is_grad_enabled() -> bool:
    """The grad mode of this thread. (In inference mode nothing is recorded even where ``enable_grad`` asks for it.)"""
    return STATE.asked if STATE.inference else STATE.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return STATE.inference


def __getattr__(name: str) -> Any:
    if name in ("set_multithreading_enabled", "is_multithreading_enabled"):  # seldom asked for
        from . import multithreading

        return getattr(multithreading, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
