"""A classifier as a folder; see `phased.model_folder`."""

from __future__ import annotations

from pathlib import Path

from phased.classifier.card import card
from phased.classifier.network import Config
from phased.model_folder import Kind

SHIPPED = Path(__file__).parent / "nmnist"
KIND = Kind("phased event classifier", version=1, config=Config, card=card, build=Config.build)
