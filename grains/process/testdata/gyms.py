"""Environments and vectors of the tests, of gymnasium."""
import os
import signal

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


class Image(Count):
    """Shows an image of its step: two of them are more than 64 KiB. The action 4 shows one of another type."""

    observation_space, action_space = spaces.Box(0, 255, (200, 200), "uint8"), spaces.Discrete(5)

    def see(self):
        return numpy.full((200, 200), self.t, "uint8")

    def step(self, action):
        if action == 2:  # forks a process that goes on as this one does, once it is allowed to
            wait, Image.go = os.pipe()
            Image.fork = os.fork()
            if Image.fork == 0:
                os.read(wait, 1)
                return numpy.full((200, 200), 99, "uint8"), 1.0, False, False, {}
        if action == 3:
            os.write(Image.go, b"x")
            os.waitpid(Image.fork, 0)
        self.t += 1
        return self.see().astype("float32" if action == 4 else "uint8"), 1.0, False, False, {}


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
            "foreign": Foreign(), "alike": {"a.b": numpy.zeros(1), "a": {"b": numpy.ones(2)}}, "ragged": [[1, 2], [3]], "half": {"at": numpy.array([0, numpy.nan])},
            "older": numpy.ones(2, "float32"),
        }[self.kind]

    def reset(self, seed=None, options=None):
        return self.see() if self.kind == "older" else super().reset(seed, options)


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


class Index(Count):
    """Its reward is the number of the action in a list."""

    def step(self, action):
        self.t += 1
        return self.see(), [5.0, 6.0, 7.0][action], self.t == 3, False, {}


class Column(Index):
    """Its reward is an array of one number."""

    def step(self, action):
        o, reward, *rest = super().step(action)
        return o, numpy.array([reward]), *rest


def indices():
    return VectorWrapper(SyncVectorEnv([Index, Index]))


class Columns(Same):
    """Its rewards are a column."""

    metadata = {"autoreset_mode": "next_step"}

    def step(self, actions):
        return self.t, numpy.array([[5.0], [6.0]]), numpy.zeros(2, bool), numpy.zeros(2, bool), {}


class Endless(Count):
    """Its actions have no bounds: the reward is the first number of one."""

    action_space = spaces.Box(-numpy.inf, numpy.inf, (2,))

    def step(self, action):
        return self.see(), action[0], False, False, {}


class Fails(Count):
    """On the action 1 its process is killed, and on the action 2 it raises an exception with a percent sign."""

    def step(self, action):
        if action == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 2:
            raise ValueError("at %d %%" % 50)
        return super().step(action)


def fails():
    return AsyncVectorEnv([Fails, Fails])


class Remade(Same):
    """Fails in the first step. Of those that are made after it the first fails, too, and the second cannot reset."""

    metadata, made = {"autoreset_mode": "next_step"}, 0

    def __init__(self):
        Remade.made += 1
        self.number, self.failed = Remade.made, False
        if self.number == 2:
            raise OSError("no room for another")

    def reset(self, seed=None, options=None):
        if self.failed or self.number == 3:
            raise RuntimeError("it does not begin")
        return super().reset(seed, options)

    def step(self, actions):
        self.failed = self.number == 1
        if self.failed:
            raise RuntimeError("it does not go on")
        return self.t, numpy.ones(2), numpy.zeros(2, bool), numpy.zeros(2, bool), {}


one = Count()


def same():
    """Returns an environment that it has returned before."""
    return one
