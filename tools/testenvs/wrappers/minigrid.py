"""MiniGrid and BabyAI: their mission is text, which is no array. Here it goes, or becomes the numbers of its words."""
import gymnasium
import minigrid
from gymnasium.wrappers import FilterObservation
from minigrid.wrappers import DictObservationSpaceWrapper, FullyObsWrapper, ImgObsWrapper


def make(name):
    """A Dict without the mission."""
    return FilterObservation(gymnasium.make(name), ["image", "direction"])


def words(name):
    """A Dict whose mission is an array, each word a number."""
    return DictObservationSpaceWrapper(gymnasium.make(name))


def image(name):
    """The image alone, of the whole grid."""
    return ImgObsWrapper(FullyObsWrapper(gymnasium.make(name)))
