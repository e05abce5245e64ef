"""One sequence, event by event: what streams, fusion streams, camera sessions and online sequences have in common."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Self

from torch import Tensor

from phased import check

MARK, VERSION = b"phased", 1
MODEL, DIGEST = 16, 16  # bytes


class OneSequence(ABC):
    """A sequence that takes events. All that changes is `_now`, a small value with a `copy`; copies share the weights."""

    _now: Any
    _identity: list[bytes]
    """What `_identify` returned, once it was asked; copies share the list."""

    @abstractmethod
    def _start(self) -> Any:
        """The value of `_now` before the first event."""

    @abstractmethod
    def _identify(self) -> bytes:
        """Identifies the weights and whatever else decides the answers, MODEL bytes."""

    @abstractmethod
    def _pack(self) -> bytes:
        """`_now` as bytes."""

    @abstractmethod
    def _unpack(self, data: bytes) -> Any:
        """The value of `_now` from what `_pack` returned."""

    def reset(self) -> None:
        """Forget all events; the next one may have any time.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> stream = Stream(PhasedLSTM(3, 8))
            >>> h = stream.push(torch.randn(3), 1e6)
            >>> stream.reset()
            >>> h = stream.push(torch.randn(3), 0.0)
        """
        self._now = self._start()

    def copy(self) -> Self:
        """Make another sequence on the same weights, with its own copy of the state and the time.

        Returns:
            The new sequence.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> first = Stream(PhasedLSTM(3, 8))
            >>> second = first.copy()
            >>> h = first.push(torch.randn(3), 5.0)
            >>> first.time, second.time
            (5.0, None)
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._now = self._now.copy()
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def _model(self) -> bytes:
        if not self._identity:
            self._identity.append(self._identify())
        return self._identity[0]

    def dump(self) -> bytes:
        """Write the state and the time as bytes, for a file or a database; `restore` continues from there.

        Returns:
            About a kilobyte. It has no weights, and is for this model only.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> rnn = PhasedLSTM(3, 8)
            >>> first, second = Stream(rnn), Stream(rnn)
            >>> h = first.push(torch.randn(3), 5.0)
            >>> second.restore(first.dump())
            >>> second.time
            5.0
        """
        content = b"".join((MARK, VERSION.to_bytes(2, "little"), self._model(), self._pack()))
        return content + hashlib.blake2b(content, digest_size=DIGEST).digest()

    def restore(self, state: bytes) -> None:
        """Continue from what `dump` returned. An error leaves the sequence as it was.

        Args:
            state: What `dump` returned, of a sequence of the same model.

        Raises:
            ValueError: The state is of another model or another version of phased, or it is cut off or damaged.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> stream = Stream(PhasedLSTM(3, 8))
            >>> before = stream.dump()
            >>> h = stream.push(torch.randn(3), 5.0)
            >>> stream.restore(before)
            >>> stream.time is None
            True
        """
        begin = len(MARK) + 2
        end = len(state) - DIGEST if type(state) is bytes else 0
        if end < begin + MODEL or hashlib.blake2b(state[:end], digest_size=DIGEST).digest() != state[end:]:
            raise ValueError(f"state must be what dump() returned, got {check.kind(state)} that is cut off or damaged.")
        version = int.from_bytes(state[len(MARK) : begin], "little")
        if state[: len(MARK)] != MARK or version != VERSION:
            raise ValueError(f"state must be of version {VERSION}, got {version}. Make it with this version of phased.")
        if state[begin : begin + MODEL] != self._model():
            raise ValueError("state must be of this model, got one of another. Load the model that it was made with.")
        self._now = self._unpack(state[begin + MODEL : end])


def identity(settings: Any, tensors: Iterable[Tensor]) -> bytes:
    """Identifies settings, by their `repr`, and tensors on the CPU."""
    total = hashlib.blake2b(repr(settings).encode(), digest_size=MODEL)
    for tensor in tensors:
        total.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode() + tensor.numpy().tobytes())
    return total.digest()
