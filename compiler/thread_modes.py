"""The modes of a thread as compiled code sees them: which calls it serves, reading and setting them."""

from __future__ import annotations

from fusegrad.autograd.modes import STATE, set_grad, slow_paths


def ordinary() -> bool:
    """Whether this thread is in none of the modes that need the general dispatcher, inference mode excepted (but not
    with ``enable_grad`` inside of it).

    The library counts the threads in such modes (``modes.SLOW``); only when some thread is in one is this asked.
    """
    s = STATE
    return not (s.packers or s.anomaly or s.lines or s.asked)


def recording() -> bool:
    """``ordinary``, and not in inference mode: guard of an entry captured outside of inference mode."""
    return not STATE.inference and ordinary()


def inferring() -> bool:
    """Guard of an entry captured in inference mode."""
    return STATE.inference and ordinary()


def mode_now() -> tuple[bool, bool, bool]:
    """(grad mode, inference mode, the grad mode asked for in it) of this thread."""
    return STATE.grad, STATE.inference, STATE.asked


def set_mode(mode: tuple[bool, bool, bool]) -> None:
    """Set what ``mode_now`` gave."""
    set_grad(mode[0])
    STATE.asked = mode[2]
    if STATE.inference is not mode[1]:
        slow_paths(int(mode[1]) - int(STATE.inference))
        STATE.inference = mode[1]
