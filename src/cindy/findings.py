"""Findings: what identification reports about a model, each with a code for programs and a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cindy._check import short
from cindy.errors import DataError

__all__ = ["NOTES", "Finding", "has_finding", "without_repeats"]

NOTES = frozenset(
    {
        "correlated-kicks",
        "device-unused",
        "filled-values",
        "growing-noise",
        "hidden-gauge",
        "hidden-state",
        "long-in-seconds",
        "outliers",
        "random-forcing",
        "tiny-residual",
        "tolerance-at-samples",
        "unequal-noise",
    }
)
"""Codes of notes: findings that say what was done or chosen, and give no reason to doubt the model."""
_CODE = re.compile(r"[a-z]+(-[a-z]+)*")


@dataclass(frozen=True)
class Finding:
    """One thing that a user should know about a model or its data.

    Two findings are equal if code and message are.

    code: short, the same in every version, for programs to compare; docs/findings.md lists all of them
    message: a sentence or two, for people to read; its wording may change
    values: the numbers and names in the message

    >>> finding = Finding("outliers", "3 measurements were left out as outliers.", {"count": 3})
    >>> finding.code, str(finding)
    ('outliers', '3 measurements were left out as outliers.')
    """

    code: str
    message: str
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.code, str) or not _CODE.fullmatch(self.code):
            raise DataError(
                'Finding: `code` must be lower-case words joined by hyphens, such as "dependent-terms", '
                f"but is {short(self.code)}."
            )
        if not isinstance(self.message, str) or not self.message:
            raise DataError(f"Finding: `message` must be a sentence, but is {short(self.message)}.")

    @property
    def note(self) -> bool:
        """Whether it is a note, and not a warning."""
        return self.code in NOTES

    def __str__(self) -> str:
        return self.message


def has_finding(findings: Iterable[Finding], *codes: str) -> bool:
    """Whether one of the findings has one of the codes."""
    return any(finding.code in codes for finding in findings)


def leaves_motion(findings: Iterable[Finding]) -> bool:
    """Whether a finding says that the equations leave more than noise unexplained."""
    return has_finding(findings, "unexplained-motion", "smooth-residual", "random-forcing")


def without_repeats(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings in order, each once."""
    return tuple(dict.fromkeys(findings))
