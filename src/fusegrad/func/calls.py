"""Calling a module with other parameters, and stacking the parameters of several."""

from __future__ import annotations

from typing import Any

from ..op import TABLE
from ..tensor import Tensor


def _given(parameters_and_buffers: Any) -> dict[str, Any]:
    """One dict by dotted name."""
    several = isinstance(parameters_and_buffers, (tuple, list))
    parts = parameters_and_buffers if several else (parameters_and_buffers,)
    if not all(isinstance(d, dict) for d in parts):
        kind = type(parameters_and_buffers)
        raise ValueError(f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {kind}")
    given: dict[str, Any] = {}
    for d in parts:
        for k, v in d.items():
            if k in given:
                raise ValueError(f"{k} appears in multiple dictionaries; behavior of functional call is ambiguous")
            if not isinstance(v, Tensor):
                raise TypeError(f"{v} is not an instance of fusegrad.Tensor")
            given[k] = v
    return given


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with the given tensors in place of its parameters and buffers; the module is left unchanged.

    ``parameter_and_buffer_dicts``: a dict by dotted name, or several without common names. Names that the module does
    not have are ignored unless ``strict``, which also wants every name (RuntimeError). Weights tied in the module stay
    tied unless ``tie_weights`` is False.
    """
    given = _given(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    own = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    if tie_weights:
        by_id = _by_weight(own, given)
        given = {**{k: by_id[id(t)] for k, t in own.items() if id(t) in by_id}, **given}
    if strict:
        missing, unknown = [k for k in own if k not in given], [k for k in given if k not in own]
        if missing or unknown:
            lines = [f"Error(s) in reparametrizing for {type(module).__name__}:"]
            if unknown:
                lines.append(f"Unexpected key(s): {', '.join(map(repr, unknown))}.")
            if missing:
                lines.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
            raise RuntimeError("\n\t".join(lines))
    for path in given:
        if path not in own and path in (parts := dict(module.named_modules())):
            raise TypeError(f"attribute `{path}`: {parts[path]!r} is not an instance of Tensor")
    before: list[tuple[dict, str, Any]] = []
    try:
        for path, value in given.items():
            if path not in own:
                continue
            owner, _, name = path.rpartition(".")
            target = module.get_submodule(owner)
            store = target._parameters if name in target._parameters else target._buffers
            before.append((store, name, store[name]))
            store[name] = value
        return module(*args, **(kwargs or {}))
    finally:
        for store, name, value in reversed(before):
            store[name] = value


def _by_weight(own: dict[str, Tensor], given: dict[str, Any]) -> dict[int, Any]:
    """The given tensors by the id of what they replace. ValueError where two names of one weight got different ones."""
    names: dict[int, list[str]] = {}
    for k in given.keys() & own.keys():
        names.setdefault(id(own[k]), []).append(k)
    for same in names.values():
        if any(given[k] is not given[same[0]] for k in same):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(same)}, which are tied. Consider using "
                "tie_weights=False"
            )
    return {i: given[same[0]] for i, same in names.items()}


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of modules of one class, each stacked along a new first dimension, for ``vmap``.

    RuntimeError for no modules, or modules that differ in class or in training mode.
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    params = {k: _stacked([dict(m.named_parameters())[k] for m in models]) for k, _ in models[0].named_parameters()}
    buffers = {k: _stacked([dict(m.named_buffers())[k] for m in models]) for k, _ in models[0].named_buffers()}
    return params, buffers


def _stacked(tensors: list[Tensor]) -> Tensor:
    out = TABLE["stack"](tensors, 0).detach()
    return out._ask_grad(tensors[0].requires_grad)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Take the running statistics away from every batch normalisation of `root` (in place; also returned): under `vmap`
    they would be changed in place.
    """
    from fusegrad.nn.norm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
