"""Memory at an address, as compiled code sees it."""

import ctypes
import math

import numpy as np


def at(address, *shape, dtype, strides=None):
    """Memory at an address, as an array; strides are in entries."""
    kind = np.dtype(dtype)
    if 0 in shape:
        return np.empty(shape, kind)
    assert address, "a null pointer was followed"
    assert address % kind.alignment == 0, "a pointer is not aligned"
    count = math.prod(shape) if strides is None else 1
    memory = np.frombuffer((ctypes.c_char * int(count * kind.itemsize)).from_address(int(address)), kind)
    if strides is None:
        return memory.reshape(shape)
    return np.lib.stride_tricks.as_strided(memory, shape, [stride * kind.itemsize for stride in strides])
