"""Settings: compilation, caches, time limits, threads, messages.

**Compilation.** Kernels are Python functions that Numba can compile. Compiling a solver loop takes 2 to 30 s, once for
each kind of problem; the code is kept on disk. Until that pays, kernels run as plain Python, so a first small solve
takes a fraction of a second. The environment variable ``DRSUB_FAST_COMPILE`` decides:

- ``auto``, the default: compile once plain Python has taken as long as compiling would, or the work that is certainly
  ahead takes longer. A compilation of more than 2 s is announced in one line by the logger "drsub_fast".
- ``now``: compile at the first call. Use it for measurements.
- ``never``: plain Python only.

The answer is the same in all three. ``r.compiled`` says what ran. ``drsub-fast warmup`` compiles everything ahead.

**The cache** lies beside the package, or in the user's cache folder where that cannot be written.
``DRSUB_FAST_CACHE_DIR`` names another folder; processes, containers and users of one group may share it. A damaged file
is compiled anew. ``drsub-fast info`` shows where it is.

**Time limits.** ``time_limit=s`` is in seconds. A run may exceed it by 20 % and 50 ms; one call of a function of yours
is waited for. A run that is cut returns the best point it has, with the status TIME_LIMIT. A limit never decides which
algorithm runs.

**Interrupting.** Ctrl-C returns the best answer so far with the status INTERRUPTED; a batch returns what is done.

**Threads.** `drsub_fast.maximize_stacked`, `drsub_fast.maximize_many` and `drsub_fast.multi_start` take ``n_jobs``.
BLAS runs with one thread inside the solvers: more threads are slower for these sizes, and change the last digits.

**Reproducible.** The same input gives the same output, whatever the number of threads. Random starts come from
``seed``, 0 by default.

**Messages.** The library never prints. To see what it logs:

>>> import logging
>>> logging.getLogger("drsub_fast").setLevel(logging.INFO)
>>> logging.getLogger("drsub_fast").setLevel(logging.NOTSET)

**Platforms.** Linux on x86-64 is what was tested. Workflows for macOS on arm64 and Windows exist and have not run yet.
"""
