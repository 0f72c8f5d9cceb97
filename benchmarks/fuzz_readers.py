"""Files of every kind with bytes changed: each is read or refused in a sentence.

Each kind runs in a process of its own, with a limit of memory, which notes the mutation it is at; so a crash
is counted, and its number repeats it. Of netCDF 4 the library opens each file in another Python first, which
takes a third of a second to start; here that trial is forked from a process which has its modules.
"""

import contextlib
import gzip
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np

import cindy
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy.errors import CindyError

__all__ = ["KINDS", "attempt", "mutated", "run", "whole"]

MUTATIONS, PART, SEED = 2_000, 250, 31
SECONDS = 30
"""For one file: netCDF 4 may take ten before it is given up."""
MEMORY = 6 << 30
T = np.linspace(0, 1, 30)
X = np.column_stack([np.sin(T), np.cos(T)])
SPACE = np.linspace(0, 1, 12, endpoint=False)
U = np.sin(2 * np.pi * (SPACE[:, None] - T))


class Slow(BaseException):
    """A file took longer than SECONDS."""


@cache
def whole(kind: str) -> bytes:
    """The content of a good file."""
    return KINDS[kind][0]()


def _text(delimiter: str) -> bytes:
    rows = "\n".join(f'{t!r},{x!r},"{y!r}"' for t, x, y in zip(T.tolist(), *X.T.tolist(), strict=True))
    return f"# made for a test\nt,x,y\ns,m,m\n{rows}\n".replace(",", delimiter).encode()


def _dates() -> bytes:
    rows = "\n".join(f"{k + 1:02}.03.2024 12:00;{x:.4f}" for k, x in enumerate(X[:, 0]))
    return f"date;x\n{rows}\n".encode()


def _saved(save: Callable[[Path], Any], suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"whole{suffix}"
        save(file)
        return file.read_bytes()


def _npz() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, t=T, x=X, states=["x", "y"])
    return stream.getvalue()


def _field_npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=SPACE, t=T, u=U)
    return stream.getvalue()


def _mat(*, packed: bool) -> bytes:
    from scipy.io import savemat

    names = np.array(["a", "b"], dtype=object)
    arrays = {"t": T, "x": X, "n": np.arange(30, dtype=np.int16), "states": names, "u": 1j, "step": 0.1}
    return _saved(lambda file: savemat(file, arrays, do_compression=packed), ".mat")


def _frame() -> Any:
    import pandas as pd

    return pd.DataFrame({"t": T, "x": X[:, 0], "y": X[:, 1]})


def _netcdf(engine: str) -> bytes:
    import xarray

    data = xarray.Dataset({"u": (("x", "t"), U)}, coords={"x": SPACE, "t": T})
    data["t"].attrs["units"] = "hours since 2000-01-01"
    return _saved(lambda file: data.to_netcdf(file, engine=engine), ".nc")


def _open_field(file: Path) -> None:
    field = cindy.Field(file)
    for state in field.states:
        field.slab(state, 0, len(field))


def _open_beginning(file: Path) -> None:
    lazy = cindy.read(file, lazy=True)
    lazy.parts[0].glimpse(10)  # type: ignore[attr-defined]


KINDS: dict[str, tuple[Callable[[], bytes], str, Callable[[Path], Any]]] = {
    "csv": (lambda: _text(","), ".csv", cindy.read),
    "semicolons": (lambda: _text(";"), ".csv", cindy.read),
    "tabs": (lambda: _text("\t"), ".txt", cindy.read),
    "dates": (_dates, ".csv", cindy.read),
    "csv.gz": (lambda: gzip.compress(_text(","), mtime=0), ".csv.gz", cindy.read),
    "npz": (_npz, ".npz", cindy.read),
    "mat": (lambda: _mat(packed=True), ".mat", cindy.read),
    "mat, not packed": (lambda: _mat(packed=False), ".mat", cindy.read),
    "parquet": (lambda: _saved(_frame().to_parquet, ".parquet"), ".parquet", cindy.read),
    "parquet, beginning": (lambda: _saved(_frame().to_parquet, ".parquet"), ".parquet", _open_beginning),
    "xlsx": (lambda: _saved(lambda f: _frame().to_excel(f, index=False), ".xlsx"), ".xlsx", cindy.read),
    "field npz": (_field_npz, ".npz", _open_field),
    "netCDF 3": (lambda: _netcdf("scipy"), ".nc", _open_field),
    "netCDF 4": (lambda: _netcdf("h5netcdf"), ".nc", _open_field),
}
"""How a whole file is made, how it is called, and how it is opened."""


def mutated(raw: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with one to three of the accidents that happen to files, or of an enemy's changes."""
    data = bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(data))) if data else 0
        match int(rng.integers(7)):
            case 0:
                data[place : place + 1] = bytes([int(rng.integers(256))])
            case 1:
                data = data[:place]
            case 2:
                data[place:place] = rng.bytes(int(rng.integers(1, 30)))
            case 3:
                data[place : place + int(rng.integers(1, 30))] = b""
            case 4:
                data[place : place + 8] = b"\x00" * 8
            case 5:
                data[place : place + 4] = rng.choice(
                    [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x10"]
                )
            case 6:
                length = int(rng.integers(1, 60))
                data[place:place] = data[place : place + length]
    return bytes(data)


def attempt(kind: str, folder: Path, number: int, seed: int = 0) -> str:
    """One mutation, by its number: "read", "refused", "slow", or the name of a foreign exception."""
    suffix, opened = KINDS[kind][1:]
    file = folder / f"{number}{suffix}"
    file.write_bytes(mutated(whole(kind), np.random.default_rng([seed, number])))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opened(file)
    except CindyError:
        return "refused"
    except Slow:
        return "slow"
    except (Exception, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        file.unlink()
    return "read"


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a kind, measured in parts."""
    cells = [
        {"kind": kind, "seed": seed, "first": first}
        for kind in subset.pick("names", tuple(KINDS))
        for seed in subset.pick("seeds", (SEED,))
        for first in range(0, subset.size or MUTATIONS, PART)
    ]
    rows = measured("fuzz_readers_cells", cells, _part, subset)
    counts = ("mutations", "read", "refused", "foreign exceptions", "crashes", f"over {SECONDS} s")
    table = [
        {"kind": kind, **{count: sum(row[count] for row in rows if row["kind"] == kind) for count in counts}}
        for kind in dict.fromkeys(row["kind"] for row in rows)
    ]
    write(
        "fuzz_readers",
        "Damaged files, by kind",
        table,
        "Each file has one to three changes: bytes replaced, inserted, removed, doubled or set to extremes, "
        "or its end cut off. The process of a kind may use 6 GiB of memory.",
        how="no times",
        folder=subset.out,
    )


def _part(kind: str, seed: int, first: int) -> Row:
    """Some mutations in a process of their own, and in another from after the one that ended it."""
    begun, told, crashes, stop = first, [], 0, first + PART
    while begun < stop:
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.fuzz_readers", kind, str(seed), str(begun), str(stop)],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = child.stdout.splitlines()
        told += lines
        begun += len(lines)
        if begun < stop:
            crashes += 1
            told.append(f"crash {child.returncode} at mutation {begun}")
            begun += 1
    foreign = [line for line in told if line not in ("read", "refused", "slow")]
    return {
        "mutations": PART,
        "read": told.count("read"),
        "refused": told.count("refused"),
        "foreign exceptions": len(foreign) - crashes,
        "crashes": crashes,
        f"over {SECONDS} s": told.count("slow"),
        "said": " | ".join(foreign[:5]),
    }


def _slow(_: int, __: FrameType | None) -> None:
    raise Slow


def _forked(command: list[str], *, timeout: float, **_: Any) -> subprocess.CompletedProcess[bytes]:
    """What subprocess.run makes of `python -c program file`, in a copy of this process."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            status = 1
            with contextlib.suppress(BaseException):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(said.fileno(), 2)
                sys.argv = command[2:]
                try:
                    exec(command[2], {})
                    status = 0
                except BaseException:
                    traceback.print_exc()
                sys.stderr.flush()
            os._exit(status)
        end = time.monotonic() + timeout
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise subprocess.TimeoutExpired(command, timeout)
            time.sleep(0.002)
        said.seek(0)
        return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(ended[1]), None, said.read())


def _child(kind: str, seed: int, first: int, stop: int) -> None:
    import resource  # there is none on Windows

    if kind == "netCDF 4":
        import h5netcdf  # noqa: F401

        import cindy.data.files

        known = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE", "TimeoutExpired")}
        cindy.data.files.subprocess = SimpleNamespace(run=_forked, **known)  # type: ignore[assignment]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _slow)
    whole(kind)  # and whatever must be imported for it
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, stop):
            signal.alarm(SECONDS)
            said = attempt(kind, Path(folder), number, seed)
            signal.alarm(0)
            print(" ".join(said.split())[:200], flush=True)


if __name__ == "__main__":
    _child(sys.argv[1], *map(int, sys.argv[2:]))
