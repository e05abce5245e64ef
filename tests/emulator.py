"""Run the GPU kernels on a CPU: g++ compiles their sources, and ops/cuda/host/grid.h runs the threads in turns."""

import ctypes
import os
import re
import struct
import subprocess
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from phased.ops.cuda.kernels import FOLDERS, argument_form

HOST = Path(__file__).parent / "ops" / "cuda" / "host"
COMPILER = ["g++", "-O1", "-fPIC", "-U_FORTIFY_SOURCE", "-std=c++17"]
KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(')
# Changes to the sources. A CPU has no dynamic shared memory. Division by zero stops a program, and kernels divide by the number
# of steps even if a batch has no step. Tests ask whether a kernel has left a batch to another kernel.
CHANGES = {
    r"extern __shared__ [^;]*?(\w+)\[\];": r"unsigned char* const \1 = dynamic_memory;",
    r"([/%]) steps\b": r"\1 (steps ? steps : 1)",
    r"((?:p\.)?is_called\([^)]*\))": r"noted(\1)",
}
LAUNCH = (
    'extern "C" const char* launch_{0}(const unsigned* grid, unsigned count, const unsigned char* packed, size_t size, '
    "size_t memory, bool together) {{ return launch(phased::{0}, grid, count, packed, size, memory, together); }}\n"
)
FORM = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_bool]


@cache
def folder():
    """Return the folder of the compiled kernels. Each version of the sources has another folder."""
    sources = [path for each in (HOST, *FOLDERS) for path in sorted(each.iterdir())]
    digest = sha256(b"".join(path.read_bytes() for path in [*sources, Path(__file__)])).hexdigest()[:16]
    found = Path(tempfile.gettempdir(), f"phased-kernels-{os.getuid()}-{digest}")
    found.mkdir(mode=0o700, exist_ok=True)
    make(found / "grid.h.gch", "-x", "c++-header", HOST / "grid.h")
    return found


def make(path, *arguments, text=None):
    """Compile a file if it does not exist. Several processes may do this at once."""
    if not path.exists():
        own = path.with_suffix(f".{os.getpid()}")
        subprocess.run([*COMPILER, *map(str, arguments), "-o", str(own)], input=text, text=True, check=True, timeout=120)
        own.replace(path)
    return path


@cache
def library(sources, build):
    """Compile the kernels of `sources` for a `Build`, and load them."""
    text = "".join((FOLDERS[0] / name).read_text(encoding="utf-8") for name in sources)
    for pattern, replacement in CHANGES.items():
        text = re.sub(pattern, replacement, text)
    text += "".join(LAUNCH.format(name) for name in KERNEL.findall(text))
    defined = [f"-DPHASED_{name.upper()}={value}" for name, value in build.macros().items()]
    place = folder() / f"{sha256(repr((sources, build)).encode()).hexdigest()[:16]}.so"
    folders = [f"-I{each}" for each in (folder(), HOST, *FOLDERS)]
    return ctypes.PyDLL(str(make(place, "-shared", *folders, "-include", "grid.h", *defined, "-x", "c++", "-", text=text)))


class Emulator:
    """Replaces `phased.ops.cuda.kernels.Kernels`. The kernels are compiled at the first launch."""

    ran: ClassVar[list[str]] = []  # names of the launched kernels, without kernels that left their batch to another one

    def __init__(self, sources, build):
        self.sources, self.build = sources, build

    def launch(self, name, device, grid, block, arguments, shared=0, together=False):
        packed = struct.pack(argument_form(arguments), *arguments)
        self.start(name, (grid, 1, 1) if isinstance(grid, int) else grid, block, packed, shared, together)

    def start(self, name, grid, block, packed, shared=0, together=False):
        assert together == name.startswith("spread")
        function = library(self.sources, self.build)[f"launch_{name}"]
        function.restype, function.argtypes = ctypes.c_char_p, FORM
        said = function((ctypes.c_uint * 3)(*grid), block, packed, len(packed), shared, together).decode()
        assert said in ("ran", "left"), f"{name}: {said}"
        if said == "ran":
            self.ran.append(name)
