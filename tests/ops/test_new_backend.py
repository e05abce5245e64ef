"""CONTRIBUTING's recipe for a new backend, followed to the letter: its code blocks are the backend's files."""

import re
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest
import torch

from contract import Case, assert_contract, assert_same
from phased import PhasedLSTM, Stream, ops

GUIDE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPE = GUIDE.partition("## A new backend\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The folder of step 1 and 2, in phased.ops, and the table of step 3."""
    folder = tmp_path_factory.mktemp("ops")
    for name, code in re.findall(r"`src/phased/ops/(toy/\w+\.py)`:\n```python\n(.*?)```", RECIPE, re.DOTALL):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code, encoding="utf-8")
    (table,) = re.findall(r"```python\nBACKENDS = \((.*)\)\n```", RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "__path__", [*ops.__path__, str(folder)])
        module = import_module("phased.ops.toy")
        patch.setattr(ops, "BACKENDS", tuple(attrgetter(name)(ops) for name in table.split(", ")))
        yield module
    for name in ("phased.ops.toy.passes", "phased.ops.toy"):
        del sys.modules[name]
    del ops.toy


@pytest.fixture(autouse=True)
def _no_warning_yet(monkeypatch):
    monkeypatch.setattr(ops, "_WARNED", set())


def layer(**options):
    torch.manual_seed(0)
    return PhasedLSTM(2, 3, period=10.0, ratio_on=0.4, **options)


def batch():
    return torch.randn(9, 4, 2), torch.rand(9, 4, dtype=torch.float64).cumsum(0)


def test_the_table_of_the_recipe_is_the_present_one_with_one_entry_more(toy):
    names = [backend.name for backend in ops.BACKENDS]
    assert names.index("toy") < names.index("cpu")
    assert [name for name in names if name != "toy"] == ["reference", "eager", "cpu", "cuda"]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("lengths", [None, [11, 0, 4]])
def test_it_equals_the_reference_in_outputs_states_and_every_gradient(toy, cell, leak, lengths):
    assert_contract(Case(cell, leak=leak, lengths=lengths, peephole=cell == "lstm"), "toy")
    assert_contract(Case(cell, leak=leak, lengths=lengths, steps=11, bias=False), "toy", "output")


def test_torch_finds_nothing_wrong_with_its_operator(toy):
    case = Case(steps=4, batch=2, hidden=3, lengths=[4, 2], seed=1)
    torch.library.opcheck(torch.ops.phased.toy, case.operator_arguments("toy", keep=True))


def test_a_layer_selects_it_by_name(toy, monkeypatch):
    passes = []
    eager = toy.passes.eager
    run = eager.forward
    monkeypatch.setattr(eager, "forward", lambda problem, keep: passes.append(keep) or run(problem, keep))
    rnn, (x, time) = layer(backend="toy"), batch()
    output, _ = rnn(x, time)
    output.sum().backward()
    assert passes == [False, True]
    rnn.backend = "reference"
    torch.testing.assert_close(output, rnn(x, time)[0])


def test_an_unknown_name_is_answered_with_it_among_the_others(toy):
    with pytest.raises(ValueError, match="toy"):
        layer(backend="tot")


def test_where_it_is_missing_it_says_why_and_auto_does_without(toy, monkeypatch):
    monkeypatch.setattr(toy.passes, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r'backend="toy" cannot run here: numpy is missing\. Install it.*"auto"'):
        layer(backend="toy")
    assert ops.choose("auto", torch.device("cpu")).name != "toy"
    monkeypatch.setattr(ops, "BACKENDS", (ops.eager.BACKEND, toy.BACKEND))
    with pytest.warns(UserWarning, match="phased runs on cpu without its toys, many times slower: numpy is missing"):
        layer()(*batch())


def test_tensors_on_another_device_raise(toy):
    with pytest.raises(ValueError, match=r'backend="toy" needs CPU tensors, got meta\. Call \.to\("cpu"\)'):
        ops.choose("toy", torch.device("meta"))


def test_auto_prefers_it_for_its_device_alone(toy):
    assert ops.choose("auto", torch.device("cpu")) is toy.BACKEND
    assert ops.choose("auto", torch.device("meta")) is ops.eager.BACKEND


@pytest.mark.parametrize("backend", ["auto", "toy"])
def test_its_selection_can_be_traced(toy, backend):
    torch.compiler.reset()
    case = Case(lengths=[11, 0, 4])
    leaves = case.on("toy")
    problem = case.problem("toy", leaves)
    compiled = torch.compile(ops.recurrence, fullgraph=True, backend="aot_eager")
    output, final = compiled(problem, backend)
    names = ("output", "h_n", "c_n")
    got = dict(zip(names, (tensor.detach() for tensor in (output, *final)), strict=True))
    assert_same(got, case.gradients("reference")[0], case.dtype, "traced,")


def test_a_warning_does_not_break_a_trace(toy, monkeypatch):
    torch.compiler.reset()
    monkeypatch.setattr(toy.passes, "find_spec", lambda name: None)
    monkeypatch.setattr(ops, "BACKENDS", (ops.eager.BACKEND, toy.BACKEND))
    case = Case(hidden=3)
    problem = case.problem("toy", case.leaves)
    with pytest.warns(UserWarning, match="phased runs on cpu without its toys"):
        output, _ = torch.compile(ops.recurrence, fullgraph=True, backend="aot_eager")(problem)
    torch.testing.assert_close(output, ops.reference.recurrence(problem)[0])


def test_streams_run_without_a_stepper_of_its_own(toy):
    rnn = layer(backend="toy").eval()
    x, time = batch()
    torch.testing.assert_close(Stream(rnn).run(x[:, 0], time[:, 0]), rnn(x[:, 0], time[:, 0])[0].detach())
