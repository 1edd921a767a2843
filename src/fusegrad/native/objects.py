"""Loading of ``llvm_objects``: where objects keep what, tried out on real ones, and the addresses it needs."""

from __future__ import annotations

import ctypes
import functools
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad import dtypes
from fusegrad.autograd.modes import NO_GRAD, RUNNING, STATE
from fusegrad.autograd.node import Node, Storage, View, next_seq
from fusegrad.dispatch import META32, shared_meta
from fusegrad.tensor import Tensor

from . import cache, code_version, jit
from .launch import _METH_FASTCALL, _keep, _MethodDef, layout_is_known
from .layout import BASE, FLAGS, KIND, OBJECT_CELLS, TYPE, Layout

_GRAD = sys.intern("grad")


def binder(name: str) -> Callable[[Any], Any]:
    """What binds a plan to the function of this name. RuntimeError where objects look otherwise than it needs."""
    layout = _layout()
    key = f"objects {name} {layout} {code_version()} {jit.versions()} {jit.target_name()}"
    code = cache.get(key, quiet=True)
    if code is None:
        code = jit.compile_text(_text(layout, name))
        cache.put(key, code, quiet=True)
    cells, call = jit.load(code, ["objects_cells", "objects_call"])
    memory, values = (ctypes.c_void_p * len(OBJECT_CELLS)).from_address(cells), _cells()
    for k, cell in enumerate(OBJECT_CELLS):
        memory[k] = values[cell]
    definition = _MethodDef(name.encode(), call, _METH_FASTCALL, None)
    _keep.append(definition)
    new = ctypes.pythonapi["PyCFunction_NewEx"]  # an object of its own: its types are set here
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return lambda plan: new(ctypes.addressof(definition), plan, None)


def _text(layout: Layout, name: str) -> str:
    from .llvm_objects import module_text

    return module_text(layout, name)


@functools.lru_cache(maxsize=1)
def _cells() -> dict[str, int]:
    api = ctypes.pythonapi
    names = {
        "alloc": "PyType_GenericAlloc", "new_tuple": "PyTuple_New", "get_item": "PyDict_GetItem",
        "new_int": "PyLong_FromSsize_t", "next": "PyIter_Next", "new_list": "PyList_New", "concat": "PySequence_Concat",
        "incref": "Py_IncRef", "decref": "Py_DecRef", "vectorcall": "PyObject_Vectorcall",
        "to_tuple": "PySequence_Tuple", "get_attr": "PyObject_GetAttr",
    }  # fmt: skip
    objects = {
        "array": np.ndarray, "Tensor": Tensor, "Node": Node, "Storage": Storage, "View": View, "float": float,
        "int": int, "list_type": list, "none_type": type(None), "none": None, "true": True, "false": False, "zero": 0,
        "float32": dtypes.float32, "np32": dtypes.float32.np, "dtypes": dtypes.FROM_NUMPY, "metas": META32,
        "shared_meta": shared_meta, "no_grad": NO_GRAD, "running": RUNNING, "counter": next_seq.__self__,
        "state": STATE, "grad_name": _GRAD,
    }  # fmt: skip
    cells = {k: ctypes.cast(getattr(api, v), ctypes.c_void_p).value or 0 for k, v in names.items()}
    return cells | {k: id(v) for k, v in objects.items()}


def _word(at: int) -> int:
    return ctypes.c_void_p.from_address(at).value or 0


def _need(condition: bool) -> None:
    if not condition:
        raise RuntimeError("objects have another layout than the machine code needs")


def _slots(kind: type, names: list[str]) -> dict[str, int]:
    """Where instances keep these fields: found by looking for what was stored."""
    found = {}
    for name in names:
        t: Any = object.__new__(kind)
        mark = object()
        setattr(t, name, mark)
        places = [k for k in range(16, kind.__basicsize__, 8) if _word(id(t) + k) == id(mark)]
        _need(len(places) == 1)
        found[name] = places[0]
    return found


@functools.lru_cache(maxsize=1)
def _layout() -> Layout:
    _need(sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"))
    _need(not hasattr(sys, "gettotalrefcount") and layout_is_known())
    mark = object()
    one, many = (mark,), [mark, mark, mark]
    items = tuple.__basicsize__
    _need(_word(id(one) + items) == id(mark) and _word(id((None, mark)) + items + 8) == id(mark))
    text = bytes.__basicsize__ - 1
    _need(ctypes.string_at(id(b"fusegrad") + text, 9) == b"fusegrad\0")
    _need(_word(id(many) + 16) == 3 and _word(_word(id(many) + 24) + 16) == id(mark))
    for k in (0, 1, 3):
        _need(_word(id(set(range(k))) + 24) == k)
    whole = np.zeros((2, 3), np.float32)
    part, turned = whole[:1], whole.T
    _need(_word(id(part) + BASE) == id(whole) and _word(id(whole) + BASE) == 0)
    _need(_word(id(part) + TYPE) == id(np.ndarray))
    fixed = np.zeros(3, np.float32)
    fixed.flags.writeable = False
    arrays = (whole, part, turned, fixed)
    _need([ctypes.c_int.from_address(id(a) + FLAGS).value & 0x401 for a in arrays] == [0x401, 0x401, 0x400, 1])
    kinds = [ctypes.c_char.from_address(id(np.dtype(d)) + KIND).value for d in ("f4", "f8", "i8", "?")]
    _need(kinds == [b"f", b"f", b"i", b"b"])
    counted = sys.version_info < (3, 12)
    if counted:
        _need(ctypes.c_ssize_t.from_address(id(one)).value == sys.getrefcount(one) - 1)
    fields = "op edges nrs saved versions attrs out shape dtype seq hooks".split()
    return Layout(
        _slots(Tensor, "_data _g _rg _node _nr _st _view _grad _extra".split()),
        _slots(Node, fields),
        _slots(Storage, ["version"]),
        _slots(View, "base chain version made".split()),
        items,
        text,
        24,
        24,
        counted,
    )
