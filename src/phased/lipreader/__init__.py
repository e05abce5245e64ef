"""Words of GRID recognised from the face and the voice of a speaker, by a network that is stored in a folder."""

from phased.lipreader.config import About, Config
from phased.lipreader.grammar import Spoken, Timing
from phased.lipreader.inputs import Scaling
from phased.lipreader.reader import LipReader
from phased.model_folder import BadModel

__all__ = ["About", "BadModel", "Config", "LipReader", "Scaling", "Spoken", "Timing"]
