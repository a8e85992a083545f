"""Batches: many problems, one machine or many.

**Stacks.** Problems of one kind and size go in as arrays with one more axis in front, and arrays come out. What all
problems share is given once:

>>> import numpy as np
>>> import drsub_fast as ds
>>> rng = np.random.default_rng(0)
>>> H = -np.ones((50, 4, 4)) - 3.0 * rng.random((50, 1, 1))
>>> rows = {"A": np.ones((1, 4)), "b": np.ones(1)}
>>> r = ds.maximize_stacked(H=H, h=rng.random((50, 4)), **rows, method="nonmonotone-frank-wolfe")
>>> r.x.shape, r.value.shape
((50, 4), (50,))

Other functions and sets go by their names, with the arguments of their constructors:

>>> W, w = rng.random((10, 6, 5)), rng.random((10, 6))
>>> r = ds.maximize_stacked(objective="facility-location", W=W, set="knapsack", weights=w, budget=1.0)
>>> r.value.shape
(10,)

A stack and single solves by one method give the same answers. The default of a stack, "multi-start", runs in one
compiled loop with a fixed number of starts; ``method="auto"`` is that of `maximize`, problem by problem. The answer
does not depend on the number of threads (``n_jobs``), to the last bit. A problem with bad data gets a status and a
message, and the others go on.

**Mixed problems.** `drsub_fast.maximize_many` takes any iterable of pairs (f, P); `drsub_fast.maximize_iter` hands out
results as they come:

>>> problems = [ds.instances.quadratic_uniform(n, n // 2, seed=n) for n in (4, 6, 8)]
>>> len(ds.maximize_many(problems, n_jobs=1))
3

``checkpoint="folder"`` keeps what is done, so that a run that was stopped, or killed, goes on where it was. A
checkpoint knows its problems and options, and refuses others.

**Many machines.** Anything with the interface of ``concurrent.futures.Executor`` goes to ``executor=``: processes,
joblib's ``get_reusable_executor()``, Dask's ``client.get_executor(pure=False)``. Stacks are cut into pieces of at most
8 MB, each a task. Where sending the data takes longer than solving, make the data on the workers, so that only answers
travel:

    import dask.array as da
    from dask.distributed import Client

    def values(H, h):
        return ds.maximize_stacked(H=H, h=h, k=1.0, upper=[1.0] * 4, method="nonmonotone-frank-wolfe", n_jobs=1).value

    with Client(n_workers=2, threads_per_worker=1):
        R = da.random.default_rng(0).random((400, 4, 4), chunks=(100, 4, 4))
        H, h = -(R + R.transpose(0, 2, 1)), 2.0 * R[:, 0]
        best = da.blockwise(values, "b", H, "bij", h, "bi", dtype=float, concatenate=True)
        print(best.max().compute())

**From files**, on the command line; answers go to ``.npz``, ``.parquet`` or ``.csv``:

    drsub-fast batch stack.npz --out answers.npz --jobs 2 --resume
    drsub-fast batch folder --out answers.parquet --dask tcp://127.0.0.1:8786

How fast: `drsub_fast.guide.speed`.
"""
