"""Equations as typeset mathematics: LaTeX, and MathML, which browsers render.

The walk through terms and formulas is the same for both; a `_Notation` holds what differs. MathML is written
here, and not by a converter from LaTeX, because the names in it come from users: the page must show them
unchanged, and no part of them may act as HTML.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from cindy.basis import COMPARISONS, GREEK, Expression, Factor, Term, shortest
from cindy.export.sides import RightHandSides, format_value

Summands = Sequence[tuple[float, float, Term]]
"""(coefficient, error, term) of each."""


@dataclass(frozen=True)
class _Notation:
    """How a language of typesetting writes the parts of a formula.

    plus, less, minus: signs between summands, and in front of one
    thin, comma: between factors, and between arguments
    fraction, root, cases: patterns; those of cases are value, condition and value otherwise
    number: writes a formatted value, such as "2.00(3)e-4"
    name: writes a variable: x1 and x_1 are x with subscript 1, omega_max is ω with subscript max, x' is ẋ
    words: writes text unchanged
    marked: writes a body between two marks: parentheses, brackets or bars
    power: writes base and exponent
    function: writes a function from its name, argument and power, which may be empty
    derivative: writes a derivative of a body by axes of space
    """

    plus: str
    less: str
    minus: str
    thin: str
    comma: str
    fraction: str
    root: str
    cases: str
    relations: Mapping[str, str]
    number: Callable[[str], str]
    name: Callable[[str], str]
    words: Callable[[str], str]
    marked: Callable[[str, str], str]
    power: Callable[[str, str], str]
    function: Callable[[str, str, str], str]
    derivative: Callable[[str, Sequence[str]], str]

    def parentheses(self, body: str) -> str:
        return self.marked(body, "()")

    def product(self, term: Term, between: str | None = None) -> str:
        """A product of factors; empty for the constant."""
        return (self.thin if between is None else between).join(self._factor(factor) for factor in term)

    def summand(self, value: float, error: float, term: Term) -> str:
        """A number and a product of factors, with its sign if that is negative."""
        size = self.number(format_value(abs(value), error))
        return (self.minus if value < 0 else "") + self.thin.join(filter(None, [size, self.product(term)]))

    def _factor(self, factor: Factor) -> str:
        if factor.kind in ("sin", "cos"):
            argument = self.name(factor.variables[0])
            if factor.frequency != 1.0:
                argument = self.number(shortest(factor.frequency)) + self.thin + argument
            return self.function(factor.kind, argument, str(factor.power) if factor.power > 1 else "")
        if factor.kind == "variable":
            base = self.name(factor.variables[0])
        elif factor.kind == "derivative":
            inner = self.product(factor.of)
            plain = len(factor.of) == 1 and factor.of[0].kind == "variable" and factor.of[0].power == 1
            base = self.derivative(inner if plain else self.parentheses(inner), factor.by)
        elif factor.expression is None:
            base = self.words(factor.name)
        else:
            base = self.formula(factor.expression)
            if factor.expression.operation in ("+", "-") or factor.power > 1:
                base = self.parentheses(base)
        return base if factor.power == 1 else self.power(base, self.number(str(factor.power)))

    def formula(self, node: Expression) -> str:
        """A formula of a custom term."""
        if node.operation == "number":
            return self.number(shortest(node.number))
        if node.operation == "symbol":
            return self.name(node.symbol)
        parts = [self.formula(operand) for operand in node.operands]
        signed = [operand.operation in ("+", "-") for operand in node.operands]
        match node.operation:
            case "+":
                return self.sum(parts)
            case "-":
                return self.minus + (self.parentheses(parts[0]) if signed[0] else parts[0])
            case "*":
                wrapped = [self.parentheses(p) if s else p for p, s in zip(parts, signed, strict=True)]
                return self.thin.join(wrapped)
            case "/":
                return self.fraction.format(*parts)
            case "**":
                base = node.operands[0]
                # A symbol, a number or |x| needs no parentheses.
                atom = base.operation in ("symbol", "abs") or (
                    base.operation == "number" and base.number >= 0
                )
                return self.power(parts[0] if atom else self.parentheses(parts[0]), parts[1])
            case "sqrt":
                return self.root.format(parts[0])
            case "abs":
                return self.marked(parts[0], "||")
            case "where":
                return self.cases.format(parts[1], self._condition(node.operands[0]), parts[2])
            case operation if operation in COMPARISONS:
                return self.marked(self._condition(node), "[]")
        return self.function(node.operation, self.comma.join(parts), "")

    def sum(self, parts: Sequence[str]) -> str:
        """Summands joined by their signs."""
        result = parts[0]
        for part in parts[1:]:
            negative = part.startswith(self.minus)
            result += self.less + part.removeprefix(self.minus) if negative else self.plus + part
        return result

    def _condition(self, node: Expression) -> str:
        """A comparison without the brackets that make it a number; other formulas are compared with zero."""
        if node.operation not in COMPARISONS:
            return self.formula(node) + self.relations["!="] + self.number("0")
        left, right = (self.formula(operand) for operand in node.operands)
        return left + self.relations[node.operation] + right


def with_symbols(what: Term) -> Term:
    """The term with its parameters as symbols in place of their values."""
    return tuple(f if f.symbolic is None else replace(f, expression=f.symbolic) for f in what)


# LaTeX


_ESCAPES = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{c: "\\" + c for c in "{}#$%&_"},
}
_LATEX_FUNCTIONS = {
    "asin": r"\arcsin",
    "acos": r"\arccos",
    "atan": r"\arctan",
    "sign": r"\operatorname{sgn}",
}


def _latex_number(text: str) -> str:
    return re.sub(r"e\+?(-?)0*(\d+)", r" \\times 10^{\1\2}", text).replace("±", r"\pm")


def _latex_name(text: str) -> str:
    head, index = _latex_parts(text.removesuffix("'"))
    dotted = text.endswith("'") and not head.startswith(r"\text{")
    return rf"\dot{{{head}}}{index}" if dotted else "".join(_latex_parts(text))


def _latex_parts(text: str) -> tuple[str, str]:
    """A name and its subscript."""
    known = re.fullmatch(r"([A-Za-z]+)(?:_?(\d+)|_([A-Za-z0-9]+))?", text)
    if not known:
        return _latex_words(text), ""
    word, digits, index = known.groups()
    if word in GREEK:
        head = "\\" + word
    else:
        head = word if len(word) == 1 else rf"\mathrm{{{word}}}"
    if digits or (index and len(index) == 1):
        return head, f"_{{{digits or index}}}"
    return head, rf"_{{\mathrm{{{index}}}}}" if index else ""


def _latex_words(text: str) -> str:
    # No part of a name may act as a command of LaTeX.
    shown = "".join(_ESCAPES.get(c, c if c.isprintable() else " ") for c in text)
    return rf"\text{{{shown}}}"


def _latex_marked(body: str, marks: str) -> str:
    return rf"\left{marks[0]}{body}\right{marks[1]}"


def _latex_power(base: str, exponent: str) -> str:
    if base.startswith(r"\partial"):
        base = _latex_marked(base, "()")
    # LaTeX refuses a second exponent on the same base.
    return f"{{{base}}}^{{{exponent}}}" if "^" in base else f"{base}^{{{exponent}}}"


def _latex_function(name: str, argument: str, power: str) -> str:
    head = _LATEX_FUNCTIONS.get(name, "\\" + name) + (f"^{{{power}}}" if power else "")
    return head + _latex_marked(argument, "()")


_LATEX = _Notation(
    plus=" + ",
    less=" - ",
    minus="-",
    thin=r"\, ",
    comma=", ",
    fraction=r"\frac{{{0}}}{{{1}}}",
    root=r"\sqrt{{{0}}}",
    cases=r"\begin{{cases}} {0} & {1} \\ {2} & \text{{otherwise}} \end{{cases}}",
    relations={"<": " < ", ">": " > ", "<=": r" \le ", ">=": r" \ge ", "==": " = ", "!=": r" \ne "},
    number=_latex_number,
    name=_latex_name,
    words=_latex_words,
    marked=_latex_marked,
    power=_latex_power,
    function=_latex_function,
    derivative=lambda body, axes: rf"\partial_{{{' '.join(axes)}}} {body}",
)


def to_latex(equations: RightHandSides) -> str:
    r"""An `aligned` block (amsmath), a line per state, such as \dot{x} &= -10.00(1)\, x + 10.00(1)\, y.

    With random kicks all equations are written as differentials.
    """
    lines, parameters = [], equations.parameters
    for j, state in enumerate(equations.states):
        head, index = _latex_parts(state)
        if equations.discrete:
            left = f"{head}{index}[k+1]"
        elif equations.axes:
            left = rf"\partial_{{{'t' * equations.order}}} {head}{index}"
        else:
            left = rf"\{'d' * equations.order}ot{{{head}}}{index}"
        shown = with_symbols if parameters else tuple
        sides = [_LATEX.summand(v, error, shown(term)) for v, error, term in equations.summands(j)]
        right = _LATEX.sum(sides) if sides else "0"
        if equations.kicks is not None:
            moving = head if equations.order == 1 else rf"\dot{{{head}}}"
            left = rf"\mathrm{{d}}{moving}{index}"
            drift = rf"\left({right}\right)" if len(sides) > 1 else right
            parts = [rf"{drift}\,\mathrm{{d}}t"] if sides else []
            size = _kick(_LATEX, list(equations.kicks.summands(j)))
            if size:
                which = f"_{{{head}{index}}}" if len(equations.states) > 1 else ""
                parts.append(rf"{size}\,\mathrm{{d}}W{which}")
            right = " + ".join(parts) or "0"
        lines.append(f"{left} &= {right}")
    for parameter, (value, error) in parameters.items():
        size = _LATEX.number(format_value(abs(value), None if equations.errors is None else error))
        lines.append(f"{_LATEX.name(parameter)} &= {'-' * (value < 0)}{size}")
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _kick(notation: _Notation, variance: Summands) -> str:
    """The factor of an increment of noise: a number, or the root of a variance that depends on states."""
    if not variance:
        return ""
    if len(variance) == 1 and not variance[0][2]:
        value, error, _ = variance[0]
        # The error of a root by the first derivative: d√v = dv / 2√v.
        return notation.number(format_value(math.sqrt(value), error / (2 * math.sqrt(value))))
    return notation.root.format(notation.sum([notation.summand(*each) for each in variance]))


# MathML

# Browsers slant a single letter unless it says otherwise.
_UPRIGHT_D = '<mi mathvariant="normal">d</mi>'


def number(text: str) -> str:
    """A formatted value such as "2.00(3)e-4": the value, its error with a class, and a power of ten."""
    known = re.fullmatch(r"(-?[\d.]+)(\(\d+\))?(?:e(-?\d+))?", text)
    if not known:
        return _words(text)
    value, error, power = known.groups()
    result = f"<mn>{value.replace('-', '−')}</mn>"
    if error:
        result += f'<mn class="error">{error}</mn>'
    if power:
        result += f"<mo>×</mo><msup><mn>10</mn><mn>{power.replace('-', '−')}</mn></msup>"
    return result


def name(text: str) -> str:
    """A variable, with its subscript and its dot."""
    head, index = _parts(text.removesuffix("'"))
    if text.endswith("'") and len(_letters(head)) == 1:
        return _lowered(_dotted(head, "˙"), index)
    return _lowered(*_parts(text))


def _parts(text: str) -> tuple[str, str]:
    """A name and its subscript."""
    known = re.fullmatch(r"([^\W\d_]+)(?:_?(\d+)|_([^\W_]+))?", text)
    if not known:
        return _words(text), ""
    word, digits, index = known.groups()
    head = _identifier(GREEK.get(word, word))
    if digits:
        return head, f"<mn>{digits}</mn>"
    return head, _identifier(GREEK.get(index, index)) if index else ""


def _identifier(text: str) -> str:
    """A name: single letters have a class by which the page slants them; longer names are upright."""
    return f'<mi class="v">{text}</mi>' if len(text) == 1 else f"<mi>{text}</mi>"


def _letters(element: str) -> str:
    return re.sub(r"<[^>]*>", "", element)


def _dotted(head: str, dots: str) -> str:
    """A letter with one or two dots above it."""
    letter = _letters(head)
    # Fonts without a MATH table set the dot into a tall letter, unless the letter is made taller.
    if letter.isupper() or letter in "bdfhklt":
        head = f'<mpadded height="0.9em">{head}</mpadded>'
    return f'<mover accent="true">{head}<mo stretchy="false">{dots}</mo></mover>'


def _lowered(body: str, below: str) -> str:
    """A body with a subscript, if there is one."""
    return f"<msub>{body}{below}</msub>" if below else body


def _words(text: str) -> str:
    return f"<mtext>{escape(text)}</mtext>"


def _marked(body: str, marks: str) -> str:
    # Only a body that is taller than a line needs taller marks.
    tall = any(f"<{tag}>" in body for tag in ("mfrac", "mtable", "msqrt"))
    form = "" if tall else ' stretchy="false"'
    return f"<mrow><mo{form}>{marks[0]}</mo>{body}<mo{form}>{marks[1]}</mo></mrow>"


def _power(base: str, exponent: str) -> str:
    if base.startswith("<msub>"):
        inside = base.removeprefix("<msub>").removesuffix("</msub>")
        return f"<msubsup>{inside}<mrow>{exponent}</mrow></msubsup>"
    # Browsers raise the exponent of a single letter by the font, and that of anything else by its height.
    whole = base if base.count("<m") == 1 else f"<mrow>{base}</mrow>"
    return f"<msup>{whole}<mrow>{exponent}</mrow></msup>"


def _function(name: str, argument: str, power: str) -> str:
    head = f"<mi>{'sgn' if name == 'sign' else name}</mi>"
    head = _power(head, number(power)) if power else head
    return f"{head}<mo>&#x2061;</mo>{_marked(argument, '()')}"


def _derivative(body: str, axes: Sequence[str]) -> str:
    return _lowered(f"<mrow>{body}</mrow>", f"<mrow>{''.join(map(name, axes))}</mrow>")


_MATHML = _Notation(
    plus="<mo>+</mo>",
    less="<mo>−</mo>",
    minus="<mo>−</mo>",
    thin='<mspace width="0.17em"/>',
    comma="<mo>,</mo>",
    fraction="<mfrac><mrow>{0}</mrow><mrow>{1}</mrow></mfrac>",
    root="<msqrt>{0}</msqrt>",
    cases='<mrow><mo>{{</mo><mtable><mtr><mtd>{0}</mtd><mtd><mspace width="0.5em"/>{1}</mtd></mtr>'
    '<mtr><mtd>{2}</mtd><mtd><mspace width="0.5em"/><mtext>otherwise</mtext></mtd></mtr></mtable></mrow>',
    relations={
        sign: f"<mo>{escape(shown)}</mo>"
        for sign, shown in zip(("<", ">", "<=", ">=", "==", "!="), "<>≤≥=≠", strict=True)
    },
    number=number,
    name=name,
    words=_words,
    marked=_marked,
    power=_power,
    function=_function,
    derivative=_derivative,
)


def term_markup(what: Term, *, dots: bool = False) -> str:
    """A product of factors, or the number 1.

    dots: whether a dot separates the factors, because names could be misread without it
    """
    return _MATHML.product(what, "<mo>·</mo>" if dots else '<mspace width="0.25em"/>') or "<mn>1</mn>"


def summand(value: float, error: float, what: Term, *, first: bool, dots: bool = False) -> str:
    """One signed summand of a right-hand side, as a whole `math` element.

    first: whether it is the first summand, which has no plus
    """
    sign = "−" if value < 0 else "" if first else "+"
    lead = f'<mo form="{"prefix" if first else "infix"}">{sign}</mo>' if sign else ""
    after = _MATHML.thin + term_markup(what, dots=dots) if what else ""
    return f"<math>{lead}{number(format_value(abs(value), error))}{after}</math>"


def differential(
    state: str, order: int, drift: Sequence[str], variance: Summands, *, alone: bool = False
) -> tuple[str, list[str]]:
    """The two sides of dx = (…) dt + √(…) dW, as whole `math` elements.

    drift: its summands as `math` elements; variance: that of the kicks
    alone: there is no other state, so that dW needs no subscript
    """
    whole = _lowered(*_parts(state)) if order == 1 else name(f"{state}'")
    time = _MATHML.thin + _UPRIGHT_D + _identifier("t")
    sides = list(drift)
    if len(sides) > 1:
        sides[0] = '<math><mo stretchy="false">(</mo>' + sides[0].removeprefix("<math>")
        sides[-1] = sides[-1].removesuffix("</math>") + f'<mo stretchy="false">)</mo>{time}</math>'
    elif sides:
        sides[0] = sides[0].removesuffix("</math>") + f"{time}</math>"
    size = _kick(_MATHML, variance)
    if size:
        lead = '<mo form="infix">+</mo>' if sides else ""
        increment = _lowered(_identifier("W"), "" if alone else whole)
        sides.append(f"<math>{lead}{size}{_MATHML.thin}{_UPRIGHT_D}{increment}</math>")
    space = "" if _one_letter(state) else _MATHML.thin
    return f"<math>{_UPRIGHT_D}{space}{whole}<mo>=</mo></math>", sides or ["<math><mn>0</mn></math>"]


def left_sides(
    states: Sequence[str], order: int, *, discrete: bool = False, partial: bool = False
) -> list[str]:
    """The left-hand sides of all equations as whole `math` elements: ẋ, ẍ, dS/dt, x[k+1] or u_t.

    They have one style: dots only where every name has one letter.
    """
    dotted, sides = all(map(_one_letter, states)), []
    for state in states:
        head, index = _parts(state)
        whole = _lowered(head, index)
        if partial:
            inside = _derivative(whole, "t" * order)
        elif discrete:
            marks = [f'<mo stretchy="false">{mark}</mo>' for mark in "[]"]
            inside = f"{whole}{marks[0]}<mi>k</mi><mo>+</mo><mn>1</mn>{marks[1]}"
        elif dotted:
            inside = _lowered(_dotted(head, "˙" if order == 1 else "¨"), index)
        else:
            d, t = _UPRIGHT_D, _identifier("t")
            if order == 2:
                d, t = (f"<msup>{x}<mn>2</mn></msup>" for x in (d, t))
            # Without a space the derivative of an angle would read "dangle".
            space = "" if _one_letter(state) else _MATHML.thin
            inside = _MATHML.fraction.format(d + space + whole, _UPRIGHT_D + t)
        sides.append(f"<math>{inside}<mo>=</mo></math>")
    return sides


def _one_letter(state: str) -> bool:
    return len(_letters(_parts(state)[0])) == 1


def definition(what: str, value: float, error: float) -> tuple[str, str]:
    """The two sides of K = 0.370(5), each a whole `math` element."""
    return f"<math>{name(what)}<mo>=</mo></math>", f"<math>{number(format_value(value, error))}</math>"
