"""The command ``drsub-fast``, a module for each subcommand."""

#: Exit codes: something was solved and something failed; Ctrl-C.
FAILURES, INTERRUPTED = 1, 130
