"""The parts by name: each a function of a random generator and a `Judge`."""

from . import choosers, doors, proofs, rows_of_features, set_functions, solvers, stacks

PARTS = {
    "choosers": choosers.case,
    "features": rows_of_features.case,
    "set-functions": set_functions.case,
    "solvers": solvers.case,
    "proofs": proofs.case,
    "softmax-proofs": proofs.softmax_case,
    "stacks": stacks.case,
    "doors": doors.case,
}
