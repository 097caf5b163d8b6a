import itertools

import numpy
import tensorflow

where, records = None, None  # what the last answer said comes next


def array(example, key):
    kind = example[key].WhichOneof("kind") if key in example else None  # a lookup alone makes an empty one
    if kind is None:
        raise KeyError(f"{key} is not in the example, which has {sorted(example)}")
    values = getattr(example[key], kind).value
    if kind == "bytes_list":
        return numpy.frombuffer(b"".join(values), "uint8")
    return numpy.array(values, {"float_list": "float32", "int64_list": "int64"}[kind])


def rows(file, keys, at, n):
    global where, records
    (i,) = at or [0]
    if where != (file, i):
        records = tensorflow.data.TFRecordDataset(file).skip(i).as_numpy_iterator()
    where = None  # where this fails
    examples = [tensorflow.train.Example.FromString(r).features.feature for r in itertools.islice(records, n)]
    where = file, i + len(examples)
    got = {k: numpy.array([array(e, k) for e in examples]) for k in keys if examples}
    return {**got, "next": [i + len(examples)] if len(examples) == n else None}
