#!/usr/bin/env bash
# tensorflow-datasets 4.9.10 (tensorflow-cpu 2.21.0): what a builder keeps of each type of elements in its TFRecord files.
#
# Guess: elements come back as they were, or a type that an Example has not (it has float32, int64 and bytes) is refused.
# Seen:  float64 is written as float32 and read as float64 again: 0.1 is another number, 1e300 is infinity, and nothing is said. The other types,
#        uint64 among them, come back as they were.
#
# raysys reads what is in the file: docs/guide/rl/data.md names it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 tensorflow-datasets==4.9.10 numpy==2.4.6
cat >main.py <<'END'
import numpy
import tensorflow_datasets as tfds

CASES = {numpy.float64: [0.1, 1e300], numpy.float32: [0.1, 1e30], numpy.int64: [2**62 + 1, -1], numpy.uint64: [2**63 + 1, 1], numpy.bool_: [True, False]}


class Kept(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=t.__name__) for t in CASES]

    def of(self):
        return next((t, v) for t, v in CASES.items() if t.__name__ == self.builder_config.name)

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"x": tfds.features.Tensor(shape=(2,), dtype=self.of()[0])}))

    def _split_generators(self, manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        dtype, values = self.of()
        yield 0, {"x": numpy.array(values, dtype)}


for dtype, values in CASES.items():
    try:
        builder = Kept(data_dir="data", config=dtype.__name__)
        builder.download_and_prepare()
        (e,) = builder.as_dataset(split="train").as_numpy_iterator()
        print(f"KEPT {dtype.__name__}: {numpy.array(values, dtype).tolist()} comes back as {e['x'].dtype} {e['x'].tolist()}")
    except Exception as e:
        print(f"KEPT {dtype.__name__}: {values} is {type(e).__name__}")
END
venv/bin/python main.py >out 2>err || { tail -20 err; exit 1; }
grep '^KEPT' out >got
cat >want <<'END'
KEPT float64: [0.1, 1e+300] comes back as float64 [0.10000000149011612, inf]
KEPT float32: [0.10000000149011612, 1.0000000150474662e+30] comes back as float32 [0.10000000149011612, 1.0000000150474662e+30]
KEPT int64: [4611686018427387905, -1] comes back as int64 [4611686018427387905, -1]
KEPT uint64: [9223372036854775809, 1] comes back as uint64 [9223372036854775809, 1]
KEPT bool: [True, False] comes back as bool [True, False]
END
cat got
diff want got
