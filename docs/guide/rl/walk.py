import random


class Walk:
    """A corridor of seven cells with an exit at one end, and a trap at the other. Each episode begins in the middle."""

    def reset(self, seed=None):
        if seed is not None:
            self.rng = random.Random(seed)
        self.at, self.exit, self.steps = 0, self.rng.choice([-1, 1]), 0
        return [self.at, self.exit], {}

    def step(self, action):
        self.at += 2 * action - 1
        self.steps += 1
        reward = self.exit * self.at // 3 if abs(self.at) == 3 else 0
        return [self.at, self.exit], reward, reward != 0, reward == 0 and self.steps == 20, {}
