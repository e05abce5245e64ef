"""LSTMs that events are also given to: torch's own in one call and step by step, and onnxruntime's step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phased_lab.runs.baselines import Baseline

Matrix = NDArray[np.float32]


def whole(rnn: nn.LSTM, x: Tensor) -> Callable[[], None]:
    """A function that takes x (N, D) in one call, which needs all rows in advance."""
    rows = x.unsqueeze(1)

    def run() -> None:
        with torch.no_grad():
            rnn(rows)

    return run


def steps(rnn: nn.LSTM, x: Tensor) -> Callable[[], None]:
    """A function that gives an LSTMCell of the same weights the rows of x (N, D) one by one, in a Python loop."""
    rows, units = x.unsqueeze(1), rnn.hidden_size
    cell = nn.LSTMCell(rnn.input_size, units).eval()
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in rnn.state_dict().items()})

    def run() -> None:
        with torch.inference_mode():
            state = torch.zeros(1, units), torch.zeros(1, units)
            for row in rows:
                state = cell(row, state)

    return run


def folded(baseline: Baseline) -> nn.LSTM:
    """Return an LSTM equal to a BN-LSTM in eval. The normalisation of the input becomes part of the weights."""
    assert baseline.norm is not None
    scale, offset = baseline.norm(torch.empty(0), torch.empty(0))
    own = baseline.lstm
    made = nn.LSTM(own.input_size, own.hidden_size).eval().requires_grad_(False)
    state = dict(own.state_dict())
    state["bias_ih_l0"] = state["bias_ih_l0"] + state["weight_ih_l0"] @ offset
    state["weight_ih_l0"] = state["weight_ih_l0"] * scale
    made.load_state_dict(state)
    return made


def by_onnx(rnn: nn.LSTM, x: Tensor) -> dict[str, Callable[[], Matrix]]:
    """Functions that give onnxruntime's LSTM of the same weights the rows of x (N, D) one by one, and return the last h, (H,).

    "step" makes the usual call. "bound memory" binds inputs and outputs once, for onnxruntime's shortest call.
    """
    session = lstm_step(rnn)
    rows, units = x.numpy(), rnn.hidden_size
    return {"step": free_steps(session, rows, units), "bound memory": bound_steps(session, rows, units)}


def lstm_step(rnn: nn.LSTM) -> Any:
    """Make a session from x (1, 1, D), h and c (1, 1, H) to the next h and c."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    ih, hh, *biases = (value.detach().numpy() for value in rnn.state_dict().values())
    units, features = hh.shape[1], ih.shape[1]

    def reordered(weight: Matrix) -> Matrix:
        """Change torch's order of gates, i, f, g, o, to i, o, f, g."""
        return weight.reshape(4, units, -1)[[0, 3, 1, 2]].reshape(1, *weight.shape)

    def value(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 1, size))

    bias = np.concatenate([reordered(sum(biases)), np.zeros((1, 4 * units), np.float32)], 1)
    parameters = {"W": reordered(ih), "R": reordered(hh), "B": bias}
    weights = [numpy_helper.from_array(array, name) for name, array in parameters.items()]
    inputs, outputs = [value("x", features), value("h", units), value("c", units)], [value("h_n", units), value("c_n", units)]
    node = helper.make_node("LSTM", ["x", "W", "R", "B", "", "h", "c"], ["", "h_n", "c_n"], hidden_size=units)
    graph = helper.make_graph([node], "step", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def free_steps(session: Any, x: Matrix, units: int) -> Callable[[], Matrix]:
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
