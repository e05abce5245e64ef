"""Events: sequences of measurements at uneven times, in flat arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import EllipsisType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phased.estimator.describe import Description, describe
from phased.estimator.future import future_values
from phased.estimator.ragged import check_events, flatten, gather
from phased.estimator.settings import Merge, Settings
from phased.estimator.units import unit_name
from phased.files import named

Index = int | slice | Sequence[int] | Sequence[bool] | NDArray[np.integer[Any]] | NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Events:
    """n sequences of measurements at uneven times. `Events.read` makes it from a table, `Events.of` from arrays.

    A step is a row of a wide table, or the measurements of one time. Several steps may have one time. The steps of sequence i are
    `time[offset[i] : offset[i + 1]]`. The measurements of step s are `value[entry[s] : entry[s + 1]]`, of the variables
    `variable[entry[s] : entry[s + 1]]`. A step may have no measurement. The arrays cannot be written to.

    Indexing by a number, a slice, numbers or a mask selects sequences and gives Events again, so that scikit-learn's
    `cross_val_score`, `GridSearchCV` and `train_test_split` accept them.

    Args:
        ids: one per sequence, integers or strings.
        variables: names of what is measured over time.
        statics: names of what is known once per sequence.
        unit: of `time`, such as "h"; "" if unknown.
        offset: where the steps of each sequence begin, and their number.
        time: not decreasing within a sequence. Where the table has dates: since the sequence's first event.
        entry: where the measurements of each step begin, and their number.
        variable: index into `variables`, increasing within a step.
        value: finite.
        static: NaN where unknown.
        origin: date of time 0 of each sequence (UTC), or None where the table has no dates.
        settings: how the table was read, for `Events.read(like=...)`.
        counts: what happened to rows of the table on reading, such as {"merged": 3}; shown by `describe`.

    Shape:
        - ids: (n,)
        - offset: (n + 1,) int64
        - time: (S,) float64, with S steps in all
        - entry: (S + 1,) int64
        - variable: (M,) int32, with M measurements in all
        - value: (M,) float64
        - static: (n, number of statics) float64
        - origin: (n,) datetime64[us]

    Raises:
        ValueError: the arrays contradict each other, or a time or value is not finite.

    Example:
        >>> from phased.estimator import Events
        >>> times, values = [[0.0, 0.5], [0.2]], [[[73, 15], [77, float("nan")]], [[80, 14]]]
        >>> events = Events.of(times, values, variables=["HR", "GCS"])
        >>> events
        Events of 2 sequences: 3 steps, 5 measurements of 2 variables, 0 static
        >>> events[1].time
        array([0.2])
    """

    ids: NDArray[Any]
    variables: tuple[str, ...]
    statics: tuple[str, ...]
    unit: str
    offset: NDArray[np.int64]
    time: NDArray[np.float64]
    entry: NDArray[np.int64]
    variable: NDArray[np.int32]
    value: NDArray[np.float64]
    static: NDArray[np.float64]
    origin: NDArray[np.datetime64] | None = None
    settings: Settings = field(default_factory=Settings)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_events(self)
        for each in fields(self):
            array = getattr(self, each.name)
            if isinstance(array, np.ndarray):
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, each.name, view)

    @classmethod
    def of(
        cls,
        times: Sequence[ArrayLike],
        values: Sequence[ArrayLike],
        *,
        ids: ArrayLike | None = None,
        variables: Sequence[str] | None = None,
        static: ArrayLike | None = None,
        statics: Sequence[str] | None = None,
        unit: str = "",
    ) -> Events:
        """Sequences from arrays.

        Args:
            times: one array per sequence, not decreasing: numbers, or datetime64, which then count from the first.
            values: one array per sequence; NaN is "not measured".
            ids: by default 0, 1, ...
            variables: names; by default "x0", "x1", ...
            static: what is known once per sequence; NaN is "unknown".
            statics: names; by default "s0", "s1", ...
            unit: of the times; for datetime64 "h" by default.

        Shape:
            - times: n of (T_i,)
            - values: n of (T_i, V), or of (T_i,) for one variable
            - static: (n, number of statics)

        Returns:
            The sequences. Every time is a step, also one at which nothing is measured.

        Raises:
            ValueError: times that decrease or are not finite, infinite values, or shapes that contradict each other. The
                message names id, time and variable.

        Example:
            >>> from phased.estimator import Events
            >>> Events.of([[0.0, 1.5]], [[[1.0], [2.0]]], variables=["dose"], unit="h").dense()
            array([[1.],
                   [2.]])
        """
        return cls(**flatten(times, values, ids, variables, static, statics, unit_name(unit)))

    @classmethod
    def read(
        cls,
        source: Any,
        *,
        id: str | None = None,
        time: str | None = None,
        variable: str | Sequence[str] | None = None,
        value: str | None = None,
        unit: str | None = None,
        static: Sequence[str] | None = None,
        missing: float | Sequence[float] | Mapping[str, float | Sequence[float]] | None = None,
        layout: Literal["auto", "long", "wide"] = "auto",
        merge: Merge | None = None,
        drop: Sequence[str] = (),
        like: Events | Settings | None = None,
        store: Path | str | None = None,
    ) -> Events:
        """Read a table: long (a row per measurement) or wide (a row per time, a column per variable).

        Rows may be in any order. An empty value or NaN is "not measured". Every row of a wide table with a time is a step. In a
        long table the measurements of one time are a step, and a second value of a variable at that time belongs to a second
        step. A sequence without any measurement over time has one step.

        Text becomes a variable of 0 and 1 for each of its levels, called "name=level". A level occurs in at least 10 sequences,
        and a variable has at most 50 of them; all other texts are the level "other". Text with a new value in nearly every row
        is left out with a warning.

        Args:
            source: a path to a CSV or Parquet file; a folder of them, parts of one table if they have a column of ids, otherwise
                a file per sequence with its id as its name; a frame of pandas, polars or arrow; or a dictionary of columns.
            id: column of ids; by default "id", "subject_id" (MEDS) or "RecordID".
            time: column of times: numbers, dates, durations, or text such as "07:30" or "2024-03-01 14:30"; by default "time" or
                "Time".
            variable: column of names in a long table, by default "variable", "code" (MEDS) or "Parameter" (PhysioNet); for a wide
                table a list of columns, by default all others.
            value: column of values in a long table; by default "value", "numeric_value" (MEDS) or "Value" (PhysioNet).
            unit: of the times, such as "h", "min" or "s". Dates are converted to it, by default to "h".
            static: variables known once per sequence. By default those that are measured at the first time of their sequence
                and never later, and in a wide table those that are constant in every sequence.
            missing: numbers that stand for a missing value: for all variables, or by variable as in {"Height": -1}.
            layout: "long" or "wide"; by default long if there are columns of variables and values.
            merge: makes one step of the rows of one time, and one value of several: "mean", "sum", "first", "last" (in the
                table's order), "min" or "max". By default each is a step.
            drop: variables to leave out.
            like: Events, or their settings: the table is read as theirs was, and gets their variables in their order.
            store: a file for the arrays, ending in ".safetensors", where they are larger than memory. The arrays are
                memory-mapped. A call with the same files and arguments uses the file again.

        Returns:
            The sequences in the order in which their ids first appear.

        Raises:
            ValueError: a row without id or time, a time or value that cannot be read; with `like` another unit or an unknown
                variable. The message names id, time, variable and row.
            ModuleNotFoundError: polars is not installed.

        Example:
            >>> from phased.estimator import Events
            >>> table = {"id": [7, 7, 7], "time": [0, 0.5, 0], "variable": ["HR", "HR", "Age"], "value": [73, 77, 54]}
            >>> events = Events.read(table, unit="h")
            >>> events.variables, events.statics, events.time
            (('HR',), ('Age',), array([0. , 0.5]))
        """
        from phased.estimator.tables.read import read_table  # polars is imported where tables are read

        asked = Settings.asked(
            id=id,
            time=time,
            variable=variable,
            value=value,
            unit=unit,
            static=static,
            missing=missing,
            layout=layout,
            merge=merge,
            drop=drop,
        )
        settings = getattr(like, "settings", like)
        if not isinstance(settings, Settings | None):
            raise TypeError(f"like must be Events, or the settings of Events, got {type(like).__name__}.")
        return read_table(source, asked, settings, None if store is None else named(store))

    def labels(self, source: Any, *, id: str | None = None, target: str | None = None, time: str | None = None) -> NDArray[Any]:
        """The targets of a table, in the order of these sequences.

        Args:
            source: a table with a row per sequence, or, with `time`, a row per step; as for `Events.read`.
            id: column of ids; by default that of these events' table, "id", "subject_id" or "RecordID".
            target: column of targets; by default "target", or the only column that is left.
            time: column of times, for one target per step. Of several rows at one time, the last belongs to the last step.

        Returns:
            Targets: integers, floats or text as in the table; NaN, or None for text, at a step without one.

        Shape:
            - Output: (n,), or (S,) with `time`

        Raises:
            ValueError: a sequence without a target, a target without a sequence or step, several targets for one, or a target
                that is among the inputs. `labelled` leaves out sequences without a target, and the reverse.

        Example:
            >>> from phased.estimator import Events
            >>> events = Events.of([[0.0], [0.2]], [[1.0], [2.0]], ids=[7, 3])
            >>> events.labels({"id": [3, 7], "died": [1, 0]})
            array([0, 1])
        """
        from phased.estimator.tables.labels import read_labels

        return read_labels(self, source, id=id, target=target, time=time, partial=False)[1]

    def labelled(self, source: Any, *, id: str | None = None, target: str | None = None) -> tuple[Events, NDArray[Any]]:
        """The sequences that have a target in a table, and their targets.

        Args:
            source: a table with a row per sequence.
            id: column of ids, as for `labels`.
            target: column of targets, as for `labels`.

        Returns:
            Events, and one target for each of their sequences.

        Raises:
            ValueError: no sequence has a target, one has several, or the target is among the inputs.

        Example:
            >>> from phased.estimator import Events
            >>> events = Events.of([[0.0], [0.2]], [[1.0], [2.0]], ids=[7, 3])
            >>> events.labelled({"id": [3, 8], "died": [1, 0]})
            (Events of 1 sequences: 1 steps, 1 measurements of 1 variables, 0 static, array([1]))
        """
        from phased.estimator.tables.labels import read_labels

        rows, targets = read_labels(self, source, id=id, target=target, time=None, partial=True)
        return self[rows], targets

    def future(self, variable: str, horizon: float | str | None = None) -> NDArray[Any]:
        """The later values of a variable, as a target for each step.

        Args:
            variable: a variable that is measured over time. A text variable gives its levels.
            horizon: length of time such as "24h", or a number in the unit of the times: the target of a step is the value at
                exactly that time after the step. By default the target is the next value, at any later step.

        Returns:
            Targets: floats, NaN at a step without one; or text, None at a step without one.

        Shape:
            - Output: (S,)

        Raises:
            ValueError: the variable is unknown or static, no step has a target, or one has several.

        Example:
            >>> from phased.estimator import Events
            >>> events = Events.of([[0.0, 6.0, 24.0]], [[20.0, 25.0, 30.0]], variables=["wind"], unit="h")
            >>> events.future("wind"), events.future("wind", "1d")
            (array([25., 30., nan]), array([30., nan, nan]))
        """
        return future_values(self, variable, horizon)

    def describe(self) -> Description:
        """What the sequences contain: numbers, gaps, spans, shares observed, and warnings.

        Returns:
            A description to print; `warnings` has what may be wrong, a sentence each.

        Example:
            >>> from phased.estimator import Events
            >>> print(Events.of([[0.0, 1.0, 3.0]], [[36.5, 36.9, 38.0]], variables=["Temp"], unit="h").describe())
            1 sequence, 3 steps, 3 measurements
                                       min        25 %      median        75 %         max
            steps a sequence             3           3           3           3           3
            gap (h)                      1        1.25         1.5        1.75           2
            span (h)                     3           3           3           3           3
            <BLANKLINE>
            variable              observed         min        25 %      median        75 %         max
            Temp                     100 %        36.5        36.7        36.9       37.45          38
        """
        return describe(self)

    @property
    def shape(self) -> tuple[int]:
        """(n,): one item per sequence."""
        return (len(self.ids),)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of steps of each sequence, (n,)."""
        return np.diff(self.offset)

    @property
    def sequence(self) -> NDArray[np.int64]:
        """Sequence of each step, (S,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def step(self) -> NDArray[np.int64]:
        """Step of each measurement, (M,)."""
        return np.repeat(np.arange(len(self.time)), np.diff(self.entry))

    def gaps(self) -> NDArray[np.float64]:
        """Time between each step and the next of the same sequence, (S - n,) where every sequence has a step."""
        found: NDArray[np.float64] = np.diff(self.time)[np.diff(self.sequence) == 0]
        return found

    def spans(self) -> NDArray[np.float64]:
        """Time from the first to the last step of each sequence, (n,); 0 without steps."""
        found, some = np.zeros(len(self)), self.lengths > 0
        found[some] = self.time[self.offset[1:][some] - 1] - self.time[self.offset[:-1][some]]
        return found

    def by_variable(self, of: NDArray[Any]) -> list[NDArray[Any]]:
        """Numbers of measurements (M,), such as `value`, split by variable."""
        number = len(self.variables)
        order = np.argsort(self.variable.astype(np.uint16) if number < 2**16 else self.variable, kind="stable")  # 16 bits: radix
        ends = np.cumsum(np.bincount(self.variable, minlength=number))
        return np.split(of[order], ends[:-1]) if number else []

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Events]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"Events of {len(self)} sequences: {len(self.time)} steps, {len(self.value)} measurements of {len(self.variables)} "
            f"variables, {len(self.statics)} static"
        )

    def __getitem__(self, index: Index | tuple[Index, EllipsisType]) -> Events:
        """These sequences in this order; one sequence stays Events."""
        wanted: Any = index[0] if isinstance(index, tuple) else index  # scikit-learn indexes with [rows, ...]
        if isinstance(wanted, slice):
            rows = np.arange(len(self))[wanted]
        elif np.ndim(wanted) == 0:
            place = operator.index(wanted)
            if not -len(self) <= place < len(self):
                raise IndexError(f"index must be from {-len(self)} to {len(self) - 1}, got {place}.")
            rows = np.array([place % len(self)])
        else:
            rows = np.arange(len(self))[np.asarray(wanted, None if len(wanted) else np.int64)]
        return self._take(rows)

    def _take(self, rows: NDArray[np.int64]) -> Events:
        """The sequences of these numbers, copied."""
        step, offset = gather(self.offset, rows)
        measurement, entry = gather(self.entry, step)
        return Events(
            self.ids[rows],
            self.variables,
            self.statics,
            self.unit,
            offset,
            self.time[step],
            entry,
            self.variable[measurement],
            self.value[measurement],
            self.static[rows],
            None if self.origin is None else self.origin[rows],
            self.settings,
            self.counts,
        )

    def dense(self) -> NDArray[np.float64]:
        """Values as a matrix, a row per step and a column per variable.

        Returns:
            (S, number of variables) float64, NaN where not measured.

        Example:
            >>> from phased.estimator import Events
            >>> Events.of([[0.0, 1.0]], [[[1.0, float("nan")], [2.0, 3.0]]]).dense()
            array([[ 1., nan],
                   [ 2.,  3.]])
        """
        matrix = np.full((len(self.time), len(self.variables)), np.nan)
        matrix[self.step, self.variable] = self.value
        return matrix
