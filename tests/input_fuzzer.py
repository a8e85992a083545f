"""Calls every public name with a thousand kinds of input for each argument in turn; run as a program.

One call of each name is good. In it one argument after the other is replaced by each of `input_kinds.values`, and what
happens is judged: an answer is right only where the value is of a kind that the argument takes, and an error only if it
is one that users are told of. The report, the last line, is JSON: ``calls``, the number of ``kinds``, the ``outcomes``
by type, and the ``faults``.
"""

import json
import logging
import math
import os
import signal
import sys
import time
import warnings

import numba
import numpy as np
from input_kinds import BOX, COVERAGE, FOLDER, PROBLEM, RESULT, SOFTMAX, F, H, N, P, h, pair, values

import drsub_fast as ds

ALLOWED = (TypeError, ValueError, ds.OracleError)
SECONDS = 10.0


class HangError(BaseException):
    """A call took too long."""


def _alarm(*_):
    raise HangError


#: A set function that is only known by its values.
SAMPLED = ds.Multilinear.sampled(len, N)


@numba.njit
def compiled(x, grad):
    """The same for `CompiledObjective`."""
    grad[:] = 1.0
    return x.sum()


def corner(direction, upper):
    """The oracle of a box, for `CallableSet`."""
    return np.where(direction > 0.0, upper, 0.0)


@numba.njit
def compiled_corner(direction, upper, v):
    """The same for `CompiledSet`."""
    v[:] = np.where(direction > 0.0, upper, 0.0)


ARRAY = {"vector", "matrix", "stack", "sparse", "items"}
#: What an argument of a kind may be given; a value of none of these kinds must be refused.
TAKES = {
    "number": {"number"},
    "count": {"count"},
    "seed": {"count", "seed"},
    "vector": {"vector", "items", "vector but no items", "number?"},
    "matrix": {"matrix", "sparse"},
    "stack": {"matrix", "stack", "vector", "number", "sparse", "items", "vector but no items", "number?", "flag"},
    "flag": {"flag"},
    "known": {"flag", "none"},
    "text": {"text"},
    "function": {"function"},
    "objective": {"objective"},
    "set": {"set"},
    "items": {"items", "vector", "empty", "iterator"},
    "result": {"result"},
    "path": {"text"},
    "tuple": {"items", "vector", "matrix", "empty", "problem"},
    "sets": {"matrix", "sparse", "items", "empty", "stack", "lists", "labels"},
    "graph": {"matrix", "sparse"},
    "other": {"other size"},
    "none": {"none"},
    "any": {"none"},
}


def careless(x):
    """Faults of four kinds, for the test that they are found."""
    if isinstance(x, str) and x == "abc":
        time.sleep(2.0 * SECONDS)
    if isinstance(x, dict):
        return x["missing"]
    return x.shape


def solver(function, **extra):
    """The good call of a method with the kinds of its arguments."""
    options = dict(
        max_iter=("count none", 3),
        lmo=("text", "auto"),
        callback=("function none", None),
        callback_every=("count", 1),
        time_limit=("number none", None),
        progress=("flag", False),
    )
    return function, dict(f=("objective", F), P=("set", P)) | options | extra


X0, TOL = {"x0": ("vector none", None)}, {"tol": ("number none", None)}
MANY = dict(
    method=("text", "frank-wolfe"),
    n_jobs=("count negative none", 1),
    on_error=("text", "raise"),
    progress=("flag", False),
    chunk_size=("count none", None),
    checkpoint=("path none", None),
)
OWN_SET = dict(n=("count", N), upper=("vector", h), contains=("function none", None), is_down_closed=("flag", True))
KNOWN = {name: ("known", None) for name in ("dr_submodular", "nonnegative", "monotone")}
GLOBAL = dict(
    f=("objective", F),
    P=("set", BOX),
    time_limit=("number none", 1.0),
    gap=("number", 1e-3),
    method=("text", "auto"),
    max_nodes=("count none", None),
    n_starts=("count", 2),
    seed=("seed", 0),
)

#: Good calls by name: a function, and each argument's kinds and value.
CALLS = {
    "planted": (careless, dict(x=("vector", h))),
    "Ball": (ds.Ball, dict(radius=("number", 1.0), n=("count none", N), upper=("vector none", None))),
    "Box": (ds.Box, dict(upper=("vector", h))),
    "Budget": (ds.Budget, dict(k=("number", 1.0), upper=("vector", h))),
    "CallableObjective": (
        ds.CallableObjective,
        dict(
            function=("function", pair),
            n=("count", N),
            gradient=("function none", None),
            unit_box=("flag", False),
            **KNOWN,
        ),
    ),
    "CompiledObjective": (
        ds.CompiledObjective,
        dict(function=("function", compiled), args=("tuple", ()), n=("count", N), unit_box=("flag", False), **KNOWN),
    ),
    "CallableSet": (
        ds.CallableSet,
        dict(lmo=("function", corner), project=("function none", None), **OWN_SET),
    ),
    "CompiledSet": (
        ds.CompiledSet,
        dict(lmo=("function", compiled_corner), parameters=("tuple", ()), **OWN_SET),
    ),
    "FeatureBased": (
        ds.FeatureBased,
        dict(
            W=("matrix", np.eye(2)),
            concave=("text", "min"),
            weights=("vector none", None),
            cap=("vector number", 0.5),
        ),
    ),
    "GeneralPolytope": (
        ds.GeneralPolytope,
        dict(
            A=("matrix", [[1.0, -1.0]]),
            b=("vector", [0.5]),
            A_eq=("matrix none", [[1.0, 1.0]]),
            b_eq=("vector none", [1.0]),
            lower=("vector none", None),
            upper=("vector", h),
        ),
    ),
    "Knapsack": (ds.Knapsack, dict(weights=("vector", h), budget=("number", 1.0), upper=("vector none", h))),
    "LogisticNonconvex": (
        ds.LogisticNonconvex,
        dict(
            Z=("matrix", np.eye(2)),
            y=("vector", [1, -1]),
            weight=("number", 0.1),
            gamma=("number", 1.0),
            regularizer=("text", "smooth"),
        ),
    ),
    "MatchingPolytope": (
        ds.MatchingPolytope,
        dict(
            edges=("matrix", [[0, 0], [0, 1]]),
            n_left=("count", 1),
            n_right=("count", 2),
            capacities=("vector number", 1.0),
            upper=("vector number", 1.0),
        ),
    ),
    "MeanField": (ds.MeanField, dict(extension=("objective", COVERAGE))),
    "Multilinear": (ds.Multilinear, {}),
    "Multilinear.coverage": (
        ds.Multilinear.coverage,
        dict(sets=("sets", [{0, 1}, {1}]), weights=("vector none items", None)),
    ),
    "Multilinear.facility_location": (ds.Multilinear.facility_location, dict(W=("matrix", np.eye(2)))),
    "Multilinear.flid": (ds.Multilinear.flid, dict(utilities=("vector", h), W=("matrix", np.eye(2)))),
    "Multilinear.cut": (ds.Multilinear.cut, dict(adjacency=("graph", [[0.0, 1.0], [0.0, 0.0]]))),
    "Multilinear.from_table": (ds.Multilinear.from_table, dict(values=("vector", [0.0, 1.0, 1.0, 1.5]))),
    "Multilinear.from_function": (ds.Multilinear.from_function, dict(function=("function", len), n=("count", 2))),
    "Multilinear.sampled": (
        ds.Multilinear.sampled,
        dict(
            function=("function", len),
            n=("count", 2),
            n_samples=("count", 4),
            seed=("seed", 0),
            nonnegative=("known", None),
            monotone=("known", None),
        ),
    ),
    "NonnegativePCA": (ds.NonnegativePCA, dict(Z=("matrix", np.eye(2)))),
    "OrthantObjective": (
        ds.OrthantObjective,
        dict(g=("objective", F), alpha=("vector", h), shift=("vector none", None)),
    ),
    "LaminarMatroid": (
        ds.LaminarMatroid,
        dict(sets=("sets", [[0, 1], [0]]), capacities=("vector", [1.0, 0.5]), upper=("vector number", 1.0)),
    ),
    "PartitionMatroid": (
        ds.PartitionMatroid,
        dict(groups=("vector", [0, 1]), capacities=("vector number", [1.0, 1.0]), upper=("vector number", 1.0)),
    ),
    "Polytope": (ds.Polytope, dict(A=("matrix", [[1.0, 1.0]]), b=("vector", [1.0]), upper=("vector none", h))),
    "PriceOptimization": (
        ds.PriceOptimization,
        dict(
            base=("vector", h),
            effects=("matrix", H),
            cost=("vector none", None),
            start=("vector none", None),
            signs=("vector none", None),
        ),
    ),
    "Quadratic": (ds.Quadratic, dict(H=("matrix", H), h=("vector", h), c=("number", 0.0))),
    "Simplex": (ds.Simplex, dict(n=("count", N), total=("number", 1.0))),
    "Softmax": (ds.Softmax, dict(L=("matrix", np.eye(2)), unit_box=("flag", True))),
    "Softmax.factor": (ds.Softmax, dict(factor=("matrix", np.eye(2)), unit_box=("flag", True))),
    "Softmax.from_features": (
        ds.Softmax.from_features,
        dict(
            features=("matrix", np.eye(2)),
            quality=("vector none", None),
            similarity=("text", "cosine"),
            unit_box=("flag", True),
        ),
    ),
    "Spectral": (ds.Spectral, dict(matrices=("stack", [np.eye(2), np.eye(2)]), offset=("matrix none number", None))),
    "Spectral.factors": (ds.Spectral, dict(factors=("stack", np.eye(2)), offset=("matrix none number", None))),
    "StabilityNumber": (ds.StabilityNumber, dict(graph=("graph", [[0.0, 1.0], [1.0, 0.0]]))),
    "check_orthant": (
        ds.check_orthant,
        dict(
            g=("objective", F),
            alpha=("vector", h),
            lower=("vector", 0 * h),
            upper=("vector", h),
            n_samples=("count", 2),
            seed=("seed", 0),
            tol=("number", 1e-8),
        ),
    ),
    "constants": (ds.constants, dict(f=("objective", F), P=("set", P))),
    "double_greedy": solver(ds.double_greedy, P=("set", BOX)),
    "exact_map": (ds.exact_map, dict(L=("matrix objective", np.eye(2)), constraint=("count set none", 1))),
    "frank_wolfe": solver(
        ds.frank_wolfe, step_size=("text number", "open-loop"), curvature=("number none", None), **X0, **TOL
    ),
    "frank_wolfe_gap_bound": (
        ds.frank_wolfe_gap_bound,
        dict(rise=("number", 1.0), curvature=("number", 1.0), k=("count", 2)),
    ),
    "fully_corrective_frank_wolfe": solver(ds.fully_corrective_frank_wolfe, **X0, **TOL),
    "global_maximum": (ds.global_maximum, GLOBAL),
    "global_minimum": (ds.global_minimum, GLOBAL),
    "greedy_map": (
        ds.greedy_map,
        dict(L=("matrix objective", np.eye(2)), constraint=("count set none", 1), full=("flag", False)),
    ),
    "greedy_map_stacked": (
        ds.greedy_map_stacked,
        dict(
            features=("stack", np.ones((1, 3, 2))),
            quality=("vector matrix none", None),
            size=("count", 1),
            groups=("vector matrix none", None),
            per_group=("count vector none", None),
            similarity=("text", "cosine"),
            gamma=("number none", None),
            n_jobs=("count negative none", 1),
            progress=("flag", False),
            checkpoint=("path none", None),
        ),
    ),
    "improve_set": (ds.improve_set, dict(f=("objective", SOFTMAX), P=("set", BOX), items=("items", [0]))),
    "infer_signs": (ds.infer_signs, dict(Z=("matrix", np.eye(2)))),
    "map_dpp": (
        ds.map_dpp,
        dict(
            L=("matrix objective", np.eye(2)),
            constraint=("count set none", 1),
            method=("text", "greedy"),
            improve=("flag", True),
            rounding=("text", "pipage"),
        ),
    ),
    "maximize": (
        ds.maximize,
        dict(
            f=("objective", F),
            P=("set", P),
            method=("text", "multi-start"),
            n_starts=("count none", 2),
            seed=("seed", 0),
            bound=("text", "cheap"),
            x0=("vector none", None),
            callback=("function none", None),
            progress=("flag", False),
            max_iter=("count", 3),
        ),
    ),
    "maximize_iter": (
        lambda **k: list(ds.maximize_iter(**k)),
        dict(problems=("empty", [(F, P)]), **MANY, max_iter=("count", 3)),
    ),
    "maximize_many": (ds.maximize_many, dict(problems=("empty", [(F, P)]), **MANY, max_iter=("count", 3))),
    "maximize_stacked": (
        ds.maximize_stacked,
        dict(
            H=("matrix stack", H[None]),
            h=("matrix stack", h[None]),
            c=("stack none", 0.0),
            A=("matrix stack", [[1.0, 1.0]]),
            b=("vector stack", [1.0]),
            upper=("vector stack none", h),
            method=("text", "frank-wolfe"),
            max_iter=("count none", 3),
            tol=("number none", None),
            step_size=("text number", "open-loop"),
            seed=("seed", 0),
            lmo=("text", "auto"),
            n_jobs=("count negative none", 1),
            on_error=("text", "raise"),
            trace=("flag", False),
            progress=("flag", False),
            checkpoint=("path none", None),
        ),
    ),
    "monotone_frank_wolfe": solver(ds.monotone_frank_wolfe),
    "boosted_gradient": solver(ds.boosted_gradient, **X0, **TOL),
    "mualem_feldman": solver(ds.mualem_feldman),
    "multi_start": solver(
        ds.multi_start, n_starts=("count none", 2), seed=("seed", 0), n_jobs=("count negative none", 1), **X0, **TOL
    ),
    "nearest_psd": (ds.nearest_psd, dict(L=("matrix", np.eye(2)))),
    "nonmonotone_bound": (
        ds.nonmonotone_bound,
        dict(optimum=("number", 1.0), curvature=("number", 1.0), n_steps=("count", 3), k=("count none", None)),
    ),
    "nonmonotone_frank_wolfe": solver(ds.nonmonotone_frank_wolfe),
    "orthant_quadratic": (
        ds.orthant_quadratic,
        dict(H=("matrix", H), h=("vector", h), c=("number", 0.0), alpha=("vector", h), shift=("vector none", None)),
    ),
    "projected_gradient": solver(ds.projected_gradient, step_size=("text number", "spectral"), **X0, **TOL),
    "read_problem": (ds.read_problem, dict(path=("path", PROBLEM))),
    "round_solution": (
        ds.round_solution,
        dict(
            f=("objective", SOFTMAX),
            P=("set", BOX),
            x=("vector", 0.5 * h),
            method=("text", "randomized"),
            improve=("flag", False),
            n_draws=("count", 2),
            seed=("seed", 0),
        ),
    ),
    "scipy_method": (ds.scipy_method, dict(method=("text", "auto"))),
    "to_orthant": (ds.to_orthant, dict(g=("objective", F), P=("set", P), alpha=("vector", h))),
    "two_phase_bound": (
        ds.two_phase_bound,
        dict.fromkeys(("optimum", "gap_x", "gap_z", "strong_dr", "distance_x", "distance_z"), ("number", 1.0)),
    ),
    "stochastic_continuous_greedy": (
        ds.stochastic_continuous_greedy,
        dict(
            f=("objective", SAMPLED),
            P=("set", P),
            max_iter=("count", 3),
            n_samples=("count", 1),
            n_values=("count", 2),
            seed=("seed", 0),
            callback=("function none", None),
            time_limit=("number none", None),
        ),
    ),
    "two_phase_frank_wolfe": solver(ds.two_phase_frank_wolfe, subroutine=("text function", "frank-wolfe"), **TOL),
    "write_problem": (
        ds.write_problem,
        dict(
            path=("path", FOLDER / "written.npz"),
            f=("objective problem", F),
            P=("set", P),
            names=("texts empty", ()),
            minimize=("flag", False),
            shift=("vector none", None),
        ),
    ),
    "write_result": (
        ds.write_result,
        dict(path=("path", FOLDER / "r.json"), result=("result", RESULT), problem=("none problem", None)),
    ),
    "write_results": (ds.write_results, dict(path=("path", FOLDER / "r.npz"), results=("empty iterator", [RESULT]))),
    "value": (F.value, dict(x=("vector", h))),
    "gradient": (F.gradient, dict(x=("vector", h))),
    "check_dr": (
        F.check_dr,
        dict(upper=("vector none", None), n_samples=("count", 2), seed=("seed", 0), tol=("number", 1e-8)),
    ),
    "set_value": (COVERAGE.set_value, dict(items=("items", [0]))),
    "contains": (P.contains, dict(x=("vector", 0 * h), tol=("number", 1e-9))),
    "lmo": (P.lmo, dict(direction=("vector", h), upper=("vector none", None))),
    "project": (P.project, dict(y=("vector", h))),
    "with_upper": (P.with_upper, dict(upper=("vector", h))),
    "Box.contains": (BOX.contains, dict(x=("vector", 0 * h), tol=("number", 1e-9))),
    "certificates.upper_bound": (
        ds.certificates.upper_bound,
        dict(
            f=("objective", F),
            P=("set", P),
            value=("number none", None),
            time_limit=("number none", None),
            gap=("number", 0.1),
            x=("vector none", None),
        ),
    ),
    "greedy": (
        ds.greedy,
        dict(
            F=("objective other", COVERAGE),
            P=("set none count", None),
            size=("count none", 1),
            epsilon=("number none", None),
            seed=("seed", 0),
        ),
    ),
    "ItemSelector": (
        lambda **options: ds.ItemSelector(**options).fit(np.eye(3)),
        dict(
            n_items=("count", 1),
            function=("text", "facility-location"),
            similarity=("text", "cosine"),
            epsilon=("number none", None),
            seed=("seed", 0),
        ),
    ),
    "certificates.linear_bound": (ds.certificates.linear_bound, dict(f=("objective", F), P=("set", P))),
    "certificates.local_global_bound": (
        ds.certificates.local_global_bound,
        dict(f=("objective", F), P=("set", P), x=("vector", 0 * h), z=("vector none", None)),
    ),
    "certificates.dnn_bound": (
        ds.certificates.dnn_bound,
        dict(f=("objective", F), P=("set", P), time_limit=("number none", 1.0)),
    ),
    "reference.frank_wolfe": (
        ds.reference.frank_wolfe,
        dict(
            f=("objective", F),
            P=("set", P),
            x0=("vector none", None),
            step_size=("text number", "open-loop"),
            max_iter=("count", 3),
            tol=("number none", 1e-6),
        ),
    ),
    "reference.nonmonotone_frank_wolfe": (
        ds.reference.nonmonotone_frank_wolfe,
        dict(f=("objective", F), P=("set", P), max_iter=("count", 3)),
    ),
    "reference.projected_gradient": (
        ds.reference.projected_gradient,
        dict(f=("objective", F), P=("set", P), x0=("vector none", None), max_iter=("count", 3)),
    ),
}


def fault_of(answer):
    """What is wrong with an answer, or None."""
    for result in answer if isinstance(answer, list) and answer and isinstance(answer[0], ds.Result) else [answer]:
        if isinstance(result, ds.Result) and result.status is not ds.Status.FAILED:
            if not (np.isfinite(result.x).all() and math.isfinite(result.value)):
                return f"x = {result.x}, value {result.value}, {result.status}"
            if result.value > result.upper_bound * (1 + 1e-9) + 1e-9:
                return f"value {result.value} above its bound {result.upper_bound}"
    return None


def judge(function, arguments, taken, value, kinds):
    """(outcome, fault or None) of one call."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        answer = function(**arguments)
    except ALLOWED as error:
        text = str(error)
        return type(error).__name__, None if text.strip() else "an error without words"
    except OSError as error:
        return type(error).__name__, None if "text" in taken else f"{type(error).__name__}: {str(error)[:150]}"
    except HangError:
        return "hang", f"took more than {SECONDS:g} s"
    except BaseException as error:  # whatever it is, the report names it
        return type(error).__name__, f"{type(error).__name__}: {str(error)[:150]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    if not kinds & taken:
        return "accepted", f"accepted; it takes {', '.join(sorted(taken))}"
    fault = fault_of(answer)
    return "accepted", fault


def main(count, names):
    """Tries ``count`` values for each argument, each argument others, until all were tried; prints the report."""
    warnings.simplefilter("error")
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _alarm)
    os.chdir(FOLDER)
    tried = values()
    calls, outcomes, faults = 0, {}, []
    chosen = [name for name in CALLS if name in names or (not names and name != "planted")]
    position = 0
    for name in chosen:
        function, spec = CALLS[name]
        good = {argument: value for argument, (_, value) in spec.items()}
        if name != "Multilinear":
            function(**good)
        for argument, (kinds_taken, _) in spec.items():
            taken = set().union(*(TAKES.get(kind, {kind}) for kind in kinds_taken.split()))
            for _ in range(min(count, len(tried))):
                # A stride that shares no factor with the number of values meets all of them.
                value, kinds = tried[(position * 389) % len(tried)]
                position += 1
                outcome, fault = judge(function, good | {argument: value}, taken, value, kinds)
                calls += 1
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
                if fault:
                    faults.append(f"{name}({argument}={repr(value)[:80]}): {fault}")
    print(json.dumps({"names": chosen, "calls": calls, "kinds": len(tried), "outcomes": outcomes, "faults": faults}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
