#!/usr/bin/env bash
# safetensors 0.8.0 (numpy 2.4.6): what safetensors.numpy.save writes of arrays that are not contiguous: transposed, a part of the columns, backwards.
#
# Guess: their elements, as 0.7.0 did and as numpy.save does, or an error, as safetensors.torch gives one.
# Seen:  other elements, without an error: as many bytes as the array has, from its first element on. Those of an array that is backwards begin at its last
#        row and go on in memory that is not its own.
#
# raysys reads what is in the file: docs/guide/rl/data.md says to save numpy.ascontiguousarray(x).
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
cat >main.py <<'END'
import numpy
import safetensors
from safetensors.numpy import load, save

print("safetensors", safetensors.__version__)
whole = numpy.arange(12, dtype="int32").reshape(4, 3)
a = whole[:2]  # of an array that has more, so that no other memory is read
for name, x in ("a", a), ("a.T", a.T), ("a[:, :2]", a[:, :2]), ("a[::-1]", a[::-1]), ("asfortranarray(a)", numpy.asfortranarray(a)):
    print(f"{name} = {x.tolist()} is read as {load(save({'x': x}))['x'].tolist()}")
END
for version in 0.7.0 0.8.0; do
	venv/bin/pip install --quiet --disable-pip-version-check numpy==2.4.6 safetensors==$version
	venv/bin/python main.py >>got
done
cat >want <<'END'
safetensors 0.7.0
a = [[0, 1, 2], [3, 4, 5]] is read as [[0, 1, 2], [3, 4, 5]]
a.T = [[0, 3], [1, 4], [2, 5]] is read as [[0, 3], [1, 4], [2, 5]]
a[:, :2] = [[0, 1], [3, 4]] is read as [[0, 1], [3, 4]]
a[::-1] = [[3, 4, 5], [0, 1, 2]] is read as [[3, 4, 5], [0, 1, 2]]
asfortranarray(a) = [[0, 1, 2], [3, 4, 5]] is read as [[0, 1, 2], [3, 4, 5]]
safetensors 0.8.0
a = [[0, 1, 2], [3, 4, 5]] is read as [[0, 1, 2], [3, 4, 5]]
a.T = [[0, 3], [1, 4], [2, 5]] is read as [[0, 1], [2, 3], [4, 5]]
a[:, :2] = [[0, 1], [3, 4]] is read as [[0, 1], [2, 3]]
a[::-1] = [[3, 4, 5], [0, 1, 2]] is read as [[3, 4, 5], [6, 7, 8]]
asfortranarray(a) = [[0, 1, 2], [3, 4, 5]] is read as [[0, 3, 1], [4, 2, 5]]
END
cat got
diff want got
