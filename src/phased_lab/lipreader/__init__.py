"""Words of GRID recognised from the face and the voice of a speaker, by a network that is stored in a folder."""

from phased.model_folder import BadModel
from phased_lab.lipreader.grammar import Spoken, Timing
from phased_lab.lipreader.network import About, Config, Scaling
from phased_lab.lipreader.reader import LipReader

__all__ = ["About", "BadModel", "Config", "LipReader", "Scaling", "Spoken", "Timing"]
