#!/usr/bin/env python3
"""Makes numpy_reference.lz beside this file: graphs of one op each, with NumPy's results as parameters.

    python3 tests/ir/inputs/make_numpy_reference.py

Parameters named x0, x1, ... are the operands and e0, e1, ... what NumPy gives. The name of a graph ends in the distance
that is allowed: `.ulp0` is equal numbers (NaN equals NaN). Functions are computed in float64, or longdouble for f64, and
rounded once, so that the distance counts the libraries' errors only. What NumPy leaves open or defines otherwise than
Lazuli (division by zero, shifts past the width, sign of NaN, conversions out of range) is left out.
"""
import math
import pathlib

import numpy as np

DTYPES = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "f16": np.float16, "f32": np.float32, "f64": np.float64}
INTEGERS = ["u8", "i8", "i16", "i32", "i64"]
FLOATS = ["f16", "f32", "f64"]
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}
rng = np.random.default_rng(20260701)
graphs = []


def type_text(a):
    return f"{NAMES[a.dtype]}[{','.join(str(e) for e in a.shape)}]"


def data_text(a):
    return f"{type_text(a)} = dense<\"0x{np.ascontiguousarray(a).tobytes().hex()}\">"


def case(name, op, operands, expected, attrs="", ulp=0):
    """One graph; `expected` is an array or a tuple of them."""
    expected = expected if isinstance(expected, tuple) else (expected,)
    params = [f"%x{i}: {data_text(np.asarray(x))}" for i, x in enumerate(operands)]
    params += [f"%e{i}: {data_text(np.asarray(e))}" for i, e in enumerate(expected)]
    results = ", ".join(f"%r{i}" for i in range(len(expected)))
    types = ", ".join(type_text(np.asarray(e)) for e in expected)
    inputs = ", ".join(f"%x{i}" for i in range(len(operands)))
    graphs.append(f"graph @{name}.ulp{ulp}(" + ",\n    ".join(params) + ") {\n"
                  f"  {results} = {op} {inputs}{' {' + attrs + '}' if attrs else ''} : {types}\n  return {results}\n}}\n")


def wide(dtype):
    return np.longdouble if dtype == "f64" else np.float64


def draw(dtype, shape=(16,), low=-3.0, high=3.0):
    t = DTYPES[dtype]
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(t)
    if dtype in INTEGERS:
        return rng.integers(np.iinfo(t).min, np.iinfo(t).max, shape, dtype=t, endpoint=True)
    return rng.uniform(low, high, shape).astype(t)


def eighths(dtype, shape):
    """Numbers whose sums and products are exact in f32."""
    return (rng.integers(-16, 17, shape) / 8 if dtype in FLOATS else rng.integers(0, 5, shape)).astype(DTYPES[dtype])


def elementwise():
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    for name, f, low, high in [
            ("exp", np.exp, -20, 10), ("expm1", np.expm1, -3, 3), ("log", np.log, 1e-3, 100), ("log1p", np.log1p, -0.9, 9),
            ("log2", np.log2, 1e-3, 100), ("sqrt", np.sqrt, 0, 1000), ("sin", np.sin, -30, 30), ("cos", np.cos, -30, 30),
            ("tan", np.tan, -1.5, 1.5), ("asin", np.arcsin, -1, 1), ("acos", np.arccos, -1, 1), ("atan", np.arctan, -50, 50),
            ("sinh", np.sinh, -8, 8), ("cosh", np.cosh, -8, 8), ("tanh", np.tanh, -4, 4),
            ("rsqrt", lambda x: 1 / np.sqrt(x), 0.01, 100), ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), -9, 9),
            ("erf", None, -3, 3), ("floor", np.floor, -5, 5), ("ceil", np.ceil, -5, 5), ("round", np.rint, -5, 5),
            ("trunc", np.trunc, -5, 5), ("neg", np.negative, -5, 5), ("abs", np.abs, -5, 5), ("sign", np.sign, -5, 5)]:
        for dtype in FLOATS:
            x = draw(dtype, low=low, high=high)
            if name not in ("sign",):
                x = np.concatenate([x, np.array(special, DTYPES[dtype])])
            if name == "round":
                x = np.concatenate([x, np.array([0.5, 1.5, 2.5, -0.5], DTYPES[dtype])])
            with np.errstate(all="ignore"):
                if name == "erf":
                    y = np.array([math.erf(float(v)) for v in x])
                else:
                    y = f(x.astype(wide(dtype)))
                exact = name in ("floor", "ceil", "round", "trunc", "neg", "abs", "sign")
                case(f"{name}_{dtype}", name, [x], y.astype(DTYPES[dtype]), ulp=0 if exact else 2)
    for name, f in [("neg", np.negative), ("abs", np.abs), ("sign", np.sign), ("not", np.invert)]:
        for dtype in INTEGERS:
            x = draw(dtype)
            with np.errstate(all="ignore"):
                case(f"{name}_{dtype}", name, [x], f(x).astype(DTYPES[dtype]))
    for name, f in [("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)]:
        for dtype in FLOATS:
            x = np.array(special, DTYPES[dtype])
            case(f"{name}_{dtype}", name, [x], f(x))


def binary():
    for name, f in [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("minimum", np.minimum),
                    ("maximum", np.maximum), ("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal),
                    ("gt", np.greater), ("ge", np.greater_equal)]:
        for dtype in INTEGERS + FLOATS:
            x, y = draw(dtype, (4, 5)), draw(dtype, (5,))
            y[:2] = x[0, :2]
            if dtype in FLOATS:
                x[1, 1], x[2, 2], y[4] = np.nan, np.inf, -np.inf
            with np.errstate(all="ignore"):
                case(f"{name}_{dtype}", name, [x, y], f(x, y))
    for dtype in FLOATS:
        x, y = draw(dtype, (3, 6), -9, 9), draw(dtype, (6,), 0.2, 3) * np.array([1, -1, 1, -1, 1, -1], DTYPES[dtype])
        w, v = x.astype(wide(dtype)), y.astype(wide(dtype))
        for name, f, ulp in [("div", np.divide, 0), ("floor_div", np.floor_divide, 0), ("remainder", np.remainder, 0),
                             ("fmod", np.fmod, 0), ("atan2", np.arctan2, 2)]:
            # Quotients of f64 round once, in f64 itself.
            a, b = (x, y) if dtype == "f64" and ulp == 0 else (w, v)
            case(f"{name}_{dtype}", name, [x, y], f(a, b).astype(DTYPES[dtype]), ulp=ulp)
        base = draw(dtype, (3, 6), 0.1, 4)
        case(f"pow_{dtype}", "pow", [base, y], np.power(base.astype(wide(dtype)), v).astype(DTYPES[dtype]), ulp=2)
    for dtype in INTEGERS:
        x, y = draw(dtype, (4, 6)), draw(dtype, (6,))
        y[y == 0] = 3
        y[0] = 7
        x[0, 1:] //= 2  # the least number over -1 is left to Lazuli's own tests
        for name, f in [("floor_div", np.floor_divide), ("remainder", np.remainder), ("fmod", np.fmod)]:
            case(f"{name}_{dtype}", name, [x, y], f(x, y))
        small = rng.integers(0, 12, (6,)).astype(DTYPES[dtype])
        with np.errstate(all="ignore"):
            case(f"pow_{dtype}", "pow", [x, small], np.power(x, small))
        amount = rng.integers(0, 8 * x.itemsize, (6,)).astype(DTYPES[dtype])
        case(f"shl_{dtype}", "shl", [x, amount], np.left_shift(x, amount))
        case(f"shr_{dtype}", "shr", [x, amount], np.right_shift(x, amount))
    for name, f in [("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)]:
        for dtype in ["bool"] + INTEGERS:
            x, y = draw(dtype, (8,)), draw(dtype, (8,))
            case(f"{name}_{dtype}", name, [x, y], f(x, y))
    for dtype in DTYPES:
        c, x, y = draw("bool", (4, 1)), draw(dtype, (3,)), draw(dtype, ())
        case(f"select_{dtype}", "select", [c, x, np.asarray(y)], np.where(c, x, y).astype(DTYPES[dtype]))
    for source in DTYPES:
        for target in DTYPES:
            if source == target:
                continue
            x = draw(source, low=0 if target == "u8" else -100, high=100)
            with np.errstate(over="ignore"): # integers beyond f16 are infinite
                case(f"cast_{source}_to_{target}", "cast", [x], x.astype(DTYPES[target]))


def views():
    for dtype in ["bool", "i16", "f16", "f32", "i64"]:
        x = draw(dtype, (3, 4, 5))
        case(f"permute_{dtype}", "permute", [x], x.transpose(2, 0, 1), "axes=[2,0,1]")
        case(f"flip_{dtype}", "flip", [x], np.flip(x, (0, 2)), "axes=[0,2]")
        case(f"slice_{dtype}", "slice", [x], x[1:3, 0:4:3, 2:3], "starts=[1,0,2], sizes=[2,2,1], steps=[1,3,1]")
        case(f"reshape_{dtype}", "reshape", [x], x.reshape(10, 6))
        windows = np.lib.stride_tricks.sliding_window_view(x, 3, 2) # one for each place
        case(f"window_{dtype}", "window", [x], windows[:, :, 1:3], "axis=2, begin=1, count=2, size=3, step=1")
        case(f"window_apart_{dtype}", "window", [x], np.lib.stride_tricks.sliding_window_view(x, 2, 1)[:, 0:3:2],
             "axis=1, begin=0, count=2, size=2, step=2")
        row = draw(dtype, (4, 1))
        case(f"broadcast_{dtype}", "broadcast", [row], np.broadcast_to(row, (2, 4, 3)))
        fill = draw(dtype, ())
        case(f"pad_{dtype}", "pad", [x, np.asarray(fill).astype(DTYPES[dtype])],
             np.pad(x, ((1, 0), (0, 2), (1, 1)), constant_values=fill), "low=[1,0,1], high=[0,2,1]")
        y, z = draw(dtype, (3, 1, 5)), draw(dtype, (3, 0, 5))
        case(f"concat_{dtype}", "concat", [x, y, z], np.concatenate([x, y, z], 1), "axis=1")
        update = draw(dtype, (2, 2, 2))
        new = x.copy()
        new[1:3, 0:4:2, 1:5:3] = update
        case(f"update_slice_{dtype}", "update_slice", [x, update], new, "starts=[1,0,1], steps=[1,2,3]")
        index = rng.integers(0, 4, (3, 6, 5))
        case(f"gather_{dtype}", "gather", [x, index.astype(np.int32)], np.take_along_axis(x, index, 1), "axis=1")
        places = rng.permuted(np.broadcast_to(np.arange(4)[None, :, None], (3, 4, 5)), axis=1)[:, :2]
        source, put = draw(dtype, (3, 2, 5)), x.copy()
        np.put_along_axis(put, places, source, 1)
        case(f"scatter_put_{dtype}", "scatter", [x, places.astype(np.int64), source], put, "axis=1, reduce=0")
    for dtype in ["i32", "u8", "f32", "f64"]:
        x, source, index = eighths(dtype, (4, 3)), eighths(dtype, (7, 3)), rng.integers(0, 4, (7, 3))
        total = x.copy()
        np.add.at(total, (index, np.broadcast_to(np.arange(3), (7, 3))), source)
        case(f"scatter_add_{dtype}", "scatter", [x, index, source], total, "axis=0, reduce=1")
    case("iota_i32", "iota", [], np.broadcast_to(np.arange(5, 5 - 4 * 3, -3, np.int32)[:, None], (4, 2)),
         "axis=0, start=5, step=-3")
    case("iota_f64", "iota", [], np.arange(4) * 0.1 + 0.5, "axis=0, start=0.5, step=0.1")


def reductions():
    for dtype in INTEGERS + FLOATS:
        x = eighths(dtype, (3, 4, 5))
        for axes in [(0,), (1, 2), (0, 1, 2)]:
            attrs = f"axes=[{','.join(map(str, axes))}]"
            tag = "".join(map(str, axes))
            exact = x.astype(np.float64) if dtype in FLOATS else x
            case(f"sum_{dtype}_{tag}", "sum", [x], exact.sum(axes, dtype=exact.dtype).astype(x.dtype), attrs)
            factor = np.where(x == 0, x.dtype.type(1), x)
            product = (factor.astype(np.float64) if dtype in FLOATS else factor)
            # Sixty factors are not exact in double: their order shows.
            case(f"prod_{dtype}_{tag}", "prod", [factor], product.prod(axes, dtype=product.dtype).astype(x.dtype), attrs,
                 ulp=2 if dtype in FLOATS else 0)
            case(f"max_{dtype}_{tag}", "max", [x], x.max(axes), attrs)
            case(f"min_{dtype}_{tag}", "min", [x], x.min(axes), attrs)
        case(f"argmax_{dtype}", "argmax", [x], x.argmax(1), "axis=1")
        case(f"argmin_{dtype}", "argmin", [x], x.argmin(2), "axis=2")
        exact = x.astype(np.float64) if dtype in FLOATS else x
        case(f"cumsum_{dtype}", "cumsum", [x], exact.cumsum(1, dtype=exact.dtype).astype(x.dtype), "axis=1")
        case(f"cumprod_{dtype}", "cumprod", [x], exact.cumprod(2, dtype=exact.dtype).astype(x.dtype), "axis=2")
        order = np.argsort(x, 1, kind="stable")
        case(f"sort_{dtype}", "sort", [x], (np.take_along_axis(x, order, 1), order), "axis=1, descending=0")
        case(f"topk_{dtype}", "topk", [x], (np.take_along_axis(x, order[:, :2], 1), order[:, :2]),
             "axis=1, descending=0, count=2")
        a, b = eighths(dtype, (2, 3, 4)), eighths(dtype, (4, 2, 5))
        product = np.einsum("bmk,kbn->bmn", a.astype(np.float64), b.astype(np.float64))
        product = product.astype(x.dtype) if dtype in FLOATS else product.astype(np.int64).astype(x.dtype)
        case(f"dot_{dtype}", "dot", [a, b], product, "lhs_batch=[0], rhs_batch=[1], lhs_contract=[2], rhs_contract=[0]")
    for dtype in FLOATS:
        x = draw(dtype, (4, 6))
        x[0, 2], x[2, 0], x[2, 5] = np.nan, np.nan, np.nan
        case(f"max_nan_{dtype}", "max", [x], x.max(1), "axes=[1]")
        case(f"argmax_nan_{dtype}", "argmax", [x], x.argmax(1), "axis=1")
        case(f"argmin_nan_{dtype}", "argmin", [x], x.argmin(1), "axis=1")
        order = np.argsort(x, 1, kind="stable")
        case(f"sort_nan_{dtype}", "sort", [x], (np.take_along_axis(x, order, 1), order), "axis=1, descending=0")
        case(f"topk_nan_{dtype}", "topk", [x], (np.take_along_axis(x, order[:, :5], 1), order[:, :5]),
             "axis=1, descending=0, count=5")


def later():
    """What was added last: the numbers of all others stay."""
    for dtype in FLOATS:
        x = np.concatenate([draw(dtype, low=1e-3, high=100), np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1000.0],
                                                                      DTYPES[dtype])])
        with np.errstate(all="ignore"):
            case(f"log10_{dtype}", "log10", [x], np.log10(x.astype(wide(dtype))).astype(DTYPES[dtype]), ulp=2)
    for dtype in ["bool"] + INTEGERS + FLOATS:
        x = draw(dtype, (4, 9))
        if dtype in FLOATS:
            x[0, 2], x[2, 0], x[2, 5] = np.nan, np.nan, np.nan
        for name, extreme in (("cummax", np.maximum), ("cummin", np.minimum)):
            best = extreme.accumulate(x, 1)
            # The last element that is the extreme so far, as NaN is.
            places = np.maximum.accumulate(np.where((x == best) | (x != x), np.arange(9), 0), 1)
            case(f"{name}_{dtype}", name, [x], (best, places), "axis=1")


elementwise()
binary()
views()
reductions()
later()
path = pathlib.Path(__file__).with_name("numpy_reference.lz")
path.write_text(f"// {len(graphs)} results of NumPy, made by make_numpy_reference.py. Not one module but many.\n\n" +
                "\n".join(graphs))
print(f"{path.name}: {len(graphs)} graphs, {path.stat().st_size} bytes")
