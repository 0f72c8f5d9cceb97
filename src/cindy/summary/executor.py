"""Where the work is done: by processes of this machine, made anew when one of them dies, or on a device that
factorises the rows in its own library of arrays."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cindy._arrays import Floats, Space, one_thread
from cindy._check import integer
from cindy.errors import DataError, WorkerError

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_inherited: tuple[Any, ...] = ()
"""In a worker: the objects that it got from its parent when it was started."""


class _Workers(Executor):
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
        # Pickled here and not by the pool, whose own thread would hide the error.
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
        self._number = {id(shared): i for i, shared in enumerate(inherit)}

    def persistent_id(self, obj: Any) -> int | None:
        return self._number.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return _inherited[pid]


T = TypeVar("T")
R = TypeVar("R")

_IN_FLIGHT = 2
"""Tasks handed out per worker: one at work, one waiting, so that a stream is not read ahead."""
_ATTEMPTS = 3
"""Deaths in a row after which work is given up: one may be an accident, three are due to the task."""


@contextmanager
def workers(
    executor: Any, processes: int, inherit: Sequence[Any] = (), *, where: str
) -> Iterator[Executor | None]:
    """What the arguments `executor` and `processes` of a public function ask for.

    Processes of our own end with it; an executor of the caller's stays open.

    inherit: objects that processes of our own get when they start (see `_Workers`)
    where: the public function, for messages
    """
    integer(processes, f"{where}: `processes`", least=1, most=10_000)
    if executor is not None and processes != 1:
        raise DataError(f"{where}: pass either `executor` or `processes`, not both.")
    if executor is None and processes > 1:
        own = _Workers(processes, inherit)
        try:
            yield own
        finally:
            own.shutdown(cancel_futures=True)
        return
    yield None if executor is None else _checked(executor, where)


def _checked(executor: Any, where: str) -> Executor:
    if isinstance(executor, Executor):
        return executor
    if callable(getattr(executor, "get_executor", None)):  # a Dask client
        pool = executor.get_executor()
        if isinstance(pool, Executor):
            return pool
    raise DataError(
        f"{where}: `executor` must be a concurrent.futures.Executor, such as ProcessPoolExecutor() or "
        f"client.get_executor() of Dask, but is {type(executor).__name__}."
    )


def map_in_order(
    function: Callable[..., R],
    work: Iterable[T],
    executor: Executor | None = None,
) -> Iterator[tuple[T, R]]:
    """(task, function(task)) for every task of `work`, in order, a few at a time.

    function: defined in a module, and without memory; its result should be small
    executor: None for this process. Where processes of our own die, their tasks are repeated

    >>> [text for _, text in map_in_order(str, [1, 2, 3])]
    ['1', '2', '3']
    """
    if executor is None:
        for task in work:
            yield task, _call(function, task)
        return
    yield from _Round(executor, function).results(work)


def _call(function: Callable[[Any], R], task: Any) -> R:
    with one_thread():
        return function(task)


class _Round:
    """One pass of work over an executor."""

    def __init__(self, executor: Executor, function: Callable[[Any], Any]) -> None:
        self.executor, self.function = executor, function
        self.waiting: deque[tuple[Any, Future[Any]]] = deque()
        self.deaths = 0

    def results(self, work: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        room = _IN_FLIGHT * _width(self.executor)
        try:
            for task in work:
                self._hand_out(task)
                # The first result is waited for before more is handed out: a stream is read only as fast as
                # it is worked on.
                if len(self.waiting) >= room:
                    yield self._first()
            while self.waiting:
                yield self._first()
        finally:
            for _, future in self.waiting:
                future.cancel()

    def _hand_out(self, task: Any) -> None:
        try:
            self.waiting.append((task, self._submit(task)))
        except BrokenExecutor as error:
            self._repeat(error)
            self._hand_out(task)

    def _submit(self, task: Any) -> Future[Any]:
        try:
            return self.executor.submit(_call, self.function, task)
        except BrokenExecutor:
            raise
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _unsendable(error) from error
        except RuntimeError as error:
            raise WorkerError(
                f"The executor {type(self.executor).__name__} takes no more work: {error}. "
                "Pass one that is open."
            ) from error

    def _first(self) -> tuple[Any, Any]:
        """The result of the first task that waits."""
        while True:
            task, future = self.waiting[0]
            try:
                result = future.result()
            except _lost() as error:
                self._repeat(error)
                continue
            except pickle.PicklingError as error:
                raise _unsendable(error) from error
            except (AttributeError, TypeError) as error:
                # Python reports what cannot be pickled by several exceptions, which a task may raise for
                # reasons of its own.
                if "pickle" in str(error).lower() or "can't get" in str(error).lower():
                    raise _unsendable(error) from error
                raise
            self.waiting.popleft()
            self.deaths = 0
            return task, result

    def _repeat(self, error: BaseException) -> None:
        """Hand out again what the dead left undone, or say that it cannot be done."""
        self.deaths += 1
        name = type(self.executor).__name__
        if not isinstance(self.executor, _Workers):
            raise WorkerError(
                f"A worker of {name} died, and it cannot be asked again ({type(error).__name__}: {error}). "
                "Nothing was kept: start a new executor and call again. Where memory ran out, use "
                "fewer workers, smaller files or fewer terms; processes=N instead repeats such work."
            ) from error
        if self.deaths >= _ATTEMPTS:
            raise WorkerError(
                f"Processes died {self.deaths} times in a row at the same work. Most often memory ran out: "
                "use fewer processes, shorter trajectories or fewer terms."
            ) from error
        # In order, as they were handed out; functions have no memory, so that repeating one gives the same
        # result.
        undone = [task for task, _ in self.waiting]
        self.waiting.clear()
        self.executor.renew()
        self.waiting.extend((task, self._submit(task)) for task in undone)


def _unsendable(error: BaseException) -> DataError:
    return DataError(
        f"The work cannot be sent to other processes: {error}. "
        "Write the functions of the basis as expressions or define them in a module; or use processes=1."
    )


def _lost() -> tuple[type[BaseException], ...]:
    """What a future raises whose worker is gone."""
    # Dask repeats the tasks of a dead worker by itself, and raises once it has given one up.
    distributed = sys.modules.get("distributed")
    given_up = () if distributed is None else (distributed.KilledWorker,)
    return (BrokenExecutor, CancelledError, *given_up)


def _width(executor: Executor) -> int:
    """How many tasks an executor works on at a time, as far as it tells."""
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):  # Dask
        return max(1, sum(int(count) for count in client.nthreads().values()))
    for name in ("processes", "_max_workers", "num_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return os.cpu_count() or 1


@dataclass(frozen=True)
class _Device:
    """When a triangle that a device has updated is not trusted."""

    sample: int = 32
    """Rows a column in a first look at new rows, spread over them: those of one stretch of time are too
    alike."""
    round: float = 30.0
    """Ratio of the diagonal of an update beyond which it is taken for a first guess and repeated."""
    dependent: float = 1e-11
    """A column whose own part is smaller than this part of it is left to Householder reflections."""


_DEVICE = _Device()


class DeviceTriangle:
    """The R factor of all rows added so far, brought up to date by matrix products.

    With the factor R so far and new rows A, let W = A R⁻¹. Then RᵀR + AᵀA = Rᵀ (I + WᵀW) R,
    so the new factor is L R, where LᵀL = I + WᵀW is a Cholesky factorisation of a matrix that is
    well conditioned wherever the new rows resemble the old ones: unlike AᵀA it
    loses no digits. Any other triangle will do in the place of R, such as that of a sample of the rows
    where there is none yet. W comes from a product with R⁻¹ and one step of refinement, which
    makes it as good as a triangular solve. Where the update is uneven it is repeated with its result in the
    place of R (as in CholeskyQR2: Yamamoto et al., ETNA 44, 2015); where R is singular
    to working precision, Householder reflections take over, slower and always right.
    """

    def __init__(self, space: Space) -> None:
        self.rows = 0
        self._space = space
        self._triangle: Any = None

    def add(self, matrix: Any) -> None:
        """Add rows: (columns, rows), as many rows of the matrix as it has columns."""
        width, rows = int(matrix.shape[0]), int(matrix.shape[1])
        if rows == 0:
            return
        self.rows += rows
        # With few rows the reflections are as fast as anything else.
        stride = rows // (_DEVICE.sample * width)
        updated = None
        if stride > 1:
            updated = None if self._triangle is None else self._updated(matrix, self._triangle)
            updated = self._updated(matrix, self._joined(matrix[:, ::stride])) if updated is None else updated
        self._triangle = self._joined(matrix) if updated is None else updated

    def factor(self) -> Floats:
        """(min(rows, columns), columns), upper triangular; (0, 0) when there were no rows."""
        if self._triangle is None:
            return np.zeros((0, 0))
        return np.ascontiguousarray(np.triu(self._space.get(self._triangle)))

    def _updated(self, matrix: Any, guess: Any) -> Any | None:
        """The factor with more rows, (columns, rows), by matrix products; None where that is not safe.

        guess: a triangle that is not far from it
        """
        xp = self._space.xp
        for _ in range(3):
            if not self._independent(guess):
                return None
            inverse = xp.linalg.inv(guess)
            new = self._solved(guess, inverse, matrix)
            gram = xp.matmul(new, xp.matrix_transpose(new))
            if self._triangle is not None:
                old = xp.matmul(self._triangle, inverse)
                gram = gram + xp.matmul(xp.matrix_transpose(old), old)
            try:
                update = xp.matrix_transpose(xp.linalg.cholesky((gram + xp.matrix_transpose(gram)) * 0.5))
            except (RuntimeError, ValueError):
                return None
            guess = xp.matmul(update, guess)
            sizes = self._space.get(xp.linalg.diagonal(update))
            if not np.isfinite(sizes).all() or sizes.min() <= 0.0:
                return None
            # The update is close to a multiple of the identity: its Cholesky factor has lost no digits.
            if sizes.max() <= _DEVICE.round * sizes.min():
                return guess
        return None

    def _independent(self, triangle: Any) -> bool:
        """Whether no column is a combination of those before it, up to rounding."""
        if triangle.shape[0] < triangle.shape[1]:
            return False
        xp = self._space.xp
        own = self._space.get(xp.abs(xp.linalg.diagonal(triangle)))
        length = self._space.get(xp.linalg.vector_norm(triangle, axis=0))
        return bool(np.isfinite(length).all() and (own > _DEVICE.dependent * length).all())

    def _solved(self, triangle: Any, inverse: Any, matrix: Any) -> Any:
        """The transpose of (rows of the matrix) · triangle⁻¹, as good as by substitution."""
        xp = self._space.xp
        back, forth = xp.matrix_transpose(inverse), xp.matrix_transpose(triangle)
        solved = xp.matmul(back, matrix)
        return solved + xp.matmul(back, matrix - xp.matmul(forth, solved))

    def _joined(self, matrix: Any) -> Any:
        """The factor with more rows, (columns, rows), by Householder reflections."""
        xp = self._space.xp
        rows = xp.matrix_transpose(matrix)
        return xp.linalg.qr(rows if self._triangle is None else xp.concat([self._triangle, rows], axis=0)).R
