#!/usr/bin/env bash
# tensorboard 2.20.0 with tensorboard-data-server 0.7.2: what the page of `tensorboard --logdir` shows of a run that goes on from step 3, in a second file.
#
# Guess: what EventAccumulator reads (tensorboard-start.sh): SessionLog START takes away the points from its step on, a new file alone takes none, and the file
#        that was written last is read last.
# Seen:  by default the page has the points of the data server, which knows no START: a point takes away those of its own tag from its step on, and those of a
#        tag that is not written again stay. Without the data server (--load_fast=false, or a platform that has none) the first START of a folder takes
#        nothing away, and the second one does. Both read files in the order of their names: where the name of the later file sorts first, as when its
#        host's clock is behind, the old points hide the new ones.
#
# raysys writes START twice where a run goes on, and names a file after all that are in its folder: rl/internal/events.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorboard==2.20.0 tensorboard-data-server==0.7.2 numpy==2.4.6 setuptools==75.8.0
cat >main.py <<'END'
import json
import logging
import os
import time
import urllib.parse
import urllib.request

from tensorboard import program
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

logging.disable(logging.ERROR)


def write(name, second, begin, end, starts=0, tags=("return", "loss")):
    """Writes a file whose name says that second. Values are those of the steps, and 100 more of the file that goes on."""
    w = EventFileWriter("runs/" + name)
    for _ in range(starts):
        w.add_event(Event(wall_time=begin, step=begin, session_log=SessionLog(status=SessionLog.START)))
    for step in range(begin, end):
        value = step + (100 if begin > 1 else 0)
        w.add_event(Event(wall_time=step, step=step, summary=Summary(value=[Summary.Value(tag=t, simple_value=value) for t in tags])))
    w.close()
    for file in os.listdir("runs/" + name):
        if not file.startswith("events.out.tfevents.000000000"):
            os.rename(f"runs/{name}/{file}", f"runs/{name}/events.out.tfevents.{second:010d}.host")


def get(url, **query):
    with urllib.request.urlopen(url + "?" + urllib.parse.urlencode(query)) as f:
        return json.load(f)


def seen(fast):
    board = program.TensorBoard()
    board.configure(argv=[None, "--logdir", "runs", "--port", "0", "--load_fast", fast])
    url = board.launch()
    while len(get(url + "data/plugin/scalars/tags")) < len(RUNS):
        time.sleep(0.2)
    for run in RUNS:
        curves = (f"{t} {[int(v) for _, _, v in get(url + 'data/plugin/scalars/scalars', run=run, tag=t)]}" for t in ("loss", "return"))
        print(f"load_fast={fast}, {run}: {'; '.join(curves)}")


RUNS = {"no START": (2, 0), "START": (2, 1), "START twice": (2, 2), "START twice, the later file sorts first": (0, 2)}
for name, (second, starts) in RUNS.items():
    write(name, 1, 1, 6)
    write(name, second, 4, 7, starts, ("return",))
for fast in "true", "false":
    seen(fast)
END
timeout 120 venv/bin/python main.py >got 2>err || { cat err; exit 1; }
cat >want <<'END'
load_fast=true, no START: loss [1, 2, 3, 4, 5]; return [1, 2, 3, 104, 105, 106]
load_fast=true, START: loss [1, 2, 3, 4, 5]; return [1, 2, 3, 104, 105, 106]
load_fast=true, START twice: loss [1, 2, 3, 4, 5]; return [1, 2, 3, 104, 105, 106]
load_fast=true, START twice, the later file sorts first: loss [1, 2, 3, 4, 5]; return [1, 2, 3, 4, 5]
load_fast=false, no START: loss [1, 2, 3, 4, 5]; return [1, 2, 3, 4, 5, 104, 105, 106]
load_fast=false, START: loss [1, 2, 3, 4, 5]; return [1, 2, 3, 4, 5, 104, 105, 106]
load_fast=false, START twice: loss [1, 2, 3]; return [1, 2, 3, 104, 105, 106]
load_fast=false, START twice, the later file sorts first: loss [1, 2, 3, 4, 5]; return [104, 105, 106, 1, 2, 3, 4, 5]
END
cat got
diff want got
