"""PPO of RLlib on CartPole, with the hyperparameters of its tuned example: SEED.

The example has 4 processes that play, 16 environments in each, one process that learns, and batches of 4000 steps. On two cores what stands here is faster:
docs/benchmarks.md has figures.
"""

import logging
import os
import sys
import warnings

warnings.filterwarnings("ignore")
import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from goal import APART, EPISODES, MOST, Goal

torch.set_num_threads(1)
seed = int(sys.argv[1])
session = os.path.join(os.path.dirname(os.path.abspath(__file__)), "session")
ray.init(num_cpus=2, object_store_memory=300 << 20, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False, _temp_dir=session)
model = DefaultModelConfig(fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True)
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    .training(lr=0.0003, num_epochs=6, vf_loss_coeff=0.01, train_batch_size_per_learner=APART)
    .rl_module(model_config=model)
    .reporting(metrics_num_episodes_for_smoothing=EPISODES)
    .debugging(seed=seed)
)
algorithm = config.build_algo()


def act(obs):
    with torch.no_grad():
        out = algorithm.get_module().forward_inference({"obs": torch.from_numpy(obs)})
    return out["action_dist_inputs"].argmax(-1)


goal = Goal(seed, act)
steps, reached = 0, False
while steps < MOST and not reached:
    result = algorithm.train()
    steps = int(result["num_env_steps_sampled_lifetime"])
    reached = goal.reached(result["env_runners"].get("episode_return_mean", 0))
goal.end(steps, reached)
ray.shutdown()
