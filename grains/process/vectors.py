"""Environments with gymnasium's interface, stepped together. worker.py runs this text where Config.Envs is set.

All vectors have one form: an environment whose episode ends shows its last observation, and the next step resets it, ignores its action and
has a reward of 0. That is gymnasium's AutoresetMode.NEXT_STEP.
"""
import array
import importlib
import importlib.util
import math
import sys

FINAL = "final_obs", "final_observation", "terminal_observation"  # of gymnasium 1, of those before, of Stable-Baselines3 and SuperSuit
REGISTER = {"ALE": "ale_py", "MiniGrid": "minigrid", "BabyAI": "minigrid", "Meta-World": "metaworld", "Fetch": "gymnasium_robotics",
            "Adroit": "gymnasium_robotics", "highway": "highway_env"}  # what an id begins with, and the package that registers it
MODES = {"nextstep": "NEXT_STEP", "samestep": "SAME_STEP", "disabled": "DISABLED"}
MOST = 3.4028235e38  # of a float32
UNSAID = ("set Config.Autoreset: same_step where a step that ends an episode returns the first observation of the next one, next_step where the "
          "step after it does, disabled where reset has to come first")


def numpy():
    """Returns numpy where something has imported it."""
    return sys.modules.get("numpy")


def gym_maker(start, args):
    """Returns what makes an environment that gymnasium knows, or a vector of them."""
    gymnasium, name = importlib.import_module("gymnasium"), start["gym"]
    mode = args.pop("vectorization_mode", "vector_entry_point" if start["own"] else None)
    make = lambda: gymnasium.make(name, **args)
    if mode is not None or "vector_kwargs" in args:
        make = lambda: gymnasium.make_vec(name, num_envs=start["envs"], vectorization_mode=mode or "sync", **args)
    return lambda: registered(gymnasium, name, make)


def registered(gymnasium, name, make):
    """Makes an environment. It imports the package that registers it where that has the name of the id's namespace, and names it where it has not."""
    try:
        return make()
    except gymnasium.error.UnregisteredEnv as e:
        unknown = e
    space = name.rpartition("/")[0].lower().replace("-", "_")
    if space.isidentifier() and importlib.util.find_spec(space):
        importlib.import_module(space)
        return make()
    for begin, package in REGISTER.items():
        if name.startswith(begin):
            there = "" if importlib.util.find_spec(package) else ", which is not installed here"
            raise type(unknown)(f'{unknown} Give Gym "{package}:{name}": that imports {package} first{there}.')
    raise unknown


def vector(start, make, plain, place):
    """Makes the environments. plain makes an array of numpy of one of another library, and place the array that the observations are written to."""
    n, first = start["envs"], make()
    if not hasattr(first, "num_envs"):
        envs = [first] + [make() for _ in range(n - 1)]
        if len(set(map(id, envs))) < n:
            raise ValueError(f"{start['new']} returned an environment a second time: each of the {n} is one of its own")
        return Loop(envs, start["flatten"], plain, place)
    if first.num_envs != n:
        raise ValueError(f"the vector has {first.num_envs} environments, and Config.Envs is {n}")
    if (type(first).__name__, type(first).__module__) == ("SyncVectorEnv", "gymnasium.vector.sync_vector_env"):
        return Loop(first.envs, start["flatten"], plain, place)  # one after the other, as it does
    plain_errors()
    return Whole(first, make, autoreset(first, start["autoreset"]), start["flatten"], plain)


def plain_errors():
    """Has gymnasium log an exception of an environment's process as it is. It takes a % in its traceback for a format, and fails with another exception."""
    logger = getattr(sys.modules.get("gymnasium"), "logger", None)
    if logger is not None:
        error = logger.error
        logger.error = lambda text, *args: error(text if args else text.replace("%", "%%"), *args)


def autoreset(vector, said):
    """Returns what a vector does with an environment whose episode has ended."""
    mode = said or (getattr(vector, "metadata", None) or {}).get("autoreset_mode")
    if mode is not None:
        found = MODES.get(str(getattr(mode, "name", mode)).replace("_", "").lower())
        if found is None:
            raise ValueError(f"the vector has autoreset mode {mode!r}: {UNSAID}")
        return found
    inner = type(getattr(vector, "unwrapped", vector))
    if inner.__module__.startswith("gymnasium."):  # of a version before 1.1
        return "SAME_STEP" if sys.modules["gymnasium"].__version__.startswith("0.") else "NEXT_STEP"
    raise ValueError(f"a vector of {inner.__module__}.{inner.__qualname__} does not say its autoreset mode: {UNSAID}")


def blame(e, env, shape=False):
    """Says for which environment an exception is, -1 for all."""
    if not hasattr(e, "raysys_env"):
        e.raysys_env, e.raysys_shape = env, shape
    return e


def leaves(o, space, name=""):
    """Yields name and value of each part of an observation, in the order of its space. The name of one without parts is empty."""
    spaces = getattr(space, "spaces", None)
    if isinstance(o, dict):
        names = list(spaces if isinstance(spaces, dict) else o)
        if set(names) != set(o):
            raise ValueError(f"an observation with the parts {sorted(map(str, o))}, and its space has {sorted(map(str, names))}")
        inner = [(n, o[n], spaces and spaces[n]) for n in names]
    elif isinstance(o, (tuple, list)) and isinstance(spaces, (tuple, list)):
        inner = [(n, v, spaces[n]) for n, v in enumerate(o)]
    else:
        yield name, o
        return
    for n, v, of in inner:
        yield from leaves(v, of, f"{name}.{n}" if name else str(n))


def value(name, v, plain):
    """Returns an observation, or a part of one, as an array of numpy."""
    what = f"the part {name!r} of the observation" if name else "the observation"
    if v is None or isinstance(v, (str, bytes)):
        raise TypeError(f"{what} is {type(v).__name__}, and no array of numbers: leave it out by a wrapper, such as FilterObservation of gymnasium")
    try:
        v = numpy().asarray(plain(v, lambda: what))
    except ValueError as e:  # such as lists of several lengths
        raise ValueError(f"{what} is no array of numbers: {e}") from None
    if v.dtype.kind not in "fiub" and v.dtype.name != "bfloat16":
        raise TypeError(f"{what} is an array of {v.dtype}: elements are numbers")
    return v


def floats(a, what):
    """Leaves bytes, such as those of images, as they are."""
    if a.dtype.str in ("<f4", "|u1"):
        return a
    with numpy().errstate(over="ignore"):
        out = a.astype("float32")
    beyond = numpy().isinf(out) & numpy().isfinite(a.astype("float64")) if a.dtype.kind == "f" and a.dtype.itemsize > 4 else None
    if beyond is not None and beyond.any():
        at = tuple(numpy().argwhere(beyond)[0])
        raise blame(OverflowError(f"{what} has {a[at]}, which is beyond float32: scale it by a wrapper"), int(at[0]))
    return out


def part(a, what):
    """Leaves elements as they are where a Tensor has the type."""
    if a.dtype.kind == "b" or a.dtype.str in ("<f4", "<f8", "<i4", "<i8", "|u1"):
        return a
    if a.dtype.kind in "iu" and not numpy().can_cast(a.dtype, "int64"):
        raise TypeError(f"{what} is an array of {a.dtype}: make it int64 by a wrapper")
    return a.astype("int64") if a.dtype.kind in "iu" else floats(a, what)


class Form:
    """How the observations of environments are sent: as one array, or as an array for each part of a Dict or a Tuple."""

    def __init__(self, single, batched, flatten, plain, place=None):
        self.single, self.batched, self.flatten, self.plain, self.place = single, batched, flatten, plain, place
        self.shapes = None  # of the parts of an observation
        self.usual = None  # the shape and type of observations that are arrays of numpy already
        if flatten and single is None:
            raise ValueError("Config.Flatten needs environments that have an observation_space of gymnasium")

    def stack(self, observations):
        """Returns the tensors of a list of observations, one of each environment."""
        if numpy() is None:
            return self.listed(observations)
        columns = None
        for i, o in enumerate(observations):
            try:
                row = self.parts(o)
                shapes = [(n, v.shape) for n, v in row]
                if self.shapes is None:
                    self.shapes = shapes
                elif shapes != self.shapes:
                    raise blame(ValueError(f"an observation of shape {shown(shapes)}, and the first had {shown(self.shapes)}"), i, True)
            except BaseException as e:
                raise blame(e, i)
            columns = columns or [(n, []) for n, _ in row]
            for (_, column), (_, v) in zip(columns, row):
                column.append(v)
        first = observations[0]
        if type(first) is numpy().ndarray and first.dtype.kind in "fiub" and not self.flatten:
            self.usual = first.shape, first.dtype
        return tensors([(n, numpy().stack(column)) for n, column in columns])

    def parts(self, o):
        if self.flatten:
            o = sys.modules["gymnasium"].spaces.flatten(self.single, o)
        return [(n, value(n, v, self.plain)) for n, v in leaves(o, self.single)]

    def listed(self, observations):
        """Is stack without numpy."""
        for i, o in enumerate(observations):
            if isinstance(o, (str, dict)):
                raise blame(TypeError(f"an observation is {type(o).__name__}: import numpy for what has parts"), i)
            now = [("", (len(o),) if hasattr(o, "__len__") else ())]
            self.shapes = self.shapes or now
            if now != self.shapes:
                raise blame(ValueError(f"an observation of shape {shown(now)}, and the first had {shown(self.shapes)}"), i, True)
        shape = self.shapes[0][1]
        flat = array.array("f", [x for o in observations for x in (o if shape else (o,))])
        return {"observations": memoryview(flat).cast("B").cast("f", (len(observations), *shape)) if flat else flat}

    def batch(self, observations):
        """Returns the tensors of what a VectorEnv returns: an array for all environments."""
        if type(observations) is numpy().ndarray and observations.dtype.str in ("<f4", "|u1") and not self.flatten:
            return {"observations": observations}
        if self.flatten:
            gymnasium = sys.modules["gymnasium"]
            rows = importlib.import_module("gymnasium.vector.utils").iterate(self.batched, observations)
            observations = numpy().stack([gymnasium.spaces.flatten(self.single, o) for o in rows])
        return tensors([(n, value(n, v, self.plain)) for n, v in leaves(observations, None if self.flatten else self.batched)])


def shown(shapes):
    return shapes[0][1] if [n for n, _ in shapes] == [""] else dict(shapes)


def tensors(columns):
    if [n for n, _ in columns] == [""]:
        return {"observations": floats(columns[0][1], "the observation")}
    parts = {"observations/" + n: part(a, f"the part {n!r} of the observation") for n, a in columns}
    if len(parts) < len(columns):
        raise ValueError(f"two parts of the observation have one name, of {[n for n, _ in columns]}: rename a key by a wrapper")
    return parts


def single(reward):
    """Returns a reward as a float."""
    if getattr(reward, "ndim", 0) and reward.size != 1 or isinstance(reward, (list, tuple, dict)):
        what = f"an array of shape {reward.shape}" if hasattr(reward, "shape") else f"a {type(reward).__name__} of {len(reward)}"
        raise TypeError(f"the reward is {what}, and no number: make one of it by a wrapper, or a vector whose environments are the agents")
    return float(reward.item() if hasattr(reward, "item") else reward)


def rewarded(rewards):
    """Returns rewards as float32."""
    for i, r in enumerate(rewards) if max(rewards) > MOST or min(rewards) < -MOST else ():
        if abs(r) > MOST and not math.isinf(r):
            raise blame(OverflowError(f"the reward {r} is beyond float32: scale it by a wrapper"), i)
    return array.array("f", rewards)


def observed(result):
    """Returns the observation of what reset returned."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(f"reset returned {type(result).__name__}, and not the pair of an observation and a dict, as since gym 0.26: wrap an older environment")
    return result[0]


def bounds(space):
    """Returns the least and the largest action of a Discrete space, None for another space."""
    if type(space).__name__ == "Discrete":
        least = int(getattr(space, "start", 0))
        return least, least + int(space.n) - 1


def check(actions, bounds, ended):
    """Refuses actions beyond the bounds: some environments take -1 for the last one, and vectors in C++ take anything, or hang."""
    for i, a in enumerate(actions):
        if not ended[i] and not (isinstance(a, int) and bounds[0] <= a <= bounds[1]):
            raise blame(ValueError(f"there is no action {a}: give a whole number from {bounds[0]} to {bounds[1]}"), i)


class Loop:
    """Environments that are stepped one after the other."""

    def __init__(self, envs, flatten, plain, place):
        self.envs, self.over = envs, [False] * len(envs)
        self.form = Form(getattr(envs[0], "observation_space", None), None, flatten, plain, place)
        self.bounds = bounds(getattr(envs[0], "action_space", None))

    def reset(self, seed):
        self.over = [False] * len(self.envs)
        observations = []
        for i, env in enumerate(self.envs):
            try:
                observations.append(observed(env.reset(seed=seed + i)))
            except BaseException as e:
                raise blame(e, i)
        return self.form.stack(observations)

    def step(self, actions):
        actions = actions.tolist() if numpy() is None or actions.ndim == 1 else list(actions)
        if self.bounds and not (type(actions[0]) is int and min(actions) >= self.bounds[0] and max(actions) <= self.bounds[1]):
            check(actions, self.bounds, self.over)
        # An image that is copied at once leaves its memory to the next one, and that is in the cache of the CPU.
        out, (shape, dtype) = None, self.form.usual or ((), None)
        if dtype is not None:
            out, ndarray = self.form.place((len(self.envs), *shape), dtype), numpy().ndarray
        observations, rewards, terminated, truncated = [], [], [], []
        for i, env in enumerate(self.envs):
            try:
                if self.over[i]:
                    o, r, te, tr = env.reset()[0], 0.0, False, False
                else:
                    o, r, te, tr, _ = env.step(actions[i])
                te, tr = bool(te), bool(tr)
                self.over[i] = te or tr
                rewards.append(r if type(r) is float else single(r))
            except BaseException as e:
                raise blame(e, i)
            terminated.append(te)
            truncated.append(tr)
            if out is not None and type(o) is ndarray and o.shape == shape and o.dtype == dtype:
                out[i] = o
                continue
            if out is not None:
                observations, out = list(out[:i].copy()), None
            observations.append(o)
        seen = self.form.stack(observations) if out is None else {"observations": floats(out, "the observation")}
        return {**seen, "rewards": rewarded(rewards),
                "terminated": memoryview(bytes(terminated)).cast("?"), "truncated": memoryview(bytes(truncated)).cast("?")}


class Whole:
    """A VectorEnv, which steps its environments in a way of its own."""

    def __init__(self, vector, make, mode, flatten, plain):
        self.vector, self.make, self.mode, self.failed = vector, make, mode, False
        self.form = Form(getattr(vector, "single_observation_space", None), getattr(vector, "observation_space", None), flatten, plain)
        self.bounds = bounds(getattr(vector, "single_action_space", None))
        inner = type(getattr(vector, "unwrapped", vector))
        # Those of gymnasium reset the environments of a mask in each mode, since they have modes.
        self.masks = mode == "DISABLED" or (inner.__name__ in ("SyncVectorEnv", "AsyncVectorEnv") and
                                            inner.__module__.startswith("gymnasium.") and hasattr(sys.modules["gymnasium"].vector, "AutoresetMode"))

    def reset(self, seed):
        self.ended = numpy().zeros(self.vector.num_envs, bool)
        try:
            o = self.form.batch(self.begun(seed))
        except BaseException as e:
            raise self.blamed(e)
        self.failed = False
        return o

    def begun(self, seed):
        """Returns the first observations, of a vector that is made anew where that which has failed before fails again."""
        if seed < 0:  # the vector of ALE takes -1 for no seed
            raise ValueError(f"the seed is {seed}: a vector takes 0 or more")
        try:
            return self.vector.reset(seed=seed)[0]
        except BaseException:
            if not self.failed:
                self.failed = True
                raise
        # Of an AsyncVectorEnv that has raised an exception no call succeeds any more.
        end(self.vector)
        self.vector = self.make()
        return self.vector.reset(seed=seed)[0]

    def step(self, actions):
        try:
            return self.stepped(actions)
        except BaseException as e:
            self.failed = True
            raise self.blamed(e)

    def blamed(self, e):
        """Is blame. Where a process of the vector has ended it says which."""
        running = getattr(getattr(self.vector, "unwrapped", self.vector), "processes", ())
        if running and isinstance(e, (EOFError, ConnectionError)):
            connection = importlib.import_module("multiprocessing.connection")
            ended = connection.wait([p.sentinel for p in running], 1)
            for i, p in enumerate(running):
                if p.sentinel in ended:
                    p.join(1)  # it has closed its files, and may not be gone yet
                    return blame(ChildProcessError(f"its process has ended: exit code {p.exitcode}"), i)
        return blame(e, -1)

    def stepped(self, actions):
        some = True in self.ended.tolist()  # any() takes longer
        again = some and self.mode != "NEXT_STEP"
        if again and self.mode == "DISABLED":
            self.restart()  # it takes no step before
        if self.bounds and not (actions.dtype.kind == "i" and actions.ndim == 1 and actions.min() >= self.bounds[0] and actions.max() <= self.bounds[1]):
            check(actions.tolist(), self.bounds, self.ended)
            actions = actions.astype("int64").clip(*self.bounds)  # those of ended episodes may be anything
        o, rewards, terminated, truncated, infos = self.vector.step(actions)
        rewards, terminated, truncated = numpy().array(rewards, "float64"), numpy().array(terminated, "bool"), numpy().array(truncated, "bool")
        if rewards.ndim != 1:
            rewards = numpy().array([single(r) for r in rewards])
        ended = terminated | truncated
        if again:
            if self.masks:
                o = self.restart()
            # Without masks the environment has made a step of its new episode: that is where the episode begins here.
            rewards[self.ended] = 0
            terminated[self.ended] = truncated[self.ended] = ended[self.ended] = False
        elif self.mode == "NEXT_STEP":
            if some:
                rewards[self.ended] = 0  # a wrapper may add to rewards
            if some and ended[self.ended].any() or True in ended.tolist() and known(infos):
                raise ValueError(f"the vector is said to have autoreset mode NEXT_STEP, and begins an episode in the step that ends another: {UNSAID}")
        self.ended = ended
        if self.mode == "SAME_STEP" and self.ended.any():
            o = last(o, final(infos), self.ended)
        return {**self.form.batch(o), "rewards": rewarded(rewards.tolist()), "terminated": terminated, "truncated": truncated}

    def restart(self):
        """Resets the environments whose episodes have ended."""
        return self.vector.reset(options={"reset_mask": self.ended.copy()})[0]


def known(infos):
    """Reports whether infos have last observations."""
    return any(k in info for info in (infos if isinstance(infos, (list, tuple)) else [infos]) for k in FINAL)


def final(infos):
    """Returns the last observations of the episodes that have ended."""
    if isinstance(infos, dict):
        found = next((infos[k] for k in FINAL if k in infos), None)
    else:
        found = [next((info[k] for k in FINAL if k in info), None) for info in infos]
    if not known(infos):
        raise ValueError(f"the vector is said to have autoreset mode SAME_STEP, and its infos have no {FINAL[0]} at the end of an episode: {UNSAID}")
    return found


def last(o, finals, ended):
    """Returns observations with those of finals for the environments whose episodes have ended."""
    if isinstance(o, dict):
        return {k: last(v, finals[k] if isinstance(finals, dict) else [f and f[k] for f in finals], ended) for k, v in o.items()}
    if isinstance(o, tuple):
        return tuple(last(v, [f and f[k] for f in finals], ended) for k, v in enumerate(o))
    o = numpy().array(o)
    for i in numpy().flatnonzero(ended):
        if finals[i] is None:
            raise blame(ValueError(f"the infos have no {FINAL[0]} of it, and its episode has ended"), int(i))
        o[i] = finals[i]
    return o


def end(vector):
    """Closes a vector, and ends what it leaves: where a process of it has died, close waits for that and leaves the others."""
    try:
        vector.close(terminate=True)
    except Exception:
        pass
    for process in getattr(getattr(vector, "unwrapped", vector), "processes", ()):
        if process.is_alive():
            process.kill()
