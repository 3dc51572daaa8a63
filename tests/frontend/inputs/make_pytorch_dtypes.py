#!/usr/bin/env python3
"""Makes pytorch_dtypes.txt: the dtype that PyTorch gives every function of lazuli's that takes tensors or numbers,
for every pair (or triple) of dtypes and of kinds, or that it refuses them. Needs PyTorch; the tests read the file only.

    python3 make_pytorch_dtypes.py > pytorch_dtypes.txt

The operands are 23, in this order: tensors with one axis of the ten dtypes (T), 0-dim tensors of the ten dtypes (Z),
and the numbers true, 2 and 2.5 (N). The dtypes are in the order of lz::DType and are written 0 to 9; - is a refusal,
. a combination that has no meaning (numbers alone; a tensor with an axis written into a 0-dim one).

A line is the function's name and words; a word has a character for each last operand, and there is a word for each of
the operands before it (of three operands the second varies fastest). In lines of `out` dtypes (reductions), there is a
word for each T and Z, of the dtype argument left out and then the ten.
"""
import torch
import torch.nn.functional as F

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64]
T = [lambda d=d: torch.ones(1, dtype=d) for d in DTYPES]
Z = [lambda d=d: torch.ones((), dtype=d) for d in DTYPES]
N = [lambda: True, lambda: 2, lambda: 2.5]
OPERANDS = T + Z + N
TENSORS = T + Z


def letter(f, *makers):
    operands = [m() for m in makers]
    if not any(isinstance(x, torch.Tensor) for x in operands):
        return "."
    try:
        result = f(*operands)
    except (RuntimeError, TypeError, IndexError, NotImplementedError):
        return "-"
    if isinstance(result, (tuple, list)):
        result = result[0]
    return str(DTYPES.index(result.dtype))


def word(f, *makers, last=OPERANDS):
    return "".join(letter(f, *makers, m) for m in last)


def binary(name, f, first=OPERANDS, last=OPERANDS):
    print(name, *(word(f, a, last=last) for a in first))


def in_place(name, f, last=OPERANDS):
    def written(x, y):
        f(x, y)
        return x
    words = []
    for i, a in enumerate(TENSORS):
        words.append("".join("." if i >= 10 and b in T else letter(written, a, b) for b in last))
    print(name, *words)


def unary(name, f):
    print(name, "".join(letter(f, a) for a in TENSORS))


def with_dtype(name, f):
    words = []
    for a in TENSORS:
        words.append(letter(lambda x: f(x, None), a) + "".join(letter(lambda x, d=d: f(x, d), a) for d in DTYPES))
    print(name, *words)


def both(f, g):
    """f of a tensor, or g where the first operand is a number and f does not take it."""
    return lambda a, b: f(a, b) if isinstance(a, torch.Tensor) else g(a, b)


def tensors_only(f):
    """Functions that PyTorch gives tensors alone, of which a number is a 0-dim tensor that only its category counts."""
    def call(a, b):
        like = a if isinstance(a, torch.Tensor) else b
        dtype = torch.result_type(a, b)
        def wrap(x):
            return x if isinstance(x, torch.Tensor) else torch.full((1,) if like.dim() else (), x, dtype=dtype)
        return f(wrap(a), wrap(b))
    return call


print(f"# make_pytorch_dtypes.py, PyTorch {torch.__version__.split('+')[0]}")

# --- functions of two operands
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
    "floor_divide": torch.floor_divide, "remainder": torch.remainder,
    "fmod": tensors_only(torch.fmod), "pow": torch.pow,
    "atan2": tensors_only(torch.atan2), "minimum": tensors_only(torch.minimum),
    "maximum": tensors_only(torch.maximum), "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "bitwise_left_shift": torch.bitwise_left_shift,
    "bitwise_right_shift": torch.bitwise_right_shift, "logical_and": tensors_only(torch.logical_and),
    "logical_or": tensors_only(torch.logical_or), "logical_xor": tensors_only(torch.logical_xor),
    "eq": both(torch.eq, lambda a, b: torch.eq(b, a)), "ne": both(torch.ne, lambda a, b: torch.ne(b, a)),
    "lt": both(torch.lt, lambda a, b: torch.gt(b, a)), "le": both(torch.le, lambda a, b: torch.ge(b, a)),
    "gt": both(torch.gt, lambda a, b: torch.lt(b, a)), "ge": both(torch.ge, lambda a, b: torch.le(b, a)),
}
for name, f in BINARY.items():
    binary(name, f)
for f in (torch.add, torch.sub):
    for what, alpha in (("true", True), ("int", 2), ("double", 0.5)):
        binary(f"{f.__name__}_alpha_{what}", lambda a, b, f=f, alpha=alpha: f(a, b, alpha=alpha))
mask = lambda x: torch.ones(x.shape, dtype=torch.bool)
binary("where", lambda a, b: torch.where(torch.ones(1, dtype=torch.bool), a, b))
binary("masked_fill", lambda a, b: a.masked_fill(mask(a), b), first=TENSORS, last=Z + N)
binary("clamp_min", lambda a, b: torch.clamp(a, min=b), first=TENSORS)
binary("clamp_max", lambda a, b: torch.clamp(a, max=b), first=TENSORS)
binary("isclose", torch.isclose, first=TENSORS, last=TENSORS)
binary("cat", lambda a, b: torch.cat([a, b]), first=T, last=T)
binary("stack", lambda a, b: torch.stack([a, b]), first=T, last=T)
binary("mse_loss", F.mse_loss, first=T, last=T)
binary("matmul", lambda a, b: torch.matmul(a.view(1, 1), b.view(1, 1)), first=T, last=T)
binary("outer", lambda a, b: torch.outer(a, b), first=T, last=T)
index = torch.zeros(1, dtype=torch.int64)
binary("scatter", lambda a, b: a.scatter(0, index.view(a.shape), b), first=TENSORS, last=T + N)
binary("scatter_add", lambda a, b: a.scatter_add(0, index.view(a.shape), b), first=T, last=T)
binary("index_add", lambda a, b: a.index_add(0, index, b), first=T, last=T)
binary("gather", lambda a, b: a.gather(0, torch.zeros(1, dtype=b.dtype)), first=T, last=T)
binary("index_select", lambda a, b: a.index_select(0, torch.zeros(1, dtype=b.dtype)), first=T, last=T)
binary("take", lambda a, b: a.take(torch.zeros(1, dtype=b.dtype)), first=T, last=T)
binary("masked_select", lambda a, b: a.masked_select(b), first=TENSORS, last=TENSORS)

# --- in place
for name in ("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "atan2",
             "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
             "logical_and", "logical_or", "logical_xor"):
    def method(x, y, name=name):
        if name in ("atan2", "logical_and", "logical_or", "logical_xor") and not isinstance(y, torch.Tensor):
            y = torch.full((), y, dtype=torch.result_type(x, y))
        getattr(x, name + "_")(y)
    in_place(name + "_", method)
for name in ("add_", "sub_"):
    for what, alpha in (("true", True), ("int", 2), ("double", 0.5)):
        in_place(f"{name}_alpha_{what}", lambda x, y, name=name, alpha=alpha: getattr(x, name)(y, alpha=alpha))
in_place("copy_", lambda x, y: x.copy_(y), last=TENSORS)
in_place("fill_", lambda x, y: x.fill_(y), last=Z + N)
in_place("masked_fill_", lambda x, y: x.masked_fill_(mask(x), y), last=Z + N)
in_place("clamp_min_", lambda x, y: x.clamp_(min=y), last=N)
in_place("clamp_max_", lambda x, y: x.clamp_(max=y), last=N)

# --- functions of three operands
def ternary(name, f, first, second, third):
    for i, a in enumerate(first):
        print(f"{name}/{i}", *(word(f, a, b, last=third) for b in second))


for what, value in (("one", 1), ("true", True), ("int", 2), ("double", 0.5)):
    for f in (torch.addcmul, torch.addcdiv):
        ternary(f"{f.__name__}_{what}", lambda x, a, b, f=f, value=value: f(x, a, b, value=value), TENSORS, TENSORS,
                TENSORS)
for f in ("addcmul_", "addcdiv_"):
    def written(x, a, b, f=f):
        getattr(x, f)(a, b, value=0.5 if x.is_floating_point() else 2)
        return x
    ternary(f, written, T, TENSORS, TENSORS)
ternary("lerp", torch.lerp, TENSORS, TENSORS, OPERANDS)
def lerp_written(x, a, b):
    return x.lerp_(a, b)
ternary("lerp_", lerp_written, T, TENSORS, OPERANDS)
ternary("clamp", lambda x, a, b: torch.clamp(x, a, b), TENSORS, TENSORS, TENSORS)
ternary("clamp_numbers", lambda x, a, b: torch.clamp(x, a, b), TENSORS, N, N)

# --- functions of one operand
for name in ("exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
             "sinh", "cosh", "tanh", "erf", "sigmoid", "floor", "ceil", "round", "trunc", "neg", "abs", "sign",
             "bitwise_not", "relu", "square", "reciprocal", "log10", "exp2", "erfc", "lgamma", "digamma",
             "logical_not", "isnan", "isinf", "isfinite"):
    unary(name, getattr(torch, name))
    if name not in ("isnan", "isinf", "isfinite"):
        def written(x, name=name):
            return getattr(x, name + "_")()
        unary(name + "_", written)
unary("silu", F.silu)
unary("gelu", F.gelu)
unary("softplus", F.softplus)
unary("leaky_relu", F.leaky_relu)
unary("layer_norm", lambda x: F.layer_norm(x.view(1), (1,)))
unary("rms_norm", lambda x: F.rms_norm(x.view(1), (1,)))
unary("flip", lambda x: x.flip(0))
unary("tril", lambda x: x.view(1, 1).tril())
unary("one_hot", lambda x: F.one_hot(x, 3))
unary("bernoulli", lambda x: torch.bernoulli(x))
unary("sort", lambda x: torch.sort(x))
unary("argsort", lambda x: torch.argsort(x))
unary("topk", lambda x: torch.topk(x, 1))

# --- reductions and scans
for name in ("amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "std", "var", "norm"):
    unary(name, getattr(torch, name))
unary("max_axis", lambda x: torch.max(x, 0))
unary("min_axis", lambda x: torch.min(x, 0))
unary("logsumexp", lambda x: torch.logsumexp(x, 0))
for name in ("sum", "prod", "mean"):
    with_dtype(name, lambda x, d, name=name: getattr(torch, name)(x, dtype=d))
for name in ("cumsum", "cumprod", "softmax", "log_softmax"):
    with_dtype(name, lambda x, d, name=name: getattr(torch, name)(x, 0, dtype=d))
