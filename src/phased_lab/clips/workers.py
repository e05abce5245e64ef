"""Work in several processes that survives a process which dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import current_process, get_context, parent_process
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

UNGUARDED = (
    "several processes must be started by a script that can be imported, and this one cannot. Put the call under "
    "`if __name__ == '__main__':`, or use workers=1."
)


def in_processes(work: Callable[[T], R], items: Sequence[T], workers: int, lost: Callable[[T], R]) -> Generator[R, None, None]:
    """Yield the results as they are done. One worker is this process.

    A process can die: from a bug in a decoder, or for lack of memory. What was begun then is repeated, each item in a process of
    its own; the result of an item whose process dies again is `lost(item)`. If the caller stops, by an error or Ctrl-C, only
    work that has begun is finished.
    """
    if workers == 1 or len(items) < 2:
        yield from map(work, items)
        return
    left = list(reversed(items))
    while left:
        begun: dict[Future[R], T] = {}
        pool = _pool(min(workers, len(left)))
        try:
            while begun or left:
                while left and len(begun) <= workers:
                    begun[pool.submit(work, left[-1])] = left[-1]
                    left.pop()
                for future in wait(begun, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    del begun[future]
                    yield result
        except BrokenProcessPool:
            pool.shutdown()
            if not _alone(_alive, True, lambda _: False):
                raise RuntimeError(UNGUARDED) from None
            yield from (_alone(work, item, lost) for item in begun.values())
        finally:
            pool.shutdown(cancel_futures=True)


def check_guarded() -> None:
    """An error in a process that is being started, and for that executes the caller's script once more."""
    if getattr(current_process(), "_inheriting", False):
        raise RuntimeError(UNGUARDED)


def _alive(answer: bool) -> bool:
    return answer


def _alone(work: Callable[[T], R], item: T, lost: Callable[[T], R]) -> R:
    with _pool(1) as pool:
        try:
            return pool.submit(work, item).result()
        except BrokenProcessPool:
            return lost(item)


def _pool(workers: int) -> ProcessPoolExecutor:
    # Not forked: a copy of a process with threads, such as those of torch, can block forever.
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """Ctrl-C reaches all processes of a terminal; only the first one handles it. OpenCV uses one core a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        import cv2
    except ModuleNotFoundError:
        return
    cv2.setNumThreads(1)


def _end_with_parent() -> None:
    """If the first process is killed, the others would wait for work forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
