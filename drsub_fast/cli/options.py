"""Options of the methods on the command line, for all subcommands that solve."""

from argparse import ArgumentParser, Namespace
from inspect import Parameter, signature
from typing import Any

from drsub_fast._checks import one_of
from drsub_fast.methods import METHODS, method_names, options_of
from drsub_fast.proofs.global_optimum import global_maximum
from drsub_fast.solvers.record import MethodName

_OPTIONS = (
    ("max_iter", int, "steps of the method"),
    ("tol", float, "gap at which to stop, in units of f"),
    ("time_limit", float, "seconds for a problem"),
    ("gap", float, "relative gap at which the proof of global-maximum is complete"),
    ("n_starts", int, "starts of multi-start"),
    ("seed", int, "seed of multi-start"),
)


def option_value(text: str) -> Any:
    """A number, true or false, or the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def truth(text: str) -> bool:
    """What true, yes and 1, or false, no and 0 say."""
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return known[one_of(text.lower(), "value", tuple(known))]


def _own_options():
    """Further options of methods that a number or text can give, with the names of the methods that have them."""
    found: dict[str, list[str]] = {}
    solvers = {name: record.solve for name, record in METHODS.items()} | {"global-maximum": global_maximum}
    for method, solver in sorted(solvers.items()):
        for name, item in signature(solver).parameters.items():
            plain = item.default is None or isinstance(item.default, (int, float, str))
            if item.kind is Parameter.KEYWORD_ONLY and plain and name not in _NOT_HERE:
                found.setdefault(name, []).append(method)
    return found


#: Options that have a line of their own, mean something else to the command, or have no text.
_NOT_HERE = {name for name, *_ in _OPTIONS} | {
    "x0", "callback", "callback_every", "progress", "n_jobs", "jobs", "out", "bound", "method", "resume", "dask",
}  # fmt: skip


def add_options(parser: ArgumentParser, default: str = "auto (default)") -> None:
    """Adds --method and the options of methods; ``default`` says in words what is the default."""
    parser.add_argument("--method", choices=method_names(), metavar="METHOD",
                        help=f"{default}, {', '.join(method_names()[1:])}")  # fmt: skip
    for name, kind, text in _OPTIONS:
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, dest=name, type=kind, metavar=kind.__name__.upper(), help=text)
    for name, methods in _own_options().items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, dest=name, type=option_value, metavar="VALUE", help=f"of {', '.join(methods)}")


def add_require_dr(parser: ArgumentParser) -> None:
    """Adds --require-dr, which says how problem files are read."""
    parser.add_argument("--require-dr", type=truth, default=True, metavar="VALUE",
                        help="true (default), or false for quadratics of any sign, with no guarantee")  # fmt: skip


def given_options(args: Namespace, default: MethodName = "auto") -> tuple[MethodName, dict[str, Any]]:
    """The method, and the options that were given, by name; ValueError for one that the method does not have."""
    method: MethodName = args.method or default
    known = [*(name for name, *_ in _OPTIONS), *_own_options()]
    options = {name: value for name in known if (value := getattr(args, name, None)) is not None}
    accepted = options_of(method, options.get("subroutine"))
    for name in options:
        if name not in accepted:
            have = ", ".join("--" + each.replace("_", "-") for each in known if each in accepted)
            raise ValueError(f"method {method} has no option --{name.replace('_', '-')}; it has {have}")
    return method, options
