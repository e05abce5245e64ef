"""Methods of a trained estimator: its folder, and online sequences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from phased import files
from phased.estimator import store
from phased.estimator.online import Online
from phased.estimator.online_model import OnlineModel


class SavedMixin:
    """`save`, `load` and `online`, for both estimators."""

    _shared: OnlineModel | None = None

    def save(self, folder: Path | str, command: str = "") -> None:
        """Write the model as a folder: parameters (safetensors), configuration (JSON) and a model card.

        Args:
            folder: The folder. It is created if needed. The files of an older model in it are replaced, all or none of them.
            command: The command that trained it, for the model card.

        Raises:
            sklearn.exceptions.NotFittedError: `fit` was not called.
            ValueError: The name is empty.
            OSError: The folder cannot be written to, or has files of these names that are not those of a model.

        Example:
            >>> from tempfile import mkdtemp
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> model = PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20))
            >>> folder = mkdtemp()
            >>> model.save(folder)
            >>> bool((PhasedRegressor.load(folder).predict(X) == model.predict(X)).all())
            True
        """
        check_is_fitted(self, "network_")
        store.write(files.named(folder), self, command)

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read a model from its folder. No code in the files is executed.

        Args:
            folder: The folder that `save` or `phased fit` wrote.

        Returns:
            The trained estimator.

        Raises:
            phased.estimator.BadModel: A file is missing, damaged, of another version or of another kind of model.

        Example:
            >>> from phased.estimator import PhasedClassifier
            >>> PhasedClassifier.load("nowhere")
            Traceback (most recent call last):
                ...
            phased.model_folder.BadModel: there is no folder 'nowhere' with a model. ...
        """
        model = store.read(files.named(folder), cls)
        assert isinstance(model, cls)
        return model

    def online(self, static: Mapping[str, Any] | None = None, state: bytes | None = None) -> Online:
        """Begin a sequence that is fed event by event, or continue one.

        Args:
            static: Static variables to numbers; those that are left out are unknown.
            state: What `Online.dump` returned, to continue that sequence; it has its static variables.

        Returns:
            The sequence. After each event it gives what the model gives for the events so far.

        Raises:
            sklearn.exceptions.NotFittedError: `fit` was not called.
            ValueError: A static variable is unknown, or the state is of another model.
            TypeError: A static variable is no number.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedClassifier
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in [0, 1] * 10]
            >>> model = PhasedClassifier(units=4, epochs=1, random_state=0).fit(X, [0, 1] * 10)
            >>> 0 < model.online().push(0.12, {"x0": 1.0}) < 1
            True
        """
        check_is_fitted(self, "network_")
        owner: Any = self
        if self._shared is None:
            target = (owner.center_, owner.spread_) if owner.kind == "regressor" else None
            self._shared = OnlineModel(owner.network_, owner.scaling_, owner.columns_, target, owner.table_.settings)
        if state is not None and static is not None:
            raise ValueError("state has the static variables of its sequence already. Leave out static.")
        sequence = Online(self._shared, static)
        if state is not None:
            sequence.restore(state)
        return sequence

    def __getstate__(self) -> dict[str, Any]:
        values: Any = super().__getstate__()
        return {name: value for name, value in values.items() if name != "_shared"}
