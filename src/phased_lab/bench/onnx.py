"""An LSTM by onnxruntime, one step per call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]


def lstm_step(ih: Matrix, hh: Matrix, bias: Matrix) -> Any:
    """A session that takes x (1, 1, D), h and c (1, 1, H), and returns the next h and c; None if onnxruntime is not installed.

    Weights (4 H, D) and (4 H, H) and the sum of the biases (4 H,) are in torch's order of gates: i, f, g, o.
    """
    try:
        import onnxruntime
        from onnx import TensorProto, helper
    except ImportError:
        return None
    units, features = hh.shape[1], ih.shape[1]

    def reordered(weight: Matrix) -> Matrix:
        """From torch's order to that of ONNX: i, o, f, g."""
        i, f, g, o = np.split(weight, 4)
        return np.concatenate([i, o, f, g])[None]

    whole_bias = np.concatenate([reordered(bias), np.zeros((1, 4 * units), np.float32)], 1)
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, value.shape, value.astype(np.float32).ravel())
        for name, value in {"W": reordered(ih), "R": reordered(hh), "B": whole_bias}.items()
    ]

    def value(name: str, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    inputs = [value("x", 1, 1, features), value("h", 1, 1, units), value("c", 1, 1, units)]
    outputs = [value("h_n", 1, 1, units), value("c_n", 1, 1, units)]
    node = helper.make_node("LSTM", ["x", "W", "R", "B", "", "h", "c"], ["", "h_n", "c_n"], hidden_size=units)
    graph = helper.make_graph([node], "step", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def steps(session: Any, x: Matrix, units: int) -> Callable[[], Matrix]:
    """A function that takes the rows of x (N, D) one by one from a state of zeros, and returns the last h, (H,)."""
    rows = np.ascontiguousarray(x[:, None, None, :])

    def run() -> Matrix:
        h = c = np.zeros((1, 1, units), np.float32)
        for row in rows:
            h, c = session.run(None, {"x": row, "h": h, "c": c})
        last: Matrix = h[0, 0]
        return last

    return run


def bound_steps(session: Any, x: Matrix, units: int) -> Callable[[], Matrix]:
    """Like `steps`, with inputs and outputs bound once: onnxruntime's shortest call. It returns the last h, (H,)."""
    from onnxruntime import OrtValue

    inputs = np.ascontiguousarray(x[:, None, None, :])
    row = OrtValue.ortvalue_from_numpy(inputs[0].copy())  # it shares the memory, and is written to
    # Each step reads one of two states and writes the other.
    states = [[OrtValue.ortvalue_from_numpy(np.zeros((1, 1, units), np.float32)) for _ in "hc"] for _ in range(2)]
    steps = []
    for before, after in (states, states[::-1]):
        step = session.io_binding()
        for name, value in zip(("x", "h", "c"), (row, *before), strict=True):
            step.bind_ortvalue_input(name, value)
        for name, value in zip(("h_n", "c_n"), after, strict=True):
            step.bind_ortvalue_output(name, value)
        steps.append(step)
    zeros = np.zeros((1, 1, units), np.float32)

    def run() -> Matrix:
        for value in states[0]:
            value.update_inplace(zeros)
        for number, values in enumerate(inputs):
            row.update_inplace(values)
            session.run_with_iobinding(steps[number % 2])
        last: Matrix = states[len(inputs) % 2][0].numpy()[0, 0].copy()
        return last

    return run
