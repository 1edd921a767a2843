"""LLVM IR text -> object code -> addresses, through llvmlite alone (numba is not imported)."""

from __future__ import annotations

import functools
import itertools
import os
import threading
from typing import Any

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child must not inherit the lock held by another thread
    os.register_at_fork(after_in_child=lambda: globals().__setitem__("_lock", threading.RLock()))


@functools.lru_cache(maxsize=1)
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.lru_cache(maxsize=1)
def target_name() -> str:
    """Processor name and features, for cache keys."""
    llvm = _llvm()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def has_ldexp() -> bool:
    """Whether LLVM makes one instruction of a vector llvm.ldexp here (scalef of AVX-512), and not library calls."""
    return _llvm().llvm_version_info[0] >= 22 and "+avx512f" in target_name()


def wide() -> bool:
    """Whether a vector of a whole line of the cache is one store, under a mask too."""
    return "+avx512vl" in target_name()


def accumulators() -> int:
    """Vectors of 64 bytes that a loop may keep in registers beside what it reads; 0 without fused multiply-add."""
    name = target_name()
    if "+avx512f" in name:
        return 16
    return 6 if "+fma" in name or name.startswith(("aarch64", "arm64")) else 0


def versions() -> str:
    """Versions that decide what code comes out, for cache keys; imports nothing heavy."""
    llvm = _llvm()
    import llvmlite

    return f"llvmlite {llvmlite.__version__} llvm {'.'.join(map(str, llvm.llvm_version_info))}"


@functools.lru_cache(maxsize=1)
def _machine() -> Any:
    llvm = _llvm()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


@functools.lru_cache(maxsize=1)
def _engine() -> Any:
    # LLJIT and not MCJIT: it places a whole object together, so that code may address its constants relative to itself
    return _llvm().create_lljit_compiler(_machine())


def _optimise(module: Any) -> None:
    """The printer already places code, shares subexpressions and vectorises; what is left is tidying."""
    llvm = _llvm()
    builder = llvm.create_pass_builder(_machine(), llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


def compile_text(text: str) -> bytes:
    """Object code of a module. RuntimeError with LLVM's message when the text is wrong (a bug of the printer)."""
    with _lock:
        module = _llvm().parse_assembly(text)
        module.verify()
        _optimise(module)
        return _machine().emit_object(module)


def assembly(text: str) -> str:
    """Machine code of a module as assembly text, for tests and readers."""
    with _lock:
        module = _llvm().parse_assembly(text)
        _optimise(module)
        return _machine().emit_assembly(module)


_number = itertools.count()
_trackers: list[Any] = []  # code lives as long as its tracker


def load(code: bytes, symbols: list[str]) -> list[int]:
    """Load object code for the life of the process; addresses of the symbols. RuntimeError when it cannot be loaded."""
    with _lock:
        library = _llvm().JITLibraryBuilder().add_object_img(code).add_current_process()
        for s in symbols:
            library.export_symbol(s)
        tracker = library.link(_engine(), f"fusegrad{next(_number)}")
        _trackers.append(tracker)
        return [tracker[s] for s in symbols]
