"""Exceptions of the package. Bad data raise ValueError, objects of the wrong kind TypeError."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


class OracleError(RuntimeError):
    """A linear program of the oracle ended without an optimal vertex.

    Attributes
    ----------
    status : str
        What the solver reported.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> try:
    ...     ds.Simplex(2).lmo([1.0, 1.0], upper=[0.2, 0.2])
    ... except ds.OracleError as error:
    ...     print(error.status)
    empty
    """

    def __init__(self, message: str, status: str = "") -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.args[0], self.status)


class UnsupportedError(TypeError):
    """A solver needs something that this objective or set does not offer."""


class CheckpointError(ValueError):
    """A checkpoint belongs to other inputs or cannot be read."""


@contextmanager
def needing(what: str, extra: str, kind: type[Exception] = ImportError) -> Iterator[None]:
    """A module that is missing within raises ``kind`` with ``what`` and the extra that brings the module."""
    try:
        yield
    except ImportError as error:
        raise kind(f"{what}: pip install 'drsub_fast[{extra}]', in a checkout '.[{extra}]'") from error


@contextmanager
def naming(path: "str | os.PathLike[str]") -> Iterator[None]:
    """Errors of the system within name this file: that of a full disk does not say which it is."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:  # without a number it would lose its text
            error.filename = str(path)
        raise
