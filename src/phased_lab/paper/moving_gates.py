"""A moving picture: events reach a layer and update the units whose gates are open. SVG with CSS animations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phased.layer import PhasedLSTM
from phased.stream import Stream
from phased_lab.runs.descriptor import Array

PERIODS = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0)  # ms
LOOP = PERIODS[-1]  # ms, a multiple of all periods: the picture repeats without a jump
EVENTS = 37  # per loop
SECONDS = 8  # per loop
LAPS = 20  # loops after which the states repeat
FLASH = 3.0  # percent of a loop

# Pixels.
SCALE = 4  # per ms
LEFT, NOW, RIGHT, ZERO, WIDTH = 70, 420, 560, 640, 720  # lanes from LEFT to RIGHT; a state of 0 is at ZERO
TOP, LANE, PEAK, LOWER = 40, 30, 20, 226  # of the first lane, between lanes, of an open gate, and of the counter

STYLE = f"""
:root{{--ink:#1f2328;--quiet:#656d76;--line:#d1d9e0;--open:#0969da;--flash:#d1495b}}
@media(prefers-color-scheme:dark){{:root{{--ink:#e6edf3;--quiet:#9198a1;--line:#3d444d;--open:#4493f8;--flash:#ff7b72}}}}
text{{font:13px system-ui,sans-serif;fill:var(--quiet)}}line{{stroke:var(--line)}}.now{{stroke:var(--flash);stroke-width:2}}
.dot{{fill:var(--ink)}}.gate{{fill:var(--open);opacity:.6}}.flash{{fill:var(--flash);opacity:var(--on)}}
.state{{fill:var(--open);transform-origin:{ZERO}px 0;transform:scaleX(var(--state))}}
.flow,.step{{animation:var(--by) {SECONDS}s linear infinite}}.step{{animation-timing-function:step-end}}
@keyframes flow{{to{{transform:translateX({-SCALE * LOOP:g}px)}}}}
@media(prefers-reduced-motion:reduce){{*{{animation:none!important}}}}
"""


class Loop(NamedTuple):
    """One loop of the events: their times (EVENTS,) in ms, which units are open (EVENTS, H), and the states before and after."""

    time: Array
    opened: NDArray[np.bool_]
    states: Array  # (EVENTS + 1, H)
    layer: PhasedLSTM


def run() -> Loop:
    """Push irregular events into a layer with the default open ratio until its states repeat from loop to loop."""
    torch.manual_seed(44)
    random, periods = np.random.default_rng(40), torch.tensor(PERIODS, dtype=torch.float64)
    time = random.gamma(0.6, 1.0, EVENTS + 1).cumsum()
    time, x = time[:-1] / time[-1] * LOOP, random.normal(0.0, 2.0, (EVENTS, 1)).astype(np.float32)
    rnn = PhasedLSTM(1, len(PERIODS), period=periods, shift=torch.rand(len(PERIODS)) * periods).eval()
    with torch.no_grad():
        for name in ("weight_ih_l0", "weight_hh_l0"):
            rnn.get_parameter(name).mul_(4)  # states that differ visibly
        stream = Stream(rnn)
        states = [stream.push(x[at], lap * LOOP + time[at]) for lap in range(LAPS) for at in range(EVENTS)]
        return Loop(time, rnn.gates()[0](torch.from_numpy(time)).numpy() > 0, np.stack(states[-EVENTS - 1 :]), rnn)


def draw(loop: Loop) -> str:
    """Return the SVG."""
    at = 100 * loop.time / LOOP  # percent of the animation
    done, computed = np.arange(EVENTS + 1) * len(PERIODS), [0, *loop.opened.sum(1).cumsum()]
    numbers = "".join(
        f'<text x="{LEFT}" y="{30 * n + 20}">event {n} | updates {some} of {every} ({100 * some / max(1, every):.0f} %)</text>'
        for n, (some, every) in enumerate(zip(computed, done, strict=True))
    )
    rules = [frames("count", {percent: f"transform:translateY({-30 * n}px)" for n, percent in enumerate((0.0, *at))})]
    moving, still = [f'<circle class="dot" cx="{SCALE * t:.1f}" cy="{TOP - 12}" r="3"/>' for t in loop.time], []
    states = loop.states / np.abs(loop.states).max(0)
    period, shift, ratio = (values.detach().numpy() for values in loop.layer.gates()[0].parameters())
    for unit, y in enumerate(range(TOP + LANE, LOWER, LANE)):
        half = SCALE * period[unit] * ratio[unit] / 2
        starts = SCALE * np.arange(shift[unit] % period[unit], LOOP, period[unit])
        moving.append(f'<path class="gate" d="{"".join(f"M{x:.1f} {y}l{half:.2f}-{PEAK} {half:.2f} {PEAK}" for x in starts)}"/>')
        updates = np.flatnonzero(loop.opened[:, unit])
        ends = {percent + FLASH: "--on:0" for percent in at[updates] if percent + FLASH < 100}
        rules.append(frames(f"unit{unit}", ends | {at[n]: f"--on:1;--state:{states[n + 1, unit]:.3f}" for n in updates}))
        still.append(
            f'<text x="{LEFT - 10}" y="{y - 3}" text-anchor="end">{period[unit]:g} ms</text>'
            f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/><line x1="{ZERO}" x2="{ZERO}" y1="{y - PEAK}" y2="{y}"/>'
            f'<g class="step" style="--by:unit{unit};--on:0;--state:{states[0, unit]:.3f}"><circle class="flash" cx="{NOW}" '
            f'cy="{y - PEAK / 2}" r="7"/><rect class="state" x="{ZERO}" y="{y - 15}" width="60" height="10"/></g>'
        )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {LOWER + 34}" role="img" aria-labelledby="title">
<title id="title">Events flow past six units. An event updates the units whose gates are open at its time.</title>
<style>{STYLE}{"".join(rules)}</style>
<clipPath id="lanes"><rect x="{LEFT}" y="0" width="{RIGHT - LEFT}" height="{LOWER}"/></clipPath>
<clipPath id="line"><rect x="0" y="{LOWER}" width="{WIDTH}" height="30"/></clipPath>
<text x="{LEFT - 10}" y="{TOP - 8}" text-anchor="end">events</text>
<text x="{ZERO}" y="{TOP - 8}" text-anchor="middle">state</text>
<text x="{NOW + 6}" y="14">now</text><line class="now" x1="{NOW}" x2="{NOW}" y1="4" y2="{LOWER}"/>
<g clip-path="url(#lanes)"><g transform="translate({NOW} 0)"><g class="flow" style="--by:flow"><g id="loop">{"".join(moving)}</g>
<use href="#loop" x="{-SCALE * LOOP:g}"/><use href="#loop" x="{SCALE * LOOP:g}"/></g></g></g>
{"".join(still)}
<g clip-path="url(#line)"><g transform="translate(0 {LOWER})">
<g class="step" style="--by:count;transform:translateY({-30 * EVENTS}px)">{numbers}</g></g></g>
</svg>
"""


def frames(name: str, at: dict[float, str]) -> str:
    """Return the keyframes of an animation: CSS by percent."""
    return f"@keyframes {name}{{{''.join(f'{percent:.2f}%{{{css}}}' for percent, css in sorted(at.items()))}}}\n"
