#!/usr/bin/env bash
# gymnasium 1.4.0: what vectors make of the exception of an environment, and of its last observation.
#
# Guess: AsyncVectorEnv raises the exception of the environment's process. final_obs of SAME_STEP is the last observation of the episode.
# Seen:  an exception is another one where its traceback has a % sign, also in a line of source (the logger takes the traceback for a format, and it is lost),
#        and where its class is made of more than a message. In both vectors final_obs is the first observation of the next episode where the environment
#        returns one array again and again: it is reset before the array is copied.
#
# raysys has the logger take a traceback as it is, steps the environments of a SyncVectorEnv itself, and says of SAME_STEP what it cannot mend:
# grains/process/vectors.py, docs/guide/vectors.md.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check gymnasium==1.4.0 numpy==2.4.6
cat >main.py <<'END'
import warnings

import numpy
from gymnasium import Env, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

warnings.simplefilter("ignore")


class Fault(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")


class Walk(Env):
    """Shows how many steps the episode has, which ends by the second."""

    observation_space, action_space = spaces.Box(0, 9, (1,), "float32"), spaces.Discrete(4)

    def __init__(self):
        self.at = numpy.zeros(1, "float32")

    def reset(self, seed=None, options=None):
        self.at[:] = 0
        return self.at, {}

    def step(self, action):
        if action == 1:
            raise ValueError("half of it")
        if action == 2:
            raise ValueError("50 % of it")
        if action == 3:
            raise Fault(7, "no way on")
        self.at += 1
        return self.at, 1.0, False, self.at[0] == 2, {}


for action, name in (1, "an exception"), (2, "one with a % sign"), (3, "one with a code and a text"):
    v = AsyncVectorEnv([Walk])
    v.reset()
    try:
        v.step([action])
    except Exception as e:
        print(f"{name}: {type(e).__name__}: {e}")
for make in SyncVectorEnv, AsyncVectorEnv:
    v = make([Walk], autoreset_mode=AutoresetMode.SAME_STEP)
    v.reset()
    v.step([0])
    _, _, _, truncated, infos = v.step([0])
    print(f"{make.__name__}, after step 2: truncated {truncated}, final_obs {infos['final_obs'][0]}")
END
venv/bin/python main.py >got 2>err || { cat err; exit 1; }
cat >want <<'END'
an exception: ValueError: half of it
one with a % sign: TypeError: not enough arguments for format string
one with a code and a text: TypeError: Fault.__init__() missing 1 required positional argument: 'text'
SyncVectorEnv, after step 2: truncated [ True], final_obs [0.]
AsyncVectorEnv, after step 2: truncated [ True], final_obs [0.]
END
cat got
diff want got
