"""Environments of the tests, of the standard library."""
import os
import random


class Walk:
    """A random walk, whose episodes end beyond 3, or after 8 steps. It fails on the action 2 and above."""

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = random.Random(seed)
        self.x, self.t = self.rng.uniform(-1, 1), 0
        return [self.x, 0.0], {}

    def step(self, action):
        if action == 2:
            return [float("nan"), 0.0], 0.0, False, False, {}
        if action == 3:
            return [self.x, 0.0], float("nan"), False, False, {}
        if action == 4:
            return [self.x, 0.0, 0.0], 0.0, False, False, {}
        if action == 5:
            raise RuntimeError("the walk is over")
        if action == 6:
            os._exit(7)
        if action == 7:
            return [self.x]
        if action == 8:
            raise KeyboardInterrupt
        self.t += 1
        self.x += (1 if action else -1) + self.rng.uniform(-0.5, 0.5)
        return [self.x, float(self.t)], 1.0, abs(self.x) > 3, self.t >= 8, {}


class Arm:
    """Its actions are rows, and its observations numbers."""

    def reset(self, seed=None):
        return 0.0, {}

    def step(self, action):
        return sum(action), 0.0, False, False, {}


class Grows:
    """A vector of numpy, whose observations get longer."""

    num_envs, metadata = 2, {"autoreset_mode": "next_step"}

    def reset(self, seed=None):
        self.n = 2
        return self.observations(), {}

    def observations(self):
        self.n += 1
        return numpy.zeros((2, max(3, self.n - 1)), "uint8")

    def step(self, actions):
        return self.observations(), numpy.array([1.0, 2.0]), numpy.array([False, False]), numpy.array([False, False]), {}
