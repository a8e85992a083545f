"""``drsub-fast STUB[.nl] -AMPL [name=value ..]``: a solver for AMPL, Pyomo and JuMP.

It reads STUB.nl and writes STUB.sol. Options are those of the methods, ``method``, ``bound``, ``objno`` (the number of
the objective) and ``require_dr`` (false for a quadratic of any sign), as words of the command or of the variable
``drsub_fast_options``; the command's count.
"""

import os
import shlex
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drsub_fast import __version__
from drsub_fast._checks import one_of
from drsub_fast.cli.options import option_value, truth
from drsub_fast.errors import OracleError
from drsub_fast.methods import maximize, method_names, options_of
from drsub_fast.problems.nl import open_nl, program_of_nl, write_sol
from drsub_fast.problems.standard_form import standard_form
from drsub_fast.result import Status

#: Where AMPL and Pyomo hand on options: the name of the solver with "_options".
_VARIABLE = "drsub_fast_options"
#: AMPL's codes of how a solve went: below 100 solved, 200 infeasible, 400 a limit, 500 a failure.
_SOLVED, _INFEASIBLE, _FAILURE = 0, 200, 500
_CODES = {
    Status.TIME_LIMIT: 400, Status.NODE_LIMIT: 401, Status.INTERRUPTED: 502, Status.NON_FINITE: 501,
    Status.FAILED: _FAILURE,
}  # fmt: skip

#: Options of the methods that no word can give.
_NOT_WORDS = {"x0", "callback", "callback_every", "subroutine"}


def _options(words):
    """The options of words ``name=value``, or ``name value`` as AMPL takes them too."""
    options, words = {}, iter(words)
    for word in words:
        name, sign, text = word.partition("=")
        text = text if sign else next(words, None)
        if text is None:
            raise ValueError(f"the option {name!r} has no value: write {name}=..")
        options[name] = option_value(text)
    return options


def _checked(options):
    """(number of the objective, require_dr, options of `maximize`); ValueError for an unknown one."""
    method = one_of(options.get("method", "auto"), "method", method_names())
    known = {"method", "bound", "objno", "require_dr", *options_of(method)} - _NOT_WORDS
    for name in options:
        if name not in known:
            raise ValueError(f"unknown option {name!r}; there are {', '.join(sorted(known))}")
    number = options.pop("objno", 1)
    if not isinstance(number, int):
        raise ValueError(f"objno = {number} is not a number of an objective")
    return number, truth(str(options.pop("require_dr", True))), options


def _names(stub, n):
    """Names of the variables by the file that AMPL writes beside, or none."""
    try:
        names = tuple(stub.with_name(stub.name + ".col").read_text(encoding="utf-8").split("\n")[:n])
    except (OSError, ValueError):
        return ()
    return names if len(set(names)) == n and all(names) else ()


def _solved(file, stub, words):
    """(message, point, number of the objective, code)."""
    number, require_dr, options = _checked(_options([*shlex.split(os.environ.get(_VARIABLE, "")), *words]))
    program = program_of_nl(file, number, _names(stub, file.header.n_variables))
    problem = standard_form(*program, require_dr=require_dr)
    result = maximize(problem.f, problem.P, **options)
    sign = -1.0 if problem.minimize else 1.0
    side = "lower" if problem.minimize else "upper"
    message = f"{result.message}\nobjective {sign * result.value:.12g}, {side} bound {sign * result.upper_bound:.12g}"
    return message, problem.to_original(result.x), number, _CODES.get(result.status, _SOLVED)


def run(argv: list[str]) -> int:
    """Solves the file of the first word; returns 0 once the .sol file is there, whatever it says."""
    path = Path(argv[0])
    path = path if path.suffix == ".nl" else path.with_name(path.name + ".nl")
    stub = path.with_suffix("")
    words = [word for word in argv[1:] if word != "-AMPL"]
    try:
        file = open_nl(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    x: NDArray[np.float64] | None = None
    number = 1
    try:
        message, x, number, code = _solved(file, stub, words)
    except (ValueError, TypeError, OracleError) as error:
        message = " ".join(str(error).split())
        code = _INFEASIBLE if "the set is empty" in message else _FAILURE
    write_sol(stub.with_name(stub.name + ".sol"), file.header, f"drsub-fast {__version__}: {message}", x, number, code)
    return 0
