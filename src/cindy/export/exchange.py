"""Exchange formats that other simulators load: functional mock-up units (FMI 2.0) and SBML.

An FMU is a zip archive: modelDescription.xml lists the variables, sources/ holds C code, and binaries/ the
library compiled from it, with a folder per platform. The C code in `fmu.c` is the same for every model;
model.h holds the equations.

An SBML document, which biochemical simulators read, has a species and a rate rule for every state.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from cindy._files import whole_file
from cindy.basis import TIME, Expression, Factor, Plan, formula, statements
from cindy.errors import DataError
from cindy.export.code import C, Coefficient, coefficients, places_in_arrays
from cindy.export.sides import Algebra, RightHandSides, printable, without_formula

_LIBRARY = "cindy_model"
"""The model identifier of FMI, which is the name of the compiled library."""


def to_fmu(equations: RightHandSides, path: str | Path, *, x0: Sequence[float] | None = None) -> Path:
    """Write an FMU, see `Model.to_fmu`; x0 holds positions and then rates for order 2."""
    if equations.discrete:
        raise DataError("to_fmu: a map has no derivatives. Use to_python, to_c, to_casadi or to_julia.")
    target = Path(path)
    numbers = [number for kind in coefficients(equations) for number in kind]
    start = x0 or [0.0] * len(equations.first_order_states)
    body = _model_source(equations, numbers, start)
    # The identifier depends on the model alone, so that the same model gives the same file.
    guid = "{" + str(uuid.uuid5(uuid.NAMESPACE_OID, body)) + "}"
    header = f'#define MODEL_GUID "{guid}"\n{body}'
    wrapper = (files("cindy.export") / "fmu.c").read_text(encoding="utf-8")
    # The tool that imports an FMU without a library may compile it.
    binary, reason = _compiled(header, wrapper)
    if binary is None:
        warnings.warn(f"to_fmu: {target} holds C source alone: {reason}.", UserWarning, stacklevel=4)
    with (
        whole_file(target, "the FMU") as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        archive.writestr("modelDescription.xml", _description(target.stem, guid, equations, numbers, start))
        archive.writestr("sources/fmu.c", wrapper)
        archive.writestr("sources/model.h", header)
        if binary is not None:
            archive.writestr(*binary)
    return target


def _model_source(equations: RightHandSides, numbers: Sequence[Coefficient], start: Sequence[float]) -> str:
    """model.h: the C code of the equations, and the value of every variable at the start.

    Value references of FMI count states, derivatives, inputs, and then numbers; derivatives are computed.
    """
    d, first = len(equations.states), len(start) - len(equations.states)
    symbols, parameters = {}, {}
    for k, number in enumerate(numbers):
        if number.place is None:
            parameters[number.name] = f"p[{k}]"
        else:
            symbols[number.place] = f"p[{k}]"
    terms, coef = equations.used
    rows = {term: i for i, term in enumerate(equations.terms)}
    # The plan holds only terms that have a coefficient, and numbers them anew.
    symbols = {(k, j): symbols[rows[term], j] for k, term in enumerate(terms) for j in range(d) if coef[k, j]}
    plan, places = Plan.of(terms, equations.variables), places_in_arrays(equations)
    outputs = [f"dx[{first + j}]" for j in range(d)]
    body = [f"dx[{j}] = x[{d + j}];" for j in range(first)]
    body += statements(plan, coef, C, places, outputs, symbols=symbols, parameters=parameters)
    names = dict(zip(equations.variables, places, strict=True)) | parameters
    switches = [formula(switch, names, C) for switch in _switches(equations)]
    others = [0.0] * (len(start) + len(equations.inputs))
    values = ", ".join(map(repr, [*start, *others, *(number.value for number in numbers)]))
    arguments = "double t, const double *x, const double *u, const double *p, double *"
    unused = "    (void)t; (void)x; (void)u; (void)p;"
    lines = [
        f"#define N_STATES {len(start)}",
        f"#define N_INPUTS {len(equations.inputs)}",
        f"#define N_PARAMETERS {len(numbers)}",
        f"#define N_SWITCHES {len(switches)}",
        f"static const double start[] = {{{values}}};",
        "",
        f"static void derivatives({arguments}dx)",
        "{",
        unused,
        *(f"    {line}" for line in body),
        "}",
        "",
        f"static void indicators({arguments}z)",
        "{",
        unused + " (void)z;",
        *(f"    z[{k}] = {switch};" for k, switch in enumerate(switches)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _switches(equations: RightHandSides) -> tuple[Expression, ...]:
    """The formulas that change sign where terms have a corner or a jump: the event indicators of FMI."""
    formulas = (factor.symbolic or factor.expression for term in equations.used[0] for factor in term)
    return tuple(dict.fromkeys(switch for each in formulas if each for switch in each.switches()))


def _description(
    name: str, guid: str, equations: RightHandSides, numbers: Sequence[Coefficient], start: Sequence[float]
) -> str:
    """modelDescription.xml."""
    states, d = equations.first_order_states, len(start)
    scalars: list[str] = []

    def add(label: str, meaning: str, attributes: str, real: str) -> None:
        head = f'name={quoteattr(printable(label))} valueReference="{len(scalars)}"'
        about = f" description={quoteattr(printable(meaning))}" if meaning else ""
        scalars.append(f"    <ScalarVariable {head}{about} {attributes}><Real{real}/></ScalarVariable>")

    for state, value in zip(states, start, strict=True):
        add(state, "", 'causality="output" variability="continuous" initial="exact"', f' start="{value!r}"')
    for k, state in enumerate(states):
        attributes = 'causality="local" variability="continuous" initial="calculated"'
        add(f"der({state})", "", attributes, f' derivative="{k + 1}"')
    for driver in equations.inputs:
        add(driver, "", 'causality="input" variability="continuous"', ' start="0.0"')
    for number in numbers:
        attributes = 'causality="parameter" variability="tunable" initial="exact"'
        # Names of an FMU must differ, and a state may have the name of a coefficient.
        taken = number.name in (*states, *equations.inputs)
        label = f"{number.name} (coefficient)" if taken else number.name
        add(label, number.meaning, attributes, f' start="{number.value!r}"')
    # FMI counts variables from one, in the order in which they are listed.
    unknown = [f'      <Unknown index="{k + 1}"/>' for k in range(d)]
    slopes = [f'      <Unknown index="{d + k + 1}"/>' for k in range(d)]
    files_of = '<SourceFiles><File name="fmu.c"/></SourceFiles>'
    can = f'modelIdentifier="{_LIBRARY}" canGetAndSetFMUstate="true" canSerializeFMUstate="true"'
    about = f' description="Made by CINDy{equations.remark}"' if equations.remark else ""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<fmiModelDescription fmiVersion="2.0" modelName={quoteattr(printable(name))} guid="{guid}"'
        f'{about} generationTool="CINDy" variableNamingConvention="flat"'
        f' numberOfEventIndicators="{len(_switches(equations))}">',
        f"  <ModelExchange {can}>{files_of}</ModelExchange>",
        f'  <CoSimulation {can} canHandleVariableCommunicationStepSize="true">{files_of}</CoSimulation>',
        "  <ModelVariables>",
        *scalars,
        "  </ModelVariables>",
        "  <ModelStructure>",
        "    <Outputs>", *unknown, "    </Outputs>",
        "    <Derivatives>", *slopes, "    </Derivatives>",
        "    <InitialUnknowns>", *slopes, "    </InitialUnknowns>",
        "  </ModelStructure>",
        "</fmiModelDescription>",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _compiled(header: str, wrapper: str) -> tuple[tuple[str, bytes] | None, str]:
    """(name in the archive, compiled library) and "", or None and the reason."""
    platforms = {("linux", "x86_64"): ("linux64", ".so"), ("darwin", "x86_64"): ("darwin64", ".dylib")}
    place = platforms.get((sys.platform, platform.machine()))
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if place is None:
        return None, f"FMI 2 has no folder for libraries of {sys.platform} on {platform.machine()}"
    if compiler is None:
        return None, "there is no C compiler (cc, gcc or clang)"
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder)
        (sources / "model.h").write_text(header, encoding="utf-8")
        (sources / "fmu.c").write_text(wrapper, encoding="utf-8")
        library = f"{_LIBRARY}{place[1]}"
        options = ["-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"]
        options += ["fmu.c", "-o", library, "-lm"]
        done = subprocess.run([compiler, *options], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next(iter(done.stderr.strip().splitlines()), f"status {done.returncode}")
            return None, f"{compiler} failed ({first})"
        return (f"binaries/{place[0]}/{library}", (sources / library).read_bytes()), ""


_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2">
  <model id="cindy">{0}
    <listOfCompartments>
      <compartment id="volume_" spatialDimensions="3" size="1" constant="true"/>
    </listOfCompartments>"""
_SPECIES = (
    '      <species id="{0}" name={1} compartment="volume_"{2} hasOnlySubstanceUnits="false" '
    'boundaryCondition="false" constant="false"/>'
)
_RULE = (
    '      <rateRule variable="{0}">\n'
    '        <math xmlns="http://www.w3.org/1998/Math/MathML">{1}</math>\n'
    "      </rateRule>"
)
_OPERATIONS = {
    "+": "plus",
    "*": "times",
    "/": "divide",
    "**": "power",
    "-": "minus",
    "log": "ln",
    "sqrt": "root",
}

_CLOCK = '<csymbol encoding="text" definitionURL="http://www.sbml.org/sbml/symbols/time">t</csymbol>'
_RELATIONS = {"<": "lt", "<=": "leq", ">": "gt", ">=": "geq", "==": "eq", "!=": "neq"}


def to_sbml(equations: RightHandSides, *, x0: Sequence[float] | None = None) -> str:
    """An SBML document, Level 3 Version 2, with coefficients in full precision; see `Model.to_sbml`.

    States become concentrations in a compartment of unit size, without values to start from unless x0 has
    them. Terms may hold the time.
    """
    if equations.order != 1 or equations.discrete or equations.inputs:
        raise DataError(
            "to_sbml: only equations x' = F(x) without inputs have a form in SBML. "
            "Use to_python or to_c for others."
        )
    plain = all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", s) and s != "volume_" for s in equations.states)
    # Identifiers of SBML are s0, s1, … if a name is none.
    ids = list(equations.states) if plain else [f"s{k}" for k in range(len(equations.states))]
    start = [""] * len(ids) if x0 is None else [f' initialConcentration="{value!r}"' for value in x0]
    names = {state: f"<ci>{escape(own)}</ci>" for state, own in zip(equations.states, ids, strict=True)}
    if equations.timed:
        names[TIME] = _CLOCK
    species = [
        _SPECIES.format(own, quoteattr(_legal(state)), at)
        for own, state, at in zip(ids, equations.states, start, strict=True)
    ]
    rules = [_RULE.format(ids[j], _side(equations, j, names)) for j in range(len(ids))]
    notes = ""
    if equations.remark:
        sentence = f"Made by CINDy{equations.remark}."
        notes = f'\n    <notes><p xmlns="http://www.w3.org/1999/xhtml">{sentence}</p></notes>'
    body = [
        _HEAD.format(notes),
        "    <listOfSpecies>", *species, "    </listOfSpecies>",
        "    <listOfRules>", *rules, "    </listOfRules>",
        "  </model>",
        "</sbml>",
    ]  # fmt: skip
    return "\n".join(body) + "\n"


def _legal(name: str) -> str:
    """The name with characters that XML 1.0 forbids, which would make the file unreadable, as \\x01."""
    allowed = re.compile("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
    return "".join(c if allowed.match(c) else ascii(c)[1:-1] for c in name)


def _side(equations: RightHandSides, equation: int, names: Mapping[str, str]) -> str:
    algebra = _ContentMathML()
    parts = []
    for value, factors in algebra.summands(equations, equation, names):
        number = algebra.number(value)
        parts.append(algebra.joined("*", [number, *factors]) if factors else number)
    return algebra.joined("+", parts) if len(parts) > 1 else parts[0] if parts else algebra.number(0.0)


class _ContentMathML(Algebra):
    """Formulas in the content MathML of SBML."""

    def number(self, value: float) -> str:
        mantissa, _, power = repr(float(value)).partition("e")
        kind, rest = (' type="e-notation"', f"<sep/>{int(power)}") if power else ("", "")
        return f"<cn{kind}>{mantissa}{rest}</cn>"

    def joined(self, operation: str, parts: list[str]) -> str:
        return _apply(_OPERATIONS[operation], *parts)

    def call(self, function: str, arguments: list[str]) -> str:
        if function == "sign":
            # The MathML of SBML has no sign function.
            zero = self.number(0.0)
            negative = self.choice(_apply("lt", *arguments, zero), self.number(-1.0), zero)
            return self.choice(_apply("gt", *arguments, zero), self.number(1.0), negative)
        arc = re.sub(r"^a(sin|cos|tan)$", r"arc\1", function)
        return _apply(_OPERATIONS.get(function, arc), *arguments)

    def relation(self, sign: str, left: str, right: str) -> str:
        return _apply(_RELATIONS[sign], left, right)

    def choice(self, condition: str, value: str, otherwise: str) -> str:
        piece = f"<piece>{value}{condition}</piece>"
        return f"<piecewise>{piece}<otherwise>{otherwise}</otherwise></piecewise>"

    def unknown(self, factor: Factor, arguments: list[str]) -> str:
        raise without_formula(factor, "to_sbml")


def _apply(operation: str, *operands: str) -> str:
    return f"<apply><{operation}/>{''.join(operands)}</apply>"
