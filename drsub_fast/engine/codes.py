"""What a kernel says when it returns: oracles and projections, and the loops that call them."""

#: Of an oracle or a projection: the answer is there; the set's own solver must be called from Python; the linear
#: program is unfinished, call again; no point lies below the upper bounds, or the arithmetic broke down.
OK, NEEDS_SOLVER, PAUSED, FAILED = range(4)

#: Of a loop beyond those: the point in `candidate` must be projected from Python; the step at which the caller wants to
#: look is reached; the tolerance is met; all steps are taken; rounding hides further progress; f or its gradient is not
#: finite.
NEEDS_PROJECTION, BREAK, CONVERGED, FINISHED, STALLED, NON_FINITE = range(10, 16)

#: Codes of a loop that came to its end by itself.
SOLVED = CONVERGED, FINISHED, STALLED
