"""`drsub_fast.engine.parts` in compiled code."""

from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import make_array, populate_array

from drsub_fast.engine.parts import matrix, part


def _is_flat(array):
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"


@type_callable(part)
def _type_of_part(context):
    return lambda flat, start, size: flat if _is_flat(flat) else None


@type_callable(matrix)
def _type_of_matrix(context):
    return lambda flat, start, rows, columns: flat.copy(ndim=2) if _is_flat(flat) else None


@lower_builtin(part, types.Array, types.Integer, types.Integer)
@lower_builtin(matrix, types.Array, types.Integer, types.Integer, types.Integer)
def _view(context, builder, signature, values):
    kind = signature.return_type
    given = make_array(signature.args[0])(context, builder, values[0])
    start, *shape = (
        context.cast(builder, value, integer, types.intp)
        for value, integer in zip(values[1:], signature.args[1:], strict=True)
    )
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [itemsize]
    if kind.ndim == 2:
        strides.insert(0, builder.mul(shape[1], itemsize))
    view = make_array(kind)(context, builder)
    populate_array(
        view, data=builder.gep(given.data, [start]), shape=shape, strides=strides, itemsize=itemsize,
        meminfo=given.meminfo, parent=given.parent,
    )  # fmt: skip
    return impl_ret_borrowed(context, builder, kind, view._getvalue())
