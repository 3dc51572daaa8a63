#!/usr/bin/env python3
"""Writes pytorch_functions.txt: what PyTorch's functions give, for libtorch/pytorch_functions_test.cpp.

    python3 make_pytorch_functions.py > pytorch_functions.txt

A case is a line `case NAME`, then its inputs (`input dtype [sizes] values`) and its results (`output dtype [sizes]
values`), row-major. Corners are among them: NaN, infinities, ties, numbers (tensors without axes), no elements, odd
dtypes. PyTorch is not needed to build or to test.
"""
import torch
import torch.nn.functional as F

torch.manual_seed(3)
nan, inf = float("nan"), float("inf")
NAMES = {torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
         torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}
f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
u8, i8, i16, i32, i64 = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64


def T(values, dtype=None):
    return torch.tensor(values, dtype=dtype)


def uniform(*sizes, low=-2.0, high=2.0, dtype=f32):
    return (torch.rand(sizes, dtype=f64) * (high - low) + low).to(dtype)


ties = T([3, 1, 2, 1, 3, 3])
pairs = T([[1, 2], [0, 5], [1, 2], [0, 4], [1, 2]])
odd = T([[2.0, nan, 1.0, 1.0], [inf, -inf, 0.0, -0.0]])
order = T([1.0, 3.0, 3.0, 5.0, 7.0])
special = [-inf, -3.5, -2.0, -1.25, -0.5, -1e-6, 0.0, 1e-6, 0.3, 0.5, 0.9, 1.0, 1.5, 2.0, 2.5, 3.7, 8.0, 8.5, 9.0, 12.5,
           100.0, inf, nan]
lengths = T([5, 3, 1])
log_probs = uniform(6, 2, 4, dtype=f64).log_softmax(2)
repeats = T([[1, 1, 2], [3, 2, 0]])

cases = []


def case(name, f, *inputs):
    cases.append((name, f, inputs))


# unique
for name, x in (("ints", ties), ("matrix", pairs), ("number", T(7)), ("none", torch.zeros(0)), ("nans", T([nan, 1.0, nan, 0.0])),
                ("bools", T([True, False, True])), ("u8", T([3, 200, 3], u8)), ("f16", T([0.5, -1.0, 0.5], f16)),
                ("no_rows", torch.zeros(0, 3))):
    case("unique_" + name, lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
    case("unique_consecutive_" + name, lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), x)
case("unique_rows", lambda x: torch.unique(x, return_inverse=True, return_counts=True, dim=0), pairs)
case("unique_columns", lambda x: torch.unique(x, return_inverse=True, return_counts=True, dim=-1),
     T([[1, 0, 1], [2, 1, 2], [0, 0, 0], [5, 1, 5], [7, 7, 7]]))
case("unique_cubes", lambda x: torch.unique(x, return_inverse=True, return_counts=True, dim=1),
     T([[[1, 2, 3], [1, 2, 2], [1, 2, 3], [0, 9, 9]], [[4, 5, 6], [4, 5, 6], [4, 5, 6], [0, 0, 0]]], i32))
case("unique_consecutive_rows", lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=0),
     T([[1, 2], [1, 2], [0, 5], [1, 2]]))
# counts
case("bincount", lambda x: torch.bincount(x), T([4, 1, 1, 0]))
case("bincount_u8", lambda x: torch.bincount(x, minlength=6), T([1, 2, 2], u8))
case("bincount_none", lambda x: torch.bincount(x, minlength=3), torch.zeros(0, dtype=i64))
case("bincount_f32", lambda x, w: torch.bincount(x, w), T([0, 2, 2], i32), T([0.5, 1.5, 2.0]))
case("bincount_f64", lambda x, w: torch.bincount(x, w), T([0, 2, 2]), T([0.5, 1.5, 2.0], f64))
case("bincount_ints", lambda x, w: torch.bincount(x, w), T([0, 2, 2]), T([1, 2, 3]))
case("histc", lambda x: torch.histc(x, 4, -1.0, 1.0), T([-1.0, -0.5, 0.0, 0.25, 1.0, 2.0, nan, -3.0]))
case("histc_of_its_own_range", lambda x: torch.histc(x, 3), T([[1.0, 2.0], [4.0, 2.5]], f64))
case("histc_of_one_number", lambda x: torch.histc(x, 4), T([2.0, 2.0]))
case("histc_of_none", lambda x: torch.histc(x, 3), torch.zeros(0))
# distances
for p in (0.0, 1.0, 1.5, 2.0, 3.0, inf):
    case(f"cdist_{p}", lambda a, b, p=p: torch.cdist(a, b, p), uniform(3, 4, dtype=f64), uniform(2, 4, dtype=f64))
case("cdist_batches", lambda a, b: torch.cdist(a, b), uniform(2, 1, 3, 2), uniform(3, 2, 2))
case("cdist_products", lambda a, b: torch.cdist(a, b), uniform(30, 3, dtype=f64), uniform(2, 3, dtype=f64))
case("cdist_products_of_batches", lambda a, b: torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist"),
     uniform(2, 3, 2, dtype=f64), uniform(1, 4, 2, dtype=f64))
case("cdist_no_columns", lambda a, b: torch.cdist(a, b), torch.zeros(2, 0), torch.zeros(3, 0))
case("cdist_no_rows", lambda a, b: torch.cdist(a, b), torch.zeros(0, 2), torch.zeros(3, 2))
# padding
image = torch.arange(12.0).reshape(1, 3, 4)
for mode in ("reflect", "replicate", "circular"):
    case("pad_" + mode, lambda x, mode=mode: F.pad(x, (1, 2), mode), image)
    case("pad_two_axes_" + mode, lambda x, mode=mode: F.pad(x, (2, 1, 1, 2), mode), image.reshape(1, 1, 3, 4))
    case("pad_cut_" + mode, lambda x, mode=mode: F.pad(x, (-1, 2), mode), image)
case("pad_constant", lambda x: F.pad(x, (1, 0, 0, 1), "constant", 7.0), image)
# products
case("addmv", lambda x, a, b: torch.addmv(x, a, b, beta=0.5, alpha=2), uniform(2), uniform(2, 3), uniform(3))
case("addr", lambda x, a, b: torch.addr(x, a, b, beta=2, alpha=3), uniform(2, 3), uniform(2), uniform(3))
case("baddbmm", lambda x, a, b: torch.baddbmm(x, a, b, beta=0.5, alpha=2), uniform(2, 1, 4), uniform(2, 3, 2),
     uniform(2, 2, 4))
case("baddbmm_ints", lambda x, a, b: torch.baddbmm(x, a, b, beta=2, alpha=3), T([[[1]]]), T([[[1, 2], [3, 4]]]),
     T([[[5, 6], [7, 8]]]))
case("baddbmm_of_nan", lambda x, a, b: torch.baddbmm(x, a, b, beta=0), torch.full((1, 2, 2), nan), uniform(1, 2, 3),
     uniform(1, 3, 2))
case("addbmm", lambda x, a, b: torch.addbmm(x, a, b, beta=2), uniform(3, 4), uniform(2, 3, 2), uniform(2, 2, 4))
case("kron", torch.kron, T([[1, 2], [3, 4]]), T([[0, 1, 2]]))
case("kron_of_ranks", torch.kron, uniform(2), uniform(2, 1, 3))
case("kron_of_numbers", torch.kron, T(3), T(2.5))
case("kron_of_five_axes", torch.kron, uniform(2, 1, 2, 1, 2), uniform(1, 2, 1, 2, 2))
case("tensordot", lambda a, b: torch.tensordot(a, b, dims=([2, 0], [0, 1])), uniform(2, 3, 4, dtype=f64),
     uniform(4, 2, 5, dtype=f64))
case("tensordot_of_last", lambda a, b: torch.tensordot(a, b, dims=2), uniform(3, 2, 4, dtype=f64), uniform(2, 4, 2, dtype=f64))
case("tensordot_outer", lambda a, b: torch.tensordot(a, b, dims=0), uniform(2), uniform(3))
case("tensordot_of_one", lambda a, b: torch.tensordot(a, b, dims=([1], [0])), uniform(2, 1, dtype=f64), uniform(3, 2, dtype=f64))
# statistics
case("var_mean", lambda x: torch.var_mean(x, 1), uniform(2, 4))
case("var_mean_of_all", lambda x: torch.var_mean(x, unbiased=False), uniform(2, 4))
case("std_mean", lambda x: torch.std_mean(x, (0, 2), correction=0, keepdim=True), uniform(2, 3, 2, dtype=f64))
case("var_biased", lambda x: torch.var(x, unbiased=False), uniform(5))
case("std_unbiased", lambda x: torch.std(x, unbiased=True), uniform(5))
# special functions
for dtype in (f32, f64):
    name = NAMES[dtype]
    case("erfc_" + name, torch.erfc, T([-inf, -6.0, -1.0, -0.3, 0.0, 0.3, 0.49, 0.5, 0.51, 1.0, 2.0, 3.3, 4.0, 5.0, 7.7, 9.0, inf, nan],
                                       dtype))
    case("lgamma_" + name, torch.lgamma, T(special, dtype))
    case("digamma_" + name, torch.digamma, T(special, dtype))
case("erfc_ints", torch.erfc, T([-1, 0, 2]))
case("lgamma_f16", torch.lgamma, T([0.5, 3.0, 10.0], f16))
# places
for right in (False, True):
    case(f"searchsorted_{right}", lambda s, v, right=right: torch.searchsorted(s, v, right=right), order,
         T([[0.0, 1.0, 3.0], [6.0, 7.0, nan], [inf, -inf, 5.0]]))
    case(f"searchsorted_rows_{right}", lambda s, v, right=right: torch.searchsorted(s, v, right=right, out_int32=True),
         T([[1, 3, 5], [2, 2, 9]]), T([[1, 4], [2, 10]]))
    case(f"bucketize_{right}", lambda v, s, right=right: torch.bucketize(v, s, right=right), T([[3, 1], [9, 5]]), T([1, 3, 5, 7]))
case("searchsorted_sorter", lambda s, v, o: torch.searchsorted(s, v, sorter=o), T([5, 1, 3]), T([0, 1, 2, 3, 4, 5, 6]),
     T([1, 2, 0]))
case("searchsorted_number", lambda s: torch.searchsorted(s, 3.5), order)
case("searchsorted_in_nothing", lambda s, v: torch.searchsorted(s, v), torch.zeros(0), T([1.0, 2.0]))
case("searchsorted_nothing", lambda s, v: torch.searchsorted(s, v), order, torch.zeros(2, 0))
# quantiles
for mode in ("linear", "lower", "higher", "midpoint", "nearest"):
    case("quantile_" + mode, lambda x, q, mode=mode: torch.quantile(x, q, dim=1, interpolation=mode),
         uniform(2, 5, dtype=f64), T([0.0, 0.3, 0.5, 0.625, 1.0], f64))
    case("nanquantile_" + mode, lambda x, mode=mode: torch.nanquantile(x, 0.4, dim=1, keepdim=True, interpolation=mode),
         T([[1.0, nan, 3.0, 2.0], [nan, nan, nan, nan], [4.0, 1.0, 2.0, 8.0]]))
case("quantile_of_nan", lambda x: torch.quantile(x, 0.5, dim=1), T([[1.0, nan, 3.0], [1.0, 2.0, 4.0]]))
case("quantile_of_all", lambda x, q: torch.quantile(x, q, keepdim=True), uniform(2, 3, dtype=f64), T([0.25, 0.75], f64))
case("quantile_of_number", lambda x: torch.quantile(x, 0.5), T(2.5))
case("quantile_number_of_row", lambda x: torch.quantile(x, 0.25), uniform(7))
case("quantile_first_axis", lambda x, q: torch.quantile(x, q, dim=0, keepdim=True), uniform(4, 2), T([0.1, 0.9]))
# index_fill and index_copy
grid = torch.arange(12.0).reshape(3, 4)
case("index_fill", lambda x, i: x.index_fill(1, i, -1), grid, T([0, -1, 0]))
case("index_fill_ints", lambda x, i: x.index_fill(0, i, 7), T([[1, 2], [3, 4]], i16), T([1]))
case("index_fill_tensor", lambda x, i, v: x.index_fill(-2, i, v), grid, T([2, 0]), T(2.5))
case("index_fill_number", lambda x, i: x.index_fill(0, i, 5), T(3), T([0]))
case("index_fill_nothing", lambda x, i: x.index_fill(0, i, 5), grid, torch.zeros(0, dtype=i64))
case("index_copy", lambda x, i, s: x.index_copy(1, i, s), grid, T([3, 0]), uniform(3, 2))
case("index_copy_rows", lambda x, i, s: x.index_copy(0, i, s), T([[1, 2], [3, 4], [5, 6]]), T([2, 0]), T([[7, 8], [9, 0]]))
case("index_copy_number", lambda x, i, s: x.index_copy(0, i, s), T(3.0), T([0]), T(4.0))
# fill_diagonal_
case("fill_diagonal", lambda x: x.clone().fill_diagonal_(5), torch.zeros(3, 4))
case("fill_diagonal_tall", lambda x: x.clone().fill_diagonal_(5), torch.zeros(7, 3, dtype=i32))
case("fill_diagonal_wrapped", lambda x: x.clone().fill_diagonal_(5, wrap=True), torch.zeros(7, 3, dtype=i32))
case("fill_diagonal_wide_wrapped", lambda x: x.clone().fill_diagonal_(5, wrap=True), torch.zeros(2, 6))
case("fill_diagonal_cube", lambda x: x.clone().fill_diagonal_(True), torch.zeros(2, 2, 2, dtype=torch.bool))
# cummax and cummin
for name in ("cummax", "cummin"):
    f = getattr(torch, name)
    case(name + "_ties", lambda x, f=f: f(x, 0), ties)
    case(name + "_odd", lambda x, f=f: f(x, 1), odd)
    case(name + "_columns", lambda x, f=f: f(x, -2), uniform(4, 3))
    case(name + "_u8", lambda x, f=f: f(x, 0), T([3, 200, 7, 200, 0], u8))
    case(name + "_bools", lambda x, f=f: f(x, 0), T([False, True, False]))
    case(name + "_long", lambda x, f=f: f(x, 0), torch.randint(-9, 9, (1100,), dtype=i32))
    case(name + "_number", lambda x, f=f: f(x, 0), T(3.0))
    case(name + "_none", lambda x, f=f: f(x, 1), torch.zeros(2, 0))
    case(name + "_f16", lambda x, f=f: f(x, 0), T([0.5, -1.0, 2.0, nan, 3.0], f16))
# ctc_loss
for reduction in ("none", "mean", "sum"):
    case("ctc_loss_" + reduction,
         lambda x, t, i, l, r=reduction: F.ctc_loss(x, t, i, l, blank=0, reduction=r), log_probs, repeats, T([6, 4]), T([3, 2]))
case("ctc_loss_concatenated", lambda x, t, i, l: F.ctc_loss(x, t, i, l, blank=3), log_probs, T([1, 0, 2, 2, 1]), T([6, 6]),
     T([2, 3]))
case("ctc_loss_alone", lambda x, t, i, l: F.ctc_loss(x, t, i, l, reduction="none"), log_probs[:, 0], T([1, 2]), T(6), T(2))
case("ctc_loss_that_does_not_fit", lambda x, t, i, l: F.ctc_loss(x, t, i, l, reduction="none"), log_probs, repeats, T([2, 6]),
     T([3, 2]))
case("ctc_loss_zero_infinity", lambda x, t, i, l: F.ctc_loss(x, t, i, l, zero_infinity=True), log_probs, repeats, T([2, 6]),
     T([3, 2]))
case("ctc_loss_of_empty_targets", lambda x, t, i, l: F.ctc_loss(x, t, i, l, reduction="none"), log_probs.float(), repeats,
     T([5, 6]), T([0, 1]))
# sequences
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence
a, b, c = uniform(2, 3), uniform(4, 3), uniform(1, 3)
case("pad_sequence", lambda a, b, c: pad_sequence([a, b, c], padding_value=-1), a, b, c)
case("pad_sequence_batch_first", lambda a, b, c: pad_sequence([a, b, c], batch_first=True), a, b, c)
case("pad_sequence_left", lambda a, b, c: pad_sequence([a, b, c], batch_first=True, padding_side="left"), a, b, c)
case("pack_sequence", lambda a, b, c: tuple(pack_sequence([a, b, c], enforce_sorted=False)), a, b, c)
case("pack_padded_sequence", lambda x, l: tuple(pack_padded_sequence(x, l, batch_first=True, enforce_sorted=False)),
     uniform(3, 4, 2), T([2, 4, 2]))
case("pack_padded_sequence_sorted", lambda x, l: tuple(pack_padded_sequence(x, l))[:2], uniform(5, 3), lengths)
case("pad_packed_sequence",
     lambda x, l: pad_packed_sequence(pack_padded_sequence(x, l, enforce_sorted=False), padding_value=9.0, total_length=6),
     uniform(5, 3), T([1, 5, 3]))


def text(x):
    values = x.detach().reshape(-1).tolist()
    return f"{NAMES[x.dtype]} {str(list(x.shape)).replace(' ', '')} " + " ".join(
        str(int(v)) if isinstance(v, (bool, int)) else repr(v) for v in values)


for name, f, inputs in cases:
    results = f(*(x.clone() for x in inputs))
    print("case", name)
    for x in inputs:
        print("input", text(x).rstrip())
    for x in results if isinstance(results, (tuple, list)) else [results]:
        print("output", text(x).rstrip())
