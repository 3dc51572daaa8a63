#!/usr/bin/env python3
"""Instructions that Lazuli itself executes to launch the replay of 80 kernels, as valgrind counts them on the driver
without a GPU, whose own are left out. Prints the row that report.py reads.

    LAZULI_FUSE=0 LAZULI_CUDA_DRIVER=... own_instructions.py BENCH_GPU FOLDER
"""
import glob
import json
import os
import re
import subprocess
import sys

bench, folder = sys.argv[1:]
EVAL = "lz::Tensor::eval(lz::Location) const"
out = os.path.join(folder, "calls")
subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", f"--toggle-collect={EVAL}",
                f"--dump-after={EVAL}", bench, "--count", "--rows=replay", "--scale=1024",
                f"--out={os.path.join(folder, 'ignored.json')}"],
               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def own(dump):
    """All of a launch, without what it calls of the driver."""
    text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", dump], check=True,
                          capture_output=True, text=True).stdout
    rows = re.findall(r"^ *([\d,]+) \([ \d.]+%\) +\S*?:(.*?) \[(.*)\]$", text, re.MULTILINE)
    counts = [(int(count.replace(",", "")), name) for count, name, _ in rows]
    whole = max((count for count, name in counts if name.startswith("lz::Tensor::eval")), default=0)
    return whole - sum(count for count, name in counts if re.match(r"cu[A-Z]\w+$", name))


launches = sorted(own(dump) for dump in glob.glob(out + ".*"))
launches = [count for count in launches if count > 0]
print(json.dumps({"row": "replay of 80 kernels, what Lazuli does of it", "own_instructions": launches[len(launches) // 2]}))
