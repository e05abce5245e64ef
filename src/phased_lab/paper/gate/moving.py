"""A moving picture: events reach a layer and update the units whose gates are open. SVG with CSS animations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phased.layer import PhasedLSTM
from phased.stream import Stream
from phased_lab.paper.trace import Array

PERIODS = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0)  # ms
LOOP = PERIODS[-1]  # ms, a multiple of all periods: the picture repeats without a jump
RATIO = 0.15
EVENTS = 37  # per loop
SECONDS = 8  # per loop
LAPS = 20  # loops after which the states repeat

# Pixels.
SCALE = 3  # per ms
LEFT, NOW, RIGHT = 70, 420, 560  # of the lanes; time flows from right to left, and NOW is the present
TOP, LANE, PEAK = 40, 30, 20  # of the first lane, between lanes, and of an open gate
ZERO, BAR = 640, 60  # a state of 0, and the length of the largest state of a unit
WIDTH, HEIGHT = 720, TOP + LANE * (len(PERIODS) + 1) + 10

STYLE = f"""
:root{{--ink:#1f2328;--quiet:#656d76;--line:#d1d9e0;--open:#0969da;--flash:#d1495b}}
@media(prefers-color-scheme:dark){{:root{{--ink:#e6edf3;--quiet:#9198a1;--line:#3d444d;--open:#4493f8;--flash:#ff7b72}}}}
text{{font:13px system-ui,sans-serif;fill:var(--quiet)}}line{{stroke:var(--line)}}.now{{stroke:var(--flash);stroke-width:2}}
.dot{{fill:var(--ink)}}.gate{{fill:var(--open);opacity:.5}}.flash{{fill:var(--flash);opacity:0}}
.state{{fill:var(--open);transform-origin:{ZERO}px 0}}
.flow,.flash,.step{{animation:var(--by) {SECONDS}s linear infinite}}.step{{animation-timing-function:step-end}}
@keyframes flow{{to{{transform:translateX({-SCALE * LOOP:g}px)}}}}
@media(prefers-reduced-motion:reduce){{*{{animation:none!important}}}}
"""


class Loop(NamedTuple):
    """One loop of the events: their times (EVENTS,) in ms, which units are open (EVENTS, H), and the states before and after."""

    time: Array
    opened: NDArray[np.bool_]
    states: Array  # (EVENTS + 1, H)
    starts: Array  # of the first open phase of each unit, (H,)


def run() -> Loop:
    """Push irregular events into a layer until its states repeat from loop to loop."""
    torch.manual_seed(2)
    random, periods = np.random.default_rng(4), torch.tensor(PERIODS, dtype=torch.float64)
    time = random.gamma(0.6, 1.0, EVENTS + 1).cumsum()
    time, x = time[:-1] / time[-1] * LOOP, random.normal(0.0, 2.0, (EVENTS, 1)).astype(np.float32)
    rnn = PhasedLSTM(1, len(PERIODS), period=periods, shift=torch.rand(len(PERIODS)) * periods, ratio_on=RATIO).eval()
    with torch.no_grad():
        for name in ("weight_ih_l0", "weight_hh_l0"):
            rnn.get_parameter(name).mul_(4)  # states that differ visibly
        (gate,), stream = rnn.gates(), Stream(rnn)
        states = [stream.push(x[at], lap * LOOP + time[at]) for lap in range(LAPS) for at in range(EVENTS)]
        opened = gate(torch.from_numpy(time)).numpy() > 0
        return Loop(time, opened, np.stack(states[-EVENTS - 1 :]), (gate.shift % gate.period).numpy())


def draw(loop: Loop) -> str:
    """Return the SVG."""
    at = 100 * loop.time / LOOP  # percent of the animation
    made = loop.opened.cumsum(0).sum(1)
    counts = ["event 0"] + [
        f"event {n} · {done} of {n * len(PERIODS)} updates computed ({done / n / len(PERIODS):.0%})"
        for n, done in enumerate(made, 1)
    ]
    states = loop.states / np.abs(loop.states).max(0)
    rules = [frames("count", {0: "transform:none"} | {p: f"transform:translateY({-30 * n}px)" for n, p in enumerate(at, 1)})]
    flow = [f'<circle class="dot" cx="{SCALE * t:.1f}" cy="{TOP - 12}" r="3"/>' for t in loop.time]
    still = []
    for unit, period in enumerate(PERIODS):
        y = TOP + LANE * (unit + 1)
        half = SCALE * period * RATIO / 2
        starts = SCALE * (loop.starts[unit] + period * np.arange(LOOP / period))
        triangles = "".join(f"M{x:.1f} {y}l{half:.2f}-{PEAK} {half:.2f} {PEAK}" for x in starts)
        flow.append(f'<path class="gate" d="{triangles}"/>')
        still.append(f'<text x="{LEFT - 10}" y="{y - 3}" text-anchor="end">{period:g} ms</text>')
        still.append(
            f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/><line x1="{ZERO}" x2="{ZERO}" y1="{y - PEAK}" y2="{y}"/>'
        )
        still.append(f'<circle class="flash" style="--by:f{unit}" cx="{NOW}" cy="{y - PEAK / 2}" r="7"/>')
        updates = np.flatnonzero(loop.opened[:, unit])
        bars = {at[n - 1] if n else 0: f"transform:scaleX({states[n, unit]:.3f})" for n in (0, *(updates + 1))}
        style = f"--by:s{unit};{bars[0]}"
        still.append(f'<rect class="state step" style="{style}" x="{ZERO}" y="{y - 15}" width="{BAR}" height="10"/>')
        rules.append(frames(f"s{unit}", bars))
        rules.append(frames(f"f{unit}", {p: f"opacity:{o}" for n in updates for p, o in flash(at[n])}))
    moving = "".join(flow)
    laps = "".join(f'<use href="#loop" x="{SCALE * LOOP * lap:g}"/>' for lap in (-1, 1))
    numbers = "".join(f'<text x="{LEFT}" y="{30 * n + 20}">{text}</text>' for n, text in enumerate(counts))
    lower = TOP + LANE * len(PERIODS) + 6
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title">
<title id="title">Events flow past six units. An event updates the units whose gates are open at its time.</title>
<style>{STYLE}{"".join(rules)}</style>
<clipPath id="lanes"><rect x="{LEFT}" y="0" width="{RIGHT - LEFT}" height="{lower}"/></clipPath>
<clipPath id="line"><rect x="0" y="{lower}" width="{WIDTH}" height="30"/></clipPath>
<text x="{LEFT - 10}" y="{TOP - 8}" text-anchor="end">events</text>
<text x="{ZERO}" y="{TOP - 8}" text-anchor="middle">state</text>
<text x="{NOW + 6}" y="14">now</text><line class="now" x1="{NOW}" x2="{NOW}" y1="4" y2="{lower}"/>
<g clip-path="url(#lanes)"><g transform="translate({NOW} 0)">
<g class="flow" style="--by:flow"><g id="loop">{moving}</g>{laps}</g>
</g></g>
{"".join(still)}
<g clip-path="url(#line)"><g transform="translate(0 {lower})"><g class="step" style="--by:count">{numbers}</g></g></g>
</svg>
"""


def frames(name: str, at: Mapping[float, str]) -> str:
    """The keyframes of an animation: CSS by percent."""
    return f"@keyframes {name}{{{''.join(f'{percent:.2f}%{{{css}}}' for percent, css in sorted(at.items()))}}}\n"


def flash(percent: float) -> list[tuple[float, float]]:
    """Opacities of a flash at this percent of the animation: it appears at once and fades."""
    return [(max(0.0, percent - 0.01), 0), (percent, 1), (min(100.0, percent + 3), 0)]
