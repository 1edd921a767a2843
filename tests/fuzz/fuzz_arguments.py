"""The arguments of programs of fuzz_wide.py: tensors of several dtypes and layouts, views, containers, callables."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import fusegrad as T


def of_dtype(data: np.ndarray, name: str) -> np.ndarray:
    """Normal numbers as numbers of a dtype."""
    return np.round(data * 3).astype(name) if name.startswith("int") else data.astype(name)


def more_arguments(ns: dict[str, Any], c: dict[str, Any], args: dict[str, Any], leaves: list[Any]) -> None:
    """Add the arguments named by `fuzz_wide.ARGUMENTS`, of the kinds that the call ``c`` says."""
    rng = np.random.default_rng([c["seed"], 1])
    x, y, z, m = args["x"], args["y"], args["z"], c["m"]
    args["hf"] = _half(rng, c["hf"], m, leaves)
    flags = {"random": rng.random(m) > 0.5, "none": np.zeros(m, bool), "all": np.ones(m, bool)}[c["mask"]]
    args["mask"] = T.from_numpy(flags)
    args["u8"] = T.from_numpy(rng.integers(0, 100, m).astype(c["u8"]))
    args["s0"] = _single(rng, c["s0"], x, leaves)
    args["w3"] = _three(rng, c["w3"], z, m)
    im = T.from_numpy(rng.standard_normal((1, 2, m + 1, 4)).astype("float32"))
    if c["im"] == "leaf":
        leaves.append(im.requires_grad_())
    args["im"] = im.transpose(2, 3) if c["im"] == "turned" else im
    args["pv"] = _view(rng, c["pv"], x)
    args["ts"] = {"one": [x], "two": [x, y], "views": [x[:1], x[1:], x], "same": [x, x], "none": []}[c["ts"]]
    args["td"] = {
        "flat": {"a": x}, "nested": {"a": x, "b": (y, 2), "w": {"u": [x]}}, "other": {"a": y, "b": [x, y]},
        "more": {"c": y, "a": x, "d": 1.5},
    }[c["td"]]  # fmt: skip
    args["key"], args["dt"] = c["key"], getattr(T, c["dt"])
    args["opt"] = {"none": None, "tensor": y, "float": 0.5, "int": 2, "list": [c["s"], 1]}[c["opt"]]
    args["ix"] = {
        "int": 0, "slice": slice(1, None), "none": None, "mask": args["mask"], "list": [0, -1], "tensor": args["q"],
        "dots": ..., "negative": -1, "tuple": (0,),
    }[c["ix"]]  # fmt: skip
    s = c["s"]
    args["num"] = {
        "int": c["n"], "float": s, "bool": c["flag"], "np": np.float32(s), "npint": np.int64(c["n"]),
        "big": 2**33 + c["n"],
    }[c["num"]]  # fmt: skip
    args["fnc"] = _function(ns, c)
    kind = c["ob"].removesuffix("Again")
    args["ob"] = ns[kind](s if c["ob"] == kind else c["n"])


def _half(rng: Any, kind: str, m: int, leaves: list[Any]) -> Any:
    data = rng.standard_normal(2 * m).astype("float16")
    out = T.from_numpy(data[::2] if kind == "stride" else data[:m].copy())
    if kind == "leaf":
        leaves.append(out.requires_grad_())
    return out


def _single(rng: Any, kind: str, x: Any, leaves: list[Any]) -> Any:
    v = float(rng.standard_normal())
    if kind == "of_x" and len(x):
        return x[0]
    if kind in ("double", "int", "bool"):
        return T.tensor(
            {"double": v, "int": round(v * 3), "bool": v > 0}[kind], dtype=T.float64 if kind == "double" else None
        )
    out = T.tensor(v)
    if kind == "leaf":
        leaves.append(out.requires_grad_())
    return out


def _three(rng: Any, kind: str, z: Any, m: int) -> Any:
    if kind == "of_z":
        return z.expand(2, -1, -1)
    if kind == "expanded":
        return T.from_numpy(rng.standard_normal((1, 1, 3)).astype("float32")).expand(2, m, 3)
    data = rng.standard_normal((2, m, 3)).astype("float32")
    if kind == "permuted":
        data = np.ascontiguousarray(data.transpose(2, 0, 1)).transpose(1, 2, 0)
    return T.from_numpy({"negative": data[::-1, :, ::-1], "empty": data[:, :0]}.get(kind, data))


def _view(rng: Any, kind: str, x: Any) -> Any:
    if kind == "tail":
        return x[1:]
    if kind == "column":
        return x.unsqueeze(1)[:, 0]
    if kind == "negative":
        return T.from_numpy(rng.standard_normal(len(x)).astype("float32")[::-1])
    if kind == "reshaped":
        return x.view(1, -1).reshape(-1)
    return x.detach() if kind == "detached" else T.from_numpy(rng.standard_normal(len(x)).astype("float32"))


FUNCTIONS = """
def double(u): return u * 2
def make(k): return lambda u: u * k + 1
made = make(2)
@COMPILE
def compiled(u): return u.sin() * G
"""


def _function(ns: dict[str, Any], c: dict[str, Any]) -> Any:
    """A callable of one tensor; the same object on each call where it can be."""
    if "_functions" not in ns:
        space = ns["_functions"] = {"COMPILE": ns["COMPILE"], "G": 2}
        exec(compile(FUNCTIONS, "<fuzz arguments>", "exec"), space)
    have = ns["_functions"]
    return {
        "sin": lambda: T.sin,
        "lambda": lambda: have["double"],
        "partial": lambda: functools.partial(ns["helper"], c=c["n"]),
        "method": lambda: ns["Obj"](c["n"]).scale,
        "closure": lambda: have["made"],
        "compiled": lambda: have["compiled"],
        "other": lambda: have["make"](c["n"]),
    }[c["fnc"]]()
