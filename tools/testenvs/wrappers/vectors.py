"""Vectors of other packages, whose autoreset mode Config.Autoreset says."""
import importlib


def supersuit(name):
    """The agents of a parallel environment of PettingZoo: same_step."""
    import supersuit
    env = importlib.import_module(name).parallel_env()
    return supersuit.concat_vec_envs_v1(supersuit.pettingzoo_env_to_vec_env_v1(env), 1, base_class="gymnasium")


def pufferlib(name):
    """Environments of gymnasium in its Serial vector: next_step."""
    import gymnasium
    import pufferlib.emulation
    import pufferlib.vector
    make = lambda **kwargs: pufferlib.emulation.GymnasiumPufferEnv(env_creator=lambda: gymnasium.make(name))
    return pufferlib.vector.make(make, num_envs=2, backend=pufferlib.vector.Serial)
