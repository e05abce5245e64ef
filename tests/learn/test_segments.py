"""Segments: steps that answer together, such as those of a word."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from phased.learn import Batch, Model, Training, make_fabric
from phased.learn.feed import Part
from phased.learn.loop import evaluate
from phased.learn.metric import sum_of_losses, sum_of_scores
from phased.learn.step import Step

CLASSES = 4


def made(seed: int, sequences: int, steps: int, segments: int) -> tuple[torch.Tensor, Batch]:
    """Outputs and a batch whose steps belong to random segments, each with one class; some steps count for none."""
    random = torch.Generator().manual_seed(seed)
    segment = torch.randint(segments, (steps, sequences), generator=random)
    classes = torch.randint(CLASSES, (segments, sequences), generator=random)
    mask = torch.rand(steps, sequences, generator=random) < 0.7
    mask[0, 0] = True
    lengths = torch.full((sequences,), steps)
    time = torch.arange(float(steps)).unsqueeze(-1).expand(steps, sequences)
    batch = Batch.of(torch.zeros(steps, sequences, 1), time, lengths, classes.gather(0, segment), mask, segment)
    return torch.randn(steps, sequences, CLASSES, generator=random), batch


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 9), st.integers(1, 4))
def test_a_segment_answers_with_the_largest_sum_of_log_probabilities_and_the_loss_is_of_steps(seed, sequences, steps, segments):
    output, batch = made(seed, sequences, steps, segments)
    right, answers, whole = 0, 0, 0
    for b in range(sequences):
        mistakes = 0
        for number in range(segments):
            inside = [t for t in range(steps) if batch.mask[t, b] and batch.segment[t, b] == number]
            if inside:
                answer = sum(output[t, b].log_softmax(-1) for t in inside).argmax()
                answers += 1
                right += int(answer == batch.y[inside[0], b])
                mistakes += int(answer != batch.y[inside[0], b])
        whole += mistakes == 0
    scores = sum_of_scores(output, batch, batch.labels)
    assert (int(scores.score), scores.answers, int(scores.whole)) == (right, answers, whole)
    assert torch.equal(sum_of_losses(output, batch), sum_of_losses(output, Batch(batch.streams, batch.y, batch.mask)))


class Fixed(Model):
    """Gives outputs made before, whatever it reads."""

    def __init__(self, outputs: list[torch.Tensor]) -> None:
        super().__init__()
        self.outputs = iter(outputs)

    def forward(self, batch: object) -> torch.Tensor:
        return next(self.outputs)


def test_a_test_counts_segments_sentences_and_the_loss_of_steps():
    parts = [made(seed, 3, 20, 4) for seed in range(2)]
    model = Fixed([output for output, _ in parts])
    step = Step(model, None, Training(), make_fabric("cpu"))
    score = evaluate(step, iter([Part(batch, batch.labels, batch.labels) for _, batch in parts]))
    sums = [sum_of_scores(output, batch, batch.labels) for output, batch in parts]
    losses = sum(float(sum_of_losses(output, batch)) for output, batch in parts)
    assert score.test == sum(int(each.score) for each in sums) / sum(each.answers for each in sums)
    assert score.whole == sum(int(each.whole) for each in sums) / 6
    assert math.isclose(score.loss, losses / sum(batch.labels for _, batch in parts), rel_tol=1e-6)
