#!/usr/bin/env python3
"""Writes pytorch_gradients.txt: the gradients of many functions by PyTorch, for pytorch_test.cpp.

    python3 make_pytorch_gradients.py > pytorch_gradients.txt

A function is a line `function NAME`, then its inputs (`input [sizes] values`), the weights of its results (`weights
values`) and the gradient of each input of the sum of the weighted results (`gradient values`), all in f64 and row-major.
Corners are among the inputs: ties, zeros, equal bounds. PyTorch is not needed to build or to test.
"""
import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


def uniform(*sizes, low=-2.0, high=2.0):
    return torch.rand(sizes) * (high - low) + low


def positive(*sizes):
    return uniform(*sizes, low=0.3, high=2.5)


corners = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])
ties = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, -1.0]])
labels = torch.tensor([2, 0, -100, 1])
rows = torch.tensor([2, 0, 2, 1])
places = torch.tensor([[0, 2], [1, 1], [2, 0]])

functions = {
    "exp": (torch.exp, uniform(2, 3)),
    "expm1": (torch.expm1, uniform(2, 3)),
    "log": (torch.log, positive(2, 3)),
    "log1p": (torch.log1p, positive(2, 3)),
    "log2": (torch.log2, positive(2, 3)),
    "sqrt": (torch.sqrt, positive(2, 3)),
    "rsqrt": (torch.rsqrt, positive(2, 3)),
    "sin": (torch.sin, uniform(2, 3)),
    "cos": (torch.cos, uniform(2, 3)),
    "tan": (torch.tan, uniform(2, 3, low=-1.2, high=1.2)),
    "asin": (torch.asin, uniform(2, 3, low=-0.9, high=0.9)),
    "acos": (torch.acos, uniform(2, 3, low=-0.9, high=0.9)),
    "atan": (torch.atan, uniform(2, 3)),
    "sinh": (torch.sinh, uniform(2, 3)),
    "cosh": (torch.cosh, uniform(2, 3)),
    "tanh": (torch.tanh, uniform(2, 3)),
    "erf": (torch.erf, uniform(2, 3)),
    "sigmoid": (torch.sigmoid, uniform(2, 3)),
    "abs": (torch.abs, corners),
    "sign": (torch.sign, corners),
    "floor": (torch.floor, corners),
    "square": (torch.square, corners),
    "reciprocal": (torch.reciprocal, positive(2, 3)),
    "relu": (torch.relu, corners),
    "silu": (F.silu, corners),
    "gelu": (F.gelu, corners),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), corners),
    "softplus": (lambda x: F.softplus(x, 2, 1.5), corners),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), corners),
    "clamp": (lambda x: torch.clamp(x, -1, 1), corners),
    "clamp_tensors": (lambda x, a, b: torch.clamp(x, a, b), corners, corners - 0.5, corners.flip(0)),
    "clamp_below": (lambda x: torch.clamp(x, min=-1), corners),
    "clamp_at_tensors": (lambda x, a, b: torch.clamp(x, a, b), torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0]),
                         torch.tensor([0.0, 0.0, 0.0, 1.0, 2.0]), torch.tensor([2.0, 1.5, 2.0, -1.0, 2.5])),
    "add": (torch.add, uniform(2, 3), uniform(3)),
    "sub": (torch.sub, uniform(2, 1), uniform(3)),
    "mul": (torch.mul, uniform(2, 3), uniform(2, 1)),
    "div": (torch.div, uniform(2, 3), positive(3)),
    "pow": (torch.pow, positive(2, 3), uniform(3)),
    "pow_at_zero": (torch.pow, torch.tensor([0.0, 0.0, 2.0, 3.0]), torch.tensor([0.0, 2.0, 0.0, 1.0])),
    "pow_2": (lambda x: torch.pow(x, 2), corners),
    "pow_number": (lambda x: torch.pow(2.0, x), corners),
    "atan2": (torch.atan2, uniform(2, 3), positive(2, 3)),
    "maximum": (torch.maximum, corners, corners.flip(0)),
    "minimum": (torch.minimum, corners, torch.tensor(0.5)),
    "fmod": (torch.fmod, uniform(6), positive(6)),
    "remainder": (torch.remainder, uniform(6), positive(6)),
    "where": (lambda x, y: torch.where(x > 0, x * y, y), uniform(2, 3), uniform(3)),
    "lerp": (lambda x, y, w: torch.lerp(x, y, w), uniform(4), uniform(4), uniform(4, low=0.1, high=0.9)),
    "addcdiv": (lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), uniform(4), uniform(4), positive(4)),
    "sum": (lambda x: x.sum(1), uniform(2, 3)),
    "mean": (lambda x: x.mean(), uniform(2, 3)),
    "prod": (lambda x: x.prod(1), torch.tensor([[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 1.0, 0.0]])),
    "amax": (lambda x: x.amax(1), ties),
    "amin": (lambda x: x.amin(), ties),
    "max": (lambda x: x.max(1).values, uniform(2, 4)),
    "var": (lambda x: x.var(1), uniform(2, 4)),
    "std": (lambda x: x.std(), uniform(2, 4)),
    "norm": (lambda x: torch.linalg.vector_norm(x, 2, 1), torch.tensor([[3.0, 4.0], [0.0, 0.0]])),
    "norm_3": (lambda x: torch.linalg.vector_norm(x, 3, 1), uniform(2, 3)),
    "norm_inf": (lambda x: torch.linalg.vector_norm(x, float("inf"), 1), ties),
    "logsumexp": (lambda x: x.logsumexp(1), uniform(2, 3)),
    "cumsum": (lambda x: x.cumsum(1), uniform(2, 4)),
    "cumprod": (lambda x: x.cumprod(1), torch.tensor([[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 1.0, 0.0]])),
    "softmax": (lambda x: x.softmax(1), uniform(2, 3)),
    "log_softmax": (lambda x: x.log_softmax(0), uniform(3, 2)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, [4], w, b), uniform(2, 3, 4), positive(4), uniform(4)),
    "rms_norm": (lambda x, w: F.rms_norm(x, [4], w, 1e-5), uniform(2, 3, 4), positive(4)),
    "cross_entropy": (lambda x: F.cross_entropy(x, labels), uniform(4, 3)),
    "cross_entropy_smooth": (lambda x: F.cross_entropy(x, labels, label_smoothing=0.2), uniform(4, 3)),
    "cross_entropy_sum": (lambda x: F.cross_entropy(x, labels, reduction="sum"), uniform(4, 3)),
    "cross_entropy_probabilities": (lambda x, p: F.cross_entropy(x, p, label_smoothing=0.1), uniform(4, 3), positive(4, 3)),
    "nll_loss": (lambda x: F.nll_loss(x, labels), uniform(4, 3)),
    "mse_loss": (F.mse_loss, uniform(4, 3), uniform(4, 3)),
    "matmul": (torch.matmul, uniform(2, 3), uniform(3, 4)),
    "matmul_batches": (torch.matmul, uniform(2, 1, 2, 3), uniform(3, 3, 2)),
    "matmul_vector": (torch.matmul, uniform(2, 3), uniform(3)),
    "linear": (F.linear, uniform(2, 3), uniform(4, 3), uniform(4)),
    "einsum": (lambda a, b: torch.einsum("bij,kb->ijk", a, b), uniform(2, 2, 3), uniform(3, 2)),
    "permute": (lambda x: x.permute(2, 0, 1) * 2, uniform(2, 3, 2)),
    "slice": (lambda x: x[1:5:2] * 3, uniform(6, 2)),
    "index": (lambda x: x[rows, 1], uniform(3, 2)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1)) ** 2, uniform(2, 3)),
    "cat": (lambda a, b: torch.cat([a, b, a], 1) ** 2, uniform(2, 3), uniform(2, 1)),
    "gather": (lambda x: x.gather(0, places), uniform(3, 2)),
    "scatter_add": (lambda x, s: x.scatter_add(0, places, s) ** 2, uniform(3, 2), uniform(3, 2)),
    "scatter": (lambda x, s: x.scatter(0, places, s) ** 2, uniform(3, 2), uniform(3, 2)),
    "embedding": (lambda w: F.embedding(rows, w), uniform(3, 2)),
    "sort": (lambda x: x.sort(1, descending=True).values, uniform(2, 4)),
    "topk": (lambda x: x.topk(2, 0).values, uniform(4, 2)),
    "tril": (lambda x: x.tril(), uniform(3, 3)),
    "expand": (lambda x: x.expand(2, 4, 3) ** 2, uniform(4, 1)),
}


def text(x):
    return " ".join(repr(v) for v in x.detach().reshape(-1).tolist())


def write(name, function, *given):
    inputs = [x.clone().requires_grad_() for x in given]
    result = function(*inputs)
    weights = uniform(*result.shape, low=0.5, high=1.5)
    (result * weights).sum().backward()
    print("function", name)
    for x in inputs:
        print("input", str(list(x.shape)).replace(" ", ""), text(x))
    print("weights", text(weights))
    for x in inputs:
        print("gradient", text(x.grad))


for name, row in functions.items():
    write(name, *row)

# Later ones draw their numbers later, so that those above stay what they are.
functions = {
    "erfc": (torch.erfc, torch.tensor([-4.0, -0.7, 0.0, 0.4, 1.3, 3.0, 6.0])),
    "lgamma": (torch.lgamma, torch.tensor([-2.3, -0.4, 0.2, 1.0, 1.7, 2.0, 4.5, 20.0])),
    "cdist": (torch.cdist, uniform(3, 2), uniform(4, 2)),
    "cdist_1": (lambda a, b: torch.cdist(a, b, 1.0), uniform(3, 2), uniform(4, 2)),
    "cdist_3": (lambda a, b: torch.cdist(a, b, 3.0), uniform(2, 3, 2), uniform(1, 4, 2)),
    "cdist_products": (lambda a, b: torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist"), uniform(3, 2), uniform(4, 2)),
    "cdist_of_one_point": (lambda a, b: torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist"),
                           torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0, 2.0], [3.0, 0.0]])),
    "cummax": (lambda x: torch.cummax(x, 1).values, ties),
    "cummin": (lambda x: torch.cummin(x, 0).values, uniform(5, 2)),
    "quantile": (lambda x: torch.quantile(x, torch.tensor([0.2, 0.5, 1.0]), dim=1), uniform(2, 5)),
    "nanquantile": (lambda x: torch.nanquantile(x, 0.3), uniform(2, 3)),
    "index_fill": (lambda x, v: x.index_fill(1, torch.tensor([0, 2]), v) ** 2, uniform(2, 3), uniform()),
    "index_copy": (lambda x, s: x.index_copy(0, torch.tensor([2, 0]), s) ** 2, uniform(3, 2), uniform(2, 2)),
    "baddbmm": (lambda x, a, b: torch.baddbmm(x, a, b, beta=0.5, alpha=2), uniform(2, 1, 3), uniform(2, 2, 2), uniform(2, 2, 3)),
    "kron": (torch.kron, uniform(2, 2), uniform(3)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), uniform(2, 3, 2), uniform(3, 2, 2)),
    "pad_reflect": (lambda x: F.pad(x, (2, 1), "reflect") ** 2, uniform(1, 2, 4)),
    "pad_replicate": (lambda x: F.pad(x, (2, 1), "replicate") ** 2, uniform(1, 2, 4)),
    "pad_circular": (lambda x: F.pad(x, (2, 1), "circular") ** 2, uniform(1, 2, 4)),
    "ctc_loss": (lambda x: F.ctc_loss(x, torch.tensor([[1, 1, 2], [3, 2, 0]]), torch.tensor([6, 4]), torch.tensor([3, 2])),
                 uniform(6, 2, 4).log_softmax(2)),
    "ctc_loss_of_logits": (lambda x: F.ctc_loss(x.log_softmax(2), torch.tensor([[1, 1, 2], [3, 2, 0]]), torch.tensor([6, 4]),
                                                torch.tensor([3, 2]), reduction="sum"), uniform(6, 2, 4)),
    "ctc_loss_zero_infinity": (lambda x: F.ctc_loss(x, torch.tensor([[1, 1, 2], [3, 2, 0]]), torch.tensor([2, 6]),
                                                    torch.tensor([3, 2]), zero_infinity=True), uniform(6, 2, 4).log_softmax(2)),
}
for name, row in functions.items():
    write(name, *row)
