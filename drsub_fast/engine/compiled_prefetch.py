"""`drsub_fast.engine.prefetch` in compiled code."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from drsub_fast.engine.prefetch import prefetch

#: To be read, and to be kept in all caches; from the data.
_READ, _KEEP, _DATA = 0, 3, 1


@intrinsic
def _prefetch(typingctx, array, place):
    def codegen(context, builder, signature, values):
        address = builder.gep(context.make_array(array)(context, builder, values[0]).data, [values[1]])
        address = builder.bitcast(address, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [address.type], ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        )
        builder.call(hint, [address, number(_READ), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, place), codegen


@overload(prefetch)
def _prefetch_in_kernels(array, place):
    def compiled(array, place):
        _prefetch(array, place)

    return compiled
