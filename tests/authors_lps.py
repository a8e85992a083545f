"""Linear programs as the authors' runs had them solved: by GLPK, called as GNU Octave's `glpk` calls it.

That is the primal simplex with the presolver and equilibration, which stops within a tolerance of 1e-7. It decides on
the vertex in few of the programs; those few decide where a run turns.
"""

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # classes of its wrapper have no __module__
    glpk = pytest.importorskip(
        "swiglpk", reason="needs GLPK: pip install 'drsub_fast[authors]', in a checkout '.[authors]'"
    )


def octave_lp(direction, A, b, upper):
    """A vertex that maximises <direction, v> over A v <= b, 0 <= v <= upper, as the authors' runs had it."""
    m, n = A.shape
    columns, rows = np.nonzero(A.T)  # column by column, as Octave hands them over
    count = rows.size
    # GLPK counts from 1.
    row_of, column_of, entries = glpk.intArray(count + 1), glpk.intArray(count + 1), glpk.doubleArray(count + 1)
    for k, (i, j) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True), 1):
        row_of[k], column_of[k], entries[k] = i + 1, j + 1, float(A[i, j])
    program = glpk.glp_create_prob()
    try:
        glpk.glp_set_obj_dir(program, glpk.GLP_MIN)
        glpk.glp_add_cols(program, n)
        for j in range(n):
            glpk.glp_set_obj_coef(program, j + 1, -float(direction[j]))
            kind = glpk.GLP_DB if upper[j] > 0.0 else glpk.GLP_FX
            glpk.glp_set_col_bnds(program, j + 1, kind, 0.0, float(upper[j]))
        glpk.glp_add_rows(program, m)
        for i in range(m):
            glpk.glp_set_row_bnds(program, i + 1, glpk.GLP_UP, 0.0, float(b[i]))
        glpk.glp_load_matrix(program, count, row_of, column_of, entries)
        glpk.glp_scale_prob(program, glpk.GLP_SF_EQ)
        settings = glpk.glp_smcp()
        glpk.glp_init_smcp(settings)
        settings.msg_lev, settings.presolve, settings.meth = glpk.GLP_MSG_OFF, glpk.GLP_ON, glpk.GLP_PRIMAL
        if glpk.glp_simplex(program, settings) != 0:
            raise RuntimeError("GLPK found no vertex")
        return np.array([glpk.glp_get_col_prim(program, j + 1) for j in range(n)])
    finally:
        glpk.glp_delete_prob(program)
