"""One solve by the loop that its options belong to, so that whatever runs many is compiled with one loop.

The loops are separate kernels: they are compiled for single solves as well.
"""

from drsub_fast.engine.dispatch import operation, register
from drsub_fast.engine.jit import kernel
from drsub_fast.solvers.atoms import FullyCorrectiveOptions
from drsub_fast.solvers.continuous_greedy import AdditiveOptions, additive_loop
from drsub_fast.solvers.frank_wolfe import FrankWolfeOptions, frank_wolfe_loop
from drsub_fast.solvers.fully_corrective import fully_corrective_loop
from drsub_fast.solvers.projected_gradient import ProjectedGradientOptions, projected_gradient_loop
from drsub_fast.solvers.spectral_steps import SpectralOptions, spectral_loop

#: ``run_loop(options, objective, feasible_set, floats, integers, x, upper, k_max, k_stop, value, gap)``: k_max steps,
#: or up to step k_stop, as far as the loop gets without help; its code.
run_loop = operation("run_loop")


@kernel
def _frank_wolfe(options, objective, feasible_set, *rest):
    return frank_wolfe_loop(objective, feasible_set, options, *rest)


@kernel
def _fully_corrective(options, objective, feasible_set, *rest):
    return fully_corrective_loop(objective, feasible_set, options, *rest)


@kernel
def _additive(options, objective, feasible_set, *rest):
    return additive_loop(objective, feasible_set, options, *rest)


@kernel
def _projected_gradient(options, objective, feasible_set, *rest):
    return projected_gradient_loop(objective, feasible_set, options, *rest)


@kernel
def _spectral(options, objective, feasible_set, *rest):
    return spectral_loop(objective, feasible_set, options, *rest)


register(AdditiveOptions, run_loop=_additive)
register(FrankWolfeOptions, run_loop=_frank_wolfe)
register(FullyCorrectiveOptions, run_loop=_fully_corrective)
register(ProjectedGradientOptions, run_loop=_projected_gradient)
register(SpectralOptions, run_loop=_spectral)
