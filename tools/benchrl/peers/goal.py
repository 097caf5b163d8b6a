"""What sb3.py and rllib.py share: by which rule a run ends, and what it prints."""

import json
import time

import gymnasium
import numpy

GOAL = 475
EPISODES = 20  # of an evaluation
NEAR = 22.3 + 0.75 * (GOAL - 22.3)  # the mean return in training from which on there are evaluations: rl's rule; 22.3 is that of random actions
APART = 2048  # steps between evaluations
MOST = 300_000  # steps


class Reached(Exception):
    pass


class Goal:
    """act returns greedy actions for an array of observations. Training begins when it is made."""

    def __init__(self, seed, act):
        self.seed, self.act = seed, act
        self.envs = [gymnasium.make("CartPole-v1") for _ in range(EPISODES)]
        self.evaluations = 0
        self.begin = time.perf_counter()

    def evaluate(self):
        """The mean return of fresh episodes. All are played at once, which is faster than one by one."""
        self.evaluations += 1
        first = 1_000_000 * self.seed + EPISODES * self.evaluations
        obs = {i: env.reset(seed=first + i)[0] for i, env in enumerate(self.envs)}
        steps = 0
        while obs:
            steps += len(obs)  # each has reward 1
            for i, action in zip(list(obs), self.act(numpy.stack(list(obs.values())))):
                obs[i], _, terminated, truncated, _ = self.envs[i].step(int(action))
                if terminated or truncated:
                    del obs[i]
        return steps / EPISODES

    def reached(self, training):
        """Whether the goal is reached, where training is the mean return of the last episodes."""
        return training >= NEAR and self.evaluate() >= GOAL

    def end(self, steps, reached):
        train = time.perf_counter() - self.begin
        print(json.dumps(dict(seed=self.seed, steps=steps, train_s=train, mean=self.evaluate(), reached=reached)), flush=True)
