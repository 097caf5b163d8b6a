"""Reverb for benchreverb: a server that ends with its input, or a client that prints name:items/s in lines.

    peer.py server TABLE_SIZE
    peer.py client PORT SECONDS
"""

import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import reverb
import tensorflow as tf

BATCH = 256
WRITTEN = 4 * BATCH  # items that a writer has open, as many as a writer of replay
AHEAD = 2 * BATCH  # samples that a worker asks for: Reverb's documentation says 2 to 3 batches, and more is slower


def serve(size):
    table = reverb.Table(
        name="t",
        sampler=reverb.selectors.Prioritized(0.6),
        remover=reverb.selectors.Fifo(),
        max_size=size,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    server = reverb.Server(tables=[table])
    print(server.port, flush=True)
    sys.stdin.read()
    os._exit(0)  # stop() waits for the streams of clients that have gone


def main(port, seconds):
    address = f"localhost:{port}"
    client = reverb.Client(address)
    # Random bytes: Reverb compresses what it is given.
    rows = [{"x": row} for row in np.random.randint(0, 256, (BATCH, 1024), dtype=np.uint8)]
    priorities = np.random.uniform(0.1, 1, BATCH).tolist()

    def measure(name, batch, end=lambda: None):
        batch()  # not measured
        n, begin = 0, time.time()
        while time.time() - begin < seconds:
            batch()
            n += BATCH
        end()
        print(f"{name}:{n / (time.time() - begin)}", flush=True)

    with client.trajectory_writer(num_keep_alive_refs=2) as writer:

        def write():
            for row, p in zip(rows, priorities):
                writer.append(row)
                writer.create_item("t", p, {"x": writer.history["x"][-1:]})
            writer.flush(block_until_num_items=WRITTEN)

        measure("insert TrajectoryWriter", write, writer.flush)

    def insert():
        for row, p in zip(rows, priorities):
            client.insert(row, {"t": p})

    measure("insert Client.insert", insert)

    def sample():
        for _ in client.sample("t", num_samples=BATCH):
            pass

    measure("sample Client.sample", sample)
    for name, dataset, shape in ("TimestepDataset", reverb.TimestepDataset, [1024]), ("TrajectoryDataset", reverb.TrajectoryDataset, [1, 1024]):
        samples = dataset(address, "t", {"x": tf.uint8}, {"x": tf.TensorShape(shape)}, AHEAD)
        it = iter(samples.batch(BATCH, drop_remainder=True).prefetch(2))
        measure("sample " + name, lambda it=it: next(it))
    sys.stdout.flush()
    os._exit(0)  # the datasets' workers do not end by themselves


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    main(sys.argv[2], float(sys.argv[3]))
