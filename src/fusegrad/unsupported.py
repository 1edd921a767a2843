"""Names of PyTorch's that do not exist here on purpose: why, and what to use instead.

Asking for one is an AttributeError that says so (``hasattr`` stays false); ``docs/differences.md`` lists them.
"""

from __future__ import annotations

__all__ = ["ABSENT", "message"]

_COMPLEX = "there are no complex tensors", "keep real and imaginary parts as two tensors, or as a last dimension of 2"
_FOURIER = "there are no complex tensors", "use numpy.fft on t.numpy(), or write the transform as a matrix product"
_SPARSE = (
    "tensors are dense",
    "keep indices and values as tensors (index_add, scatter_add, segment_reduce), or use dense ones",
)
_SMALL = "numpy has no arithmetic for it", "use float32, or float16 to save memory"
_WIDE = "PyTorch itself defines few operators for it", "use int64 or int32"
_QUANTIZED = "quantized tensors do not exist", "keep integers and scales as tensors"
_SCRIPT = "Python functions are compiled as they are", "use fusegrad.compile, and fusegrad.export for files"
_ONE = (
    "one process with threads is what fusegrad computes in",
    "use the standard library's multiprocessing with numpy arrays",
)
_DEVICE = "the CPU is the only device", "use device='cpu', or ask cuda.is_available() first"
_GRAPHS = (
    "graphs are fusegrad's own",
    "print(fusegrad.compiler.explain(f)(*args).details()), or print(fusegrad.export.export(...))",
)
_PROFILE = (
    "no profiler is part of fusegrad",
    "use the standard library's cProfile, `fusegrad bench`, and fusegrad.compiler.stats() for compiled code",
)

_GROUPS: tuple[tuple[str, tuple[str, str]], ...] = (
    ("bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz BFloat16Tensor", _SMALL),
    ("uint16 uint32 uint64", _WIDE),
    ("complex32 complex64 complex128 cfloat cdouble chalf complex polar imag view_as_complex view_as_real", _COMPLEX),
    ("linalg.eig linalg.eigvals", ("there are no complex tensors", "use linalg.eigh for symmetric matrices")),
    ("fft stft istft", _FOURIER),
    (
        "sparse sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc sparse_coo_tensor sparse_csr_tensor"
        " sparse_compressed_tensor hspmm smm sspaddmm nested masked",
        _SPARSE,
    ),
    (
        "quint8 qint8 qint32 quint4x2 quint2x4 quantize_per_tensor quantize_per_channel quantization ao nn.quantized",
        _QUANTIZED,
    ),
    ("jit", _SCRIPT),
    ("onnx", ("files of programs have a format of their own", "use fusegrad.export.save, or `fusegrad run`")),
    ("fx _dynamo _inductor", _GRAPHS),
    (
        "library classes package",
        ("operators come from one table", "write a custom autograd.Function, or fusegrad.compiler.allow_in_graph"),
    ),
    ("distributed multiprocessing futures", _ONE),
    ("mps xpu mtia hip Stream Event", _DEVICE),
    ("profiler autograd.profiler utils.bottleneck", _PROFILE),
    ("utils.tensorboard", ("it is another project's", "use that package's own writer with t.numpy()")),
    ("utils.cpp_extension", ("there is no C++ interface", "write a custom autograd.Function over numpy or numba")),
    ("hub utils.model_zoo", ("nothing is downloaded", "load weights with fusegrad.load or safetensors")),
)
ABSENT = {name: reason for names, reason in _GROUPS for name in names.split()}


def message(module: str, name: str) -> str:
    """The text of the AttributeError for ``module.name``; ``module`` is a name within the package ("" for itself)."""
    owner = f"fusegrad.{module}" if module else "fusegrad"
    text = f"module {owner!r} has no attribute {name!r}"
    found = ABSENT.get(f"{module}.{name}" if module else name)
    return text if found is None else f"{text}: {found[0]}. Instead: {found[1]}"
