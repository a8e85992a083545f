"""Continuous DR-submodular maximisation over down-closed convex sets."""

from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.sets.box import Box
from drsub_fast.sets.budget import Budget
from drsub_fast.sets.polytope import Polytope

__all__ = ["Box", "Budget", "Polytope", "Quadratic"]
