"""Threads that help with large kernels: every element once, whoever computes it, however many callers there are."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import fusegrad as fg

N = 1_000_003
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture(autouse=True)
def _threads():
    before = fg.get_num_threads()
    yield
    fg.set_num_threads(before)


def wanted(x: np.ndarray) -> np.ndarray:
    return x * np.float32(3) + np.float32(1)


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 64, 200])
@pytest.mark.parametrize("n", [1, 63, 300_000, N])
def test_every_element_once(threads, n):
    fg.set_num_threads(threads)
    x = np.arange(n, dtype=np.float32)
    y = fg.compile(lambda x: x * 3.0 + 1.0)(fg.from_numpy(x))
    np.testing.assert_array_equal(y.numpy(), wanted(x))
    z = fg.from_numpy(x.copy())
    fg.compile(lambda z: z.add_(1.0))(z)  # twice would show
    np.testing.assert_array_equal(z.numpy(), x + np.float32(1))


def test_results_do_not_depend_on_threads():
    x = fg.randn(1500, 900)
    f = fg.compile(lambda x: (x.softmax(1).sum(0), x.exp().sum(), x.cumsum(0)))
    results = []
    for threads in (1, 2, 7):
        fg.set_num_threads(threads)
        results.append([r.numpy() for r in f(x)])
    for r in results[1:]:
        for a, b in zip(results[0], r, strict=True):
            np.testing.assert_array_equal(a, b)


def test_many_callers_at_once():
    fg.set_num_threads(4)
    f = fg.compile(lambda x: (x * 3.0 + 1.0).sum())
    g = fg.compile(lambda x: x * 3.0 + 1.0)
    arrays = [np.arange(N, dtype=np.float32) + k for k in range(6)]
    f(fg.from_numpy(arrays[0])), g(fg.from_numpy(arrays[0]))
    wrong: list[int] = []

    def call(k: int) -> None:
        x = fg.from_numpy(arrays[k])
        first = f(x).item()
        for _ in range(25):
            if f(x).item() != first or not np.array_equal(g(x).numpy(), wanted(arrays[k])):
                wrong.append(k)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(len(arrays))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


FORKS = """
import os, sys, threading, warnings
warnings.simplefilter("error")
import numpy as np, fusegrad as fg
fg.set_num_threads(3)
f = fg.compile(lambda x: x * 3.0 + 1.0)
x = fg.arange(1_000_003.0)
want = x.numpy() * np.float32(3) + np.float32(1)
right = lambda: np.array_equal(f(x).numpy(), want)
assert right()
if sys.argv[1] == "busy":  # another thread computes while this one forks
    going = True
    def busy():
        while going:
            f(x)
    warnings.simplefilter("ignore")  # Python says that there are threads: there are
    other = threading.Thread(target=busy)
    other.start()
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        ok = right() and right()
        inner = os.fork()
        if inner == 0:
            os._exit(0 if right() else 1)
        ok = ok and os.waitpid(inner, 0)[1] == 0 and right()
        os._exit(0 if ok else 1)
    assert right()
    assert os.waitpid(pid, 0)[1] == 0
if sys.argv[1] == "busy":
    going = False
    other.join()
print("ok")
"""


@posix
@pytest.mark.parametrize("how", ["quiet", "busy"])
def test_forks(how):
    """No warning that the process has threads (Python 3.12 and later), and each child starts its own."""
    done = subprocess.run([sys.executable, "-c", FORKS, how], capture_output=True, text=True, timeout=120)
    assert done.stdout == "ok\n", done.stderr


@posix
def test_ends_with_the_process():
    code = "import fusegrad as fg; fg.set_num_threads(4); print(fg.compile(lambda x: x + 1)(fg.zeros(2_000_000))[7])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("tensor(1.)\n", 0), done.stderr
