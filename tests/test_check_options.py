"""A layer with a wrong option is not made: the option is named, with what was expected, what came and a cure."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phased import PhasedGRU, PhasedLSTM
from phased.init import Constant, LogUniform, Uniform, aligned
from strategies import f64
from wrong import Wrong, table

NAN, INF = float("nan"), float("inf")
GATES = ("period", "shift", "ratio_on")


def lstm_with(**settings: Any) -> Callable[[], Any]:
    return lambda: PhasedLSTM(**({"input_size": 3, "hidden_size": 4} | settings))


SIZES = [
    Wrong(f"{name}={value!r}", lstm_with(**{name: value}), error, f"{name} must be {expected}", f"got {got}", None)
    for name in ("input_size", "hidden_size", "num_layers")
    for value, error, expected, got in [
        (0, ValueError, "at least 1", "0"),
        (-3, ValueError, "at least 1", "-3"),
        (2**53 + 1, ValueError, r"at most 2\*\*53", r"9\.0072e\+15"),
        (2.0, TypeError, "an int", "float"),
        (True, TypeError, "an int", "bool"),
        ("3", TypeError, "an int", "str"),
        (None, TypeError, "an int", "NoneType"),
    ]
]
FLAGS = [
    Wrong(f"{name}={value!r}", lstm_with(**{name: value}), TypeError, f"{name}.* must be True or False", f"got {got}", None)
    for name in ("bias", "batch_first", "bidirectional", "peephole", "learn_period", "learn_shift", "learn_ratio_on")
    for value, got in [(1, "int"), ("yes", "str"), (None, "NoneType")]
]
SHARES = [
    Wrong(f"{name}={value!r}", lstm_with(**{name: value}), error, f"{name} must be {expected}", f"got {got}", None)
    for name in ("dropout", "leak")
    for value, error, expected, got in [
        (-0.1, ValueError, r"in \[0, 1\]", r"-0\.1"),
        (1.5, ValueError, r"in \[0, 1\]", r"1\.5"),
        (NAN, ValueError, r"in \[0, 1\]", "nan"),
        ("a", TypeError, "a number", "str"),
        (None, TypeError, "a number", "NoneType"),
        (True, TypeError, "a number", "bool"),
    ]
]
WORDS = [
    Wrong("gate='sine'", lstm_with(gate="sine"), ValueError, "gate must be one of 'triangle', 'square'", "got 'sine'", None),
    Wrong("gate=None", lstm_with(gate=None), ValueError, "gate must be one of", "got None", None),
    Wrong("backend='tpu'", lstm_with(backend="tpu"), ValueError, "backend must be one of 'auto', 'reference'", "got 'tpu'", None),
    Wrong(
        "dtype=int64", lstm_with(dtype=torch.int64), TypeError, "dtype must be floating point", r"got torch\.int64", r"float32"
    ),
    Wrong("dtype=complex", lstm_with(dtype=torch.complex64), TypeError, "dtype must be floating point", r"got torch\.complex64"),
    Wrong("dtype='float32'", lstm_with(dtype="float32"), TypeError, "dtype must be", "got (str|'float32')"),
    Wrong(
        "a GRU's peepholes", lambda: PhasedGRU(3, 4, peephole=True), ValueError, "peephole must be False", "", "Use PhasedLSTM"
    ),
]


def per_unit(bad: float) -> Tensor:
    return f64([0.5, 0.5, bad, 0.5])


RANGES = [
    Wrong(f"{name}={value!r}", lstm_with(**{name: value}), ValueError, f"{name} must be {expected}", f"got {got} for unit {unit}")
    for name, expected, cases in [
        ("period", "positive", [(0, "0", 0), (-1.0, "-1", 0), (Constant(-2.0), "-2", 0), (per_unit(0.0), "0", 2)]),
        ("ratio_on", r"in \(0, 1\]", [(0, "0", 0), (-0.1, r"-0\.1", 0), (1.1, r"1\.1", 0), (5, "5", 0), (Constant(2.0), "2", 0)]),
        ("ratio_on", r"in \(0, 1\]", [(per_unit(1.01), r"1\.01", 2)]),
    ]
    for value, got, unit in cases
]
RANGES += [
    Wrong("a list", lstm_with(num_layers=2, period=[1.0, 0.0]), ValueError, "period must be positive", "got 0 for unit 0"),
    Wrong("a GRU's", lambda: PhasedGRU(3, 4, ratio_on=0.0), ValueError, r"ratio_on must be in \(0, 1\]", "got 0 for unit 0"),
]
VALUES = [
    *(
        Wrong(f"{name}={value!r}", lstm_with(**{name: value}), error, f"{name} must {expected}", f"got {got}", None)
        for name in GATES
        for value, error, expected, got in [
            (NAN, ValueError, "be ", "nan"),
            (INF, ValueError, "be ", "inf"),
            (-(10**400), ValueError, "be ", "-inf"),
            (np.bool_(True), TypeError, "be a number", "bool"),
            ("fast", TypeError, "be a number", "str"),
            (True, TypeError, "be a number", "bool"),
            ({}, TypeError, "be a number", "dict"),
        ]
    ),
    *(
        Wrong(f"{name}: {what}", lstm_with(**{name: value}), error, f"{name} must {expected}", got)
        for name in GATES
        for what, value, error, expected, got in [
            ("too few", torch.full((3,), 0.5), ValueError, r"have one value for each unit, shape \(4,\)", r"got \(3,\)"),
            ("a matrix", torch.full((4, 1), 0.5), ValueError, r"have one value for each unit, shape \(4,\)", r"got \(4, 1\)"),
            ("a scalar", torch.tensor(0.5), ValueError, r"have one value for each unit, shape \(4,\)", r"got \(\)"),
            ("bools", torch.ones(4, dtype=torch.bool), TypeError, "be a tensor of real numbers", r"got torch\.bool"),
            ("complex", torch.ones(4) + 0j, TypeError, "be a tensor of real numbers", r"got torch\.complex64"),
            ("nan", per_unit(NAN), ValueError, "be finite", "got (NaN|nan).* unit 2"),
            ("inf", per_unit(INF), ValueError, "be finite", "got .*(infinity|inf).* unit 2"),
            ("an array", np.full(4, 0.5), TypeError, "be a number", "got ndarray"),
            ("a wrong law", lambda n: torch.full((n + 1,), 0.5), ValueError, "have one value for each unit", r"got \(5,\)"),
            ("a law without tensors", lambda n: [0.5] * n, TypeError, "be a number, a law or a tensor", "list"),
        ]
    ),
]
LISTS = [
    Wrong(
        f"{name}={value}", lstm_with(num_layers=layers, **{name: value}), ValueError, f"{name} as a list must have {entries}", got
    )
    for layers, value, got, names in [
        (1, [0.5] * 4, "got 4.*Pass a tensor", GATES),
        (3, (0.5, 0.5), "got 2", GATES),
        (3, [True, False], "got 2", ["learn_period"]),
    ]
    for entries in [f"one entry for each of the {layers} layers"]
    for name in names
]
LAWS = [
    Wrong("Uniform(2, 1)", lambda: Uniform(2, 1), ValueError, "Uniform needs low <= high", "got low=2 and high=1", "Swap"),
    Wrong("LogUniform(2, 1)", lambda: LogUniform(2, 1), ValueError, "LogUniform needs low <= high", "got low=2", "Swap"),
    Wrong("LogUniform(0, 1)", lambda: LogUniform(0.0, 1.0), ValueError, r"low end must be in \(0, inf\)", "got 0", None),
    Wrong("LogUniform(-1, 1)", lambda: LogUniform(-1, 1), ValueError, r"low end must be in \(0, inf\)", "got -1", None),
    Wrong("Uniform(nan, 1)", lambda: Uniform(NAN, 1), ValueError, "low end must be in", "got nan", None),
    Wrong("Uniform(0, inf)", lambda: Uniform(0, INF), ValueError, "high end must be in", "got inf", None),
    Wrong("Uniform('a', 1)", lambda: Uniform("a", 1), TypeError, "low end must be a number", "got str", None),
    Wrong("aligned(0)", lambda: aligned(0), ValueError, r"interval must be in \(0, inf\)", "got 0", None),
    Wrong("aligned(-40)", lambda: aligned(-40), ValueError, r"interval must be in \(0, inf\)", "got -40", None),
    Wrong("aligned(start=nan)", lambda: aligned(40, NAN), ValueError, "start must be in", "got nan", None),
    Wrong("aligned(ratio_on=2)", lambda: aligned(40, 0, 2), ValueError, r"ratio_on must be in \(0, 1\]", "got 2", None),
]


@table(SIZES + FLAGS + SHARES + WORDS + RANGES + VALUES + LISTS)
def test_a_layer_with_a_wrong_option_is_not_made(wrong):
    wrong.assert_says_so()


@table(LAWS)
def test_a_law_needs_ends_that_make_sense(wrong):
    wrong.assert_says_so()


def test_the_ends_of_what_is_allowed_are_allowed():
    PhasedLSTM(1, 1, dropout=0.0, leak=0.0, ratio_on=1.0, period=1e-9)
    PhasedLSTM(1, 1, 2, dropout=1.0, leak=1.0, ratio_on=1e-6, period=1e300, shift=-1e9)
    PhasedLSTM(1, 1, dropout=1, leak=0, ratio_on=1, period=1)


def test_numbers_of_numpy_are_those_of_python():
    torch.manual_seed(0)
    plain = PhasedLSTM(3, 4, 2, batch_first=True, dropout=0.5, period=Uniform(8, 9), leak=0.25, learn_shift=False)
    torch.manual_seed(0)
    sizes, flag = map(np.int16, (3, 4, 2)), np.bool_
    period = Uniform(np.float32(8), np.int64(9))
    options = {"batch_first": flag(True), "dropout": np.float16(0.5), "leak": np.float32(0.25), "learn_shift": flag(False)}
    layer = PhasedLSTM(*sizes, period=period, **options)
    assert repr(layer) == repr(plain)
    assert all(torch.equal(value, layer.state_dict()[name]) for name, value in plain.state_dict().items())
    assert {type(value) for value in layer.state_dict()._metadata[""]["settings"].values()} == {str, bool}
