"""Eq. 11: a memory decays with every update, so a unit that is closed most of the time keeps it much longer."""

from pathlib import Path

from phased_lab.runs.descriptor import Drawn, Experiment


def draw(folder: Path) -> Drawn:
    """Compute it and write `memory.png` and `memory.svg`. Imports are local because only this function needs them."""
    from phased.pictures.save import save
    from phased.pictures.style import styled
    from phased_lab.paper.memory import compute, figure

    decay = compute.run()
    kept, counts = decay.phased[-1], decay.updates
    with styled():
        files = save(figure.draw_memory(decay), folder, "memory")
    return Drawn(
        files,
        f"After {decay.numbers.steps} steps the LSTM has {decay.lstm[-1]:.0e} of its memory left, the Phased LSTM's units "
        f"{kept.min():.2f} to {kept.max():.2f}: they were open at {counts.min()} to {counts.max()} of the steps.",
    )


EXPERIMENT = Experiment(
    name="memory",
    number="Eq. 11",
    title="Memory behind a closed gate",
    place=21,
    about="Eq. 11: memory kept by a closed gate against an LSTM's decay",
    draw=draw,
)
