"""Objectives that the user supplies: a pair of Python functions, or a compiled function.

`CallableObjective` calls Python at every evaluation, so the solver's loop runs as plain Python around
it. `CompiledObjective` takes a function compiled by Numba, which becomes part of the compiled loop.
Neither is checked to be DR-submodular: `Objective.check_dr` looks for a counterexample.
"""

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from drsub_fast._checks import as_count, as_flag, as_function, as_known, described
from drsub_fast.engine.fingerprints import known_fingerprint
from drsub_fast.engine.interpreted import call_outside
from drsub_fast.engine.jit import COMPILE, kernel
from drsub_fast.engine.signatures import is_jitted
from drsub_fast.objectives.base import Objective, register_objective


class CallableParams(namedtuple("CallableParams", "n function")):
    """Parameters of a Python objective: ``function(x)`` returns value and gradient."""

    __slots__ = ()
    interpreted = True


def _evaluate(params, work, x):
    value, work.grad[:] = params.function(x)
    return value


register_objective(CallableParams, evaluate=_evaluate)


#: Operations that a call of a user's function counts for, whatever it does: about 50 microseconds.
PYTHON_CALL = 100_000


class _Declared(Objective):
    """What a user knows about an objective and states at its construction."""

    def _declare(self, n, unit_box, dr_submodular, nonnegative, monotone, concave):
        self.n = as_count(n, "n", lower=1)
        self.unit_box = as_flag(unit_box, "unit_box")
        self._dr_submodular = as_known(dr_submodular, "dr_submodular")
        self._nonnegative = as_known(nonnegative, "nonnegative")
        self._monotone = as_known(monotone, "monotone")
        self._concave = as_known(concave, "concave")
        given = {
            "dr_submodular": dr_submodular, "nonnegative": nonnegative, "monotone": monotone, "concave": concave,
        }  # fmt: skip
        self.declared = frozenset(name for name, value in given.items() if value)

    @property
    def operations(self) -> float:
        return PYTHON_CALL

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._dr_submodular

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._nonnegative

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._monotone

    def concave_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._concave


class CallableObjective(_Declared):
    """An objective given by Python functions.

    Parameters
    ----------
    function : callable
        ``function(x)`` returns the pair (value, gradient), or the value alone if ``gradient`` is given.
        x is an array of shape (n,), a copy that the function may keep.
    n : int
        Number of variables.
    gradient : callable, optional
        ``gradient(x)`` returns an array of shape (n,).
    unit_box : bool, default False
        Whether the function is meant for [0, 1]^n only.
    dr_submodular, nonnegative, monotone, concave : bool, optional
        What is known of f on the sets it is used with; guarantees and upper bounds rest on it. Value and gap bound a
        concave f.

    Raises
    ------
    ValueError
        From an evaluation whose gradient does not have shape (n,).

    Notes
    -----
    Pickles where the functions do. A `CompiledObjective` is much faster. ``f.check_gradient(x)`` tells whether the
    gradient is that of the values: with a wrong one the methods converge to somewhere else.

    Examples
    --------
    >>> import numpy as np
    >>> import drsub_fast as ds
    >>> f = ds.CallableObjective(lambda x: np.log1p(x.sum()), n=2, gradient=lambda x: np.full(2, 1 / (1 + x.sum())))
    >>> f.gradient([1.0, 0.0])
    array([0.5, 0.5])
    """

    compiled = False

    def __init__(
        self,
        function: Callable[..., Any],
        n: int,
        gradient: Callable[..., Any] | None = None,
        *,
        unit_box: bool = False,
        dr_submodular: bool | None = None,
        nonnegative: bool | None = None,
        monotone: bool | None = None,
        concave: bool | None = None,
    ) -> None:
        as_function(function, "function", optional=False)
        as_function(gradient, "gradient")
        self._declare(n, unit_box, dr_submodular, nonnegative, monotone, concave)
        self._function, self._gradient = function, gradient
        self._params = CallableParams(self.n, self._call)

    def __repr__(self) -> str:
        return f"CallableObjective({getattr(self._function, '__name__', self._function)}, n={self.n})"

    def _call(self, x):
        if self._gradient is None:
            answer = call_outside(self._function, x.copy())
            try:
                value, grad = answer
            except (TypeError, ValueError):
                raise TypeError(
                    f"function(x) must return the pair (value, gradient), got {described(answer)}: give "
                    "gradient= if it returns the value alone"
                ) from None
        else:
            value, grad = call_outside(self._function, x.copy()), call_outside(self._gradient, x.copy())
        grad = np.asarray(grad, dtype=np.float64)
        if grad.shape != (self.n,):
            raise ValueError(f"the gradient has shape {grad.shape}, expected ({self.n},)")
        return float(value), grad


_PARAMS_CLASSES: dict[tuple[str, object], type] = {}


def compiled_params(
    function: Callable[..., object], prefix: str, fields: str, register: Callable[[type, Callable[..., object]], None]
) -> Any:
    """The parameter class of a compiled function, one for all that do the same; ``register(class, function)``."""
    known = _PARAMS_CLASSES.get((prefix, function))
    if known is None:
        digest = known_fingerprint(function)
        known = _PARAMS_CLASSES.get((prefix, digest)) if digest else None
        if known is None:
            # Names of compiled code are made of that of the class.
            name = f"{prefix}Params_{(digest or uuid4().hex)[:16]}"
            known = type(name, (namedtuple(name, fields),), {"__slots__": (), "stamp": digest})
            register(known, function)
            _PARAMS_CLASSES[prefix, digest or function] = known
        _PARAMS_CLASSES[prefix, function] = known
    return known


def _register(params_class, function):
    """The kernel with the function frozen into it."""

    @kernel(memory=True)
    def evaluate(params, work, x):
        return function(x, work.grad, *params.args)

    register_objective(params_class, evaluate=evaluate)


#: Name, fields and registration of the parameter classes of objectives.
OBJECTIVE_PARAMS = "Compiled", "n args", _register


def require_compiled(function: object, name: str, instead: str) -> None:
    """Raises TypeError unless the function is compiled by Numba, or kernels are not compiled either."""
    may_be_plain = COMPILE == "never" and callable(function) and not isinstance(function, Objective)
    if not (is_jitted(function) or may_be_plain):
        kind = type(function).__name__
        raise TypeError(f"{name} is a {kind}, not compiled by Numba: decorate it with numba.njit, or use {instead}")


def as_arguments(values: object, name: str) -> tuple[Any, ...]:
    """Arguments of a compiled function, in the one layout its kernels are compiled for."""
    if not isinstance(values, tuple):
        raise TypeError(f"{name} must be a tuple, got {type(values).__name__}")
    return tuple(np.ascontiguousarray(v) if isinstance(v, np.ndarray) and v.ndim else v for v in values)


class CompiledObjective(_Declared):
    """An objective given by a function compiled by Numba; a solve runs as one compiled loop.

    Parameters
    ----------
    function : Numba function
        ``function(x, grad, *args)`` returns the value and writes the gradient into ``grad``, both arrays
        of shape (n,); it must not write to x. Decorate it with ``numba.njit``.
    args : tuple
        Further arguments: arrays (made C-contiguous) and numbers. An empty tuple if there are none.
    n : int
        Number of variables.
    unit_box : bool, default False
        Whether the function is meant for [0, 1]^n only.
    dr_submodular, nonnegative, monotone, concave : bool, optional
        What is known of f on the sets it is used with; guarantees and upper bounds rest on it. Value and gap bound a
        concave f.

    Raises
    ------
    TypeError
        If the function is not compiled by Numba or ``args`` is not a tuple.

    Notes
    -----
    The loop is compiled around the function, once for each function and types of ``args``, not for each object:
    functions with equal text, constants and globals count as one. The result is kept on disk where all that the
    function names is plain data, functions like it, or from numpy, scipy or the standard ``math``, and in memory
    else. Pickles where the function and ``args`` do.

    Examples
    --------
    >>> import numpy as np
    >>> import drsub_fast as ds
    >>> from numba import njit
    >>> @njit
    ... def saturation(x, grad, w):
    ...     total = 1.0 + (w * x).sum()
    ...     grad[:] = w / total
    ...     return np.log(total)
    >>> f = ds.CompiledObjective(saturation, (np.array([1.0, 3.0]),), n=2, dr_submodular=True, monotone=True)
    >>> f.gradient([1.0, 0.0])
    array([0.5, 1.5])
    """

    def __init__(
        self,
        function: Callable[..., float],
        args: tuple[Any, ...],
        n: int,
        *,
        unit_box: bool = False,
        dr_submodular: bool | None = None,
        nonnegative: bool | None = None,
        monotone: bool | None = None,
        concave: bool | None = None,
    ) -> None:
        require_compiled(function, "function", "CallableObjective")
        args = as_arguments(args, "args")
        self._declare(n, unit_box, dr_submodular, nonnegative, monotone, concave)
        self._function = function
        self._params = compiled_params(function, *OBJECTIVE_PARAMS)(self.n, args)

    def __repr__(self) -> str:
        return f"CompiledObjective({self._function.__name__}, n={self.n})"

    def __reduce__(self) -> "tuple[Callable[..., CompiledObjective], tuple[object, ...]]":
        build = partial(
            CompiledObjective,
            unit_box=self.unit_box,
            dr_submodular=self._dr_submodular,
            nonnegative=self._nonnegative,
            monotone=self._monotone,
            concave=self._concave,
        )
        return build, (self._function, self._params.args, self.n)
