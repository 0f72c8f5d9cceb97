"""Run sections by name; all of them without one. A section is a module here with a function `run`."""

import pkgutil
import sys
import time
from importlib import import_module

from threadpoolctl import threadpool_limits

import benchmarks

NOT_SECTIONS = {"__main__", "peers", "problems", "table"}


def main(arguments: list[str]) -> int:
    known = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in NOT_SECTIONS)
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
