"""Environments in jax, which are functions of a key and a state. Each episode has a key of its own, which the seed gives."""
import functools

import jax
import numpy as np
from gymnasium import spaces


class Functional:
    """start returns a state and an observation, and move those after an action, with reward, terminated and truncated."""

    def __init__(self, start, move, actions):
        self.start, self.move, self.action_space = start, move, actions

    def split(self):
        self.key, key = jax.random.split(self.key)
        return key

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.key = jax.random.key(seed)
        self.state, o = self.start(self.split())
        return jax.tree.map(np.asarray, o), {}

    def step(self, action):
        self.state, o, reward, terminated, truncated = self.move(self.split(), self.state, action)
        return jax.tree.map(np.asarray, o), float(reward), bool(terminated), bool(truncated), {}


def compiled(define):
    """Compiles the functions of an environment once for all of its name."""
    @functools.cache
    def functions(name):
        start, move, actions = define(name)
        return jax.jit(start), jax.jit(move), actions
    return lambda name: Functional(*functions(name))


@compiled
def gymnax(name):
    import gymnax
    env, params = gymnax.make(name)

    def start(key):
        o, state = env.reset(key, params)
        return state, o

    def move(key, state, action):
        o, state, reward, terminated, info = env.step_env(key, state, action, params)  # step would show the next episode in the last step
        return state, o, reward, terminated, env.is_truncated(state, params)

    space = env.action_space(params)
    return start, move, spaces.Discrete(space.n) if hasattr(space, "n") else spaces.Box(np.float32(space.low), np.float32(space.high), space.shape)


@compiled
def pgx(name):
    """A game in turns: each step is a move of the player whose turn it is, with the reward of that player. A move against the rules loses."""
    import pgx
    env = pgx.make(name)

    def start(key):
        state = env.init(key)
        return state, state.observation

    def move(key, state, action):
        after = env.step(state, action, key)
        return after, after.observation, after.rewards[state.current_player], after.terminated, after.truncated

    return start, move, spaces.Discrete(env.num_actions)


@compiled
def jumanji(name):
    import jumanji
    env = jumanji.make(name)

    def start(key):
        state, t = env.reset(key)
        return state, t.observation._asdict()

    def move(key, state, action):
        state, t = env.step(state, action)
        over = t.discount == 0  # JumanjiToGymWrapper calls each end truncated, too
        return state, t.observation._asdict(), t.reward, over, t.last() & ~over

    return start, move, jumanji.specs.jumanji_specs_to_gym_spaces(env.action_spec)


@compiled
def brax(name):
    from brax import envs
    env = envs.get_environment(name, backend="spring" if name != "fast" else "generalized")

    def start(key):
        state = env.reset(key)
        return state, state.obs

    def move(key, state, action):
        state = env.step(state, action)
        return state, state.obs, state.reward, state.done, False

    return start, move, spaces.Box(-1, 1, (env.action_size,))


@compiled
def xminigrid(name):
    import xminigrid
    env, params = xminigrid.make(name)

    def start(key):
        t = env.reset(params, key)
        return t, t.observation

    def move(key, before, action):
        t = env.step(params, before, action)
        return t, t.observation, t.reward, t.discount == 0, t.last() & (t.discount != 0)

    return start, move, spaces.Discrete(env.num_actions(params))


@compiled
def navix(name):
    import navix
    env = navix.make(name)

    def start(key):
        t = env.reset(key)
        return t, t.observation

    def move(key, before, action):
        t = env.step(before, action)
        return t, t.observation, t.reward, t.is_termination(), t.is_truncation()

    return start, move, spaces.Discrete(int(env.action_space.n))
