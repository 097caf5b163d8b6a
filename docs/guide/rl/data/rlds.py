import functools

import numpy
import tensorflow_datasets

opened = functools.cache(tensorflow_datasets.builder_from_directory)


@functools.lru_cache(1)
def episode(folder, number):
    (e,) = opened(folder).as_dataset(split=f"train[{number}:{number + 1}]", shuffle_files=False)
    steps = list(e["steps"].as_numpy_iterator())
    return {k: numpy.array([s[k] for s in steps]) for k in steps[0]}


def rows(file, keys, at, n):
    number, i = at or [0, 0]
    e = episode(file, number)
    # The last step of an episode has an observation, and no action.
    length = len(e["is_last"]) - 1
    j = min(i + n, length)
    got = {"obs": e["observation"][i:j], "after": e["observation"][i + 1:j + 1], "actions": e["action"][i:j],
           "rewards": e["reward"][i:j], "terminated": e["is_terminal"][i + 1:j + 1]}
    later = [number, j] if j < length else [number + 1, 0]
    return {**{k: got[k] for k in keys}, "next": later if later[0] < opened(file).info.splits["train"].num_examples else None}
