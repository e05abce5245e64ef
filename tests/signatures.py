"""The parameters of the GPU's kernels, as their sources declare them."""

import re
from functools import cache

from phased.ops.cuda import kernels

COMMENT = re.compile(r"//[^\n]*")


@cache
def source(name):
    return COMMENT.sub("", (kernels.KERNELS / "cuda" / name).read_text(encoding="utf-8"))


def declared(text):
    """Names and kinds, q or d, of declarations such as "const Real *a, *b; double c"."""
    found = []
    for declaration in filter(None, (part.strip() for part in text.split(";"))):
        head, *more = declaration.split(",")
        kind = "d" if re.match(r"(const )?double [^*]*$", head) else "q"
        found += [(re.search(r"(\w+)$", name.strip())[1], kind) for name in (head, *more)]
    return found


@cache
def struct(name):
    """The numbers a struct is made of, up to its first function."""
    text = next(filter(None, (re.search(rf"struct {name} {{(.*?)\n}};", source(file), re.S) for file in STRUCTS)))[1]
    return declared(re.split(r"__device__|static", text)[0])


STRUCTS = ("steps.h", "weights.h", "schedule.cu", "sums.h", "gate_sums.h", "stepwise.cu")
FILES = (
    "schedule.cu",
    "weights.cu",
    "sums.cu",
    "sorted_sums.cu",
    "unit_sums.cu",
    "held_forward.cu",
    "held_backward.cu",
    "streamed_forward.cu",
    "dense.cu",
    "stepwise.cu",
    "open_step_forward.cu",
    "open_step_backward.cu",
)


@cache
def parameters(name):
    """The parameters of a kernel as its source has them, structs taken apart: (name, kind)."""
    for file in FILES:
        bounds = r"(?:__launch_bounds__\([^)]*\)\s*)?"
        kernel = re.search(rf'extern "C" __global__ void\s+{bounds}(?:\w+_)?{name}\(\s*(.*?)\) {{', source(file), re.S)
        if kernel:
            break
    found = []
    for parameter in re.split(r",\s*", kernel[1]):
        whole = re.fullmatch(r"const (Packing|Unpacking|Summing|GateSumming|Slot|Forward|Backward|Place) \w+", parameter)
        found += struct(whole[1]) if whole else declared(parameter)
    assert len({parameter for parameter, _ in found}) == len(found)
    return found
