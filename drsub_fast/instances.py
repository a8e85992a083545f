"""The paper's four synthetic families, for any n, m and seed, and the paper's own instances.

=====================  ================================================================  ===================  =====
family                 objective                                                         A                    b
=====================  ================================================================  ===================  =====
quadratic-uniform      1/2 x'Hx + h'x + c, -H_ij uniform on [0, 1]                       0.01 + U[0, 1]       1
quadratic-exponential  the same, -H_ij exponential of mean 1                             0.01 + Exp(mean 4)   1
softmax-uniform        log det(diag(x)(L - I) + I), L = U diag(d) U', d on [0, 1.5]      0.01 + U[0, 1]       2
softmax-exponential    the same                                                          0.01 + Exp(mean 1)   2
=====================  ================================================================  ===================  =====

over {x : A x <= b, 0 <= x <= u} with u_j = min_i b_i / A_ij; h = -0.2 H'u; the lower triangle of H is
mirrored; U is the orthonormal basis (left singular vectors) of a uniform matrix. The entries of softmax-exponential
have mean 1 by the paper's supplement (Appendix E) and by the authors' code.

`EXTRA_FAMILIES` are drawn by the same protocol, but are not among the paper's figures: ``flid``, multilinear extensions
of facility-location diversity models, which the paper names as an application.

The authors' experiments draw everything from MATLAB's default stream, the Mersenne twister seeded with
5489, column by column, exponentials as -mean log(uniform), and rewind it for each family. Within a family
the order is: m = floor(n/2), n, floor(3n/2); for each 20 repeats; for each n = 8, 10, .., 16; and
within an instance H, A, or d, U, A.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from drsub_fast._checks import as_count, as_real, one_of
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.multilinear import Multilinear
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.sets.polytope import Polytope

__all__ = [
    "EXTRA_FAMILIES", "FAMILIES", "PAPER_REPEATS", "PAPER_ROWS", "PAPER_SEED", "PAPER_SIZES", "Family", "PaperInstance",
    "flid", "nonnegative_constant", "paper_instances", "quadratic_exponential", "quadratic_uniform",
    "softmax_exponential", "softmax_uniform",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


#: What a generator of instances takes: a seed, or a stream to go on from.
Seed = int | np.random.Generator | np.random.RandomState

#: Seed of MATLAB's default stream (its seed 0 means this number).
PAPER_SEED = 5489
#: Dimensions, numbers of rows for a dimension, and repeats of the paper's experiments.
PAPER_SIZES = (8, 10, 12, 14, 16)
PAPER_ROWS: dict[str, Callable[[int], int]] = {
    "m = floor(0.5n)": lambda n: n // 2,
    "m = n": lambda n: n,
    "m = floor(1.5n)": lambda n: 3 * n // 2,
}
PAPER_REPEATS = 20


def _uniform(stream, *shape):
    """Uniform numbers, filled column by column."""
    return stream.random(shape[::-1]).T


def _exponential(mean):
    def draw(stream, *shape):
        # numpy's logarithm depends on the processor in the last bit, the C library's, which Octave uses, does not.
        uniform = _uniform(stream, *shape)
        logarithms = np.fromiter(map(math.log, uniform.flat), float, uniform.size).reshape(uniform.shape)
        return -mean * logarithms

    return draw


def _polytope(draw, stream, n, m, b):
    return Polytope(0.01 + draw(stream, m, n), np.full(m, b))


def _quadratic(stream, n, m, draw_H, draw_A, c):
    H = -draw_H(stream, n, n)
    H = np.tril(H) + np.tril(H, -1).T
    P = _polytope(draw_A, stream, n, m, 1.0)
    return Quadratic(H, -0.2 * H.T @ P.upper, c), P


def _softmax(stream, n, m, draw_A, unit_box, scale):
    d = 1.5 * _uniform(stream, n)
    U, _, _ = np.linalg.svd(_uniform(stream, n, n))
    L = scale * ((U * d) @ U.T)
    return Softmax(0.5 * (L + L.T), unit_box=unit_box), _polytope(draw_A, stream, n, m, 2.0)


def _stream(seed):
    """A source of uniform numbers: a generator or legacy RandomState as it is, or a new one for a seed."""
    return seed if isinstance(seed, np.random.RandomState) else np.random.default_rng(seed)


def quadratic_uniform(n: int, m: int, seed: Seed = 0, c: float = 0.0) -> tuple[Quadratic, Polytope]:
    """A quadratic with uniform entries over a uniform polytope (the paper's first family).

    Parameters
    ----------
    n, m : int
        Variables and rows.
    seed : int, numpy Generator or RandomState
        A generator goes on from where it is.
    c : float, default 0
        Constant.

    Returns
    -------
    f : Quadratic
    P : Polytope

    Examples
    --------
    >>> from drsub_fast.instances import quadratic_uniform
    >>> quadratic_uniform(8, 4, seed=1)
    (Quadratic(n=8), Polytope(m=4, n=8))
    """
    return _quadratic(_stream(seed), n, m, _uniform, _uniform, c)


def quadratic_exponential(n: int, m: int, seed: Seed = 0, c: float = 0.0) -> tuple[Quadratic, Polytope]:
    """A quadratic with exponential entries over an exponential polytope (the second family).

    Arguments and result as for `quadratic_uniform`.
    """
    return _quadratic(_stream(seed), n, m, _exponential(1.0), _exponential(4.0), c)


def softmax_uniform(
    n: int, m: int, seed: Seed = 0, unit_box: bool = False, scale: float = 1.0
) -> tuple[Softmax, Polytope]:
    """A softmax extension over a uniform polytope (the third family).

    Parameters
    ----------
    n, m, seed
        As for `quadratic_uniform`.
    unit_box : bool, default False
        Whether solvers keep x in [0, 1]^n; the paper's experiments don't.
    scale : float, default 1
        L is multiplied by this. With 4, whose L_jj are about 3, the maxima lie elsewhere than at 0.

    Returns
    -------
    f : Softmax
    P : Polytope

    Notes
    -----
    In the paper's own setting the mean of L_jj is 0.75, and an item is worth having only where L_jj > 1: the maximum
    is at x = 0, with value 0, on nearly half of the authors' instances (n = 8 to 16), and on 9 of 10 at 100 x 100.

    Examples
    --------
    >>> from drsub_fast.instances import softmax_uniform
    >>> f, P = softmax_uniform(8, 4, seed=1, scale=4.0)
    >>> bool((f.L.diagonal() > 1.0).all())
    True
    """
    return _softmax(_stream(seed), n, m, _uniform, unit_box, as_real(scale, "scale", lower=0.0))


def softmax_exponential(
    n: int, m: int, seed: Seed = 0, unit_box: bool = False, scale: float = 1.0
) -> tuple[Softmax, Polytope]:
    """A softmax extension over an exponential polytope (the fourth family).

    Arguments and result as for `softmax_uniform`.
    """
    return _softmax(_stream(seed), n, m, _exponential(1.0), unit_box, as_real(scale, "scale", lower=0.0))


def flid(n: int, m: int, seed: Seed = 0) -> tuple[Multilinear, Polytope]:
    """The multilinear extension of a facility-location diversity model over a uniform polytope.

    F(S) = sum_{i in S} u_i + sum_d (max_{i in S} W_id - sum_{i in S} W_id) in n latent dimensions, W_id exponential of
    mean 1, and u_i uniform between 0 and sum_d W_id: no item alone lowers F, and large sets do. A = 0.01 + U[0, 1],
    b = 2.

    Parameters
    ----------
    n, m, seed
        As for `quadratic_uniform`.

    Returns
    -------
    f : Multilinear
    P : Polytope

    Notes
    -----
    The model is that of Tschiatschek, Djolonga, Krause, Learning probabilistic submodular diversity models via noise
    contrastive estimation, 2016.

    Examples
    --------
    >>> from drsub_fast.instances import flid
    >>> flid(8, 4, seed=1)
    (Multilinear.flid(n=8), Polytope(m=4, n=8))
    """
    stream = _stream(seed)
    W = _exponential(1.0)(stream, n, n)
    utilities = W.sum(axis=1) * _uniform(stream, n)
    return Multilinear.flid(utilities, W), _polytope(_uniform, stream, n, m, 2.0)


#: Makes an instance of n variables and m rows, from a seed or a stream of random numbers.
Family: TypeAlias = Callable[..., tuple[Objective, Polytope]]

#: The families by name, in the paper's order.
FAMILIES: dict[str, Family] = {
    "quadratic-uniform": quadratic_uniform,
    "quadratic-exponential": quadratic_exponential,
    "softmax-uniform": softmax_uniform,
    "softmax-exponential": softmax_exponential,
}

#: Families that the paper has no figure of.
EXTRA_FAMILIES: dict[str, Family] = {"flid": flid}


class PaperInstance(NamedTuple):
    """An instance of the paper's experiments.

    Attributes
    ----------
    family : str
    rows : str
        Which number of rows, a key of `PAPER_ROWS`.
    n, m : int
    repeat : int
        Counted from 1.
    f : Quadratic, Softmax or Multilinear
    P : Polytope
    """

    family: str
    rows: str
    n: int
    m: int
    repeat: int
    f: Objective
    P: Polytope


def paper_instances(
    family: str, repeats: int = PAPER_REPEATS, sizes: Sequence[int] = PAPER_SIZES
) -> "Iterator[PaperInstance]":
    """The instances of the paper's experiments, from the authors' own stream of random numbers.

    Quadratics come with c = 0; `nonnegative_constant` gives the paper's c.

    Parameters
    ----------
    family : str
        A key of `FAMILIES` or `EXTRA_FAMILIES`.
    repeats : int
        How many of the 20 repeats.
    sizes : sequence of int
        Which n.

    Yields
    ------
    PaperInstance

    Examples
    --------
    >>> from drsub_fast.instances import paper_instances
    >>> first = next(paper_instances("quadratic-uniform"))
    >>> float(first.f.H[0, 0].round(4)), first.m
    (-0.8147, 4)
    """
    families = FAMILIES | EXTRA_FAMILIES
    one_of(family, "family", tuple(families))
    as_count(repeats, "repeats", lower=1)
    stream = np.random.RandomState(PAPER_SEED)
    for rows, rows_for in PAPER_ROWS.items():
        for repeat in range(1, PAPER_REPEATS + 1):
            for n in PAPER_SIZES:
                f, P = families[family](n, rows_for(n), stream)
                if repeat <= repeats and n in sizes:
                    yield PaperInstance(family, rows, n, P.m, repeat, f, P)


def nonnegative_constant(minimum: float) -> float:
    """The paper's c for a quadratic with this minimum over P: -minimum + 0.1 |minimum|."""
    return -minimum + 0.1 * abs(minimum)
