import functools

import numpy


@functools.cache
def opened(file, key):
    if file.endswith(".npz"):
        with numpy.load(file) as arrays:
            return arrays[key]  # whole: mmap_mode does nothing for a zip
    return numpy.load(f"{file}/{key}.npy", mmap_mode="r")  # without a header: numpy.memmap(name, dtype, "r", shape=shape)


def rows(file, keys, at, n):
    (i,), arrays = at or [0], {k: opened(file, k) for k in keys}
    length = max(map(len, arrays.values()))
    return {**{k: a[i:i + n] for k, a in arrays.items()}, "next": [i + n] if i + n < length else None}
