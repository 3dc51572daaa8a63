"""What bench/peers/python.py runs: each workload once, over the few operations that modules name differently. The
programs are those of bench/rows/programs.cpp, line by line."""
import math

import numpy as np


class NumPyOps:
    """The names that differ, as NumPy has them."""
    xp = np

    def erf(self, x):
        raise NotImplementedError("NumPy has no erf")

    def relu(self, x):
        return self.xp.maximum(x, 0)

    def softmax(self, x):
        e = self.xp.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def log_softmax(self, x):
        y = x - x.max(axis=-1, keepdims=True)
        return y - self.xp.log(self.xp.exp(y).sum(axis=-1, keepdims=True))

    def layer_norm(self, x, weight, bias):
        y = x - x.mean(axis=-1, keepdims=True)
        return y / self.xp.sqrt((y * y).mean(axis=-1, keepdims=True) + np.float32(1e-5)) * weight + bias

    def where(self, condition, a, b):
        return self.xp.where(condition, a, b)

    def roll(self, x, shift, axis):
        return self.xp.roll(x, shift, axis)

    def pad(self, x):
        return self.xp.pad(x, 1)

    def set_inside(self, u, inside):
        u = u.copy()
        u[1:-1, 1:-1] = inside
        return u

    def argmin(self, x):
        return x.argmin(axis=1)

    def add_at(self, count, index, values):
        out = np.zeros((count, *values.shape[1:]), np.float32)
        np.add.at(out, index, values)
        return out

    def windows(self, x):
        return np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))

    def permute(self, x, axes):
        return x.transpose(axes)

    def sum(self, x, axis=None):
        return x.sum(axis=axis)

    def cat(self, parts):
        return self.xp.concatenate([part.reshape(-1) for part in parts])

    def stack(self, parts):
        return self.xp.stack(parts)

    def at_least_one(self, x):
        return self.xp.maximum(x, 1)

    def unsqueeze(self, x, axis):
        return self.xp.expand_dims(x, axis)

    def to_float(self, x):
        return x.astype(self.xp.float32)

    def pow(self, x, y):
        return self.xp.power(x, y)

    def to_index(self, x):
        return x.astype(self.xp.int32)

    def gelu(self, x):
        return 0.5 * x * (1 + self.xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))

    def causal_attention(self, q, k, v):
        """Of [batch, heads, length, width]."""
        scores = q @ self.permute(k, (0, 1, 3, 2)) * (1 / math.sqrt(q.shape[-1]))
        places = self.xp.arange(q.shape[2])
        seen = places[None, :] <= places[:, None]
        return self.softmax(self.where(seen, scores, self.xp.array(-np.inf, dtype=self.xp.float32))) @ v

    def rand(self, n):
        return np.random.default_rng(1).random(n, dtype=np.float32)

    def randn(self, n):
        return np.random.default_rng(1).standard_normal(n, dtype=np.float32)


class JaxOps(NumPyOps):
    def __init__(self):
        import jax
        self.jax, self.xp = jax, jax.numpy

    def erf(self, x):
        return self.jax.scipy.special.erf(x)

    def set_inside(self, u, inside):
        return u.at[1:-1, 1:-1].set(inside)

    def add_at(self, count, index, values):
        return self.xp.zeros((count, *values.shape[1:]), self.xp.float32).at[index].add(values)

    def windows(self, x):
        shifted = [self.xp.stack([x[:, :, i:i + x.shape[2] - 2, j:j + x.shape[3] - 2] for j in range(3)], -1)
                   for i in range(3)]
        return self.xp.stack(shifted, -2)

    def rand(self, n):
        return self.jax.random.uniform(self.jax.random.key(1), (n,))

    def randn(self, n):
        return self.jax.random.normal(self.jax.random.key(1), (n,))


class MlxOps(NumPyOps):
    def __init__(self):
        import mlx.core
        self.xp = mlx.core

    def erf(self, x):
        return self.xp.erf(x)

    def softmax(self, x):
        return self.xp.softmax(x, axis=-1)

    def set_inside(self, u, inside):
        u = self.xp.array(u)
        u[1:-1, 1:-1] = inside
        return u

    def add_at(self, count, index, values):
        return self.xp.zeros((count, *values.shape[1:])).at[index].add(values)

    windows = JaxOps.windows

    def rand(self, n):
        return self.xp.random.uniform(shape=(n,))

    def randn(self, n):
        return self.xp.random.normal(shape=(n,))


class DrJitOps(NumPyOps):
    """Of arrays without axes."""

    def __init__(self):
        import drjit
        import drjit.llvm
        self.xp, self.erf, self.where, self.pow = drjit, drjit.erf, drjit.select, drjit.power
        self.Float = drjit.llvm.Float

    def sum(self, x, axis=None):
        return self.xp.sum(x)

    def rand(self, n):
        return self.xp.rng(1).random(self.Float, n)

    def randn(self, n):
        return self.xp.rng(1).normal(self.Float, n)


class TorchOps:
    def __init__(self):
        import torch
        self.xp = torch
        self.erf, self.relu, self.where, self.pow = torch.erf, torch.relu, torch.where, torch.pow
        self.roll, self.stack, self.permute = torch.roll, torch.stack, torch.permute
        self.unsqueeze, self.rand, self.randn = torch.unsqueeze, torch.rand, torch.randn

    def softmax(self, x):
        return self.xp.softmax(x, -1)

    def log_softmax(self, x):
        return self.xp.log_softmax(x, -1)

    def layer_norm(self, x, weight, bias):
        return self.xp.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)

    def pad(self, x):
        return self.xp.nn.functional.pad(x, (1, 1, 1, 1))

    def set_inside(self, u, inside):
        u = u.clone()
        u[1:-1, 1:-1] = inside
        return u

    def argmin(self, x):
        return x.argmin(1)

    def add_at(self, count, index, values):
        return self.xp.zeros((count, *values.shape[1:])).index_add(0, index, values)

    def windows(self, x):
        return x.unfold(2, 3, 1).unfold(3, 3, 1)

    def sum(self, x, axis=None):
        return x.sum() if axis is None else x.sum(axis)

    def cat(self, parts):
        return self.xp.cat([part.flatten() for part in parts])

    def at_least_one(self, x):
        return x.clamp_min(1)

    def to_float(self, x):
        return x.to(self.xp.float32)

    def to_index(self, x):
        return x.to(self.xp.int64)

    def gelu(self, x):
        return self.xp.nn.functional.gelu(x, approximate="tanh")

    def causal_attention(self, q, k, v):
        return self.xp.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


# --- programs

def kmeans(o, x, centers):
    lengths, ones = o.unsqueeze(o.sum(x * x, 1), 1), o.sum(x * 0, 1) + 1
    count = centers.shape[0]
    for _ in range(5):
        nearest = o.argmin(lengths - 2 * (x @ centers.T) + o.sum(centers * centers, 1))
        centers = o.add_at(count, nearest, x) / o.unsqueeze(o.at_least_one(o.add_at(count, nearest, ones)), 1)
    return centers


def mlp_step(o, x, y, w1, w2):
    hidden = o.relu(x @ w1)
    error = (o.softmax(hidden @ w2) - y) / x.shape[0]
    back = (error @ w2.T) * o.to_float(hidden > 0)
    return o.cat([w1 - 0.1 * (x.T @ back), w2 - 0.1 * (hidden.T @ error)])


def neighbours(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]


def jacobi(o, u):
    for _ in range(10):
        u = o.set_inside(u, 0.25 * neighbours(u))
    return u


def heat_rolls(o, u):
    for _ in range(10):
        u = u + 0.1 * (o.roll(u, 1, 0) + o.roll(u, -1, 0) + o.roll(u, 1, 1) + o.roll(u, -1, 1) - 4 * u)
    return u


def heat_slices(o, u):
    for _ in range(10):
        inside = u[1:-1, 1:-1]
        u = o.pad(inside + 0.1 * (neighbours(u) - 4 * inside))
    return u


def n_body(o, place, mass):
    between = o.unsqueeze(place, 0) - o.unsqueeze(place, 1)
    squares = o.sum(between * between, 2) + 0.01
    strength = mass / (squares * o.xp.sqrt(squares))
    return o.sum(between * o.unsqueeze(strength, 2), 1)


def changing_sizes(o, x, w, b):
    """Called with 64 sizes."""
    return o.sum(o.xp.tanh(x * w + b))


def conv_unfold(o, x, w):
    windows = o.permute(o.windows(x), (0, 2, 3, 1, 4, 5))
    return o.relu(windows.reshape((-1, w.shape[0])) @ w)


def black_scholes(o, spot, strike, years):
    rate, volatility = 0.02, 0.3

    def cdf(x):
        return 0.5 * (1 + o.erf(x * math.sqrt(0.5)))
    deviation = volatility * o.xp.sqrt(years)
    d1 = (o.xp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation
    discounted = strike * o.xp.exp(-rate * years)
    return spot * cdf(d1) - discounted * cdf(d1 - deviation)


GPT2_LAYERS, GPT2_WIDTH, GPT2_HEADS, GPT2_CONTEXT, GPT2_WORDS = 12, 768, 12, 1024, 50257


def gpt2(o, tokens, words, places, norm_weight, norm_bias, *layers):
    """GPT-2-small, as examples/gpt2.h has it: tokens to logits."""
    batch, length = tokens.shape
    x = words[o.to_index(tokens)] + places[:length]
    for at in range(0, len(layers), 12):
        (weight1, bias1, qkv, qkv_bias, out, out_bias, weight2, bias2, up, up_bias, down, down_bias) = layers[at:at + 12]
        parts = (o.layer_norm(x, weight1, bias1) @ qkv + qkv_bias).reshape(
            (batch, length, 3, GPT2_HEADS, GPT2_WIDTH // GPT2_HEADS))
        parts = o.permute(parts, (2, 0, 3, 1, 4))
        attended = o.permute(o.causal_attention(parts[0], parts[1], parts[2]), (0, 2, 1, 3))
        x = x + attended.reshape((batch, length, GPT2_WIDTH)) @ out + out_bias
        x = x + o.gelu(o.layer_norm(x, weight2, bias2) @ up + up_bias) @ down + down_bias
    return o.layer_norm(x, norm_weight, norm_bias) @ words.T


def gpt2_inputs(batch, length):
    def weights(*shape):
        return array(*shape, low=-0.03, high=0.03)

    def norm():
        return [array(GPT2_WIDTH, low=0.9, high=1.1), weights(GPT2_WIDTH)]

    def linear(inner, outer):
        return [weights(inner, outer), weights(outer)]
    layers = []
    for _ in range(GPT2_LAYERS):
        layers += [*norm(), *linear(GPT2_WIDTH, 3 * GPT2_WIDTH), *linear(GPT2_WIDTH, GPT2_WIDTH),
                   *norm(), *linear(GPT2_WIDTH, 4 * GPT2_WIDTH), *linear(4 * GPT2_WIDTH, GPT2_WIDTH)]
    return [array(batch, length, high=GPT2_WORDS), weights(GPT2_WORDS, GPT2_WIDTH), weights(GPT2_CONTEXT, GPT2_WIDTH),
            *norm(), *layers]


def where_chain(o, x, y):
    return o.where(x > 0.5, x * y, o.where(x > 0, x + y, o.where(x > -0.5, x - y, y)))


def twenty_operations(o, x, b):
    for _ in range(10):
        x = x * b + 0.5
    return x


MLP_WEIGHTS = np.full((64, 128), 0.01, np.float32), np.full((128, 10), 0.01, np.float32)


def mlp(o, x):
    return o.softmax(o.relu(x @ MLP_WEIGHTS[0]) @ MLP_WEIGHTS[1]) * 10


class Workload:
    """`run(ops, *inputs)` over arrays of these shapes and ranges; `sizes`: one call for each of these lengths of the
    first array. `without` names modules that cannot; results are compared unless they are random. `kind`: of "flat"
    arrays elements stand for themselves, so that modules whose arrays have no axes take part, too; what is called as a
    "file" and what is the "first" call of one are for those that have files. `threads`: as many as the bench has, if it
    is not all."""

    def __init__(self, run, *inputs, sizes=(None,), without=(), exact=True, kind="arrays", threads=None):
        self.run, self.ranges, self.sizes, self.without, self.exact = run, inputs, sizes, without, exact
        self.kind, self.threads = kind, threads

    def calls(self, generator):
        """The inputs of each call of a round."""
        inputs = [generator.random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)
                  for shape, low, high in self.ranges]
        return [[x[:size], *inputs[1:]] if size else inputs for size in self.sizes for x in inputs[:1] or [None]]


def array(*shape, low=0.0, high=1.0):
    return shape, low, high


N, SIDE = 1 << 24, 4096
signed = {"low": -1.0, "high": 1.0}
positive = {"low": 0.125, "high": 8.125}
ALL = {
    ("memory_bound", "multiply_add"): Workload(lambda o, a, b, c: a * b + c, array(N), array(N), array(N), kind="flat"),
    ("memory_bound", "tanh_chain"): Workload(lambda o, a, b: o.xp.tanh(a * b + a) * 0.5 + b, array(N), array(N), kind="flat"),
    ("memory_bound", "gelu_erf"): Workload(lambda o, a: 0.5 * a * (1 + o.erf(a * math.sqrt(0.5))), array(N, **signed),
                                           without=("numpy",), kind="flat"),
    ("memory_bound", "sum_all"): Workload(lambda o, a: o.sum(a), array(SIDE, SIDE), kind="flat"),
    ("memory_bound", "sum_axis/0"): Workload(lambda o, a: o.sum(a, 0), array(SIDE, SIDE)),
    ("memory_bound", "sum_axis/1"): Workload(lambda o, a: o.sum(a, 1), array(SIDE, SIDE)),
    ("memory_bound", "softmax_rows"): Workload(lambda o, a: o.softmax(a), array(SIDE, SIDE)),
    ("memory_bound", "log_softmax_rows"): Workload(lambda o, a: o.log_softmax(a), array(SIDE, SIDE)),
    ("memory_bound", "layer_norm_rows"): Workload(lambda o, a, w, b: o.layer_norm(a, w, b), array(SIDE, SIDE),
                                                  array(SIDE), array(SIDE)),
    ("memory_bound", "transpose_add"): Workload(lambda o, a, b: a.T + b, array(SIDE, SIDE), array(SIDE, SIDE)),
    ("elementwise", "softmax_rows_of_100"): Workload(lambda o, a: o.softmax(a), array(N // 100, 100)),
    ("elementwise", "roll"): Workload(lambda o, a: o.roll(o.roll(a, 1, 0), 1, 1), array(SIDE, SIDE)),
    ("products", "batched/f32/64/128/64/128"): Workload(lambda o, a, b: a @ b, array(64, 128, 64), array(64, 64, 128)),
    ("products", "attention/8/512/64"): Workload(
        lambda o, q, k, v: o.softmax(q @ o.permute(k, (0, 2, 1)) * 0.125) @ v, array(8, 512, 64, **signed),
        array(8, 512, 64, **signed), array(8, 512, 64, **signed)),
    ("random", "rand"): Workload(lambda o: o.rand(N), exact=False, without=("jax", "torch.compile", "mlx"), kind="flat",
                                 threads=1),
    ("random", "randn"): Workload(lambda o: o.randn(N), exact=False, without=("jax", "torch.compile", "mlx"), kind="flat",
                                 threads=1),
    ("programs", "kmeans"): Workload(kmeans, array(65536, 8), array(16, 8)),
    ("programs", "mlp_step"): Workload(mlp_step, array(256, 784), array(256, 10), array(784, 256, low=-0.05, high=0.05),
                                       array(256, 10, low=-0.1, high=0.1)),
    ("programs", "jacobi"): Workload(jacobi, array(1024, 1024)),
    ("programs", "heat_rolls"): Workload(heat_rolls, array(1024, 1024)),
    ("programs", "heat_slices"): Workload(heat_slices, array(1024, 1024)),
    ("programs", "n_body"): Workload(n_body, array(2048, 3), array(2048)),
    ("programs", "changing_sizes"): Workload(changing_sizes, array(128, 256), array(256), array(256),
                                             sizes=range(64, 128)),
    ("programs", "conv_unfold"): Workload(conv_unfold, array(8, 16, 64, 64), array(144, 32, **signed)),
    ("programs", "black_scholes"): Workload(black_scholes, array(1 << 22, low=5, high=30),
                                            array(1 << 22, low=1, high=100), array(1 << 22, low=0.25, high=10),
                                            without=("numpy",), kind="flat"),
}
for name, run, inputs in (
        ("attention", lambda o, q, k, v: o.softmax(q @ o.permute(k, (0, 2, 1)) * 0.125) @ v, [array(8, 64, 64)] * 3),
        ("mlp", mlp, [array(64, 64)]),
        ("multiply_add", lambda o, a, b, c: a * b + c, [array(1000)] * 3),
        ("softmax", lambda o, a: o.softmax(a) * 100, [array(64, 100)])): # bench/support/functions.h
    ALL["program_files", f"{name}/load_program"] = Workload(run, *inputs, kind="file")
    ALL["cold_start", f"{name}/from_file"] = Workload(run, *inputs, kind="first")
for batch, length in ((1, 1), (1, 16), (1, 128), (4, 256)):
    ALL["products", f"gpt2_small/{batch}/{length}"] = Workload(gpt2, *gpt2_inputs(batch, length), without=("numpy",))
for n in (1 << 16, 1 << 24):
    for name in ("exp", "log", "sin", "cos"):
        ALL["elementwise", f"{name}/{n}"] = Workload(lambda o, x, name=name: getattr(o.xp, name)(x),
                                                     array(n, **positive), kind="flat")
    ALL["elementwise", f"pow/{n}"] = Workload(lambda o, x, y: o.pow(x, y), array(n, **positive),
                                              array(n, low=-2.0, high=2.0), kind="flat")
    ALL["elementwise", f"where_chain/{n}"] = Workload(where_chain, array(n, **signed), array(n, **signed), kind="flat")
    ALL["elementwise", f"twenty_operations/{n}"] = Workload(twenty_operations, array(n), array(n), kind="flat")
