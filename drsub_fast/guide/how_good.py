"""How good is an answer: gap, bound, ratio, guarantee, proof.

Most of these problems have several local maxima, and finding the best one is hard in general. An answer therefore
carries four statements, from the cheapest to the strongest.

>>> import drsub_fast as ds
>>> f, P = ds.instances.quadratic_uniform(12, 6, seed=1)
>>> r = ds.maximize(f, P)

1. **The gap**, ``r.fw_gap``. It is 0 at a stationary point, where no first-order improvement is left. It says nothing
   about other local maxima. The status CONVERGED means that the gap of the returned point is within the tolerance.

>>> r.status is ds.Status.CONVERGED, r.fw_gap < 1e-5
(True, True)

2. **The guarantee**, ``r.guarantee``. It holds before anything runs: a part of the maximum that the method reaches on
   every problem of a kind. ``r.guarantee.ratio`` is the part, ``r.guarantee.premise`` what has to hold for it, and
   ``r.guarantee.holds`` whether that is known (True), was declared by you and is not checked ("declared"), is known to
   fail (False), or is not known (None). A run that a time limit or you ended early has no guarantee.

>>> r.guarantee.premise, r.guarantee.holds
('f >= 0 on [0, upper]', False)

   Here f is negative at some points, so nothing is promised; the next two statements do not need that.

3. **The bound**, ``r.upper_bound``. No point of P has a larger value, and that is proved. ``r.ratio`` is the value as a
   part of the bound. The option ``bound`` says what it may cost: "cheap" is what the run knows at no extra cost,
   "auto", the default, costs about as much as the solve, "tight" is the best one for the time. A bound is computed when
   it is first read. Printing, copying and comparing results compute nothing.

>>> r.value <= r.upper_bound
True

4. **The proof.** ``r.prove()`` goes on until the bound meets the value, or the time is over; it returns a new result.
   ``ds.global_maximum(f, P)`` looks for the maximum with its proof from the start. The status OPTIMAL means that bound
   and value are within the gap that was asked for.

>>> proved = r.prove(time_limit=20.0)
>>> proved.status is ds.Status.OPTIMAL, round(proved.ratio, 5)
(True, 1.0)

`drsub_fast.certificates.upper_bound` gives a bound without a solve, `drsub_fast.constants` the constants in the
theorems of the paper, and `drsub_fast.two_phase_bound` and its siblings what the theorems say with them.

**What a wrong declaration does.** If you declare a property of your function that it does not have, for example
``nonnegative=True``, claims that rest on it are marked as declared, and a value that contradicts the declaration
withdraws them.
"""
