"""All-reduce in place over gloo, as benches/all_reduce.rs measures it: the median time of 4 KiB, the payload per second of 64 MiB.

usage: gloo.py [RANKS]   (needs PyTorch)
"""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def median(size, repetitions):
    values = torch.zeros(size // 4)  # Zeros stay zeros, however often they are added up.
    dist.all_reduce(values)
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        dist.all_reduce(values)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def rank(index, ranks):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=index, world_size=ranks)
    small, large = median(4 << 10, 2000), median(64 << 20, 11)
    if index == 0:
        rate = (64 << 20) / large / 1e9
        print(f"{ranks} ranks, gloo        : 4 KiB median {small * 1e6:7.1f} µs; 64 MiB {large * 1e3:6.1f} ms, {rate:.2f} GB/s")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    world = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    mp.spawn(rank, args=(world,), nprocs=world)
