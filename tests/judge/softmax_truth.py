"""Softmax extensions in rational numbers: value and gradient of the kernel's entries as they are."""

import math
from fractions import Fraction

import numpy as np


def determinant(M):
    """Of a matrix of fractions, by elimination."""
    M, total = [row[:] for row in M], Fraction(1)
    for k in range(len(M)):
        pivot = next((r for r in range(k, len(M)) if M[r][k] != 0), None)
        if pivot is None:
            return Fraction(0)
        if pivot != k:
            M[k], M[pivot], total = M[pivot], M[k], -total
        total *= M[k][k]
        for r in range(k + 1, len(M)):
            factor = M[r][k] / M[k][k]
            M[r] = [a - factor * b for a, b in zip(M[r], M[k], strict=True)]
    return total


def logarithm(d):
    """log of a positive fraction of any size."""
    if abs(d - 1) < Fraction(1, 100):
        return math.log1p(float(d - 1))
    shift = d.numerator.bit_length() - d.denominator.bit_length()
    return math.log(float(d / Fraction(2) ** shift)) + shift * math.log(2.0)


def _matrix(L, x):
    return [
        [xi * (a - (i == j)) + (i == j) for j, a in enumerate(row)]
        for i, (xi, row) in enumerate(zip(x, L, strict=True))
    ]


def truth(L, x):
    """(value, gradient) of log det(diag(x) (L - I) + I), to the last place; L an array or a list of fractions."""
    L, x = [[Fraction(a) for a in row] for row in L], [Fraction(float(v)) for v in x]
    total = determinant(_matrix(L, x))
    if total <= 0:
        return -math.inf, np.full(len(x), np.nan)
    slopes = []
    for i in range(len(x)):
        ends = [determinant(_matrix(L, [*x[:i], Fraction(end), *x[i + 1 :]])) for end in (0, 1)]
        slopes.append(float((ends[1] - ends[0]) / total))
    return logarithm(total), np.array(slopes)


def gram(B):
    """B B' in fractions."""
    B = [[Fraction(float(b)) for b in row] for row in B]
    return [[sum(a * b for a, b in zip(u, v, strict=True)) for v in B] for u in B]
