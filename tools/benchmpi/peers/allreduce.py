"""A rank of gloo: RANK ADDRESS-FILE BYTES:ROUNDS... Rank 0 prints for each size the milliseconds of each round."""

import os
import sys
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
for size in sys.argv[3:]:
    count, rounds = map(int, size.split(":"))
    for _ in range(rounds):
        vec = torch.full((count // 4,), float(rank + 1))  # the sum comes in its place
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(vec)
        ms = 1e3 * (time.perf_counter() - begin)
        assert vec[0] == 3 and vec[-1] == 3
        if rank == 0:
            print(count, ms, flush=True)
dist.destroy_process_group()
