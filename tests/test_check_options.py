"""A layer with a wrong option is not made: the option is named, with what was expected, what came and a cure."""

from functools import partial

import numpy as np
import torch

from phased import PhasedGRU, PhasedLSTM
from phased.init import Constant, LogUniform, Uniform, aligned
from strategies import f64
from wrong import A_FURTHER_SENTENCE, Wrong, table

NAN, INF = float("nan"), float("inf")
SIZES, GATES, SHARES = "input_size hidden_size num_layers", "period shift ratio_on", "dropout leak"
FLAGS = "bias batch_first bidirectional peephole learn_period learn_shift learn_ratio_on"
HALF = torch.full((4,), 0.5)


def per_unit(bad: float) -> torch.Tensor:
    return f64([0.5, 0.5, bad, 0.5])


# The options, a value, the error, and what its message says is expected and came
WITHOUT_A_CURE = [
    (SIZES, 0, ValueError, "be at least 1", "0"),
    (SIZES, 2.0, TypeError, "be an int", "float"),
    (SIZES, True, TypeError, "be an int", "bool"),
    (SIZES, None, TypeError, "be an int", "NoneType"),
    (FLAGS, 1, TypeError, "be True or False", "int"),
    (FLAGS, None, TypeError, "be True or False", "NoneType"),
    (SHARES, -0.1, ValueError, r"be in \[0, 1\]", r"-0\.1"),
    (SHARES, 1.5, ValueError, r"be in \[0, 1\]", r"1\.5"),
    (SHARES, NAN, ValueError, r"be in \[0, 1\]", "nan"),
    (SHARES, "a", TypeError, "be a number", "str"),
    ("gate", "sine", ValueError, "be one of 'triangle', 'square'", "'sine'"),
    ("backend", "tpu", ValueError, "be one of 'auto', 'reference'", "'tpu'"),
    (GATES, NAN, ValueError, "be ", "nan"),
    (GATES, -(10**400), ValueError, "be ", "-inf"),
    (GATES, np.bool_(True), TypeError, "be a number", "bool"),
    (GATES, "fast", TypeError, "be a number", "str"),
]
ONE_EACH = r"have one value for each unit, shape \(4,\)"
WITH_A_CURE = [
    ("dtype", torch.int64, TypeError, "be floating point", r"torch\.int64.*float32"),
    ("dtype", "float32", TypeError, "be ", "(str|'float32')"),
    *(("period", value, ValueError, "be positive", f"{got} for unit 0") for value, got in ((0, "0"), (-1.0, "-1"))),
    ("period", Constant(-2.0), ValueError, "be positive", "-2 for unit 0"),
    ("period", per_unit(0.0), ValueError, "be positive", "0 for unit 2"),
    *(("ratio_on", bad, ValueError, r"be in \(0, 1\]", f"{bad} for unit 0") for bad in (0, -0.1, 1.1, 5)),
    ("ratio_on", Constant(2.0), ValueError, r"be in \(0, 1\]", "2 for unit 0"),
    ("ratio_on", per_unit(1.01), ValueError, r"be in \(0, 1\]", "1.01 for unit 2"),
    (GATES, HALF[:3], ValueError, ONE_EACH, r"\(3,\)"),
    (GATES, HALF.unsqueeze(1), ValueError, ONE_EACH, r"\(4, 1\)"),
    (GATES, HALF > 0, TypeError, "be a tensor of real numbers", r"torch\.bool"),
    (GATES, HALF + 0j, TypeError, "be a tensor of real numbers", r"torch\.complex64"),
    (GATES, per_unit(NAN), ValueError, "be finite", "nan for unit 2"),
    (GATES, HALF.numpy(), TypeError, "be a number", "ndarray"),
    (GATES, lambda n: torch.full((n + 1,), 0.5), ValueError, ONE_EACH, r"\(5,\)"),
    (GATES, [0.5] * 4, ValueError, "have one entry for each of the 1 layers", "4.*Pass a tensor"),
]
OPTIONS = [
    Wrong(
        f"{number}. {name}",
        partial(PhasedLSTM, **{"input_size": 3, "hidden_size": 4, name: value}),
        error,
        f"{name}(_l0| as a list)? must {expected}",
        f"got {got}",
        None if number < len(WITHOUT_A_CURE) else A_FURTHER_SENTENCE,
    )
    for number, (names, value, error, expected, got) in enumerate(WITHOUT_A_CURE + WITH_A_CURE)
    for name in names.split()
]
for name in GATES.split():
    wrong_law, two = {name: lambda n: [0.5] * n}, {name: (0.5, 0.5)}
    OPTIONS += [
        Wrong(f"a law of {name}", partial(PhasedLSTM, 3, 4, **wrong_law), TypeError, f"{name} must be a number, a law", "list"),
        Wrong(f"a list of {name}", partial(PhasedLSTM, 3, 4, 3, **two), ValueError, f"{name} as a list .* 3 layers", "got 2"),
    ]
OPTIONS += [
    Wrong("flags", lambda: PhasedLSTM(3, 4, 3, learn_period=[True, False]), ValueError, "learn_period as .* 3 layers", "got 2"),
    Wrong("a list", lambda: PhasedLSTM(3, 4, 2, period=[1.0, 0.0]), ValueError, "period must be positive", "got 0 for unit 0"),
    Wrong("a GRU's", lambda: PhasedGRU(3, 4, ratio_on=0.0), ValueError, r"ratio_on must be in \(0, 1\]", "got 0 for unit 0"),
    Wrong("peepholes", lambda: PhasedGRU(3, 4, peephole=True), ValueError, "peephole must be False", "", "Use PhasedLSTM"),
]
LAWS = [
    Wrong("Uniform(2, 1)", lambda: Uniform(2, 1), ValueError, "Uniform needs low <= high", "got low=2 and high=1", "Swap"),
    Wrong("LogUniform(2, 1)", lambda: LogUniform(2, 1), ValueError, "LogUniform needs low <= high", "got low=2", "Swap"),
    Wrong("LogUniform(0, 1)", lambda: LogUniform(0.0, 1.0), ValueError, r"low end must be in \(0, inf\)", "got 0", None),
    Wrong("Uniform(nan, 1)", lambda: Uniform(NAN, 1), ValueError, "low end must be in", "got nan", None),
    Wrong("Uniform(0, inf)", lambda: Uniform(0, INF), ValueError, "high end must be in", "got inf", None),
    Wrong("aligned(0)", lambda: aligned(0), ValueError, r"interval must be in \(0, inf\)", "got 0", None),
    Wrong("aligned(start=nan)", lambda: aligned(40, NAN), ValueError, "start must be in", "got nan", None),
    Wrong("aligned(ratio_on=2)", lambda: aligned(40, 0, 2), ValueError, r"ratio_on must be in \(0, 1\]", "got 2", None),
]


@table(OPTIONS)
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
