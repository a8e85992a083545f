"""The parts by name: each a function of a random generator and a `Judge`."""

from . import choosers, proofs, solvers

PARTS = {
    "choosers": choosers.case,
    "solvers": solvers.case,
    "proofs": proofs.case,
    "softmax-proofs": proofs.softmax_case,
}
