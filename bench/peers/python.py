#!/usr/bin/env python3
"""Peers that are Python modules: NumPy, JAX, torch.compile, MLX, Dr.Jit and ONNX Runtime, each where it is there. One process, which keeps what
it has compiled, and takes turns with the C++ benches: it reads lines "BENCH ROUND FILE", runs the rows that it has of
that bench, writes them to the file and answers with a line. Rows have the names of the C++ ones (bench/report.py joins
them). Results of the peers are compared with each other once.

    echo 'programs 1 /tmp/programs.json' | python3 bench/peers/python.py [--min-time=0.1] [--threads=N]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

parser = argparse.ArgumentParser()
parser.add_argument("--min-time", type=float, default=0.1)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
options = parser.parse_args()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
answers = os.fdopen(os.dup(1), "w", buffering=1) # what the modules print goes elsewhere
os.dup2(2, 1)

import numpy as np # noqa: E402

import workloads # noqa: E402


class NumPy:
    name = "numpy"
    kinds = ("arrays", "flat", "file") # of workloads

    def __init__(self):
        self.ops = workloads.NumPyOps()

    def set_threads(self, count):
        """Where a module has no other way to be told than the environment, it has all of them."""

    def put(self, x):
        return x

    def compile(self, f):
        """A function of arrays that are `put`; when it returns, its result is there."""
        return lambda *args: f(self.ops, *args)

    def compile_workload(self, workload):
        return self.compile(workload.run)

    def numbers(self, result):
        return np.asarray(result)


class Jax(NumPy):
    name = "jax"
    kinds = ("arrays", "flat")

    def __init__(self):
        import jax
        self.jax, self.ops = jax, workloads.JaxOps()

    def put(self, x):
        return self.jax.device_put(x)

    def compile(self, f):
        compiled = self.jax.jit(super().compile(f))
        return lambda *args: self.jax.block_until_ready(compiled(*args))


class TorchCompile(NumPy):
    name = "torch.compile"
    kinds = ("arrays", "flat")

    def __init__(self):
        import torch
        torch.set_num_threads(options.threads)
        torch._dynamo.config.cache_size_limit = 256
        torch.set_grad_enabled(False)
        self.torch, self.ops = torch, workloads.TorchOps()

    def put(self, x):
        return self.torch.from_numpy(x.copy())

    def compile(self, f):
        return self.torch.compile(super().compile(f))

    def numbers(self, result):
        return result.numpy()


class Mlx(NumPy):
    name = "mlx"
    kinds = ("arrays", "flat")

    def __init__(self):
        import mlx.core
        mlx.core.set_default_device(mlx.core.cpu)
        self.mx, self.ops = mlx.core, workloads.MlxOps()

    def put(self, x):
        return self.mx.array(x)

    def compile(self, f):
        compiled = self.mx.compile(super().compile(f))

        def run(*args):
            result = compiled(*args)
            self.mx.eval(result)
            return result
        return run


class DrJit(NumPy):
    """Its kernels are LLVM's, of the library that DRJIT_LIBLLVM_PATH names (bench/run.sh)."""
    name = "drjit"
    kinds = ("flat",)

    def __init__(self):
        import drjit
        if not drjit.has_backend(drjit.JitBackend.LLVM):
            raise ImportError("it finds no LLVM; DRJIT_LIBLLVM_PATH may name one")
        self.dr, self.ops = drjit, workloads.DrJitOps()

    def set_threads(self, count):
        self.dr.set_thread_count(count)

    def put(self, x):
        return self.ops.Float(x.ravel())

    def compile(self, f):
        traced = super().compile(f)
        frozen = self.dr.freeze(traced) # neither traced nor looked up again

        def run(*args):
            result = frozen(*args) if args else traced()
            self.dr.eval(result)
            self.dr.sync_thread()
            return result
        return run


class OnnxRuntime(NumPy):
    """Functions as files, in its own format; beside ours, which are files, too."""
    name = "onnxruntime"
    kinds = ("file", "first")

    def __init__(self):
        import onnx # noqa: F401
        import onnxruntime
        import onnx_file
        self.rt, self.files = onnxruntime, onnx_file

    def put(self, x):
        return self.rt.OrtValue.ortvalue_from_numpy(x)

    def write(self, workload, folder):
        """Its path."""
        path, shapes = os.path.join(folder, "function.onnx"), [shape for shape, _, _ in workload.ranges]
        result = workload.run(workloads.NumPyOps(), *[np.ones(shape, np.float32) for shape in shapes])
        self.files.write(workload.run, shapes, result.shape, path)
        return path, result

    def compile_workload(self, workload):
        with tempfile.TemporaryDirectory() as folder:
            session = self.files.session(self.write(workload, folder)[0], options.threads)
        binding = session.io_binding() # what is where is said once
        bound = []

        def run(*args):
            if bound != list(args):
                bound[:] = args
                for i, x in enumerate(args):
                    binding.bind_ortvalue_input(f"input{i}", x)
                binding.bind_output("output")
            session.run_with_iobinding(binding)
            return binding.get_outputs()[0]
        return run

    def first_call(self, workload):
        """Seconds in a new process, from when its modules are there: the median of a few."""
        with tempfile.TemporaryDirectory() as folder:
            path, right = self.write(workload, folder)
            seconds = []
            for _ in range(5):
                said = subprocess.run([sys.executable, self.files.__file__, path, str(options.threads)], check=True,
                                      capture_output=True, text=True).stdout.split()
                if abs(float(said[1]) - right.flat[0]) > 1e-3 * abs(right.flat[0]):
                    raise ValueError(f"its first element is {said[1]}")
                seconds.append(float(said[0]))
            return statistics.median(seconds)

    def numbers(self, result):
        return result.numpy()


def modules():
    for make in (NumPy, Jax, TorchCompile, Mlx, DrJit, OnnxRuntime):
        try:
            yield make()
        except Exception as error: # a module may be there and not load
            print(f"python.py: {make.name} is no peer: {error}", file=sys.stderr)


def time_of(run):
    """Seconds of a run: the mean of as many as the time asks for."""
    begin, rounds = time.perf_counter(), 0
    while True:
        run()
        rounds += 1
        took = time.perf_counter() - begin
        if took >= options.min_time or rounds >= 1000000:
            return took / rounds


class Row:
    """One workload of all peers. What fails is said once, and left out from then on."""

    def __init__(self, bench, name, workload, peers):
        self.bench, self.name, self.workload = bench, name, workload
        self.peers = [peer for peer in peers if peer.name not in workload.without and workload.kind in peer.kinds]
        self.compiled = {}
        self.first = None

    def check(self, peer, results):
        """The first time: numbers are those of the first peer."""
        if not self.workload.exact:
            return
        numbers = np.concatenate([peer.numbers(result).astype(np.float64).ravel() for result in results])
        first = numbers if self.first is None else self.first
        difference = np.abs(numbers - first).max() if numbers.shape == first.shape else np.inf
        if not difference <= 1e-3 * np.abs(first).max():
            raise ValueError(f"its result is another one, by {difference:.3g}")
        self.first = first

    def measure(self):
        calls, found = self.workload.calls(np.random.default_rng(zlib.crc32(self.name.encode()))), []
        for peer in list(self.peers):
            row = {"peer": peer.name, "bench": self.bench, "name": self.name, "time_unit": "s"}
            try:
                peer.set_threads(self.workload.threads or options.threads)
                if self.workload.kind == "first":
                    found.append(row | {"real_time": peer.first_call(self.workload)})
                    continue
                there = [[peer.put(x) for x in call] for call in calls]
                f = self.compiled.get(peer.name) or peer.compile_workload(self.workload)
                results = [f(*call) for call in there] # compiles
                if peer.name not in self.compiled:
                    self.check(peer, results)
                    self.compiled[peer.name] = f
                del results
                found.append(row | {"real_time": time_of(lambda: [f(*call) for call in there])})
            except Exception as error:
                text = str(error).strip().splitlines()
                print(f"python.py: {self.bench}/{self.name}: {peer.name}: {text[0] if text else type(error)}",
                      file=sys.stderr)
                self.peers.remove(peer)
        self.first = None # the memory
        return found


def main():
    peers = list(modules())
    rows = [Row(bench, name, workload, peers) for (bench, name), workload in workloads.ALL.items()]
    for line in sys.stdin:
        bench, number, path = line.split()
        found = [run for row in rows if row.bench == bench for run in row.measure()]
        if found:
            with open(path, "w") as file:
                json.dump({"benchmarks": found}, file)
        print(f"{bench} {number} {len(found)} rows", file=answers)


main()
