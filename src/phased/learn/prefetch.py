"""Batches that a GPU makes itself: the next one on a stream of its own, while the GPU trains on the present one."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from phased.learn.batch import Batch


def prefetched(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches in order. On a CUDA device each is made on a second stream, so that making it, and waiting for its size, does
    not wait for the training step before it."""
    return _on_second_stream(batches, device) if device.type == "cuda" else batches


def _on_second_stream(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))  # which may still be writing what batches are made of
    while True:
        with torch.cuda.stream(stream):
            batch = next(batches, None)
        if batch is None:
            return
        training = torch.cuda.current_stream(device)
        training.wait_stream(stream)
        for tensor in _tensors(batch):
            tensor.record_stream(training)  # its memory may be reused only after the training step
        yield batch


def _tensors(batch: Batch) -> Iterator[torch.Tensor]:
    for samples in batch.streams.values():
        yield from (tensor for tensor in samples if tensor.is_cuda)
    yield from (tensor for tensor in (batch.y, batch.mask, batch.segment) if tensor is not None and tensor.is_cuda)
