"""The rows of Ray's microbenchmark that raysys-lab bench has between processes: the same operations, one round of each.

Prints a JSON object, row -> operations per second. Ray's own form of them is ray/_private/ray_perf.py.
"""

import json
import logging
import sys
import time

import ray

BATCH = 1000
CLIENTS = 4


@ray.remote
def increment(x):
    return x + 1


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self):
        self.n = 0

    def add(self, d):
        self.n += d
        return self.n


@ray.remote(num_cpus=0)
class Client:
    """A submitter of its own, as a process."""

    def tasks(self, n):
        ray.get([increment.remote(i) for i in range(n)])

    def calls(self, counters, n):
        ray.get([counters[i % len(counters)].add.remote(1) for i in range(n)])


@ray.remote
def total(*values):
    return sum(values)


def rate(operations, f, seconds):
    """Runs f once unmeasured, then for at least so many seconds; returns operations per second."""
    f()
    runs, start = 0, time.perf_counter()
    while True:
        f()
        runs += 1
        took = time.perf_counter() - start
        if took >= seconds:
            return operations * runs / took


def wait_1k():
    left = [increment.remote(i) for i in range(BATCH)]
    while left:
        _, left = ray.wait(left, num_returns=1)


def rows(seconds):
    counter = Counter.remote()
    counters = [Counter.remote() for _ in range(CLIENTS)]
    clients = [Client.remote() for _ in range(CLIENTS)]
    ray.get([c.add.remote(0) for c in [counter, *counters]])
    yield "tasks_sync", rate(1, lambda: ray.get(increment.remote(1)), seconds)
    yield "tasks_async", rate(BATCH, lambda: ray.get([increment.remote(i) for i in range(BATCH)]), seconds)
    yield "tasks_multi_client_async", rate(CLIENTS * BATCH, lambda: ray.get([c.tasks.remote(BATCH) for c in clients]), seconds)
    yield "actor_sync", rate(1, lambda: ray.get(counter.add.remote(1)), seconds)
    yield "actor_async", rate(BATCH, lambda: ray.get([counter.add.remote(1) for _ in range(BATCH)]), seconds)
    yield "actor_n_n_async", rate(CLIENTS * BATCH, lambda: ray.get([c.calls.remote(counters, BATCH) for c in clients]), seconds)
    # As in raysys-lab bench, the values are seen by another process: a thousand of them are the arguments of a task.
    yield "put_small", rate(BATCH, lambda: ray.get(total.remote(*[ray.put(i) for i in range(BATCH)])), seconds)
    yield "wait_1k", rate(1, wait_1k, seconds)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    ray.get([increment.remote(i) for i in range(BATCH)])  # its worker processes start now
    json.dump(dict(rows(seconds)), sys.stdout)
    ray.shutdown()


if __name__ == "__main__":
    main()
