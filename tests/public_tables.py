"""Small made-up tables with the names and columns of public ones, in a folder as PHASED_DATA has them."""

import lzma
from pathlib import Path

import numpy as np
import polars as pl

SEQUENCES = 30


def write_tables(folder: Path) -> Path:
    """Write `vowels` (a class per sequence), `pbc` (a class per step, some unknown) and `storms` (a number per step)."""
    random = np.random.default_rng(0)
    lengths = random.integers(5, 12, SEQUENCES)
    row = np.repeat(np.arange(SEQUENCES), lengths)
    step = np.concatenate([np.arange(length) for length in lengths])
    speaker, level = row % 3, random.normal(size=len(row)).cumsum()
    noise = 0.1 * random.normal(size=(2, len(row)))
    vowels = pl.DataFrame({"utterance": row, "frame": step, "lpc1": (speaker == 1) + noise[0], "lpc2": (speaker == 2) + noise[1]})
    speakers = pl.DataFrame({"utterance": range(SEQUENCES), "speaker": [f"speaker {n % 3}" for n in range(SEQUENCES)]})
    visits = pl.DataFrame({"id": row, "year": step + random.random(len(row)) / 2, "sex": np.array(["f", "m"])[row % 2]})
    visits = visits.with_columns(bili=pl.Series(level).set(pl.Series(random.random(len(row)) < 0.2), None))
    events = visits[["id", "year"]].with_columns(event_in_2_years=pl.Series((level > 0) * 1.0).set(pl.Series(step == 3), None))
    reports = pl.DataFrame({"id": row, "time": 6 * step, "wind": level})
    winds = reports[["id", "time"]].with_columns(wind_in_24h=pl.Series(level + 0.5))
    for name, table, labels in (("vowels", vowels, speakers), ("pbc", visits, events), ("storms", reports, winds)):
        place = folder / "tables" / name
        place.mkdir(parents=True)
        for file, frame in (("train", table), ("train_labels", labels)):
            if name == "storms":
                (place / f"{file}.csv.xz").write_bytes(lzma.compress(frame.write_csv().encode()))
            else:
                frame.write_parquet(place / f"{file}.parquet")
    return folder
