"""What machine code and the process agree on: the cells it finds addresses in, and where array objects keep what."""

from __future__ import annotations

from typing import NamedTuple

from fusegrad import dtypes

CELLS = (
    "array_type none incref as_double occurred as_int format index_error save_thread restore_thread parallel "
    "threads fallback vectorcall"
).split() + [f"descr_{d.short}" for d in dtypes.ALL]
# PyArrayObject and Py_ssize_t layout on 64-bit; launch.py tests it on a real array before any kernel is called this way
DATA, NDIM, DIMS, STRIDES, DESCR, TYPE = 16, 24, 32, 40, 56, 8
# of the functions in llvm_objects.py
OBJECT_CELLS = (
    "array Tensor Node Storage View float int none_type none true false zero float32 np32 dtypes metas shared_meta "
    "list_type to_tuple state grad_name get_attr no_grad running counter alloc new_tuple get_item new_int next "
    "new_list concat incref decref vectorcall"
).split()
BASE, FLAGS, KIND = 48, 64, 24  # of array objects, and of dtype objects; tried out in objects.py


class Layout(NamedTuple):
    """Where fields lie in objects, in bytes: slots of classes, items of tuples, bytes and lists, sizes of sets."""

    tensor: dict[str, int]
    node: dict[str, int]
    storage: dict[str, int]
    view: dict[str, int]
    items: int  # of a tuple
    bytes: int
    list: int
    used: int  # of a set
    counted: bool  # references are counted in the first word, without exceptions
