"""Classifier: a trained network on recordings of an event camera, event by event."""
