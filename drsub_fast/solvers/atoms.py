"""The atoms of a fully corrective method: the store, and Newton steps for their weights (see `fully_corrective`)."""

import math
from collections import namedtuple
from typing import Any

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import add_scaled, assign, clip_above, dot

FullyCorrectiveOptions = namedtuple("FullyCorrectiveOptions", "tol")

#: Atoms (rows of V), their products with the Hessian (rows of HV), Q = V H V', weights, <grad, a_i>, the
#: Newton matrix and step, and a spare vector; `count` holds the number of atoms and of idle steps.
Atoms = namedtuple("Atoms", "V HV Q weight score M step spare count")
COUNT, IDLE = 0, 1

#: A pivot of the Newton matrix below this fraction of its largest diagonal entry counts as singular.
_PIVOT = 1e-11


def fully_corrective_options(tol: Any, max_iter: Any) -> Any:
    """Options of the loop."""
    return FullyCorrectiveOptions(tol)


def atoms_size(n: int) -> Any:
    """(floats, integers) that the atoms need."""
    cap = n + 2
    return 2 * cap * n + 2 * cap * cap + 3 * cap + n, 2


@kernel(memory=True)
def open_atoms(n, floats, integers):
    """Views at the end of the flat arrays."""
    cap = n + 2
    total = 2 * cap * n + 2 * cap * cap + 3 * cap + n
    tail = floats[floats.size - total :]
    p = cap * n
    q = 2 * p + cap * cap
    r = q + cap * cap
    return Atoms(
        tail[:p].reshape(cap, n),
        tail[p : 2 * p].reshape(cap, n),
        tail[2 * p : q].reshape(cap, cap),
        tail[r : r + cap],
        tail[r + cap : r + 2 * cap],
        tail[q:r].reshape(cap, cap),
        tail[r + 2 * cap : r + 3 * cap],
        tail[r + 3 * cap : r + 3 * cap + n],
        integers[integers.size - 2 :],
    )


@kernel
def find_atom(atoms, v):
    """Index of the atom equal to v up to rounding, or -1."""
    for i in range(atoms.count[COUNT]):
        row = atoms.V[i]
        same = True
        for j in range(v.size):
            if abs(row[j] - v[j]) > 1e-12 * (abs(v[j]) + abs(row[j])):
                same = False
                break
        if same:
            return i
    return -1


@kernel
def _set_curvature(atoms, i):
    """Row and column i of Q from HV[i]."""
    Q, HVi = atoms.Q, atoms.HV[i]
    for k in range(atoms.count[COUNT]):
        Q[i, k] = Q[k, i] = dot(atoms.V[k], HVi)


@kernel
def add_atom(atoms, v, quadratic):
    """Appends v with weight 0; for a quadratic its HV row must be there already."""
    new = atoms.count[COUNT]
    assign(atoms.V[new], v)
    atoms.weight[new] = 0.0
    atoms.count[COUNT] = new + 1
    if quadratic:
        _set_curvature(atoms, new)


@kernel
def keep_only(atoms, x, quadratic):
    """Makes x the only atom; for a quadratic its HV row must be there already."""
    atoms.count[COUNT] = 0
    add_atom(atoms, x, quadratic)
    atoms.weight[0] = 1.0


@kernel
def move_atom(atoms, source, target):
    """Copies atom ``source`` over atom ``target``."""
    assign(atoms.V[target], atoms.V[source])
    assign(atoms.HV[target], atoms.HV[source])
    atoms.weight[target] = atoms.weight[source]
    atoms.score[target] = atoms.score[source]
    Q = atoms.Q
    for k in range(atoms.count[COUNT]):
        Q[target, k] = Q[source, k]
    for k in range(atoms.count[COUNT]):
        Q[k, target] = Q[k, source]


@kernel
def _drop_atom(atoms, i):
    last = atoms.count[COUNT] - 1
    if i != last:
        move_atom(atoms, last, i)
    atoms.count[COUNT] = last


@kernel
def combination(atoms, x, upper):
    """x = sum of weights times atoms, the weights first made to sum to 1, and not above ``upper`` by rounding."""
    total = 0.0
    for i in range(atoms.count[COUNT]):
        total += atoms.weight[i]
    for j in range(x.size):
        x[j] = 0.0
    for i in range(atoms.count[COUNT]):
        atoms.weight[i] /= total
        add_scaled(x, atoms.weight[i], atoms.V[i])
    clip_above(x, upper)


@kernel(reductions=True)
def _newton_matrix(atoms, p, ref):
    """Lower triangle of M and its right-hand side (in `step`), atom ``ref`` left out; largest diagonal."""
    M, Q, score, step = atoms.M, atoms.Q, atoms.score, atoms.step
    largest = 0.0
    for a in range(p - 1):
        i = a if a < ref else a + 1
        row, Qi = M[a], Q[i]
        base = Q[ref, ref] - Qi[ref]
        for c in range(a + 1):
            k = c if c < ref else c + 1
            row[c] = -(base + Qi[k] - Q[ref, k])
        largest = max(largest, abs(row[a]))
        step[a] = score[i] - score[ref]
    return largest


@kernel(reductions=True)
def _factor(M, q, threshold):
    """Cholesky factor of M[:q, :q] in its lower triangle; the row of the first bad pivot, or q."""
    for a in range(q):
        row = M[a]
        for c in range(a):
            other = M[c]
            total = row[c]
            for k in range(c):
                total -= row[k] * other[k]
            row[c] = total / other[c]
        pivot = row[a]
        for k in range(a):
            pivot -= row[k] * row[k]
        if not pivot > threshold:
            return a
        row[a] = math.sqrt(pivot)
    return q


@kernel(reductions=True)
def _back_substitute(M, step, q):
    """step = L'^-1 step for the factor L in M."""
    for a in range(q - 1, -1, -1):
        step[a] /= M[a, a]
        value, row = step[a], M[a]
        for k in range(a):
            step[k] -= value * row[k]


@kernel(reductions=True)
def _newton_step(atoms, q, bad):
    """Turns the right-hand side in `step` into the Newton step, or into a direction of non-negative curvature."""
    M, step = atoms.M, atoms.step
    if bad == q:
        for a in range(q):
            row = M[a]
            total = step[a]
            for k in range(a):
                total -= row[k] * step[k]
            step[a] = total / row[a]
        _back_substitute(M, step, q)
        return
    # z = (-L^-T l, 1, 0..) with l the failing row of the factor: z'Mz is the failing pivot, <= 0 or tiny.
    ascent = step[bad]
    spare = atoms.spare
    for a in range(bad):
        spare[a] = -M[bad, a]
    _back_substitute(M, spare, bad)
    for a in range(bad):
        ascent += spare[a] * step[a]
    sign = 1.0 if ascent >= 0.0 else -1.0
    for a in range(q):
        step[a] = 0.0
    for a in range(bad):
        step[a] = sign * spare[a]
    step[bad] = sign


@kernel(reductions=True)
def correct_weights(atoms):
    """Local maximum of the quadratic model over the simplex of weights, reached by ascent from the present one."""
    Q, weight, score, step = atoms.Q, atoms.weight, atoms.score, atoms.step
    while atoms.count[COUNT] > 1:
        p = atoms.count[COUNT]
        q = p - 1
        ref = 0
        for i in range(p):
            if weight[i] > weight[ref]:
                ref = i
        largest = _newton_matrix(atoms, p, ref)
        bad = _factor(atoms.M, q, _PIVOT * largest)
        _newton_step(atoms, q, bad)
        total = 0.0
        for a in range(q):
            total += step[a]
        gamma = 1.0 if bad == q else math.inf
        blocking = -1
        for i in range(p):
            d = -total if i == ref else step[i if i < ref else i - 1]
            if d < 0.0 and weight[i] < -gamma * d:
                gamma = -weight[i] / d
                blocking = i
        if not math.isfinite(gamma):
            return
        for i in range(p):
            d = -total if i == ref else step[i if i < ref else i - 1]
            weight[i] = max(0.0, weight[i] + gamma * d)
        for i in range(p):
            Qi = Q[i]
            change = -total * Qi[ref]
            for a in range(q):
                change += Qi[a if a < ref else a + 1] * step[a]
            score[i] += gamma * change
        if blocking < 0:
            return
        _drop_atom(atoms, blocking)


@kernel
def share_out(atoms, i, share):
    """Gives atom i a share of the whole weight; the others keep their proportions."""
    for k in range(atoms.count[COUNT]):
        atoms.weight[k] *= 1.0 - share
    atoms.weight[i] += share
