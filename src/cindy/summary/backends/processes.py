"""Workers: processes of this machine, made anew when one of them dies."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

__all__ = ["Workers"]

_inherited: tuple[Any, ...] = ()
"""In a worker: the objects that it got from its parent when it was started."""


class Workers(Executor):
    """A pool of processes that starts when it is first needed.

    inherit: objects that the processes get when they start instead of with every task. On Linux they
        are forked, so these may be what cannot be pickled, such as a basis with Python functions
    """

    def __init__(self, processes: int, inherit: Sequence[Any] = ()) -> None:
        self.processes = processes
        self._inherit = tuple(inherit)
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run fn in a process; what cannot be pickled is told here and not by the future."""
        if self._pool is None:
            import multiprocessing  # 30 ms to import, and most uses of the library are one process
            from concurrent.futures import ProcessPoolExecutor

            # The system libraries of macOS do not survive a fork.
            method = "fork" if sys.platform == "linux" else "spawn"
            self._pool = ProcessPoolExecutor(
                self.processes,
                multiprocessing.get_context(method),
                initializer=_start,
                initargs=(self._inherit,),
            )
        return self._pool.submit(_run, _packed((fn, args, kwargs), self._inherit))

    def renew(self) -> None:
        """Give up what is left of a pool that lost a process; the next task starts another."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)
        self._pool = None


def _start(inherited: tuple[Any, ...]) -> None:
    global _inherited
    _inherited = inherited


def _run(packed: bytes) -> Any:
    fn, args, kwargs = _Unpickler(io.BytesIO(packed)).load()
    return fn(*args, **kwargs)


def _packed(call: Any, inherit: tuple[Any, ...]) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, inherit).dump(call)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    """Writes an inherited object as its number."""

    def __init__(self, stream: io.BytesIO, inherit: tuple[Any, ...]) -> None:
        super().__init__(stream, protocol=5)
        self._number = {id(one): i for i, one in enumerate(inherit)}

    def persistent_id(self, obj: Any) -> int | None:
        return self._number.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return _inherited[pid]
