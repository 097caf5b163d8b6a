import functools

import minari

opened = functools.cache(minari.load_dataset)


@functools.lru_cache(1)
def episode(name, number):
    return next(iter(opened(name).iterate_episodes([number])))


def rows(file, keys, at, n):
    number, i = at or [0, 0]
    e = episode(file, number)
    j, length = min(i + n, len(e.rewards)), len(e.rewards)
    # Before each step is an observation, and after the last: one more than there are steps.
    got = {"obs": e.observations[i:j], "after": e.observations[i + 1:j + 1], "actions": e.actions[i:j],
           "rewards": e.rewards[i:j], "terminated": e.terminations[i:j]}
    later = [number, j] if j < length else [number + 1, 0]
    return {**{k: got[k] for k in keys}, "next": later if later[0] < opened(file).total_episodes else None}
