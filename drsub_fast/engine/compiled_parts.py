"""`drsub_fast.engine.parts` in compiled code."""

from numba import types
from numba.core.cgutils import unpack_tuple
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin
from numba.np.arrayobj import make_array, populate_array

from drsub_fast.engine.parts import split


@infer_global(split)
class _TypeOfParts(AbstractTemplate):
    def generic(self, arguments, keywords):
        flat, *shapes = arguments
        if isinstance(flat, types.Array) and flat.ndim == 1 and flat.layout == "C":
            kinds = [flat.copy(ndim=len(shape) if isinstance(shape, types.BaseTuple) else 1) for shape in shapes]
            return signature(types.Tuple(kinds), *arguments)


def _lengths(context, builder, shape, shape_type):
    """The numbers of a shape, as sizes of arrays."""
    if isinstance(shape_type, types.BaseTuple):
        pairs = zip(unpack_tuple(builder, shape), shape_type, strict=True)
    else:
        pairs = [(shape, shape_type)]
    return [context.cast(builder, value, integer, types.intp) for value, integer in pairs]


@lower_builtin(split, types.Array, types.VarArg(types.Any))
def _parts(context, builder, called, values):
    given = make_array(called.args[0])(context, builder, values[0])
    start = context.get_constant(types.intp, 0)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(called.args[0].dtype)))
    parts = []
    for kind, shape, shape_type in zip(called.return_type, values[1:], called.args[1:], strict=True):
        lengths = _lengths(context, builder, shape, shape_type)
        size, strides = lengths[-1], [itemsize]
        if kind.ndim == 2:
            size, strides = builder.mul(*lengths), [builder.mul(size, itemsize), itemsize]
        view = make_array(kind)(context, builder)
        populate_array(
            view, data=builder.gep(given.data, [start]), shape=lengths, strides=strides, itemsize=itemsize,
            meminfo=given.meminfo, parent=given.parent,
        )  # fmt: skip
        parts.append(view._getvalue())
        start = builder.add(start, size)
    views = context.make_tuple(builder, called.return_type, parts)
    return impl_ret_borrowed(context, builder, called.return_type, views)
