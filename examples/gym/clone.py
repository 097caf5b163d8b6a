"""A data set of Minari: made by an expert, or one that there is, which is read in parts."""
import functools
import os
import re
import warnings

import gymnasium
import minari
import numpy


def make(folder, id, env, weights, episodes, seed):
    os.environ["MINARI_DATASETS_PATH"] = folder
    e = minari.DataCollector(gymnasium.make(env))
    for i in range(episodes):
        o, over = e.reset(seed=(seed + i) % 2**63)[0], False
        while not over:
            o, _, terminated, truncated, _ = e.step(int(numpy.dot(weights, o) > 0))
            over = terminated or truncated
    with warnings.catch_warnings(action="ignore"):  # of links and names that a set for others has
        e.create_dataset(id, algorithm_name="linear", description=f"weights {weights}")
    e.close()


@functools.cache
def opened(folder, id):
    if not re.search("-v[0-9]+$", id):
        raise ValueError(f"{id} is no id of a set: they are as cartpole/linear-v0")
    if folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
    return minari.load_dataset(id, download=not folder)


@functools.lru_cache(1)
def episode(folder, id, number):
    return next(iter(opened(folder, id).iterate_episodes([number])))


def about(folder, id):
    d, spaces = opened(folder, id), gymnasium.spaces
    seen, acted = d.observation_space, d.action_space
    if not isinstance(seen, spaces.Box) or seen.dtype.kind != "f" or not isinstance(acted, spaces.Discrete) or acted.start != 0:
        raise TypeError(f"{id} has observations {seen} and actions {acted}: what is cloned are actions Discrete(n) for observations Box of floats")
    if d.env_spec is None:
        raise ValueError(f"{id} does not say of which environment it is: its clone cannot be judged")
    returns = [float(e.rewards.sum()) for e in d.iterate_episodes()]
    return {"env": d.env_spec.id, "obs": int(numpy.prod(seen.shape)), "actions": acted.n, "episodes": len(returns), "mean": float(numpy.mean(returns))}


def rows(folder, id, at, n):
    number, i = at or [0, 0]
    e = episode(folder, id, number)
    j = min(i + n, len(e.actions))
    later = [number, j] if j < len(e.actions) else [number + 1, 0]
    return {"obs": numpy.asarray(e.observations[i:j], "float32"), "actions": numpy.asarray(e.actions[i:j], "int64"),
            "next": later if later[0] < opened(folder, id).total_episodes else None}
