"""Environments whose reward is a vector, one for each aim: an agent wants one number."""
import mo_gymnasium
import numpy as np
from mo_gymnasium.wrappers import LinearReward


def make(name):
    env = mo_gymnasium.make(name)
    n = env.unwrapped.reward_space.shape[0]
    return LinearReward(env, np.full(n, 1 / n))
