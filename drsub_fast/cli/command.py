"""The command ``drsub-fast``. Each subcommand has a module of its name, with `DESCRIPTION`, `add_arguments` and `run`.

With ``-AMPL`` after the name of a file it is a solver for AMPL and Pyomo (`drsub_fast.cli.ampl`).

Exit status: 0 done, 2 an error (one line on stderr), 130 interrupted.
"""

import argparse
import importlib
import sys

from drsub_fast import __version__
from drsub_fast._start import raise_interrupts
from drsub_fast.cli import INTERRUPTED
from drsub_fast.errors import OracleError

#: Subcommands, and what each is for.
SUBCOMMANDS = {
    "paper": "reproduce the paper's experiments",
    "solve": "maximise the problem in a file",
    "batch": "solve many problems from files",
    "choose": "choose items for many users",
    "bench": "measure the speed table on this machine",
    "warmup": "compile kernels into the cache",
    "info": "versions, cache folder, threads",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser(name, module):
    """The parser; of the subcommands, only the named one has its arguments."""
    parser = _Parser(prog="drsub-fast", description="Continuous DR-submodular maximisation.")
    parser.add_argument("-v", "--version", action="version", version=f"drsub-fast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for subcommand, purpose in SUBCOMMANDS.items():
        description = module.DESCRIPTION if subcommand == name else None
        added = commands.add_parser(subcommand, help=purpose, description=description)
        if subcommand == name:
            module.add_arguments(added)
    return parser


def main(argv: list[str] | None = None) -> int | str | None:
    """Runs the command line, by default that of the process; returns the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    is_ampl = "-AMPL" in argv[1:]
    name = "ampl" if is_ampl else argv[0] if argv and argv[0] in SUBCOMMANDS else None
    # The modules of the other subcommands are not imported: they take seconds.
    module = importlib.import_module(f"drsub_fast.cli.{name}" if name else "drsub_fast.cli")
    try:
        args = argv if is_ampl else _parser(name, module).parse_args(argv)
    except SystemExit as stop:
        return stop.code
    raise_interrupts()
    try:
        return module.run(args)
    except KeyboardInterrupt:
        print("drsub-fast: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (OSError, ValueError, TypeError, ImportError, OracleError) as error:
        print(f"drsub-fast: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
