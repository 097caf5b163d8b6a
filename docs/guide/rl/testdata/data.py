"""Writes a data set by a library, reads it by that library alone, and prints what it has read: data.py FORMAT FOLDER WHAT.

WHAT is "types", an array of each type with elements of any bits, "steps", what a policy might have seen, "none", arrays of no steps, or "refused", arrays
of other types.
"""
import base64
import json
import sys

import numpy

TYPES = "float32", "float64", "int32", "int64", "uint8", "bool"
REFUSED = ("float16", "int8", "int16", "uint16", "uint32", "uint64", ">f4", ">f8", ">i4", ">i8", "complex64", "U3", "S3", "M8[ns]", [("a", "f4"), ("b", "i4")])
ROWS, EPISODES = 100, [40, 1, 59]
MANY = 4000  # rows of arrays that are sent without a copy
random = numpy.random.default_rng(7)


def bits(dtype, *shape):
    """Returns elements of any bits: among those of float are NaN, with bits of their own, and infinity."""
    if dtype == "bool":
        return random.integers(0, 2, shape).astype("bool")
    a = numpy.frombuffer(random.bytes(int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize), dtype).reshape(shape)
    if a.dtype.kind == "f":
        a = a.copy()
        a.reshape(-1)[:5] = numpy.nan, numpy.inf, -numpy.inf, -0.0, numpy.finfo(dtype).smallest_subnormal
    return a


def steps():
    """Returns an array for each key: of each episode an observation more than steps, of which the row before is cut off."""
    seen = [random.standard_normal((n + 1, 4)).astype("float32") for n in EPISODES]
    ends = numpy.cumsum(EPISODES) - 1
    return {"obs": numpy.concatenate([s[:-1] for s in seen]), "after": numpy.concatenate([s[1:] for s in seen]),
            "actions": random.integers(0, 2, ROWS), "rewards": random.standard_normal(ROWS), "terminated": numpy.isin(numpy.arange(ROWS), ends[:2])}


def episodes(arrays):
    """Yields the arrays of each episode."""
    i = 0
    for n in EPISODES:
        yield {k: v[i:i + n] for k, v in arrays.items()}
        i += n


def npz(folder, arrays):
    file = folder + "/a.npz"
    numpy.savez_compressed(file, **{k: numpy.asfortranarray(a) for k, a in arrays.items()})
    return file, dict(numpy.load(file))


def memmap(folder, arrays):
    for k, a in arrays.items():
        numpy.save(f"{folder}/{k}.npy", numpy.asfortranarray(a))
    return folder, {k: numpy.load(f"{folder}/{k}.npy") for k in arrays}


def safetensors(folder, arrays):
    from safetensors.numpy import load_file, save_file
    file = folder + "/a.safetensors"
    save_file(arrays, file)
    return file, load_file(file)


def minari(folder, arrays):
    import gymnasium  # it takes the folder from MINARI_DATASETS_PATH
    import minari
    from minari.data_collector import EpisodeBuffer
    buffers = []
    for i, e in enumerate(episodes(arrays)):
        n = len(e["rewards"])
        buffers.append(EpisodeBuffer(id=i, observations=list(e["obs"]) + [e["after"][-1]], actions=list(e["actions"]), rewards=list(e["rewards"]),
                                     terminations=list(e["terminated"]), truncations=[False] * (n - 1) + [not e["terminated"][-1]]))
    spaces = gymnasium.spaces
    minari.create_dataset_from_buffers("guide/steps-v0", buffers, env="CartPole-v1", observation_space=spaces.Box(-numpy.inf, numpy.inf, (4,), "float32"),
                                       action_space=spaces.Discrete(2))
    read = list(minari.load_dataset("guide/steps-v0").iterate_episodes())
    join = lambda part: numpy.concatenate([part(e) for e in read])
    return "guide/steps-v0", {"obs": join(lambda e: e.observations[:-1]), "after": join(lambda e: e.observations[1:]), "actions": join(lambda e: e.actions),
                              "rewards": join(lambda e: e.rewards), "terminated": join(lambda e: e.terminations)}


def tfrecord(folder, arrays):
    import tensorflow as tf
    file = folder + "/a.tfrecord"
    if "float64" in arrays:  # an Example has lists of three types
        arrays = {k: arrays[k] for k in ("float32", "int64", "uint8")}
    arrays = {k: a.astype("int64") if a.dtype == bool else a for k, a in arrays.items()}
    kinds = {"f": lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v.reshape(-1))),
             "i": lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v.reshape(-1))),
             "u": lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.tobytes()]))}
    rows = len(next(iter(arrays.values())))
    with tf.io.TFRecordWriter(file) as w:
        for i in range(rows):
            w.write(tf.train.Example(features=tf.train.Features(feature={k: kinds[a.dtype.kind](a[i]) for k, a in arrays.items()})).SerializeToString())
    spec = {k: tf.io.FixedLenFeature([] if a.dtype.kind == "u" else a.shape[1:], {"f": tf.float32, "i": tf.int64, "u": tf.string}[a.dtype.kind])
            for k, a in arrays.items()}
    read = list(tf.data.TFRecordDataset(file).map(lambda r: tf.io.parse_single_example(r, spec)).as_numpy_iterator())
    values = {k: [e[k] for e in read] for k in arrays}
    return file, {k: numpy.frombuffer(b"".join(v), "uint8").reshape(rows, -1) if isinstance(v[0], bytes) else numpy.array(v) for k, v in values.items()}


def rlds(folder, arrays):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    class Steps(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"steps": tfds.features.Dataset({
                "observation": tfds.features.Tensor(shape=(4,), dtype=numpy.float32), "action": tfds.features.Scalar(numpy.int64),
                "reward": tfds.features.Scalar(numpy.float32), "discount": tfds.features.Scalar(numpy.float32), "is_first": tfds.features.Scalar(numpy.bool_),
                "is_last": tfds.features.Scalar(numpy.bool_), "is_terminal": tfds.features.Scalar(numpy.bool_)})}))

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for number, e in enumerate(episodes(arrays)):
                n = len(e["rewards"])
                yield number, {"steps": [{
                    "observation": e["obs"][i] if i < n else e["after"][-1], "action": e["actions"][i] if i < n else 0, "reward": e["rewards"][i] if i < n else 0,
                    "discount": 1.0, "is_first": i == 0, "is_last": i == n, "is_terminal": i == n and bool(e["terminated"][-1])} for i in range(n + 1)]}

    builder = Steps(data_dir=folder)
    builder.download_and_prepare()
    got = {k: [] for k in arrays}
    for e in builder.as_dataset(split="train", shuffle_files=False):
        seen = list(e["steps"].as_numpy_iterator())
        for a, b in zip(seen, seen[1:]):
            for k, v in zip(("obs", "after", "actions", "rewards", "terminated"), (a["observation"], b["observation"], a["action"], a["reward"], b["is_terminal"])):
                got[k].append(v)
    return str(builder.data_path), {k: numpy.array(v) for k, v in got.items()}


def arrays(what):
    if what == "types":
        return {t: bits(t, MANY, 3) for t in TYPES}
    if what == "steps":
        return steps()
    if what == "none":
        return {k: a[:0] for k, a in steps().items()}
    return {f"x{i}": numpy.zeros((3, 2), t) for i, t in enumerate(REFUSED)}


form, folder, what = sys.argv[1:]
file, read = globals()[form](folder, arrays(what))
print(json.dumps({"file": file, "arrays": {k: {"dtype": str(a.dtype), "shape": a.shape, "data": base64.b64encode(a.tobytes()).decode()} for k, a in read.items()}}))
