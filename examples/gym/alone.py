"""The steps of a vector in Python, without raysys."""
import importlib.util
import time

import gymnasium
import numpy


class Images(gymnasium.Env):
    """Shows pictures of 100 KB, as an emulator does."""

    observation_space, action_space = gymnasium.spaces.Box(0, 255, (186, 180, 3), "uint8"), gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.screen = numpy.zeros(self.observation_space.shape, "uint8")
        return self.screen.copy(), {}

    def step(self, action):
        self.screen[:10] += 1
        return self.screen.copy(), 1.0, False, False, {}


def vector(envs, mode):
    if mode == "images":
        return gymnasium.vector.SyncVectorEnv([Images] * envs)
    if mode == "envpool":
        import envpool
        return envpool.make_gymnasium("CartPole-v1", num_envs=envs)
    return gymnasium.make_vec("CartPole-v1", num_envs=envs, vectorization_mode=mode)


def rate(envs, mode, seconds):
    v = vector(envs, mode)
    v.reset(seed=1)
    actions = [(numpy.arange(envs) + i) % 2 for i in range(2)]
    n, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        v.step(actions[n % 2])
        n += 1
    return {"rate": n * envs / (time.perf_counter() - begun)}


def installed(name):
    return {"yes": importlib.util.find_spec(name) is not None}


def nothing():
    pass
