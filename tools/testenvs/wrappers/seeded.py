"""Environments that take their seed when they are made, and not at reset: they are made anew for each seed."""
import collections

import gymnasium
import numpy as np
from gymnasium import spaces


class Seeded:
    """make(seed) makes what begin and move are called with: they return an observation, and that with reward, terminated and truncated."""

    def __init__(self, make, begin, move, actions):
        self.make, self.begin, self.move, self.action_space = make, begin, move, actions

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.env = self.make(seed)
        return self.begin(self.env), {}

    def step(self, action):
        return *self.move(self.env, action), {}


class Ordered(dict):
    """A set in the order of its additions."""

    add, remove = dict.setdefault, dict.__delitem__


def crafter(name):
    """It has the interface of gym before 0.26: four values, and info says whether the end is one of time. Its sets of objects are put in
    order: they have that of addresses in memory, which is another one in each run, and creatures are drawn by it."""
    import crafter
    from crafter.engine import World
    reset = getattr(World, "unordered", World.reset)

    def ordered(world, seed=None):
        reset(world, seed)
        world._chunks = collections.defaultdict(Ordered)

    World.unordered, World.reset = reset, ordered

    def move(env, action):
        o, reward, done, info = env.step(action)
        return o, reward, done and info["discount"] == 0, done and info["discount"] != 0

    return Seeded(lambda seed: crafter.Env(seed=seed), lambda env: env.reset(), move, spaces.Discrete(17))


def bsuite(name):
    """An environment of dm_env: the discount of its last step says whether the episode could have gone on."""
    import bsuite

    def move(env, action):
        t = env.step(action)
        return t.observation, t.reward, t.last() and t.discount == 0, t.last() and t.discount != 0

    n = bsuite.load(name, {}).action_spec().num_values
    return Seeded(lambda seed: bsuite.load(name, {"seed": seed}), lambda env: env.reset().observation, move, spaces.Discrete(n))


def procgen(name):
    """An environment of gym3: it shows the first observation of the next episode in the step that ends one, and the last one of an episode never."""
    import procgen

    def move(env, action):
        env.act(np.array([action], np.int32))
        reward, o, first = env.observe()
        return o["rgb"][0], reward[0], bool(first[0]), False

    make = lambda seed: procgen.ProcgenGym3Env(num=1, env_name=name, rand_seed=seed, num_levels=0)
    return Seeded(make, lambda env: env.observe()[1]["rgb"][0], move, spaces.Discrete(15))


def metaworld(name):
    """Its reset does not look at the seed: goals are drawn from that of the making."""
    import metaworld
    make = lambda seed: gymnasium.make("Meta-World/MT1", env_name=name, seed=seed)
    return Seeded(make, lambda env: env.reset()[0], lambda env, action: env.step(action)[:4], make(0).action_space)


def nle(name):
    """Its reset does not look at the seed: the game has seeds of its own, which stay until the next."""
    import nle
    env = gymnasium.make(name)

    def seeded(seed):
        env.unwrapped.seed(seed, seed, False)
        return env

    return Seeded(seeded, lambda env: env.reset()[0], lambda env, action: env.step(action)[:4], env.action_space)


class Pool:
    """The vector of EnvPool, made anew by a reset with a seed: its own reset does not look at the seed."""

    def __init__(self, make):
        self.make, self.vector = make, make(0)
        for name in ("num_envs", "metadata", "observation_space", "action_space"):
            setattr(self, name, getattr(self.vector, name))

    def reset(self, seed=None, options=None):
        self.vector = self.make(seed)
        return self.vector.reset()

    def step(self, actions):
        return self.vector.step(actions)


def envpool(name):
    import envpool
    return Pool(lambda seed: envpool.make_gymnasium(name, num_envs=2, seed=seed))


def made(name):
    """As it comes: the seed is that of the making."""
    import envpool
    return envpool.make_gymnasium(name, num_envs=2, seed=5)
