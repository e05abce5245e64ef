"""Classifier: a trained network on recordings of an event camera, event by event."""

from phased.classifier.classifier import Answer, Classifier
from phased.classifier.network import About, EventEmbedding, Score
from phased.classifier.session import Moment, Session
from phased.data.recording import crop
from phased.model_folder import BadModel

__all__ = ["About", "Answer", "BadModel", "Classifier", "EventEmbedding", "Moment", "Score", "Session", "crop"]
