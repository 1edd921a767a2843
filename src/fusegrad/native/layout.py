"""What machine code and the process agree on: the cells it finds addresses in, and where array objects keep what."""

from __future__ import annotations

from fusegrad import dtypes

CELLS = (
    "array_type none incref as_double occurred as_int format index_error save_thread restore_thread parallel "
    "threads fallback vectorcall"
).split() + [f"descr_{d.short}" for d in dtypes.ALL]
# PyArrayObject and Py_ssize_t layout on 64-bit; launch.py tests it on a real array before any kernel is called this way
DATA, NDIM, DIMS, STRIDES, DESCR, TYPE = 16, 24, 32, 40, 56, 8
