"""The atoms of a fully corrective method: the store, and Newton steps for their weights (see `fully_corrective`)."""

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.codes import OK
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.engine.vector import clip_above

FullyCorrectiveOptions = namedtuple("FullyCorrectiveOptions", "tol")

#: Atom i is ``values[begin[i] : begin[i] + length[i]]``: all entries, or, for many variables, those that are not zero,
#: whose places stand beside them in ``places`` (as floats, since integers of the workspace are cleared before each
#: solve). ``product`` takes the Hessian's product with an atom; Q = V H V' of all atoms as rows of V, the weights,
#: <grad, a_i>, the Newton matrix and step, and a spare vector; `count` holds the number of atoms, of idle steps, and
#: where the store ends.
Atoms = namedtuple("Atoms", "values places begin length product Q weight score M step spare count")
COUNT, IDLE, END = range(3)

#: Variables up to which atoms keep all entries: sums over them vectorise.
_WHOLE_UP_TO = 512
#: Atoms at most, a Newton step taking their number to the third power; and entries of the store, 256 MB with places.
_MOST, _ROOM = 1024, 1 << 24

#: A pivot of the Newton matrix below this fraction of its largest diagonal entry counts as singular.
_PIVOT = 1e-11


@kernel
def _sizes(n):
    """(atoms, entries of the store, of their places) at most; (floats, integers) of all."""
    most = min(n + 2, _MOST)
    capacity = most * n if n <= _WHOLE_UP_TO else min(most * n, max(4 * n, _ROOM))
    places = 0 if n <= _WHOLE_UP_TO else capacity
    return most, capacity, places, capacity + places + n + 2 * most * most + 4 * most, 3 + 2 * most


def atoms_size(n: int) -> tuple[int, int]:
    """(floats, integers) that the atoms need."""
    return _sizes.interpreted(n)[3:]


@kernel(memory=True)
def open_atoms(n, floats, integers):
    """Views at the end of the flat arrays."""
    most, capacity, n_places, n_floats, n_integers = _sizes(n)
    _, values, places, product, Q, M, weight, score, step, spare = split(
        floats, floats.size - n_floats, capacity, n_places, n, (most, most), (most, most), most, most, most, most
    )
    _, count, begin, length = split(integers, integers.size - n_integers, 3, most, most)
    return Atoms(values, places, begin, length, product, Q, weight, score, M, step, spare, count)


def _entries(atoms, i, n):
    """Values of the entries that atom i keeps, and where they are."""
    first = atoms.begin[i]
    if atoms.places.size == 0:
        return atoms.values[first : first + n], slice(None)
    last = first + atoms.length[i]
    return atoms.values[first:last], atoms.places[first:last].astype(np.int64)


def _atom_dot(atoms, i, a):
    values, places = _entries(atoms, i, a.size)
    return np.add.reduce(values * a[places])


def _add_atom_to(atoms, i, scale, out):
    values, places = _entries(atoms, i, out.size)
    out[places] += scale * values


@kernel(plain=_atom_dot, reductions=True)
def atom_dot(atoms, i, a):
    """Inner product of atom i and a vector."""
    first, values, places, total = atoms.begin[i], atoms.values, atoms.places, 0.0
    if places.size == 0:
        for j in range(a.size):
            total += values[first + j] * a[j]
        return total
    for t in range(first, first + atoms.length[i]):
        total += values[t] * a[int(places[t])]
    return total


@kernel(plain=_add_atom_to)
def add_atom_to(atoms, i, scale, out):
    """out += scale times atom i."""
    first, values, places = atoms.begin[i], atoms.values, atoms.places
    if places.size == 0:
        for j in range(out.size):
            out[j] += scale * values[first + j]
        return
    for t in range(first, first + atoms.length[i]):
        out[int(places[t])] += scale * values[t]


@kernel
def _is_atom(atoms, i, v):
    """Whether v is atom i up to rounding, as far as the entries go that the atom keeps."""
    values, places = atoms.values, atoms.places
    for t in range(atoms.begin[i], atoms.begin[i] + atoms.length[i]):
        other = v[t - atoms.begin[i] if places.size == 0 else int(places[t])]
        if abs(values[t] - other) > 1e-12 * (abs(other) + abs(values[t])):
            return False
    return True


@kernel
def _kept(atoms, v):
    """How many entries of v an atom keeps: one at least, so that no two atoms begin at the same place."""
    if atoms.places.size == 0:
        return v.size
    count = 0
    for j in range(v.size):
        count += v[j] != 0.0
    return max(count, 1)


@kernel
def find_atom(atoms, v):
    """Index of the atom equal to v up to rounding, or -1."""
    kept = _kept(atoms, v)
    for i in range(atoms.count[COUNT]):
        if atoms.length[i] == kept and _is_atom(atoms, i, v):
            return i
    return -1


@kernel
def _gather(atoms):
    """Moves the atoms to the front of the store, over what dropped ones have left."""
    begin, length, values, places = atoms.begin, atoms.length, atoms.values, atoms.places
    end, done = 0, -1
    for _ in range(atoms.count[COUNT]):
        following = -1
        for i in range(atoms.count[COUNT]):
            if begin[i] > done and (following < 0 or begin[i] < begin[following]):
                following = i
        done = begin[following]
        for t in range(length[following]):
            values[end + t], places[end + t] = values[done + t], places[done + t]
        begin[following] = end
        end += length[following]
    atoms.count[END] = end


@kernel
def has_room(atoms, v):
    """Whether v can be added."""
    if atoms.count[COUNT] == atoms.weight.size:
        return False
    if atoms.places.size == 0:
        return True
    kept = _kept(atoms, v)
    if atoms.count[END] + kept > atoms.values.size:
        _gather(atoms)
    return atoms.count[END] + kept <= atoms.values.size


@kernel
def add_atom(atoms, v, quadratic):
    """Appends v, for which there is room, with weight 0; for a quadratic ``product`` must be that of v."""
    new, end = atoms.count[COUNT], atoms.count[END]
    values, places = atoms.values, atoms.places
    atoms.begin[new] = end
    if places.size == 0:
        end = atoms.begin[new] = new * v.size
        for j in range(v.size):
            values[end + j] = v[j]
        end += v.size
    else:
        for j in range(v.size):
            if v[j] != 0.0 or (j == v.size - 1 and end == atoms.begin[new]):
                values[end], places[end] = v[j], j
                end += 1
    atoms.length[new] = end - atoms.begin[new]
    atoms.count[END] = end
    atoms.weight[new] = 0.0
    atoms.count[COUNT] = new + 1
    if quadratic:
        for k in range(new + 1):
            atoms.Q[new, k] = atoms.Q[k, new] = atom_dot(atoms, k, atoms.product)


@kernel
def keep_only(atoms, x, quadratic):
    """Makes x the only atom; for a quadratic ``product`` must be that of x."""
    atoms.count[COUNT] = atoms.count[END] = 0
    add_atom(atoms, x, quadratic)
    atoms.weight[0] = 1.0


@kernel
def move_atom(atoms, source, target):
    """Puts atom ``source`` in the place of atom ``target``."""
    if atoms.places.size == 0:
        n = atoms.length[source]
        for j in range(n):
            atoms.values[target * n + j] = atoms.values[source * n + j]
    else:
        atoms.begin[target] = atoms.begin[source]
    atoms.length[target] = atoms.length[source]
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
        add_atom_to(atoms, i, atoms.weight[i], x)
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


@kernel(reductions=True, separate=True)
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
            return OK
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
            return OK
        _drop_atom(atoms, blocking)
    return OK


@kernel
def share_out(atoms, i, share):
    """Gives atom i a share of the whole weight; the others keep their proportions."""
    for k in range(atoms.count[COUNT]):
        atoms.weight[k] *= 1.0 - share
    atoms.weight[i] += share
