"""The GPU is asked for the same launches as in `launches.txt`: kernels, grids, blocks, shared memory and arguments.

After an intended change, write the file again: `PHASED_WRITE_NETS=1 pytest tests/nets/test_launches.py`.
"""

import gc
import os
from itertools import zip_longest
from pathlib import Path

import pytest
import torch

from contract import Case
from launched import Trace
from phased import PhasedGRU, PhasedLSTM
from phased.init import LogUniform

GOLDEN = Path(__file__).with_name("launches.txt")
SINGLE, BF16, FP16 = torch.float32, torch.bfloat16, torch.float16
CASES = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "double": {"dtype": torch.float64},
    "gru double ragged": {"cell": "gru", "dtype": torch.float64, "lengths": [9, 0, 5]},
    "ragged": {"lengths": [9, 0, 5]},
    "no bias": {"bias": False},
    "peepholes": {"peephole": True},
    "square": {"shape": "square"},
    "integer times": {"integer_time": True},
    "one feature": {"inputs": 1},
    "many features": {"inputs": 33},
    "many features, many open": {"inputs": 40, "ratio": (0.6, 0.9)},
    "one unit": {"hidden": 1},
    "no steps": {"steps": 0},
    "no sequences": {"batch": 0},
    "leak": {"leak": 0.01},
    "leak, peepholes, ragged": {"leak": 0.01, "peephole": True, "lengths": [9, 0, 5]},
    "leak, gru": {"cell": "gru", "leak": 0.01},
    "leak, double": {"leak": 0.01, "dtype": torch.float64},
    "leak, many features": {"leak": 0.01, "inputs": 40, "hidden": 40},
    "leak, 70 units": {"leak": 0.01, "hidden": 70, "inputs": 9},
    "leak, 136 units": {"leak": 0.01, "hidden": 136, "peephole": True, "lengths": [9, 0, 5]},
    "leak, 136 units, gru": {"leak": 0.01, "hidden": 136, "cell": "gru"},
    "bfloat16": {"autocast": BF16},
    "float16, leak": {"autocast": FP16, "leak": 0.01, "cell": "gru"},
    "110 units": {"hidden": 110, "lengths": [9, 0, 5]},
    "110 units, crowded": {"hidden": 110, "ratio": (0.5, 0.9)},
    "116 units, 140 sequences": {"hidden": 116, "batch": 140, "steps": 2},
    "116 units, 140 sequences, gru, peepholes": {"hidden": 116, "batch": 140, "steps": 2, "cell": "gru", "autocast": BF16},
    "20 units, 280 sequences, crowded": {"hidden": 20, "batch": 280, "steps": 1, "ratio": (0.7, 0.9)},
    "40 units, 600 sequences": {"hidden": 40, "batch": 600, "steps": 1},
    "130 units": {"hidden": 130, "peephole": True},
    "130 units, double": {"hidden": 130, "dtype": torch.float64},
    "200 units, many features": {"hidden": 200, "inputs": 40, "batch": 140, "steps": 1},
    "260 units": {"hidden": 260, "lengths": [9, 0, 5]},
    "260 units, gru, 70 sequences": {"hidden": 260, "cell": "gru", "batch": 70, "steps": 2},
    "1,100 units": {"hidden": 1100, "steps": 3, "batch": 2, "ratio": (0.01, 0.02)},
}
LAYERS = {
    "PhasedLSTM": (PhasedLSTM, {}),
    "PhasedLSTM, batch first": (PhasedLSTM, {"batch_first": True}),
    "PhasedLSTM, peepholes, square": (PhasedLSTM, {"peephole": True, "gate": "square"}),
    "PhasedLSTM, two layers, bidirectional": (PhasedLSTM, {"num_layers": 2, "bidirectional": True}),
    "PhasedGRU": (PhasedGRU, {}),
    "PhasedGRU, leak": (PhasedGRU, {"leak": 0.01}),
    "PhasedGRU, double": (PhasedGRU, {"dtype": torch.float64}),
}


def of_case(trace, options, rounds=()):
    """Passes over the same problem: counted, guessed, listed, prepared, with fewer gradients, with none."""
    case = Case(**{"steps": 9, "hidden": 7, "dtype": SINGLE, "ratio": (0.05, 0.2), **options})
    trace.name(case.leaves | {"time": case.time})
    few, many = ("both", "both", "both", ""), ("both", "both", "both", "both", "final", "output", "")
    for to in rounds or (few if case.batch > 50 or case.hidden > 130 else many):
        if to:
            case.gradients("cuda", to)
        else:
            with torch.no_grad():
                case.run("cuda")
        yield to or "no gradients"


def of_layer(trace, kind, settings):
    """Calls of a layer that it begins to know, and calls of other forms."""
    rnn = kind(3, 7, backend="cuda", period=LogUniform(2, 40), ratio_on=0.4, **settings)
    rnn._openings.active = False  # what it counts now and then needs no launch
    trace.name(dict(rnn.named_parameters()))
    x, time = torch.randn(9, 4, 3, dtype=rnn.dtype), torch.rand(9, 4, dtype=torch.float64).cumsum(0) * 10
    if rnn.batch_first:
        x, time = x.transpose(0, 1), time.T
    for turn in range(5):
        output, _ = rnn(x + turn, time + turn)
        output.square().sum().backward()
        yield f"call {turn}"
    with torch.no_grad():
        _, state = rnn(x, time)
        yield "no gradients"
        rnn(x, time, state)
        yield "with a state"
    rnn(x.clone().requires_grad_(), time, lengths=[9, 0, 5, 3])[0].sum().backward()
    yield "ragged, with a gradient to the input"


@pytest.fixture(autouse=True, scope="module")
def _few_objects():
    """Tensors are looked for among the objects that these tests make."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def traced(patch, passes, prefix):
    """A line for each pass: what it is, and its launches."""
    trace = Trace(patch)
    return {f"{prefix} | {number} {name} |": trace.words() for number, name in enumerate(passes(trace))}


def check(found):
    """Every pass has the launches of the golden file; the first that has not is shown."""
    golden = {f"{name}|": words.split() for name, _, words in (line.rpartition("|") for line in lines())}
    if os.environ.get("PHASED_WRITE_NETS"):
        golden |= {name: words for name, (_, words) in found.items()}
        GOLDEN.write_text("".join(f"{' '.join([name, *words])}\n" for name, words in sorted(golden.items())))
    for name, (shown, words) in found.items():
        wanted = golden[name]
        first = next((i for i, pair in enumerate(zip_longest(words, wanted)) if len(set(pair)) > 1), 0)
        assert words == wanted, f"{name} launch {first} should be {wanted[first : first + 1]}, is {shown[first : first + 1]}"


def lines():
    return GOLDEN.read_text().splitlines() if GOLDEN.exists() else []


@pytest.mark.parametrize("name", CASES)
def test_the_launches_of_a_problem_are_the_same(monkeypatch, name):
    check(traced(monkeypatch, lambda trace: of_case(trace, CASES[name]), name))


@pytest.mark.parametrize("name", LAYERS)
def test_the_launches_of_a_layer_are_the_same(monkeypatch, name):
    check(traced(monkeypatch, lambda trace: of_layer(trace, *LAYERS[name]), name))


@pytest.mark.parametrize("name", ["lstm", "leak", "40 units, 600 sequences", "260 units", "leak, 136 units"])
def test_the_launches_that_a_users_graph_records_are_the_same(monkeypatch, name):
    def passes(trace):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        return of_case(trace, CASES[name], ("both", "both", ""))

    check(traced(monkeypatch, passes, f"{name}, recorded"))
