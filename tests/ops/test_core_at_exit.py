"""The end of a process whose caches still hold objects of the compiled core."""

import subprocess
import sys

import pytest

from phased.ops.native import MISSING

# A reference that is never given back, as those of caches that Python does not clear at its end.
KEPT = """
import ctypes
from phased.ops.native import core
ctypes.pythonapi.Py_IncRef(ctypes.py_object(core.Launches()))
"""


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_process_that_ends_with_cached_launches_prints_nothing():
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("", "")
