"""Calling a module with other parameters."""
from __future__ import annotations

from typing import Any


def functional_call(module: Any, parameters_and_buffers: Any, args: Any = None, kwargs: dict | None = None, *, strict: bool = False, tie_weights: bool = True) -> Any:
    """Call ``module`` with the given tensors in place of its parameters and buffers; the module is left unchanged.

    ``parameters_and_buffers``: a dict by dotted name, or several. KeyError for a name that the module does not have.
    """
    given: dict[str, Any] = {}
    for d in parameters_and_buffers if isinstance(parameters_and_buffers, (tuple, list)) else (parameters_and_buffers,):
        given.update(d)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    missing = [k for k in own if k not in given]
    unknown = [k for k in given if k not in own]
    if strict and (missing or unknown):
        raise RuntimeError(f"Missing key(s): {missing}. Unexpected key(s): {unknown}.")
    if tie_weights:
        by_id = {id(own[k]): v for k, v in given.items() if k in own}
        given = {**{k: by_id[id(t)] for k, t in own.items() if id(t) in by_id}, **given}
    before: list[tuple[Any, str, str, Any]] = []
    try:
        for path, value in given.items():
            owner, _, name = path.rpartition(".")
            target = module.get_submodule(owner)
            store = "_parameters" if name in target._parameters else "_buffers"
            if name not in target._parameters and name not in target._buffers:
                raise KeyError(f"the module has no parameter or buffer {path!r}")
            before.append((target, store, name, getattr(target, store)[name]))
            getattr(target, store)[name] = value
        return module(*args, **(kwargs or {}))
    finally:
        for target, store, name, value in reversed(before):
            getattr(target, store)[name] = value
