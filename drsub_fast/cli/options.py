"""Options of the methods on the command line, for all subcommands that solve."""

from typing import Any

from drsub_fast.methods import method_names, options_of

_OPTIONS = (
    ("max_iter", int, "steps of the method"),
    ("tol", float, "gap at which to stop, in units of f"),
    ("time_limit", float, "seconds for a problem"),
    ("gap", float, "relative gap at which the proof of global-maximum is complete"),
    ("n_starts", int, "starts of multi-start"),
    ("seed", int, "seed of multi-start"),
)


def add_options(parser: Any) -> None:
    """Adds --method and the options of methods."""
    parser.add_argument("--method", choices=method_names(), default="auto", metavar="METHOD",
                        help=f"auto (default), {', '.join(method_names()[1:])}")  # fmt: skip
    for name, kind, text in _OPTIONS:
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, dest=name, type=kind, metavar=kind.__name__.upper(), help=text)


def given_options(args: Any) -> Any:
    """The options that were given, by name; ValueError for one that the method does not have."""
    options = {name: value for name, *_ in _OPTIONS if (value := getattr(args, name)) is not None}
    accepted = options_of(args.method)
    for name in options:
        if name not in accepted:
            raise ValueError(f"method {args.method} has no option --{name.replace('_', '-')}")
    return options
