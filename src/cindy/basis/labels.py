"""Names of variables and terms as they stand in a figure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from cindy.basis.term import Factor, Term, term_name

__all__ = ["GREEK", "axis_label", "equation_label", "listed", "pretty", "term_label", "variable_label"]

_LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi "
    "chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
GREEK = dict(zip(_LETTERS.split(), "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", strict=True))
"""Letters by their English names."""
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def pretty(name: str) -> str:
    """The name of a variable or term with exponents raised, numbers lowered and Greek letters in Greek.

    >>> pretty("x1^2 omega_2"), pretty("sin(2 theta)"), pretty("ES")
    ('x₁² ω₂', 'sin(2 θ)', 'ES')
    """
    lowered = re.sub(r"(?<![^\W_])([A-Za-z]+)(_?\d+)?(?![^\W_])", _word, name)
    return re.sub(r"\^(-?\d+)", lambda found: found[1].translate(_RAISED), lowered)


def _word(found: re.Match[str]) -> str:
    number = (found[2] or "").lstrip("_").translate(_LOWERED)
    return GREEK.get(found[1], found[1]) + number


def axis_label(name: str, units: Mapping[str, str] | None = None) -> str:
    """The label of an axis: the name, and its unit in parentheses where one is known."""
    unit = (units or {}).get(name, "")
    return f"{pretty(name)} ({unit})" if unit else pretty(name)


def equation_label(state: str, order: int, discrete: bool = False, partial: bool = False) -> str:
    """The left-hand side of a state's equation: x′, x″, x[k+1], or u_t."""
    if partial:
        return f"{pretty(state)}_{'t' * order}"
    return pretty(state) + ("[k+1]" if discrete else "′″"[order - 1])


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a sentence, the first few where there are many.

    >>> listed(["x", "y", "z"]), listed(list("abcdefgh"), most=2)
    ('x, y and z', 'a, b and 6 more')
    """
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def term_label(term: Term, variables: Sequence[str]) -> str:
    """The term as it is shown: as it is written, unless names could be misread.

    Where a name holds blanks or signs, or reads like a product of others (ES beside E and S), products have
    a middle dot and such names stand in quotes.

    >>> from cindy.basis import Polynomial
    >>> [term_label(t, ("E", "S", "ES")) for t in Polynomial(2).terms(("E", "S", "ES"))[4:6]]
    ['E^2', 'E·S']
    """
    if not _misread(tuple(variables)):
        return term_name(term)
    return "·".join(_factor_label(factor) for factor in term) or "1"


def variable_label(name: str) -> str:
    """A name that is not one word, in quotes."""
    return name if re.fullmatch(r"\w+'*|\[.*\]", name) else f'"{name}"'


def _factor_label(factor: Factor) -> str:
    if factor.kind == "call":
        return term_name((factor,))
    quoted = {name: variable_label(name) for name in factor.variables}
    return term_name((replace(factor, variables=tuple(quoted[name] for name in factor.variables)),))


@lru_cache(maxsize=64)
def _misread(variables: tuple[str, ...]) -> bool:
    if any(variable_label(name) != name or name.startswith("[") for name in variables):
        return True
    return any(_composed(name, frozenset(variables) - {name}) for name in variables if len(name) > 1)


def _composed(name: str, others: frozenset[str]) -> bool:
    """Whether a name is two others or more, one after the other."""
    reached = {0}
    for end in range(1, len(name) + 1):
        if any(end - len(o) in reached and name[end - len(o) : end] == o for o in others if len(o) <= end):
            reached.add(end)
    return len(name) in reached
