"""Memory at an address, as compiled code sees it."""

import ctypes

import numpy as np


def at(address, *shape, dtype, strides=None):
    """Memory at an address, as an array; strides are in entries."""
    kind = np.dtype(dtype)
    if 0 in shape:
        return np.empty(shape, kind)
    assert address, "a null pointer was followed"
    assert address % kind.alignment == 0, "a pointer is not aligned"
    first = np.frombuffer((ctypes.c_char * kind.itemsize).from_address(int(address)), kind)
    if strides is None:
        strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return np.lib.stride_tricks.as_strided(first, shape, [stride * kind.itemsize for stride in strides])
