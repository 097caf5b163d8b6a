import functools

import numpy
import safetensors

opened = functools.cache(lambda file: safetensors.safe_open(file, "numpy"))


def rows(file, keys, at, n):
    (i,), slices = at or [0], {k: opened(file).get_slice(k) for k in keys}
    length = max(s.get_shape()[0] for s in slices.values())
    if length == 0:  # no slice of no rows is allowed
        return {**{k: opened(file).get_tensor(k) for k in keys}, "next": None}
    return {**{k: s[i:min(i + n, s.get_shape()[0])] for k, s in slices.items()}, "next": [i + n] if i + n < length else None}
