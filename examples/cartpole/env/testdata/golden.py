"""Writes golden.json from the reference: pip install gymnasium==1.4.0; python golden.py"""
import json

import gymnasium as gym
import numpy as np


def run(name, start, policy, every):
    env = gym.make("CartPole-v1")
    env.reset(seed=0)
    env.unwrapped.state = np.array(start, dtype=np.float64)
    actions, states, rewards = [], [], 0.0
    while True:
        a = policy(len(actions), env.unwrapped.state)
        _, reward, terminated, truncated, _ = env.step(a)
        actions.append(a)
        rewards += reward
        if len(actions) % every == 0 or terminated or truncated:
            states.append([len(actions)] + [float(v) for v in env.unwrapped.state])
        if terminated or truncated:
            break
    return {
        "name": name,
        "start": start,
        "actions": "".join(map(str, actions)),
        "states": states,  # step number, then the four values after it
        "return": rewards,
        "terminated": bool(terminated),
        "truncated": bool(truncated),
    }


coin = np.random.default_rng(7)
runs = [
    run("always left", [0.01, -0.02, 0.03, 0.04], lambda i, s: 0, 1),
    run("random", [-0.04, 0.03, 0.02, -0.01], lambda i, s: int(coin.integers(2)), 1),
    run("out of the track", [1.5, 0.8, 0.0, 0.0], lambda i, s: int(s[2] + 0.5 * s[3] - 0.05 > 0), 10),
    run("balanced", [0.02, 0.01, -0.03, 0.02], lambda i, s: int(s[2] + 0.5 * s[3] + 0.05 * s[0] + 0.1 * s[1] > 0), 25),
]
with open("golden.json", "w") as f:
    json.dump(runs, f, indent=1)
    f.write("\n")
for r in runs:
    print(r["name"], len(r["actions"]), r["terminated"], r["truncated"], r["return"], r["states"][-1])
