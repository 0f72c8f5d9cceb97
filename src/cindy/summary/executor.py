"""Where work is done: by processes on this machine, which are restarted if one of them dies, by any executor,
or on a device, which factorises rows with its own library of arrays."""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
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

_function: Callable[[Any], Any]
"""In a worker process: the function that it got from its parent at its start."""


class _Workers(Executor):
    """A pool of processes for one function after another, which starts when it is first needed.

    Processes get the function at their start instead of with every task. They are forked on Linux, so that
    it need not be picklable; one with a basis of lambdas is not.
    """

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._begun: tuple[ProcessPoolExecutor, Callable[[Any], Any]] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run function(task) in a process, for the arguments `_call`, function and task."""
        function, task = args
        if self._begun is None or self._begun[1] is not function:
            import multiprocessing  # takes 30 ms, and most uses of the library need one process
            from concurrent.futures import ProcessPoolExecutor

            self.shutdown()
            # The system libraries of macOS do not survive a fork.
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            pool = ProcessPoolExecutor(self.processes, context, initializer=_start, initargs=(function,))
            self._begun = pool, function
        # The pool would pickle in a thread of its own, which may wait for ever after an error.
        return self._begun[0].submit(_run, pickle.dumps(task, protocol=5))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; the next task starts new ones."""
        if self._begun is not None:
            self._begun[0].shutdown(wait, cancel_futures=cancel_futures)
        self._begun = None


def _start(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function


def _run(packed: bytes) -> Any:
    return _call(_function, pickle.loads(packed))


T = TypeVar("T")
R = TypeVar("R")

_IN_FLIGHT = 2
"""Tasks per worker, one at work and one waiting, so that a stream is not read ahead."""
_ATTEMPTS = 3
"""Deaths in a row after which work is given up: one may be an accident, three are caused by the task."""


@contextmanager
def workers(executor: Any, processes: int, *, where: str) -> Iterator[Executor | None]:
    """The executor for the arguments `executor` and `processes` of a public function; None: this process.

    Processes that are started here end with the block; an executor of the caller stays open.

    where: the name of the public function, for messages
    """
    integer(processes, f"{where}: `processes`", least=1, most=10_000)
    if executor is not None and processes != 1:
        raise DataError(f"{where}: pass either `executor` or `processes`, not both.")
    if executor is None and processes > 1:
        pool = _Workers(processes)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
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
    function: Callable[[T], R], work: Iterable[T], executor: Executor | None = None
) -> Iterator[R]:
    """function(task) for every task of `work`, in order, a few at a time.

    function: it must be defined in a module and keep no state; its result should be small
    executor: None for this process. Tasks of processes that were started by `workers` and died are repeated

    >>> list(map_in_order(str, [1, 2, 3]))
    ['1', '2', '3']
    """
    if executor is None:
        return (_call(function, task) for task in work)
    return _Round(executor, function).results(work)


def _call(function: Callable[[Any], R], task: Any) -> R:
    with one_thread():
        return function(task)


class _Round:
    """One pass of work over an executor."""

    def __init__(self, executor: Executor, function: Callable[[Any], Any]) -> None:
        self.executor, self.function = executor, function
        self.waiting: deque[tuple[Any, Future[Any]]] = deque()
        self.deaths = 0

    def results(self, work: Iterable[Any]) -> Iterator[Any]:
        room = _IN_FLIGHT * _width(self.executor)
        try:
            for task in work:
                self._hand_out(task)
                # A stream is read only as fast as its tasks are completed.
                if len(self.waiting) >= room:
                    yield self._first()
            while self.waiting:
                yield self._first()
        finally:
            for _, future in self.waiting:
                future.cancel()

    def _hand_out(self, task: Any) -> None:
        """Submit a task, to new processes if the old ones have died."""
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

    def _first(self) -> Any:
        """The result of the first task that waits."""
        while True:
            try:
                result = self.waiting[0][1].result()
            except _lost() as error:
                self._repeat(error)
                continue
            except pickle.PicklingError as error:
                raise _unsendable(error) from error
            except (AttributeError, TypeError) as error:
                # Python reports objects that cannot be pickled by several kinds of error, but a task may
                # raise the same kinds for other reasons.
                if "pickle" in str(error).lower() or "can't get" in str(error).lower():
                    raise _unsendable(error) from error
                raise
            self.waiting.popleft()
            self.deaths = 0
            return result

    def _repeat(self, error: BaseException) -> None:
        """Submit the tasks of dead processes again, or raise an error that says why not."""
        self.deaths += 1
        name = type(self.executor).__name__
        if not isinstance(self.executor, _Workers):
            raise WorkerError(
                f"A worker of {name} died, and its work is lost ({type(error).__name__}: {error}). "
                "No result was kept: start a new executor and call again. If memory ran out, use fewer "
                "workers, smaller files or fewer terms; with processes=N instead, such work is repeated."
            ) from error
        if self.deaths >= _ATTEMPTS:
            raise WorkerError(
                f"Processes died {self.deaths} times in a row at the same work. Most often memory ran out: "
                "use fewer processes, shorter trajectories or fewer terms."
            ) from error
        # In the old order; functions keep no state, so that a repeated task has the same result.
        undone = [task for task, _ in self.waiting]
        self.waiting.clear()
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.waiting.extend((task, self._submit(task)) for task in undone)


def _unsendable(error: BaseException) -> DataError:
    return DataError(
        f"The work cannot be sent to other processes: {error}. "
        "Write the functions of the basis as expressions or define them in a module; or use processes=1."
    )


def _lost() -> tuple[type[BaseException], ...]:
    """The errors of a future whose worker has died."""
    # Dask repeats the tasks of a dead worker itself, and raises this error after it has given one up.
    distributed = sys.modules.get("distributed")
    given_up = () if distributed is None else (distributed.KilledWorker,)
    return (BrokenExecutor, CancelledError, *given_up)


def _width(executor: Executor) -> int:
    """The number of tasks that an executor works on at a time; if unknown, the number of processors."""
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
    """From when on the result of an update on a device is not trusted."""

    sample: int = 32
    """Rows per column in a sample of new rows, which is spread over them: one stretch of time would be too
    uniform."""
    round: float = 30.0
    """Ratio of the largest and smallest diagonal entry of an update above which the update is repeated."""
    dependent: float = 1e-11
    """Diagonal entry of a triangle, as a share of the norm of its column, below which Householder reflections
    are used."""


_DEVICE = _Device()


class DeviceTriangle:
    """The R factor of all rows added so far, updated by matrix products, at which devices are fast.

    For the factor R so far and new rows A, let W = A R⁻¹. Then RᵀR + AᵀA = Rᵀ (I + WᵀW) R, so that the new
    factor is L R, with the Cholesky factorisation LᵀL = I + WᵀW.

    1. Compute W by a product with R⁻¹ and one step of refinement, as precisely as by a triangular solve.
    2. Factorise I + WᵀW. Unlike AᵀA it is well conditioned if the new rows resemble the old ones, so that no
       digits are lost. Any other triangle may stand for R: if there is none yet, that of a sample of the
       rows.
    3. If the diagonal of L is uneven, repeat with L R in place of R (CholeskyQR2: Yamamoto et al., ETNA 44,
       2015). If R is singular to working precision, use Householder reflections, which are slower.

    Each repetition for n rows of m columns costs four products of 2 n m² operations.
    """

    def __init__(self, space: Space) -> None:
        self.rows = 0
        self._space = space
        self._triangle: Any = None

    def add(self, matrix: Any) -> None:
        """Add the rows in a transposed matrix (columns, rows)."""
        width, rows = int(matrix.shape[0]), int(matrix.shape[1])
        if rows == 0:
            return
        self.rows += rows
        # With few rows reflections are as fast as products.
        stride = rows // (_DEVICE.sample * width)
        updated = None
        if stride > 1:
            updated = None if self._triangle is None else self._updated(matrix, self._triangle)
            updated = self._updated(matrix, self._joined(matrix[:, ::stride])) if updated is None else updated
        self._triangle = self._joined(matrix) if updated is None else updated

    def factor(self) -> Floats:
        """(min(rows, columns), columns), upper triangular; (0, 0) if there were no rows."""
        if self._triangle is None:
            return np.zeros((0, 0))
        return np.ascontiguousarray(np.triu(self._space.get(self._triangle)))

    def _updated(self, matrix: Any, guess: Any) -> Any | None:
        """The factor with more rows, (columns, rows), by matrix products; None if that would lose digits.

        guess: a triangle that is not far from the factor
        """
        xp = self._space.xp
        for _ in range(3):
            if not self._independent(guess):
                return None
            # Step 1.
            inverse = xp.linalg.inv(guess)
            new = self._solved(guess, inverse, matrix)
            # Step 2, where the old rows count as R times the inverse of the guess, the identity if it is R.
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
            # Step 3. An update that is close to a multiple of the identity has lost no digits.
            if sizes.max() <= _DEVICE.round * sizes.min():
                return guess
        return None

    def _independent(self, triangle: Any) -> bool:
        """Whether no column is a linear combination of those before it, up to rounding."""
        if triangle.shape[0] < triangle.shape[1]:
            return False
        xp = self._space.xp
        diagonal = self._space.get(xp.abs(xp.linalg.diagonal(triangle)))
        norm = self._space.get(xp.linalg.vector_norm(triangle, axis=0))
        return bool(np.isfinite(norm).all() and (diagonal > _DEVICE.dependent * norm).all())

    def _solved(self, triangle: Any, inverse: Any, matrix: Any) -> Any:
        """The transpose of (rows of the matrix) · triangle⁻¹, by step 1."""
        xp = self._space.xp
        inverse, triangle = xp.matrix_transpose(inverse), xp.matrix_transpose(triangle)
        solved = xp.matmul(inverse, matrix)
        return solved + xp.matmul(inverse, matrix - xp.matmul(triangle, solved))

    def _joined(self, matrix: Any) -> Any:
        """The factor with more rows, (columns, rows), by Householder reflections."""
        xp = self._space.xp
        rows = xp.matrix_transpose(matrix)
        return xp.linalg.qr(rows if self._triangle is None else xp.concat([self._triangle, rows], axis=0)).R
