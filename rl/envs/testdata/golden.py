"""Writes cartpole.json and pendulum.json from the reference: pip install gymnasium==1.4.0; python golden.py"""
import json

import gymnasium as gym
import numpy as np


def run(env, start, policy, every):
    """States are the step number, then the state after that step; returns is the sum of rewards up to there."""
    env.reset(seed=0)
    env.unwrapped.state = np.array(start, dtype=np.float64)
    actions, states, total = [], [], 0.0
    while True:
        a = policy(len(actions), env.unwrapped.state)
        _, reward, terminated, truncated, _ = env.step(a)
        actions.append(float(np.ravel(a)[0]))
        total += float(reward)
        if len(actions) % every == 0 or terminated or truncated:
            states.append([len(actions)] + [float(v) for v in env.unwrapped.state] + [total])
        if terminated or truncated:
            return {"start": start, "actions": actions, "states": states, "terminated": bool(terminated)}


def write(name, runs):
    with open(name, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps({"name": n, **r}) for n, r in runs.items()) + "\n]\n")
    for n, r in runs.items():
        print(name, n, len(r["actions"]), r["terminated"], r["states"][-1])


def swing(obs):
    """The controller of the tests: it pumps energy, and balances near the top."""
    cos, sin, speed = obs
    u = -(8 * np.arctan2(sin, cos) + 2 * speed)
    if cos < 0.9:
        u = 10 * (5 - speed * speed / 6 - 5 * cos) * (1 if speed >= 0 else -1)
    return np.clip([u], -2, 2).astype(np.float32)


def played(env, policy, episodes):
    returns = []
    for e in range(episodes):
        obs, _ = env.reset(seed=e)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy(obs))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return f"{np.mean(returns):.2f} +- {np.std(returns):.2f} over {episodes} episodes"


coin = np.random.default_rng(7)
pole = gym.make("CartPole-v1")
write("cartpole.json", {
    "always left": run(pole, [0.01, -0.02, 0.03, 0.04], lambda i, s: 0, 1),
    "random": run(pole, [-0.04, 0.03, 0.02, -0.01], lambda i, s: int(coin.integers(2)), 1),
    "out of the track": run(pole, [1.5, 0.8, 0.0, 0.0], lambda i, s: int(s[2] + 0.5 * s[3] - 0.05 > 0), 10),
    "balanced": run(pole, [0.02, 0.01, -0.03, 0.02], lambda i, s: int(s[2] + 0.5 * s[3] + 0.05 * s[0] + 0.1 * s[1] > 0), 25),
})
rod = gym.make("Pendulum-v1")
write("pendulum.json", {
    "limp": run(rod, [0.1, 0.0], lambda i, s: np.array([0], np.float32), 20),
    "random": run(rod, [-2.0, 0.7], lambda i, s: coin.uniform(-2, 2, 1).astype(np.float32), 20),
    "swung up": run(rod, [3.0, -0.5], lambda i, s: swing([np.cos(s[0]), np.sin(s[0]), s[1]]), 20),
    "spun": run(rod, [1.0, 1.0], lambda i, s: np.array([2 if s[1] >= 0 else -2], np.float32), 20),
})
for env in pole, rod:
    env.action_space.seed(1)
    print(env.spec.id, "random:", played(env, lambda obs: env.action_space.sample(), 1000))
print("Pendulum-v1 swung up:", played(rod, swing, 100))
