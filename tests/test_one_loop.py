"""The loop over supports that every search is: where it ends, what it remembers, and that there is one."""

import ast
import importlib
import re
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from cindy.search import loop
from cindy.search.loop import Loop

SOURCE = Path(loop.__file__).parent.parent


@dataclass(eq=False)
class Graph(Loop[int, int]):
    """A search on numbers: `after` says where each leads; what is not named there does not settle."""

    after: dict[int, int | None]
    fitted: list[tuple[int, bool]] = field(default_factory=list)

    rounds: ClassVar[int] = 6

    def support(self, start: int) -> bytes:
        return str(start).encode()

    def model_on(self, start: int, *, near: bool) -> int | None:
        self.fitted.append((start, near))
        return start if start in self.after else None

    def following(self, met: int, seen: Set[bytes]) -> int | None:
        return self.after[met]


@dataclass(eq=False)
class Least(Graph):
    """The same where the least number is the best."""

    def better(self, first: int | None, second: int | None) -> int | None:
        return min((one for one in (first, second) if one is not None), default=None)


@pytest.mark.parametrize(
    ("after", "way", "last", "least"),
    [
        ({1: 1}, [1], 1, 1),
        ({1: 2, 2: 3, 3: 2}, [1, 2, 3], 3, 1),
        ({4: 2, 2: None}, [4, 2], 2, 2),
        ({3: 1, 1: 5}, [3, 1, 5], 1, 1),
        ({1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8}, [1, 2, 3, 4, 5, 6], 6, 1),
    ],
    ids=["comes back at once", "comes back", "nothing new", "does not settle", "bounded"],
)
def test_a_search_ends_where_its_support_comes_back(after, way, last, least):
    search = Graph(after)
    assert search.follow(way[0]) == last
    assert [start for start, _ in search.fitted] == way
    assert Least(after).follow(way[0]) == least


def test_only_the_first_fit_of_a_way_is_far_from_what_fits():
    search = Graph({1: 2, 2: 3, 3: 3})
    search.follow(1)
    assert [near for _, near in search.fitted] == [False, True, True]
    again = Graph({1: 2, 2: 2})
    again.follow(1, near=True)
    assert [near for _, near in again.fitted] == [True, True]


def test_a_way_that_was_gone_is_not_gone_again():
    search = Least({5: 3, 3: 4, 4: 3, 9: 5})
    assert search.follow(5) == 3
    before = len(search.fitted)
    assert search.follow(9) == 3
    assert [start for start, _ in search.fitted[before:]] == [9]


def test_a_start_that_does_not_settle_gives_no_model():
    assert Graph({}).follow(1) is None


def test_the_head_of_the_loop_names_every_search_there_is():
    named = set(re.findall(r"`(\w+)\.(\w+)` +\|$", loop.__doc__ or "", flags=re.M))
    for path in (*(SOURCE / "search").glob("*.py"), *(SOURCE / "identification").glob("*.py")):
        importlib.import_module(f"cindy.{path.parent.name}.{path.stem}")

    def below(kind: type) -> set[type]:
        return {kind}.union(*(below(sub) for sub in kind.__subclasses__()))

    searches = {kind for kind in below(Loop) - {Loop} if kind.__module__.startswith("cindy.")}
    assert named <= {(kind.__module__.rpartition(".")[2], kind.__name__) for kind in searches}
    # A search that only mixes two of them needs no row of its own.
    mixed = {kind for kind in searches if len([b for b in kind.__bases__ if b in searches]) > 1}
    assert named == {(kind.__module__.rpartition(".")[2], kind.__name__) for kind in searches - mixed}


def test_no_other_class_has_a_loop_of_its_own():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name != "Loop":
                names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                assert "follow" not in names, f"{path.name}: {node.name}.follow"
