"""DataLoader: batches of a dataset, made in this process or ahead of time by worker processes."""

from __future__ import annotations

import collections.abc
import multiprocessing
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

import fusegrad
from fusegrad.tensor import Tensor
from fusegrad.utils.data.dataset import IterableDataset
from fusegrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler


class WorkerInfo:
    """What a worker process knows of itself: id, num_workers, seed, dataset."""

    def __init__(self, id: int, num_workers: int, seed: int, dataset: Any):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed})"


_WORKER: list[WorkerInfo | None] = [None]


def get_worker_info() -> WorkerInfo | None:
    """The WorkerInfo of this worker process; None in the main process."""
    return _WORKER[0]


def default_collate(batch: Any) -> Any:
    """Join samples: tensors are stacked, numbers become tensors, containers are joined element by element."""
    first = batch[0]
    kind = type(first)
    if isinstance(first, Tensor):
        return fusegrad.stack(list(batch), 0)
    if isinstance(first, np.ndarray):
        return default_collate([fusegrad.as_tensor(b) for b in batch])
    if isinstance(first, np.generic):
        return fusegrad.from_numpy(np.asarray(batch))
    if isinstance(first, bool):
        return fusegrad.tensor(list(batch))
    if isinstance(first, float):
        return fusegrad.tensor(list(batch), dtype=fusegrad.float64)
    if isinstance(first, int):
        return fusegrad.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        out = {key: default_collate([d[key] for d in batch]) for key in first}
        try:
            return kind(out)  # type: ignore[call-arg]
        except TypeError:
            return out
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(default_collate(samples) for samples in zip(*batch, strict=False)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        joined = [default_collate(samples) for samples in zip(*batch, strict=False)]
        return joined if isinstance(first, (tuple, list)) else kind(joined)  # type: ignore[call-arg]
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}")


def default_convert(data: Any) -> Any:
    """numpy arrays as tensors, inside containers too; anything else as it is."""
    if isinstance(data, (np.ndarray, np.generic)):
        return fusegrad.as_tensor(np.asarray(data)) if np.asarray(data).dtype.kind in "biuf" else data
    if isinstance(data, Mapping):
        return {k: default_convert(v) for k, v in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, list):
        return [default_convert(d) for d in data]
    return data


class _Forever(Sampler):
    """The sampler of an iterable dataset: None for ever."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader:
    """Iterates over a dataset in batches.

    With ``num_workers`` > 0, forked processes make the batches ahead of time; they come in the same order.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable | None = None,
        batch_sampler: Iterable | None = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
                "multiprocessing, otherwise set prefetch_factor to None."
            )
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.pin_memory, self.worker_init_fn, self.generator = pin_memory, worker_init_fn, generator
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers > 0 else prefetch_factor
        self.persistent_workers, self.multiprocessing_context = persistent_workers, multiprocessing_context
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            if shuffle not in (None, False):
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
                )
            if sampler is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler={sampler}"
                )
            if batch_sampler is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified batch_sampler option, but got "
                    f"batch_sampler={batch_sampler}"
                )
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = (
                _Forever()
                if self._iterable
                else RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if batch_sampler is not None else default_convert
        self.collate_fn = collate_fn

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else (n + self.batch_size - 1) // self.batch_size

    def __iter__(self) -> Iterator:
        if self.num_workers:
            return _workers(self)
        return self._batches()

    def _batches(self) -> Iterator:
        if not self._iterable:
            for index in self._index_sampler:
                yield self._fetch(index)
            return
        source = iter(self.dataset)
        for index in self._index_sampler:
            batch, done = self._fetch_iterable(source, index)
            if batch is not None:
                yield batch[0]
            if done:
                return

    def _fetch(self, index: Any) -> Any:
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[index])
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(many(index) if many else [self.dataset[i] for i in index])

    def _fetch_iterable(self, source: Iterator, index: Any) -> tuple[tuple | None, bool]:
        """The next batch (in a tuple; None if there is none) and whether the source has ended."""
        if self.batch_sampler is None:
            for item in source:
                return (self.collate_fn(item),), False
            return None, True
        items = []
        for _ in index:
            try:
                items.append(next(source))
            except StopIteration:
                if not items or (self.drop_last and len(items) < len(index)):
                    return None, True
                return (self.collate_fn(items),), True
        return (self.collate_fn(items),), False


# ---- worker processes -------------------------------------------------------------------------------


def _run_worker(loader: DataLoader, worker: int, seed: int, tasks: Any, results: Any) -> None:
    """Loop of a worker: (number, index) -> (number, batch or error, whether the source has ended)."""
    import random

    fusegrad.manual_seed(seed)
    random.seed(seed)
    _WORKER[0] = WorkerInfo(worker, loader.num_workers, seed, loader.dataset)
    source, failure = None, None
    try:
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(worker)
        if loader._iterable:
            source = iter(loader.dataset)
    except Exception:
        failure = traceback.format_exc()
    while (task := tasks.get()) is not None:
        number, index = task
        try:
            if failure is not None:
                raise RuntimeError(failure)
            if source is None:
                results.put((number, loader._fetch(index), False, None))
            else:
                batch, done = loader._fetch_iterable(source, index)
                results.put((number, batch, done, None))
        except Exception as error:
            results.put((number, None, True, (type(error), traceback.format_exc())))


def _raise(worker: int, error: tuple) -> None:
    kind, text = error
    message = f"Caught {kind.__name__} in DataLoader worker process {worker}.\nOriginal {text}"
    try:
        raised = kind(message)
    except TypeError:
        raised = RuntimeError(message)
    raise raised


def _workers(loader: DataLoader) -> Iterator:
    """Batches from forked workers, in order; each worker is sent prefetch_factor tasks ahead."""
    context = loader.multiprocessing_context
    if context is None or isinstance(context, str):
        context = multiprocessing.get_context(context or "fork")
    base_seed = int(fusegrad.randint(0, 2**31, (), generator=loader.generator).item())
    n = loader.num_workers
    queues = [(context.Queue(), context.Queue()) for _ in range(n)]
    processes = [
        context.Process(target=_run_worker, args=(loader, w, base_seed + w, *queues[w]), daemon=True) for w in range(n)
    ]
    for p in processes:
        p.start()
    try:
        yield from _collect(loader, queues, processes)
    finally:
        for tasks, _ in queues:
            tasks.put(None)
        for p in processes:
            p.join(timeout=5)
            if p.is_alive():
                p.terminate()


def _collect(loader: DataLoader, queues: list, processes: list) -> Iterator:
    n, ahead = len(queues), (loader.prefetch_factor or 2) * len(queues)
    indices = iter(loader._index_sampler)
    pending: list[tuple[int, int]] = []  # (task number, worker), in order
    number, live = 0, list(range(n))

    def send() -> None:
        nonlocal number
        if not live:
            return
        try:
            index = next(indices)
        except StopIteration:
            live.clear()
            return
        worker = live[number % len(live)]
        queues[worker][0].put((number, index))
        pending.append((number, worker))
        number += 1

    for _ in range(ahead):
        send()
    while pending:
        _, worker = pending.pop(0)
        _, batch, done, error = _receive(queues[worker][1], processes[worker], loader.timeout)
        if error is not None:
            _raise(worker, error)
        if loader._iterable:
            if done and worker in live:
                live.remove(worker)
            send()
            if batch is not None:
                yield batch[0]
        else:
            send()
            yield batch


def _receive(results: Any, process: Any, timeout: float) -> tuple:
    import queue
    import time

    start = time.monotonic()
    while True:
        try:
            return results.get(timeout=min(timeout, 1.0) if timeout else 1.0)
        except queue.Empty:
            if not process.is_alive():
                raise RuntimeError(
                    f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit code {process.exitcode}"
                ) from None
            if timeout and time.monotonic() - start > timeout:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None
