"""Environments of several agents, of PettingZoo's interface, such as mpe2."""
import importlib

import numpy as np


class Agents:
    """The agents of a parallel environment as the environments of a vector: row i is agent i, and Envs is their number. All rows end together."""

    metadata = {"autoreset_mode": "next_step"}

    def __init__(self, env):
        self.env, self.names, self.num_envs = env, env.possible_agents, len(env.possible_agents)
        self.observation_space, self.action_space = env.observation_space(self.names[0]), env.action_space(self.names[0])

    def see(self, o):
        self.last.update(o)  # an agent that is out keeps its last observation
        return np.stack([self.last[a] for a in self.names])

    def reset(self, seed=None, options=None):
        self.last = {}
        return self.see(self.env.reset(seed=seed)[0]), {}

    def step(self, actions):
        if not self.env.agents:
            none = np.zeros(self.num_envs)
            return self.reset()[0], none, none > 0, none > 0, {}
        o, rewards, terminated, _, _ = self.env.step({a: x for a, x in zip(self.names, actions) if a in self.env.agents})
        over = np.full(self.num_envs, not self.env.agents)
        ended = over & np.array([terminated.get(a, False) for a in self.names])
        return self.see(o), np.array([rewards.get(a, 0.0) for a in self.names], float), ended, over & ~ended, {}


class Turns:
    """A game in turns: each step is the move of the agent whose turn it is, and the reward is that of the one who moved."""

    def __init__(self, env):
        self.env = env
        self.observation_space, self.action_space = env.observation_space(env.possible_agents[0]), env.action_space(env.possible_agents[0])

    def reset(self, seed=None, options=None):
        self.env.reset(seed=seed)
        return self.env.last()[0], {}

    def step(self, action):
        moved = self.env.agent_selection
        self.env.step(action)
        o, _, _, _, _ = self.env.last()
        return o, self.env.rewards[moved], any(self.env.terminations.values()), any(self.env.truncations.values()), {}


def make(name):
    return Agents(importlib.import_module(name).parallel_env())


def turns(name):
    return Turns(importlib.import_module(name).env())
