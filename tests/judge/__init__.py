"""A judge of the package's claims: mean problems, every door, every claim, against truths that share no code with it.

- `draws`, `kernels`, `families`, ..: generators of problems that are meant to be hard to be right about.
- `truths`: enumeration, exact whole-number arithmetic, and small solvers in plain numpy.
- `claims`: one function a claim; it returns words for what is wrong, or "".
- one file a part: `choosers`, ..: a case draws one problem, and puts it before all doors of its part.
- `court`: runs cases and counts; ``python -m tests.judge --part choosers --cases 1000 --seed 7`` prints the counts.

A case is known by the part, the seed and its number, by which it is repeated:
``python -m tests.judge --part choosers --seed 7 --case 123``.
"""
