"""Steps environments in Python alone, and prints what each step shows: main.go compares a process.Vector with that.

    python alone.py '{"Gym": "CartPole-v1", "Envs": 2, "Steps": 300, "Seed": 7}'

A line is the actions of a step, and what came of them: name, type and shape, and a digest of the bytes. The first line has no actions.
The forms are those that docs/guide/vectors.md promises; nothing here is raysys's.
"""
import base64
import copy
import hashlib
import json
import sys
import types

import numpy as np

SENT = ("bool", "float32", "float64", "int32", "int64", "uint8")  # parts of a Dict or a Tuple keep these types


def leaves(o, space, name=""):
    """Yields the parts of an observation in the order of its space."""
    spaces = getattr(space, "spaces", None)
    if isinstance(o, dict):
        inner = [(k, o[k], spaces and spaces[k]) for k in (spaces or o)]
    elif isinstance(spaces, (tuple, list)):
        inner = [(str(k), o[k], s) for k, s in enumerate(spaces)]
    else:
        yield name, np.asarray(o)
        return
    for k, v, s in inner:
        yield from leaves(v, s, f"{name}.{k}" if name else k)


def digest(name, a):
    a = np.ascontiguousarray(a)
    return [name, f"{a.dtype}[{' '.join(map(str, np.shape(a)))}]", hashlib.sha256(a.tobytes()).hexdigest()]


def digests(columns):
    if [name for name, _ in columns] == [""]:
        a = columns[0][1]
        return [digest("observations", a if a.dtype == np.uint8 else a.astype(np.float32))]
    of = lambda a: a if a.dtype.name in SENT else a.astype(np.int64 if a.dtype.kind in "iu" else np.float32)
    return [digest(name, of(a)) for name, a in columns]


class Loop:
    """Environments one after the other: the step after the end of an episode resets, ignores its action, and has a reward of 0."""

    def __init__(self, envs):
        self.envs, self.space = envs, getattr(envs[0], "observation_space", None)
        self.actions = copy.deepcopy(envs[0].action_space)

    def see(self, observations):
        rows = [list(leaves(o, self.space)) for o in observations]
        return digests([(column[0][0], np.stack([a for _, a in column])) for column in zip(*rows)])

    def reset(self, seed):
        self.over = [False] * len(self.envs)
        return self.see([e.reset(seed=seed + i)[0] for i, e in enumerate(self.envs)])

    def step(self, actions):
        rows = [(e.reset()[0], 0.0, False, False) if over else e.step(a)[:4] for e, over, a in zip(self.envs, self.over, actions)]
        observations, *rest = zip(*rows)
        self.over = [te or tr for te, tr in zip(*rest[1:])]
        return self.see(observations), *rest


class Vector:
    """A VectorEnv in its own way: where it begins an episode in the step that ends one, infos have the last observation."""

    def __init__(self, vector, mode):
        self.vector, self.mode, self.space = vector, mode, vector.observation_space
        self.actions = copy.deepcopy(getattr(vector, "single_action_space", vector.action_space))

    def reset(self, seed):
        self.over = np.zeros(self.vector.num_envs, bool)
        o = self.vector.reset(seed=seed)[0]
        return digests(list(leaves(o, self.space)))

    def step(self, actions):
        o, rewards, terminated, truncated, infos = self.vector.step(actions)
        rewards, terminated, truncated = np.array(rewards, float), np.array(terminated, bool), np.array(truncated, bool)
        rewards[self.over] = 0
        if self.mode == "same_step":  # the first observation of the new episode is gone: it begins with the next
            terminated[self.over] = truncated[self.over] = False
        self.over = terminated | truncated
        if self.mode == "same_step" and self.over.any():
            o = o.copy()
            for i in np.flatnonzero(self.over):
                o[i] = infos["final_obs"][i] if isinstance(infos, dict) else infos[i]["terminal_observation"]
        return digests(list(leaves(o, self.space))), rewards, terminated, truncated


def make(case):
    """Returns what the case makes: Gym by gymnasium, or New of the script."""
    if case.get("Gym"):
        import gymnasium
        args = case.get("Args") or {}
        mode = args.pop("vectorization_mode", "vector_entry_point" if case.get("Own") else None)
        if mode:
            return gymnasium.make_vec(case["Gym"], num_envs=case["Envs"], vectorization_mode=mode, **args)
        one = lambda: gymnasium.make(case["Gym"], **args)
    else:
        module = sys.modules["script"] = types.ModuleType("script")
        exec(case["Script"], module.__dict__)
        one = lambda: getattr(module, case["New"])(**(case.get("Args") or {}))
    first = one()
    if hasattr(first, "num_envs"):
        return first
    envs = [first] + [one() for _ in range(case["Envs"] - 1)]
    if case.get("Flatten"):
        from gymnasium.wrappers import FlattenObservation
        envs = [FlattenObservation(e) for e in envs]
    return envs


def sampled(space, n):
    actions = np.stack([np.asarray(space.sample()) for _ in range(n)])
    return actions.astype(np.float32 if actions.dtype.kind == "f" else np.int64)


def main():
    case, out = json.loads(sys.argv[1]), sys.stdout
    sys.stdout = sys.stderr  # packages print
    made = make(case)
    envs = Loop(made) if isinstance(made, list) else Vector(made, case.get("Autoreset"))
    envs.actions.seed(case["Seed"])
    print(json.dumps({"Seen": envs.reset(case["Seed"])}), file=out)
    for _ in range(case["Steps"]):
        actions = sampled(envs.actions, case["Envs"])
        seen, rewards, terminated, truncated = envs.step(actions.tolist() if actions.ndim == 1 and isinstance(made, list) else actions)
        rest = ("rewards", np.float32, rewards), ("terminated", bool, terminated), ("truncated", bool, truncated)
        sent = {"DType": actions.dtype.name, "Shape": actions.shape, "Data": base64.b64encode(actions.tobytes()).decode()}
        print(json.dumps({"Actions": sent, "Seen": seen + [digest(name, np.array(list(map(float, v)), t)) for name, t, v in rest]}), file=out, flush=True)


main()
