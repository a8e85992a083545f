"""The functions and sets of the package, a picture each.

**Functions.** Two variables; brighter is larger. The line is the edge of x_1 + x_2 <= 1, the dot the point that
`drsub_fast.maximize` finds below it. A function is DR-submodular where its slope in every direction falls as either
variable grows.

**Sets.** Three variables: the hull of the vertices that the linear oracle ``P.lmo`` returns.

The pictures are drawn by today's code while the pages are built; `draw_function` and `draw_set` draw others. They need
matplotlib (``pip install 'drsub_fast[plot]'``, in a checkout ``'.[plot]'``).
"""

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import ConvexHull

from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.methods import maximize
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.user import CallableObjective
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.budget import Budget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Points of the grid along each variable; directions for which the oracle is asked.
_GRID, _DIRECTIONS = 41, 600
#: Cosine of the angle between two faces below which the edge between them is drawn.
_SHARP = 0.97


def _examples(kinds, n):
    """The examples of registered kinds that there are on n variables, by the labels of the kinds."""
    made = {kind.label: kind.example_of(n) for kind in kinds.values() if kind.example is not None}
    return {label: thing for label, thing in made.items() if thing.n == n}


def functions() -> dict[str, Objective]:
    """The example of every kind of function, in two variables, by the name of its class or maker."""
    own = CallableObjective(lambda x: (np.sqrt(0.05 + x).sum() - x.prod(), 0.5 / np.sqrt(0.05 + x) - x[::-1]), n=2)
    return {**_examples(OBJECTIVES, 2), "CallableObjective": own}


def sets() -> dict[str, FeasibleSet]:
    """The example of every kind of set, in three variables, by the name of its class."""
    return _examples(SETS, 3)


def draw_function(f: Objective, P: FeasibleSet | None = None) -> "Figure":
    """Contours of a function of two variables, the edge of a set, and what `drsub_fast.maximize` finds in it.

    The set is x_1 + x_2 <= 1 unless another is given.
    """
    from matplotlib.figure import Figure

    P = Budget(1.0, np.ones(2)) if P is None else P
    first, second = (np.linspace(0.0, high, _GRID) for high in P.upper)
    points = np.stack(np.meshgrid(first, second), axis=-1)
    values = np.apply_along_axis(f.value, 2, points)
    figure = Figure(figsize=(3.0, 2.5), layout="constrained")
    axis = figure.subplots()
    bands = axis.contourf(first, second, values, levels=14, cmap="viridis")
    corners = _vertices(P)
    around = corners[ConvexHull(corners).vertices]
    axis.plot(*np.vstack([around, around[:1]]).T, color="white", linewidth=1.5)
    axis.plot(*maximize(f, P, bound="cheap").x, "o", color="red", markeredgecolor="white", clip_on=False, zorder=3)
    axis.set_xlabel("$x_1$")
    axis.set_ylabel("$x_2$")
    figure.colorbar(bands, ticks=np.linspace(values.min(), values.max(), 4), format="%.2g")
    return figure


def draw_set(P: FeasibleSet) -> "Figure":
    """A set in three variables, as the hull of what its linear oracle returns."""
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    vertices = _vertices(P)
    faces, edges = _faces(vertices)
    figure = Figure(figsize=(3.0, 2.5), layout="constrained")
    axis: Any = figure.add_subplot(projection="3d")
    axis.add_collection3d(Poly3DCollection(faces, facecolors="tab:blue", alpha=0.35))
    axis.add_collection3d(Line3DCollection(edges, colors="tab:blue", linewidths=1.2))
    if len(vertices) < 30:
        axis.scatter(*vertices.T, color="tab:blue", s=12, depthshade=False)
    high = float(np.max(P.upper))
    for name in "xyz":
        getattr(axis, f"set_{name}lim")(0.0, high)
        getattr(axis, f"set_{name}ticks")([0.0, high / 2, high])
        getattr(axis, f"set_{name}label")(f"$x_{'xyz'.index(name) + 1}$", labelpad=-6)
    axis.tick_params(labelsize="small", pad=-2)
    axis.set_box_aspect((1.0, 1.0, 1.0))
    axis.view_init(elev=22, azim=38)
    return figure


def _vertices(P):
    """The vertices that the oracle returns for directions spread over the circle or sphere (a Fibonacci lattice)."""
    k = np.arange(_DIRECTIONS) + 0.5
    height, angle = 1.0 - 2.0 * k / _DIRECTIONS, np.pi * (1.0 + 5.0**0.5) * k
    radius = np.sqrt(1.0 - height * height)
    directions = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), height])[:, : P.n]
    return np.unique(np.array([P.lmo(direction) for direction in directions]).round(9), axis=0)


def _faces(points):
    """(polygons, edges) of the hull of points in space, which may lie in a plane."""
    centred = points - points.mean(axis=0)
    _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    if lengths[2] <= 1e-9 * lengths[0]:
        around = points[ConvexHull(centred @ axes[:2].T).vertices]
        return [around], np.stack([around, np.roll(around, 1, axis=0)], axis=1)
    hull = ConvexHull(points)
    edges = []
    for one, (corners, neighbours) in enumerate(zip(hull.simplices, hull.neighbors, strict=True)):
        for across, corner in zip(neighbours, corners, strict=True):
            if one < across and hull.equations[one, :3] @ hull.equations[across, :3] < _SHARP:
                edges.append(points[corners[corners != corner]])
    return points[hull.simplices], edges


def _figure_element(name, figure):
    """HTML of a picture under the name of a class, which the pages link."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=96)
    picture = base64.b64encode(stream.getvalue()).decode()
    alt = name.replace(".", " ")  # pdoc makes a link of a name with a dot, also here
    return (
        f'<figure style="margin: 0.5em"><img alt="{alt}" width="288" height="240" '
        f'src="data:image/png;base64,{picture}"/><figcaption><code>drsub_fast.{name}</code></figcaption></figure>'
    )


def pictures() -> str:
    """HTML of all pictures, for the end of a docstring."""
    parts = []
    for title, caption, figures in (
        (
            "Functions", "In two variables; brighter is larger. The line is the edge of x_1 + x_2 <= 1, the dot what "
            "`maximize` finds below it.", {name: draw_function(f) for name, f in functions().items()},
        ),
        (
            "Sets", "In three variables: the hull of the vertices that the linear oracle returns.",
            {name: draw_set(P) for name, P in sets().items()},
        ),
    ):  # fmt: skip
        elements = "".join(_figure_element(name, figure) for name, figure in figures.items())
        parts.append(f'## {title}\n\n{caption}\n\n<div style="display: flex; flex-wrap: wrap">{elements}</div>')
    return "\n\n".join(parts)
