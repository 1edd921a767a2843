"""Functions, generators and coroutines that run in a mode: what ``@no_grad()`` makes of them."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def decorated(mode: Any, fn: Any) -> Any:
    """``fn`` as a function (a generator function, a coroutine function) that runs in ``mode``."""
    if inspect.isgeneratorfunction(fn):

        @functools.wraps(fn)
        def generator(*args: Any, **kwargs: Any) -> Any:
            gen, send = fn(*args, **kwargs), None
            try:
                with mode._clone():
                    item = gen.send(None)
                while True:
                    try:
                        send = yield item
                    except GeneratorExit:
                        with mode._clone():
                            gen.close()
                        raise
                    except BaseException as e:
                        with mode._clone():
                            item = gen.throw(e)
                    else:
                        with mode._clone():
                            item = gen.send(send)
            except StopIteration as e:
                return e.value

        return generator
    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with mode._clone():
                return await fn(*args, **kwargs)

        return coroutine

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        with mode._clone():
            return fn(*args, **kwargs)

    return function
