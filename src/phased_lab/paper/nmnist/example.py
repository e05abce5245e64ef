"""An example of the experiment: one recording, classified event by event by the network that comes with the package."""

from __future__ import annotations

from functools import cache

from phased_lab.runs.descriptor import Illustration


@cache
def illustrate() -> Illustration:
    """The confidence in every class while the events of Figure 5 arrive."""
    from phased.classifier import Classifier
    from phased.pictures.confidence import draw_confidence
    from phased.pictures.style import styled
    from phased_lab.paper import saccades

    shown, classifier = saccades.run(), Classifier.load()
    answer, moments = classifier.classify(shown.recording), list(classifier.follow(shown.recording))
    with styled():
        figure = draw_confidence(shown.recording, moments, classifier.classes, answer, shown.origin)
        # The layout is computed once: computed again, it would move a little, and the same figure would give other files.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    note = (
        f"{shown.origin[0].upper()}{shown.origin[1:]}. The network that comes with the package classifies it as {answer.label}, "
        f"with a confidence of {answer.confidence:.1%} after the last event. phased classify --picture draws any recording so."
    )
    return Illustration("confidence", "Event by event", note, figure)
