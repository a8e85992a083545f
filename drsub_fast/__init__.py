"""Continuous DR-submodular maximisation over convex sets.

A function f is DR-submodular where its gradient is antitone: the more of everything there is, the less one more is
worth. Given such an f and a compact convex set P of points x >= 0, `maximize` looks for the largest f(x), x in P.

>>> import drsub_fast as ds
>>> f = ds.Quadratic(H=[[-1.0, -0.5], [-0.5, -2.0]], h=[1.0, 1.0])
>>> P = ds.Polytope(A=[[1.0, 2.0]], b=[1.5])
>>> r = ds.maximize(f, P)
>>> r.value <= r.upper_bound
True

`drsub_fast.guide` is a guide in short pages. **Chapters of the reference:**

- *Methods and what they guarantee*: `maximize` and the records in `drsub_fast.methods`; `frank_wolfe`,
  `nonmonotone_frank_wolfe`, `two_phase_frank_wolfe`, `monotone_frank_wolfe`, `stochastic_continuous_greedy`,
  `boosted_gradient`, `double_greedy`, `mualem_feldman`, `projected_gradient`, `fully_corrective_frank_wolfe`,
  `multi_start`, `global_maximum`. What they return: `Result`, `Status`, `Guarantee`.
- *Functions*: those of the first table below; your own by `CallableObjective` and `CompiledObjective`;
  sums and multiples by `f + g` and `c * f`.
- *Sets*: those of the second table below; your own by `CallableSet` and `CompiledSet`; other orthants by `to_orthant`.
- *Bounds*: `drsub_fast.certificates`, `constants`, `nonmonotone_bound`, `two_phase_bound`, `frank_wolfe_gap_bound`.
- *Sets of items*: `greedy_map`, `greedy_map_stacked`, `map_dpp`, `greedy`, `exact_map`, `round_solution`,
  `improve_set`, `ItemSelector`.
- *Batches and files*: `maximize_stacked`, `maximize_many`, `maximize_iter`, `read_problem`, `write_problem`,
  `write_result`, `write_results`, `scipy_method`.
- *The paper's experiments*: `drsub_fast.instances`, `drsub_fast.experiments`, and `drsub_fast.reference`, the methods
  in plain numpy.
- *For extenders*: `drsub_fast.extend`, `drsub_fast.kernels`, `drsub_fast.objectives.base`, `drsub_fast.sets.base`.

The entries of the tables are those of files (`read_problem`) and, with one axis more in front, of `maximize_stacked`.

<objectives>

<sets>
"""
# ruff: noqa: E402 - what Ctrl-C does to the command is said before the imports, which take their time

from drsub_fast._start import end_quietly

end_quietly()

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from drsub_fast import certificates, extend, guide, instances, reference
from drsub_fast._kinds import OBJECTIVES, SETS, public_names, with_tables
from drsub_fast.apriori import Constants, constants, frank_wolfe_gap_bound, nonmonotone_bound, two_phase_bound
from drsub_fast.batch.choices import StackedChoices, greedy_map_stacked
from drsub_fast.batch.many import maximize_iter, maximize_many
from drsub_fast.batch.stacked import StackedResult, maximize_stacked
from drsub_fast.batch.tables import write_results
from drsub_fast.discrete.exact import exact_map
from drsub_fast.discrete.greedy import greedy_map
from drsub_fast.discrete.item_set import MapResult
from drsub_fast.discrete.map_dpp import MapSolution, map_dpp, nearest_psd
from drsub_fast.discrete.rounding import RoundedSet, improve_set, round_solution
from drsub_fast.discrete.selector import ItemSelector
from drsub_fast.discrete.set_greedy import GreedySet, greedy
from drsub_fast.errors import CheckpointError, OracleError, UnsupportedError
from drsub_fast.methods import METHODS, maximize
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.feature_based import FeatureBased as FeatureBased
from drsub_fast.objectives.log_det import Spectral as Spectral
from drsub_fast.objectives.logistic import LogisticNonconvex as LogisticNonconvex
from drsub_fast.objectives.mean_field import MeanField as MeanField
from drsub_fast.objectives.multilinear import Multilinear as Multilinear
from drsub_fast.objectives.pca import NonnegativePCA as NonnegativePCA
from drsub_fast.objectives.price import PriceOptimization as PriceOptimization
from drsub_fast.objectives.quadratic import Quadratic as Quadratic
from drsub_fast.objectives.softmax import Softmax as Softmax
from drsub_fast.objectives.stability import StabilityNumber as StabilityNumber
from drsub_fast.objectives.user import CallableObjective, CompiledObjective
from drsub_fast.problems.files import read_problem, write_problem, write_result
from drsub_fast.problems.orthant import (
    OrthantCheck,
    OrthantObjective,
    OrthantProblem,
    check_orthant,
    infer_signs,
    orthant_quadratic,
    to_orthant,
)
from drsub_fast.proofs.global_optimum import global_maximum, global_minimum
from drsub_fast.result import Guarantee, Result, Status, Trace
from drsub_fast.scipy_interface import scipy_method
from drsub_fast.sets.ball import Ball as Ball
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box as Box
from drsub_fast.sets.budget import Budget as Budget
from drsub_fast.sets.general import GeneralPolytope as GeneralPolytope
from drsub_fast.sets.knapsack import Knapsack as Knapsack
from drsub_fast.sets.laminar import LaminarMatroid as LaminarMatroid
from drsub_fast.sets.matching import MatchingPolytope as MatchingPolytope
from drsub_fast.sets.partition import PartitionMatroid as PartitionMatroid
from drsub_fast.sets.polytope import Polytope as Polytope
from drsub_fast.sets.simplex import Simplex as Simplex
from drsub_fast.sets.user import CallableSet, CompiledSet
from drsub_fast.solvers.boosted_gradient import boosted_gradient as boosted_gradient
from drsub_fast.solvers.continuous_greedy import monotone_frank_wolfe as monotone_frank_wolfe
from drsub_fast.solvers.continuous_greedy import nonmonotone_frank_wolfe as nonmonotone_frank_wolfe
from drsub_fast.solvers.double_greedy import double_greedy as double_greedy
from drsub_fast.solvers.frank_wolfe import frank_wolfe as frank_wolfe
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe as fully_corrective_frank_wolfe
from drsub_fast.solvers.mualem_feldman import mualem_feldman as mualem_feldman
from drsub_fast.solvers.multi_start import multi_start as multi_start
from drsub_fast.solvers.projected_gradient import projected_gradient as projected_gradient
from drsub_fast.solvers.stochastic_greedy import stochastic_continuous_greedy as stochastic_continuous_greedy
from drsub_fast.solvers.two_phase import two_phase_frank_wolfe as two_phase_frank_wolfe

__version__ = "0.2.0"

__all__ = [
    "METHODS",
    "CallableObjective",
    "CallableSet",
    "CheckpointError",
    "CompiledObjective",
    "CompiledSet",
    "Constants",
    "FeasibleSet",
    "GreedySet",
    "Guarantee",
    "ItemSelector",
    "MapResult",
    "MapSolution",
    "Objective",
    "OracleError",
    "OrthantCheck",
    "OrthantObjective",
    "OrthantProblem",
    "Result",
    "RoundedSet",
    "StackedChoices",
    "StackedResult",
    "Status",
    "Trace",
    "UnsupportedError",
    "certificates",
    "check_orthant",
    "constants",
    "exact_map",
    "extend",
    "frank_wolfe_gap_bound",
    "global_maximum",
    "global_minimum",
    "greedy",
    "greedy_map",
    "greedy_map_stacked",
    "guide",
    "improve_set",
    "infer_signs",
    "instances",
    "map_dpp",
    "maximize",
    "maximize_iter",
    "maximize_many",
    "maximize_stacked",
    "nearest_psd",
    "nonmonotone_bound",
    "orthant_quadratic",
    "read_problem",
    "reference",
    "round_solution",
    "scipy_method",
    "to_orthant",
    "two_phase_bound",
    "write_problem",
    "write_result",
    "write_results",
]
# What registers itself, an objective, a set or a method, is public by its import, which names it twice (X as X).
__all__ += {*public_names(OBJECTIVES), *public_names(SETS), *(method.function_name for method in METHODS.values())}
__all__.sort(key=lambda name: (not name.isupper(), name))
__doc__, read_problem.__doc__ = with_tables(__doc__ or ""), with_tables(read_problem.__doc__ or "")


def __dir__() -> list[str]:
    return sorted([*__all__, "experiments", "kernels", *(name for name in globals() if name.startswith("__"))])


if TYPE_CHECKING:
    from drsub_fast import experiments as experiments
    from drsub_fast import kernels as kernels
else:

    def __getattr__(name):
        # Loaded when they are first used: the kernels bring Numba with them.
        if name in ("experiments", "kernels"):
            return import_module(f"drsub_fast.{name}")
        raise AttributeError(f"module 'drsub_fast' has no attribute {name!r}")


if "pdoc" in sys.modules:  # which builds the reference pages
    import_module("drsub_fast.experiments.pages").complete(sys.modules[__name__])
