"""Steps of gymnasium's CartPole in a second, as JSON by name: ENVIRONMENTS-OF-A-VECTOR SECONDS."""

import json
import sys
import time

import gymnasium
import numpy

envs, seconds = int(sys.argv[1]), float(sys.argv[2])


def rate(step, steps):
    for i in range(100):  # not measured
        step(i & 1)
    n, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for i in range(100):
            step(i & 1)
        n += 100 * steps
    return n / (time.perf_counter() - begin)


one = gymnasium.make("CartPole-v1")
one.reset(seed=1)


def step(action):
    _, _, terminated, truncated, _ = one.step(action)
    if terminated or truncated:
        one.reset()


rates = {"gymnasium, one environment": rate(step, 1)}
for mode in "sync", "vector_entry_point":
    vector = gymnasium.make_vec("CartPole-v1", num_envs=envs, vectorization_mode=mode)
    vector.reset(seed=1)
    actions = [(numpy.arange(envs) + i) % 2 for i in range(2)]
    rates[f"gymnasium, {envs} environments, `{mode}`"] = rate(lambda i: vector.step(actions[i]), envs)
print(json.dumps(rates))
