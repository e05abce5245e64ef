"""Tests of a network: its metric, and how many of its units were updated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from phased.learn import loader
from phased.learn.batch import Evaluation
from phased.learn.metric import Objective, mean, sum_of_losses, sum_of_scores, summed
from phased.learn.share import Opaque, Share, shares
from phased.learn.store import Score

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@torch.no_grad()
def evaluate(module: Any, batches: Iterator[Share], fabric: Fabric, objective: Objective | None = None) -> Score:
    """The result of a test in eval."""
    module.eval()
    score, loss, whole, steps, made, possible = torch.zeros(6, dtype=torch.float64, device=fabric.device)
    answers, count, sequences, gated, segments = 0, 0, 0, False, False
    for batch, labels, _ in batches:
        output = module(Opaque(batch))
        scores = sum_of_scores(output, batch, labels, objective)
        score += scores.score
        answers += scores.answers
        if scores.whole is not None:
            segments = True
            whole += scores.whole
        loss += sum_of_losses(output, batch, objective)
        count += labels
        sequences += batch.size
        steps += sum(samples.lengths.sum() for samples in batch.streams.values())
        updates = module.model.updates(batch)
        if updates is not None:
            gated = True
            made += updates.made
            possible += updates.possible
    test, mean_loss = mean(score, answers, fabric), mean(loss, count, fabric)
    taken, tested = summed(steps, sequences, fabric)
    right = summed(whole, sequences, fabric)[0] / tested if segments else None
    opened = None
    if gated:
        above, below = summed(made, possible, fabric)
        opened = above / below if below else 0.0
    return Score(test, int(tested), taken / tested, opened, mean_loss, right)


def evaluate_further(
    tests: Mapping[str, Evaluation], module: Any, size: int, seed: int, fabric: Fabric, objective: Objective | None = None
) -> dict[str, Score]:
    """The results of a task's further tests in batches of `size` sequences, by name."""
    found = {}
    for name, (test, sequences) in tests.items():
        places = loader.test_places(sequences, size)
        found[name] = evaluate(module, shares(test, size, seed, places, fabric), fabric, objective)
    return found
