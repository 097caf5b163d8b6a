"""PPO of Stable-Baselines3 on CartPole, with the hyperparameters of rl-zoo: SEED."""

import sys

import numpy
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from goal import APART, EPISODES, Goal, Reached

torch.set_num_threads(1)
seed = int(sys.argv[1])


def linear(value):
    return lambda left: left * value


class Evaluate(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_start(self):  # the policy has just learned
        recent = [e["r"] for e in self.model.ep_info_buffer][-EPISODES:]
        if len(recent) == EPISODES and self.num_timesteps % APART == 0 and goal.reached(numpy.mean(recent)):
            raise Reached


model = PPO(
    "MlpPolicy",
    make_vec_env("CartPole-v1", n_envs=8, seed=seed),
    n_steps=32,
    batch_size=256,
    gae_lambda=0.8,
    gamma=0.98,
    n_epochs=20,
    ent_coef=0.0,
    learning_rate=linear(0.001),
    clip_range=linear(0.2),
    seed=seed,
    device="cpu",
)
goal = Goal(seed, lambda obs: model.predict(obs, deterministic=True)[0])
reached = False
try:
    model.learn(100_000, callback=Evaluate())  # the zoo's number of steps, over which its schedules fall to 0
except Reached:
    reached = True
goal.end(model.num_timesteps, reached)
