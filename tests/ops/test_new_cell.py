"""CONTRIBUTING's recipes for a new cell and a new gate shape, followed to the letter: their code is added to the files named."""

import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest
import torch

from contract import Case, assert_contract
from layers import EXACT
from phased import PhasedLSTM, Stream, layer, ops
from phased.cell import CELLS, Cell, Gradient, Proposal
from phased.gate import SHAPES, TimeGate
from phased.init import LogUniform
from phased.ops.eager.tape import Tape
from without_python import KERNELS, assert_equals_reference, compiled

GUIDE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = GUIDE.partition("## A new cell\n")[2].partition("\n## What a change needs")[0]
STEPS = re.findall(r"`src/(phased/[\w/]+\.\w+)`[^`]*:\n```(?:python|cpp)\n(.*?)```", RECIPES, re.DOTALL)
RAGGED = [11, 0, 4]


def propose_coupled(from_x, from_h, previous, peephole):
    """An LSTM whose input gate is 1 - f: three products, two states, peepholes. It keeps its products."""
    _, c = previous
    f, g, o = from_x + from_h
    f = (f if peephole is None else f + peephole[1] * c).sigmoid()
    new_c = f * c + (1 - f) * g.tanh()
    o = (o if peephole is None else o + peephole[2] * new_c).sigmoid()
    return Proposal((o * new_c.tanh(), new_c), (*from_x, *from_h))


def adjoint_coupled(to, proposal, previous, peephole):
    """The gradient of `propose_coupled`, by autograd."""
    given = [torch.stack(proposal.kept[:3]), torch.stack(proposal.kept[3:]), *previous, *([] if peephole is None else [peephole])]
    given = [each.detach().requires_grad_() for each in given]
    with torch.enable_grad():
        state = propose_coupled(given[0], given[1], (given[2], given[3]), None if peephole is None else given[4]).state
    from_x, from_h, h, c, *to_peephole = torch.autograd.grad(state, given, to, materialize_grads=True)
    return Gradient(from_x, from_h, (h, c), to_peephole[0] if to_peephole else None)


@pytest.fixture(scope="module", autouse=True)
def _appended():
    """The recipes' Python code, at the end of the modules that it is for; and a cell with c and peepholes."""
    added = []
    for file, code in STEPS:
        if file.endswith(".py"):
            names = vars(import_module(file.removesuffix(".py").replace("/", ".")))
            before = set(names)
            exec(code, names)
            added += [(names, name) for name in names.keys() - before]
    CELLS["coupled"] = Cell("coupled", 3, 2, 6, propose_coupled, adjoint_coupled, peepholes=True)
    yield
    for names, name in added:
        del names[name]
    del CELLS["mgu"], CELLS["coupled"], SHAPES["cosine"]


@pytest.fixture(autouse=True)
def _no_warning_yet(monkeypatch):
    monkeypatch.setattr(ops, "_WARNED", set())


def test_the_recipes_name_every_file():
    cpu, shared = "phased/kernels/cpu/tables.h", "phased/kernels/shared"
    files = ["phased/cell.py", "phased/layer.py", f"{shared}/cell.h", cpu, "phased/gate.py", f"{shared}/gate.h", cpu]
    assert [file for file, _ in STEPS] == files


@pytest.mark.parametrize("cell", ["mgu", "coupled", "lstm"])
@pytest.mark.parametrize("shape", ["triangle", "cosine"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("lengths", [None, RAGGED])
def test_plain_pytorch_equals_the_reference_in_outputs_states_and_every_gradient(cell, shape, leak, lengths):
    for bias, peephole in ((True, False), (False, True)):  # weights of peepholes have a gradient of zeros where a cell has none
        assert_contract(Case(cell, leak=leak, shape=shape, lengths=lengths, bias=bias, peephole=peephole), "eager")


@pytest.mark.parametrize("cell", ["mgu", "coupled"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_gradients_are_those_of_finite_differences(cell, leak):
    case = Case(cell, steps=5, batch=2, hidden=3, leak=leak, shape="cosine", lengths=[5, 3])
    leaves = {name: leaf.requires_grad_() for name, leaf in case.leaves.items()}

    def run(*values):
        return tuple(case.run("eager", dict(zip(leaves, values, strict=True))))

    assert torch.autograd.gradcheck(run, tuple(leaves.values()))


def test_a_cell_that_keeps_other_values_than_it_says_raises():
    tape = Tape(torch.empty(4, 1), Cell("short", 2, 1, 2, propose_coupled, adjoint_coupled))
    with pytest.raises(ValueError, match="the cell 'short' must keep 2 values, got 1"):
        tape.write(0, Proposal((torch.ones(()),), (torch.ones(()),)), (torch.ones(()),))


@pytest.mark.parametrize("cell, shape, words", [("mgu", "square", "no cell 'mgu'"), ("lstm", "cosine", "no gate shape 'cosine'")])
@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_a_backend_without_it_says_so_and_auto_goes_on_to_one_that_has_it(cell, shape, words, name, monkeypatch):
    monkeypatch.setattr(ops, "require", lambda name, device=None: None)
    case = Case(cell, shape=shape)
    problem = case.problem("reference", case.leaves)
    device = torch.device(name)
    able = 'Backends that can: "reference", "eager"'
    with pytest.raises(ValueError, match=f'backend="{name}" cannot compute this layer: it has {words}, only .*{able}'):
        ops.choose(name, device, problem)
    backend = ops.backends()[name]
    monkeypatch.setattr(ops, "BACKENDS", (ops.REFERENCE, ops.eager.BACKEND, backend))
    if backend.missing() is None:
        with pytest.warns(UserWarning, match=f"phased runs on {name} without its .*, many times slower: it has {words}"):
            assert ops.choose("auto", device, problem).name == "eager"


@pytest.mark.parametrize("gate", ["square", "cosine"])
def test_a_layer_of_it_trains_streams_and_is_saved(gate, tmp_path):
    options = {"period": LogUniform(2, 40), "ratio_on": 0.3, "leak": 0.1, "gate": gate, "dtype": torch.float64}
    rnn = layer.PhasedMGU(3, 7, 2, **options)
    x, time = torch.randn(40, 4, 3, dtype=torch.float64), torch.rand(40, 4, dtype=torch.float64).cumsum(0)
    with pytest.warns(UserWarning, match="without its compiled core"):
        output, h_n = rnn(x, time, torch.zeros(2, 4, 7, dtype=torch.float64))
    (output.square().sum() + h_n.sum()).backward()
    assert rnn.weight_hh_l1.shape == (14, 7)
    assert all(value.grad.isfinite().all() for value in rnn.parameters() if value.requires_grad)
    rnn.eval().save(tmp_path / "mgu.safetensors")
    again = layer.PhasedMGU.load(tmp_path / "mgu.safetensors")
    h = rnn(x, time)[0][:, 0]
    for stream in (Stream(rnn), Stream(again)):
        torch.testing.assert_close(torch.as_tensor(stream.push(x[0, 0], time[0, 0].item())), h[0], **EXACT)
        torch.testing.assert_close(stream.run(x[1:, 0], time[1:, 0]), h[1:], **EXACT)
    with pytest.raises(ValueError, match="peephole must be False: a PhasedMGU has no cell state to look at"):
        layer.PhasedMGU(3, 7, peephole=True)
    rnn.backend = "cpu"
    for refused in (lambda: rnn(x, time), lambda: Stream(rnn)):
        with pytest.raises(ValueError, match="cannot compute this layer: it has no cell 'mgu'"):
            refused()


def test_units_of_any_gate_shape_are_counted_by_the_core():
    rnn = PhasedLSTM(3, 7, gate="cosine", period=LogUniform(2, 40), ratio_on=0.3)
    time = torch.rand(40, 4, dtype=torch.float64).cumsum(0)
    (gate,) = rnn.gates()
    counted = ops.count(gate, time, None)
    assert torch.equal(counted, gate.is_open(gate.phase(time.unsqueeze(-1))).sum(0))
    assert isinstance(gate, TimeGate)


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """The core's sources with the code of the recipes, and a program of them."""
    folder = tmp_path_factory.mktemp("core")
    for name in ("cpu", "shared"):
        shutil.copytree(KERNELS / name, folder / name)
    for file, code in STEPS:
        path = folder / Path(file).relative_to("phased/kernels") if "/kernels/" in file else None
        if path is None:
            continue
        text = path.read_text(encoding="utf-8")
        if code.startswith("using "):
            table = code.partition(" = ")[0]
            text, changed = re.subn(rf"{table} = .*;\n", code, text)
            assert changed == 1
        else:
            text = text.replace("\n}  // namespace phased\n", f"\n{code}\n}}  // namespace phased\n")
        path.write_text(text, encoding="utf-8")
    return compiled(folder / "core", "g++", "-O0", kernels=folder)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_compiled_core_with_both_equals_the_reference(core):
    for cell, shape in (("mgu", "cosine"), ("mgu", "square"), ("lstm", "cosine"), ("lstm", "triangle"), ("gru", "square")):
        for leak in (0.0, 0.01):
            for dtype in (torch.float32, torch.float64):
                case = Case(cell, steps=40, hidden=19, leak=leak, shape=shape, dtype=dtype, lengths=[40, 0, 17])
                assert_equals_reference([core], case, kernels=core.parent)
