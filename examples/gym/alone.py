"""The steps of a vector in Python, without raysys."""
import time

import gymnasium
import numpy


def rate(envs, mode, seconds):
    v = gymnasium.make_vec("CartPole-v1", num_envs=envs, vectorization_mode=mode)
    v.reset(seed=1)
    actions = [(numpy.arange(envs) + i) % 2 for i in range(2)]
    n, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        v.step(actions[n % 2])
        n += 1
    return {"rate": n * envs / (time.perf_counter() - begun)}


def nothing():
    pass
