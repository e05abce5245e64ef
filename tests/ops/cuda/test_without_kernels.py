"""Where the kernels cannot run: the reason, the cure, and what runs instead."""

import sys
from dataclasses import replace

import pytest
import torch

from phased import PhasedLSTM, ops
from phased.ops.cuda import kernels


def unusable(monkeypatch, capability=(9, 0), core=None):
    """A machine with a GPU, as far as torch tells."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "GeForce GTX 1080")
    monkeypatch.setattr(kernels, "cuda_core", lambda: (object(), object(), core))
    return kernels.missing(0)


def test_without_a_gpu_asking_for_the_kernels_says_why():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match=r'backend="cuda" cannot run here: torch sees no CUDA device\..*NVIDIA GPU.*"auto"'):
        PhasedLSTM(1, 2, backend="cuda")


def test_a_gpu_that_is_too_old_is_named(monkeypatch):
    why = unusable(monkeypatch, capability=(6, 1))
    assert why.startswith("GeForce GTX 1080 has compute capability 6.1, the kernels need 8.0")
    assert 'backend="eager"' in why


def test_missing_cuda_core_names_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    assert 'pip install "phased[cuda]"' in unusable(monkeypatch, core=kernels.cuda_core.__wrapped__()[2])


def test_a_failed_compilation_shows_the_compilers_words(monkeypatch):
    def broken(*_):
        raise RuntimeError("phased's CUDA kernels did not compile for sm_90: line 3: what is this?")

    monkeypatch.setattr(kernels, "common", broken)
    assert "line 3: what is this?" in unusable(monkeypatch)


def test_where_kernels_are_missing_auto_warns_once_and_goes_on(monkeypatch):
    gone = replace(ops.cuda.BACKEND, missing=lambda device=None: "the test took them away. Give them back.")
    monkeypatch.setattr(ops, "BACKENDS", (*ops.BACKENDS[:-1], gone))
    monkeypatch.setattr(ops, "_WARNED", set())
    with pytest.warns(UserWarning, match="without its kernels, many times slower: the test took them away"):
        assert ops.choose("auto", torch.device("cuda")).name == "eager"
    assert ops.choose("auto", torch.device("cuda")).name == "eager"  # a second warning would be an error
