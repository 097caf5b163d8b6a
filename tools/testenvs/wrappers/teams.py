"""Environments with several agents that take a tuple of actions and return a list of rewards: row i of a vector is agent i."""
import gymnasium
import numpy as np


class Team:
    metadata = {"autoreset_mode": "next_step"}

    def __init__(self, env):
        self.env, self.num_envs, self.over = env, len(env.action_space), False
        self.observation_space, self.action_space = env.observation_space[0], env.action_space[0]

    def reset(self, seed=None, options=None):
        self.over = False
        return np.stack(self.env.reset(seed=seed)[0]), {}

    def step(self, actions):
        if self.over:
            none = np.zeros(self.num_envs)
            return self.reset()[0], none, none > 0, none > 0, {}
        o, rewards, terminated, truncated, _ = self.env.step(tuple(actions))
        self.over = terminated or truncated
        return np.stack(o), np.array(rewards, float), np.full(self.num_envs, terminated), np.full(self.num_envs, truncated), {}


def make(name):
    return Team(gymnasium.make(name))
