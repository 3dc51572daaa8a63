#!/usr/bin/env python3
"""The rows of bench_gpu in PyTorch (eager and compiled), JAX and CuPy, whichever can be imported and has a GPU. A line of JSON
for each row and peer, appended to --out.

    python3 peers.py --out=peers.json --scale=1 --until=600
"""
import argparse
import json
import math
import statistics
import time


def sizes(scale):
    n = (256 << 20) // scale
    return n, n // 4, 8 * int(math.sqrt(n / 4) / 8)


class Torch:
    def __init__(self, compiled):
        import torch
        self.torch, self.compiled, self.version = torch, compiled, torch.__version__
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no GPU")
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    def array(self, shape, dtype):
        x = self.torch.rand(shape, device="cuda", dtype=self.torch.float32) * 2 - 1
        return x.to({"f32": self.torch.float32, "bf16": self.torch.bfloat16}[dtype])

    def functions(self):
        torch, f = self.torch, self.torch.nn.functional
        eight = lambda x: torch.clamp(torch.minimum(torch.abs(-((x * 1.5 + 0.5) * x - 0.25)), torch.tensor(3.0, dtype=x.dtype, device=x.device)), min=0.125)
        return {"chain": eight, "chain with exp": lambda x: torch.exp(eight(x)),
                "softmax": lambda x, w: torch.softmax(x, -1),
                "layer norm": lambda x, w: f.layer_norm(x, w.shape, w, w),
                "RMS norm": lambda x, w: f.rms_norm(x, w.shape, w),
                "sum of all": lambda x: x.sum(), "sum of columns": lambda x: x.sum(0),
                "transpose and add": lambda x, y: x.t() + y, "product": lambda x, y: x @ y,
                "gelu": lambda x, y, b: f.gelu(x @ y + b)}

    def prepared(self, f):
        return self.torch.compile(f, dynamic=False) if self.compiled else f

    def time(self, f, arguments):
        torch = self.torch
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(5):
            f(*arguments)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / 5


class Jax:
    def __init__(self):
        import jax
        self.jax, self.version = jax, jax.__version__
        if jax.default_backend() != "gpu":
            raise RuntimeError("JAX sees no GPU")

    def array(self, shape, dtype):
        import jax.numpy as jnp
        x = self.jax.random.uniform(self.jax.random.key(1), shape, minval=-1, maxval=1)
        return x.astype({"f32": jnp.float32, "bf16": jnp.bfloat16}[dtype])

    def functions(self):
        import jax.numpy as jnp
        eight = lambda x: jnp.maximum(jnp.minimum(jnp.abs(-((x * 1.5 + 0.5) * x - 0.25)), 3.0), 0.125).astype(x.dtype)

        def layer_norm(x, w):
            wide = x.astype(jnp.float32)
            mean = wide.mean(-1, keepdims=True)
            return ((wide - mean) * self.jax.lax.rsqrt(wide.var(-1, keepdims=True) + 1e-5) * w + w).astype(x.dtype)

        def rms_norm(x, w):
            wide = x.astype(jnp.float32)
            return (wide * self.jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6) * w).astype(x.dtype)
        return {"chain": eight, "chain with exp": lambda x: jnp.exp(eight(x)),
                "softmax": lambda x, w: self.jax.nn.softmax(x, -1), "layer norm": layer_norm, "RMS norm": rms_norm,
                "sum of all": lambda x: x.sum(), "sum of columns": lambda x: x.sum(0),
                "transpose and add": lambda x, y: x.T + y, "product": lambda x, y: x @ y,
                "gelu": lambda x, y, b: self.jax.nn.gelu(x @ y + b, approximate=False)}

    def prepared(self, f):
        return self.jax.jit(f)

    def time(self, f, arguments):
        begin = time.perf_counter()
        for _ in range(5):
            out = f(*arguments)
        out.block_until_ready()
        return (time.perf_counter() - begin) / 5


class Cupy:
    def __init__(self):
        import cupy
        self.cupy, self.version = cupy, cupy.__version__
        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise RuntimeError("CuPy sees no GPU")

    def array(self, shape, dtype):
        if dtype != "f32":
            raise NotImplementedError("CuPy has no bf16")
        return self.cupy.random.uniform(-1, 1, shape).astype(self.cupy.float32)

    def functions(self):
        cupy = self.cupy
        eight = cupy.fuse()(lambda x: cupy.maximum(cupy.minimum(cupy.abs(-((x * 1.5 + 0.5) * x - 0.25)), 3.0), 0.125))

        def softmax(x, w):
            y = cupy.exp(x - x.max(-1, keepdims=True))
            return y / y.sum(-1, keepdims=True)
        return {"chain": eight, "chain with exp": lambda x: cupy.exp(eight(x)), "softmax": softmax,
                "sum of all": lambda x: x.sum(), "sum of columns": lambda x: x.sum(0),
                "transpose and add": lambda x, y: x.T + y}

    def prepared(self, f):
        return f

    def time(self, f, arguments):
        cupy = self.cupy
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(5):
            f(*arguments)
        end.record()
        end.synchronize()
        return cupy.cuda.get_elapsed_time(begin, end) * 1e-3 / 5


def rows(scale):
    """Name, function and shapes of the operands of each row."""
    n, part, side = sizes(scale)
    for dtype in ("f32", "bf16"):
        yield f"chain {dtype}", "chain", dtype, [(n,)]
        yield f"chain with exp {dtype}", "chain with exp", dtype, [(n,)]
        for length in (1024, 2048, 4096, 8192, 16384, 32768, 131072):
            shape = (max(part // length, 1), length)
            for name in ("softmax", "layer norm", "RMS norm"):
                yield f"{name} of {length} {dtype}", name, dtype, [shape, (length,)]
        yield f"sum of all {dtype}", "sum of all", dtype, [(n,)]
        yield f"sum of columns {dtype}", "sum of columns", dtype, [(side, side)]
        yield f"transpose and add {dtype}", "transpose and add", dtype, [(side, side), (side, side)]
    smaller = max(int(math.sqrt(scale)), 1)
    for k in (1024, 2048, 4096, 8192):
        m = max(k // smaller, 64)
        yield f"product of {k} bf16", "product", "bf16", [(m, m), (m, m)]
        yield f"product of {k}, bias, gelu bf16", "gelu", "bf16", [(m, m), (m, m), (m,)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--until", type=float, default=600, help="seconds after which no row begins")
    options = parser.parse_args()
    end = time.monotonic() + options.until
    peers = (("PyTorch", lambda: Torch(False)), ("torch.compile", lambda: Torch(True)), ("JAX", Jax), ("CuPy", Cupy))
    with open(options.out, "a") as out:
        def say(**row):
            print(json.dumps(row), file=out, flush=True)
        for number, (name, make) in enumerate(peers):
            try:
                peer = make()
                say(peer=name, version=peer.version)
                functions = peer.functions()
            except Exception as error:  # not here, or without a GPU
                print(f"{name} is no peer: {error}")
                continue
            share = time.monotonic() + (end - time.monotonic()) / (len(peers) - number)
            for row, function, dtype, shapes in rows(options.scale):
                if function not in functions or time.monotonic() > share:
                    continue
                try:
                    arguments = [peer.array(s, dtype) for s in shapes]
                    f = peer.prepared(functions[function])
                    peer.time(f, arguments)  # compiles
                    times, until = [], time.monotonic() + options.seconds
                    while len(times) < 3 or time.monotonic() < until:
                        times.append(peer.time(f, arguments))
                    say(peer=name, row=row, seconds=statistics.median(times))
                except Exception as error:
                    say(peer=name, row=row, error=str(error)[:300])


main()
