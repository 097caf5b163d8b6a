#!/usr/bin/env bash
# tensorboard 2.20.0: which points of a run go when a writer that goes on from step 3 says SessionLog START with that step.
#
# Guess: those after step 3, of the tags that the writer writes again: step 3 was reached before it stopped.
# Seen:  those from step 3 on, in all tags, also in one that is not written again. Without START (a new file alone) both curves stay.
#
# This is EventAccumulator; the page of TensorBoard does otherwise: tensorboard-server.sh.
#
# raysys writes START with the step after that of the checkpoint: rl/internal/events.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorboard==2.20.0 numpy==2.4.6 setuptools==75.8.0
cat >main.py <<'END'
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def write(folder, begin, end, start=None, tags=("return", "loss"), suffix=""):
    w = EventFileWriter(folder, filename_suffix=suffix)
    if start is not None:
        w.add_event(Event(wall_time=start, step=start, session_log=SessionLog(status=SessionLog.START)))
    for step in range(begin, end):
        w.add_event(Event(wall_time=step, step=step, summary=Summary(value=[Summary.Value(tag=t, simple_value=step) for t in tags])))
    w.close()


def seen(folder):
    a = EventAccumulator(folder)
    a.Reload()
    return "; ".join(f"{t} {[s.step for s in a.Scalars(t)]}" for t in sorted(a.Tags()["scalars"]))


for name, start in ("START at 3", 3), ("no START", None):
    write(name, 1, 6, suffix=".a")
    write(name, 4, 7, start, ("return",), suffix=".b")
    print(f"{name}: {seen(name)}")
END
venv/bin/python main.py >got 2>err || { cat err; exit 1; }
cat >want <<'END'
START at 3: loss [1, 2]; return [1, 2, 4, 5, 6]
no START: loss [1, 2, 3, 4, 5]; return [1, 2, 3, 4, 5, 4, 5, 6]
END
cat got
diff want got
