"""A guide in ten short pages; every example on them runs.

| page | read it if |
|---|---|
| `drsub_fast.guide.first_solve` | you have a problem in arrays and want its maximum |
| `drsub_fast.guide.how_good` | you want to know what an answer is worth: gap, bound, ratio, guarantee, proof |
| `drsub_fast.guide.which_method` | the default is too slow, too local, or you compare methods |
| `drsub_fast.guide.choosing_items` | you choose k of n items, for one user or for millions |
| `drsub_fast.guide.batches` | you solve many problems, on one machine or on many |
| `drsub_fast.guide.own_objective` | your function is not among the built-in ones |
| `drsub_fast.guide.own_set` | your set is not among the built-in ones, but you can maximise linear functions over it |
| `drsub_fast.guide.own_method` | you invent methods and want to compare them with these |
| `drsub_fast.guide.backend` | you build a tool and want this library as its engine |
| `drsub_fast.guide.settings` | you want to know about compilation, caches, time limits, threads and messages |
| `drsub_fast.guide.speed` | you want figures, and the commands that measure them |

The words that all pages use:

- A function f is *DR-submodular* if its gradient falls, or stays, in every coordinate when any coordinate rises. More
  of one thing never makes another thing worth more: the law of *diminishing returns*.
- A set P of points x >= 0 is *down-closed* if it holds with each x also every y with 0 <= y <= x. Budgets are.
- A *linear oracle* finds the point v of P that maximises a linear function <direction, v>. The answer can be a corner
  of P, a *vertex*.
- The *gap* of a point x is the largest <gradient of f at x, v - x> over v in P. It is 0 exactly where no direction
  inside P improves f to first order; such a point is called *stationary*.
"""
