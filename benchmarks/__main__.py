"""Run sections by name; all of them without one. A section is a module here with a function `run`."""

import sys
import time
from importlib import import_module
from pathlib import Path

from threadpoolctl import threadpool_limits


def sections() -> list[str]:
    """Names of the modules that define `run`, found without importing them: some need heavy peers."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [file.stem for file in files if "\ndef run(" in file.read_text(encoding="utf-8")]


def main(arguments: list[str]) -> int:
    known = sections()
    for name in arguments or known:
        if name not in known:
            print(f'no section "{name}"; there are: {", ".join(known)}.', file=sys.stderr)
            return 2
        print(f"== {name}", flush=True)
        began = time.perf_counter()
        with threadpool_limits(1):
            import_module(f"benchmarks.{name}").run()
        print(f"   {time.perf_counter() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
