"""Environments and vectors of the tests, of gymnasium."""
import gymnasium
import numpy
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorWrapper


class Count(gymnasium.Env):
    """Shows how many steps the episode has, which ends by its third. It fails on the action 1."""

    observation_space, action_space = spaces.Box(0, 100, (1,)), spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.see(), {}

    def see(self):
        return numpy.array([self.t], "float32")

    def step(self, action):
        if action == 1:
            raise ValueError("no such step")
        self.t += 1
        return self.see(), 1.0, False, self.t == 3, {}


def sync(mode):  # a wrapper's steps are its own
    return VectorWrapper(SyncVectorEnv([Count, Count], autoreset_mode=AutoresetMode[mode]))


def asynchronous(mode):
    return AsyncVectorEnv([Count, Count], autoreset_mode=AutoresetMode[mode])


class Same(gymnasium.vector.VectorEnv):
    """Begins the next episode in the step that ends one, does not say so, and takes no masks."""

    num_envs, metadata = 2, {}
    single_observation_space, observation_space = Count.observation_space, spaces.Box(0, 100, (2, 1))

    def __init__(self, final="final_observation", listed=False):
        self.final, self.listed = final, listed

    def reset(self, seed=None, options=None):
        self.t = numpy.zeros((2, 1), "float32")
        return self.t.copy(), {}

    def step(self, actions):
        self.t += 1
        infos, over = {}, self.t[:, 0] == 3
        if over.any():
            infos = {self.final: self.t.copy(), "_" + self.final: over}
            self.t[over] = 0
        if self.listed:
            infos = [{self.final: infos[self.final][i]} if over[i] else {} for i in range(2)]
        return self.t.copy(), numpy.ones(2), over & False, over, infos


class Parts(Count):
    """Its observation has parts, in another order than its space."""

    observation_space = spaces.Dict({"image": spaces.Box(0, 255, (2, 2), "uint8"), "at": spaces.Discrete(4), "arm": spaces.Dict({"angle": spaces.Box(-1, 1, (), "float64")})})

    def see(self):
        return {"arm": {"angle": 0.5}, "at": self.t, "image": numpy.full((2, 2), self.t, "uint8")}


class Pair(Count):
    """Its observation is a tuple, as that of Blackjack."""

    observation_space = spaces.Tuple((spaces.Discrete(5), spaces.Box(0, 1, (2,))))

    def see(self):
        return self.t, numpy.array([0.5, 1], "float32")


def whole_parts():
    return VectorWrapper(SyncVectorEnv([Parts, Parts], autoreset_mode=AutoresetMode.SAME_STEP))


class Odd(Count):
    """Shows what kind says."""

    def __init__(self, kind):
        self.kind = kind
        if kind in ("text", "unlike"):
            self.observation_space = spaces.Dict({"mission": spaces.Text(9), "at": spaces.Discrete(4)})

    def see(self):
        return {
            "text": {"mission": "go", "at": 1}, "unlike": {"at": 1}, "none": None, "masked": numpy.ma.masked_array([1.0], [True]), "objects": numpy.array([None]),
            "large": numpy.array([1.0, 1e300]), "narrow": numpy.array([1, 2], "int16"), "endless": numpy.array([numpy.inf]), "list": [1, 2], "scalar": numpy.float64(3),
            "foreign": Foreign(),
        }[self.kind]


class Foreign:
    """An array of another library."""

    def __array__(self, dtype=None, copy=None):
        return numpy.array([[1, 2]], "int64")


class Reward(Count):
    def step(self, action):
        return self.see(), 1e300, False, False, {}


class Aims(Count):
    """Its reward is a vector, or has the shape of one."""

    def __init__(self, n=2):
        self.n = n

    def step(self, action):
        return self.see(), numpy.arange(1.0, 1 + self.n), False, False, {}


class WholeAims(Same):
    def __init__(self, n=2):
        super().__init__()
        self.n = n

    def step(self, actions):
        return self.t.copy(), numpy.ones((2, self.n)), numpy.zeros(2, bool), numpy.zeros(2, bool), {}
