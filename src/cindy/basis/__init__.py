"""Dictionaries: which terms a right-hand side may be made of."""

from cindy.basis.base import Averaged as Averaged, Basis as Basis, Functions as Functions, Sum as Sum
from cindy.basis.custom import Custom as Custom
from cindy.basis.expression import COMPARISONS as COMPARISONS, Expression as Expression
from cindy.basis.families import (
    RUN as RUN,
    Derivatives as Derivatives,
    Fourier as Fourier,
    Listed as Listed,
    PerRun as PerRun,
    Polynomial as Polynomial,
    Trigonometric as Trigonometric,
    is_run as is_run,
)
from cindy.basis.plan import (
    Language as Language,
    Plan as Plan,
    call as call,
    compile_rhs as compile_rhs,
    factor_code as factor_code,
    formula as formula,
    statements as statements,
)
from cindy.basis.term import (
    GREEK as GREEK,
    TIME as TIME,
    Factor as Factor,
    Parameter as Parameter,
    Term as Term,
    axis_label as axis_label,
    differentiate_by_parameter as differentiate_by_parameter,
    equation_label as equation_label,
    listed as listed,
    pretty as pretty,
    product as product,
    shortest as shortest,
    spatial as spatial,
    term_label as term_label,
    term_name as term_name,
    term_parameters as term_parameters,
    term_variables as term_variables,
    variable_label as variable_label,
)
