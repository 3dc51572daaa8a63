// Methods that are the function of the same name, and both for temporaries, which let go of their handles.
#include "lazuli/ops.h"

#include "frontend/ops/compose.h"

#include <utility>

namespace lz {

#define LZ_LIST(...) __VA_ARGS__
#define LZ_TEMPORARY(result, name, parameters, arguments)                                                    \
    result name(Tensor &&self, LZ_LIST parameters) {                                                         \
        return detail::consumed(name(std::as_const(self), LZ_LIST arguments), self);                         \
    }
#define LZ_METHOD(result, name, parameters, arguments)                                                       \
    result Tensor::name parameters const & {                                                                 \
        return lz::name(*this, LZ_LIST arguments);                                                           \
    }                                                                                                        \
    result Tensor::name parameters && {                                                                      \
        return lz::name(std::move(*this), LZ_LIST arguments);                                                \
    }                                                                                                        \
    LZ_TEMPORARY(result, name, parameters, arguments)

// Of two tensors, of which each may be a temporary.
#define LZ_TEMPORARIES(result, name, parameters, arguments)                                                  \
    result name(const Tensor &x, Tensor &&y, LZ_LIST parameters) {                                           \
        return detail::consumed(name(x, std::as_const(y), LZ_LIST arguments), y);                            \
    }                                                                                                        \
    result name(Tensor &&x, const Tensor &y, LZ_LIST parameters) {                                           \
        return detail::consumed(name(std::as_const(x), y, LZ_LIST arguments), x);                            \
    }                                                                                                        \
    result name(Tensor &&x, Tensor &&y, LZ_LIST parameters) {                                                \
        return detail::consumed(name(std::as_const(x), std::as_const(y), LZ_LIST arguments), x, y);          \
    }
#define LZ_METHOD_OF_TWO(result, name, parameters, arguments)                                                \
    result Tensor::name(const Tensor &y, LZ_LIST parameters) const & {                                       \
        return lz::name(*this, y, LZ_LIST arguments);                                                        \
    }                                                                                                        \
    result Tensor::name(const Tensor &y, LZ_LIST parameters) && {                                            \
        return lz::name(std::move(*this), y, LZ_LIST arguments);                                             \
    }                                                                                                        \
    result Tensor::name(Tensor &&y, LZ_LIST parameters) const & {                                            \
        return lz::name(*this, std::move(y), LZ_LIST arguments);                                             \
    }                                                                                                        \
    result Tensor::name(Tensor &&y, LZ_LIST parameters) && {                                                 \
        return lz::name(std::move(*this), std::move(y), LZ_LIST arguments);                                  \
    }                                                                                                        \
    LZ_TEMPORARIES(result, name, parameters, arguments)

// elementwise.h
LZ_TEMPORARY(Tensor, addcmul, (const Tensor &a, const Tensor &b, const Scalar &value, Location loc),
             (a, b, value, loc))
LZ_TEMPORARY(Tensor, addcdiv, (const Tensor &a, const Tensor &b, const Scalar &value, Location loc),
             (a, b, value, loc))
LZ_METHOD(Tensor, isnan, (Location loc), (loc))
LZ_METHOD(Tensor, isinf, (Location loc), (loc))
LZ_METHOD(Tensor, isfinite, (Location loc), (loc))
LZ_TEMPORARY(Tensor, where, (Operand a, Operand b, Location loc), (std::move(a), std::move(b), loc))
LZ_METHOD_OF_TWO(Tensor, masked_fill, (Operand value, Location loc), (std::move(value), loc))
LZ_METHOD(Tensor, clamp,
          (const std::optional<Scalar> &lower, const std::optional<Scalar> &upper, Location loc),
          (lower, upper, loc))
LZ_TEMPORARY(Tensor, clamp, (const Tensor &lower, const Tensor &upper, Location loc), (lower, upper, loc))
LZ_METHOD(Tensor, clamp_min, (Operand lower, Location loc), (std::move(lower), loc))
LZ_METHOD(Tensor, clamp_max, (Operand upper, Location loc), (std::move(upper), loc))
LZ_METHOD_OF_TWO(Tensor, logaddexp, (Location loc), (loc))
LZ_METHOD(Tensor, lerp, (const Tensor &end, Operand weight, Location loc), (end, std::move(weight), loc))
LZ_TEMPORARIES(Tensor, isclose, (double rtol, double atol, bool equal_nan, Location loc),
               (rtol, atol, equal_nan, loc))
// views.h
LZ_METHOD(Tensor, reshape, (const Sizes &sizes, Location loc), (sizes, loc))
LZ_METHOD(Tensor, view, (const Sizes &sizes, Location loc), (sizes, loc))
LZ_METHOD(Tensor, flatten, (int64_t first_axis, int64_t last_axis, Location loc),
          (first_axis, last_axis, loc))
LZ_METHOD(Tensor, unflatten, (int64_t axis, const Sizes &sizes, Location loc), (axis, sizes, loc))
LZ_METHOD(Tensor, transpose, (int64_t axis0, int64_t axis1, Location loc), (axis0, axis1, loc))
LZ_METHOD(Tensor, permute, (const Sizes &axes, Location loc), (axes, loc))
LZ_METHOD(Tensor, movedim, (int64_t from, int64_t to, Location loc), (from, to, loc))
LZ_METHOD(Tensor, movedim, (const Sizes &from, const Sizes &to, Location loc), (from, to, loc))
LZ_METHOD(Tensor, t, (Location loc), (loc))
LZ_METHOD(Tensor, mT, (Location loc), (loc))
LZ_METHOD(Tensor, squeeze, (const Sizes &axes, Location loc), (axes, loc))
LZ_METHOD(Tensor, unsqueeze, (int64_t axis, Location loc), (axis, loc))
LZ_METHOD(Tensor, expand, (const Sizes &sizes, Location loc), (sizes, loc))
LZ_METHOD(Tensor, expand_as, (const Tensor &like, Location loc), (like, loc))
LZ_TEMPORARY(Tensor, broadcast_to, (const Sizes &sizes, Location loc), (sizes, loc))
LZ_METHOD(Tensor, slice,
          (int64_t axis, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step,
           Location loc),
          (axis, start, stop, step, loc))
LZ_METHOD(Tensor, narrow, (int64_t axis, int64_t start, int64_t length, Location loc),
          (axis, start, length, loc))
LZ_METHOD(Tensor, select, (int64_t axis, int64_t index, Location loc), (axis, index, loc))
LZ_METHOD(Tensor, flip, (const Sizes &axes, Location loc), (axes, loc))
LZ_METHOD(Tensor, diagonal, (int64_t offset, int64_t axis0, int64_t axis1, Location loc),
          (offset, axis0, axis1, loc))
LZ_METHOD(std::vector<Tensor>, split, (int64_t size, int64_t axis, Location loc), (size, axis, loc))
LZ_METHOD(std::vector<Tensor>, split, (std::initializer_list<int64_t> sizes, int64_t axis, Location loc),
          (sizes, axis, loc))
LZ_TEMPORARY(std::vector<Tensor>, split_with_sizes, (const Sizes &sizes, int64_t axis, Location loc),
             (sizes, axis, loc))
LZ_METHOD(std::vector<Tensor>, chunk, (int64_t chunks, int64_t axis, Location loc), (chunks, axis, loc))
LZ_METHOD(std::vector<Tensor>, unbind, (int64_t axis, Location loc), (axis, loc))
LZ_TEMPORARY(Tensor, pad, (const Sizes &pairs, const Scalar &value, Location loc), (pairs, value, loc))
LZ_TEMPORARY(Tensor, pad, (const Sizes &pairs, PaddingMode mode, const Scalar &value, Location loc),
             (pairs, mode, value, loc))
LZ_METHOD(Tensor, roll, (const Sizes &shifts, const Sizes &axes, Location loc), (shifts, axes, loc))
LZ_METHOD(Tensor, tril, (int64_t diagonal, Location loc), (diagonal, loc))
LZ_METHOD(Tensor, triu, (int64_t diagonal, Location loc), (diagonal, loc))
LZ_METHOD(Tensor, repeat, (const Sizes &repeats, Location loc), (repeats, loc))
LZ_METHOD(Tensor, tile, (const Sizes &repeats, Location loc), (repeats, loc))
LZ_METHOD(Tensor, repeat_interleave, (int64_t repeats, std::optional<int64_t> axis, Location loc),
          (repeats, axis, loc))
LZ_METHOD(Tensor, repeat_interleave, (const Tensor &repeats, std::optional<int64_t> axis, Location loc),
          (repeats, axis, loc))
LZ_METHOD(Tensor, diag, (int64_t offset, Location loc), (offset, loc))
LZ_METHOD(Tensor, unfold, (int64_t axis, int64_t size, int64_t step, Location loc), (axis, size, step, loc))
LZ_METHOD(Tensor, clone, (Location loc), (loc))
LZ_METHOD(Tensor, to, (DType dtype, Location loc), (dtype, loc))
LZ_METHOD(Tensor, to, (const Device &device, Location loc), (device, loc))
LZ_METHOD(Tensor, to, (const Device &device, DType dtype, Location loc), (device, dtype, loc))
LZ_METHOD(Tensor, to, (const Device &device, const CopyOptions &options, Location loc),
          (device, options, loc))
LZ_METHOD(Tensor, to, (const Device &device, DType dtype, const CopyOptions &options, Location loc),
          (device, dtype, options, loc))
LZ_METHOD(Tensor, pin_memory, (Location loc), (loc))
// indexing.h
LZ_METHOD_OF_TWO(Tensor, masked_select, (Location loc), (loc))
LZ_METHOD(Tensor, nonzero, (Location loc), (loc))
LZ_METHOD(Tensor, argwhere, (Location loc), (loc))
LZ_METHOD(Tensor, gather, (int64_t axis, const Tensor &index, Location loc), (axis, index, loc))
LZ_METHOD(Tensor, index_select, (int64_t axis, const Tensor &index, Location loc), (axis, index, loc))
LZ_METHOD_OF_TWO(Tensor, take, (Location loc), (loc))
LZ_METHOD(Tensor, scatter, (int64_t axis, const Tensor &index, Operand source, Location loc),
          (axis, index, std::move(source), loc))
LZ_METHOD(Tensor, scatter_add, (int64_t axis, const Tensor &index, const Tensor &source, Location loc),
          (axis, index, source, loc))
LZ_METHOD(Tensor, index_add, (int64_t axis, const Tensor &index, const Tensor &source, Location loc),
          (axis, index, source, loc))
LZ_METHOD(Tensor, index_fill, (int64_t axis, const Tensor &index, Operand value, Location loc),
          (axis, index, std::move(value), loc))
LZ_METHOD(Tensor, index_copy, (int64_t axis, const Tensor &index, const Tensor &source, Location loc),
          (axis, index, source, loc))
LZ_TEMPORARIES(Tensor, embedding, (Location loc), (loc))
LZ_TEMPORARY(Tensor, one_hot, (int64_t classes, Location loc), (classes, loc))
// reductions.h
LZ_METHOD(Tensor, sum, (const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc),
          (axes, keepdim, dtype, loc))
LZ_METHOD(Tensor, prod, (const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc),
          (axes, keepdim, dtype, loc))
LZ_METHOD(Tensor, mean, (const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc),
          (axes, keepdim, dtype, loc))
LZ_METHOD(Tensor, var, (const Sizes &axes, int64_t correction, bool keepdim, Location loc),
          (axes, correction, keepdim, loc))
LZ_METHOD(Tensor, std, (const Sizes &axes, int64_t correction, bool keepdim, Location loc),
          (axes, correction, keepdim, loc))
LZ_METHOD(Tensor, amax, (const Sizes &axes, bool keepdim, Location loc), (axes, keepdim, loc))
LZ_METHOD(Tensor, amin, (const Sizes &axes, bool keepdim, Location loc), (axes, keepdim, loc))
LZ_METHOD(Tensor, max, (Location loc), (loc))
LZ_METHOD(Tensor, min, (Location loc), (loc))
LZ_METHOD(ValuesIndices, max, (int64_t axis, bool keepdim, Location loc), (axis, keepdim, loc))
LZ_METHOD(ValuesIndices, min, (int64_t axis, bool keepdim, Location loc), (axis, keepdim, loc))
LZ_TEMPORARY(Tensor, max, (const Tensor &b, Location loc), (b, loc))
LZ_TEMPORARY(Tensor, min, (const Tensor &b, Location loc), (b, loc))
LZ_METHOD(Tensor, argmax, (std::optional<int64_t> axis, bool keepdim, Location loc), (axis, keepdim, loc))
LZ_METHOD(Tensor, argmin, (std::optional<int64_t> axis, bool keepdim, Location loc), (axis, keepdim, loc))
LZ_METHOD(Tensor, any, (const Sizes &axes, bool keepdim, Location loc), (axes, keepdim, loc))
LZ_METHOD(Tensor, all, (const Sizes &axes, bool keepdim, Location loc), (axes, keepdim, loc))
LZ_METHOD(Tensor, logsumexp, (const Sizes &axes, bool keepdim, Location loc), (axes, keepdim, loc))
LZ_METHOD(Tensor, norm, (double p, const Sizes &axes, bool keepdim, Location loc), (p, axes, keepdim, loc))
LZ_METHOD(Tensor, cumsum, (int64_t axis, std::optional<DType> dtype, Location loc), (axis, dtype, loc))
LZ_METHOD(Tensor, cumprod, (int64_t axis, std::optional<DType> dtype, Location loc), (axis, dtype, loc))
LZ_METHOD(ValuesIndices, sort, (int64_t axis, bool descending, Location loc), (axis, descending, loc))
LZ_METHOD(Tensor, argsort, (int64_t axis, bool descending, Location loc), (axis, descending, loc))
LZ_METHOD(ValuesIndices, topk, (int64_t k, int64_t axis, bool largest, Location loc), (k, axis, largest, loc))
LZ_METHOD(ValuesIndices, topk, (int64_t k, int64_t axis, bool largest, bool sorted, Location loc),
          (k, axis, largest, sorted, loc))
LZ_METHOD(Tensor, count_nonzero, (const Sizes &axes, Location loc), (axes, loc))
LZ_METHOD(Tensor, median, (Location loc), (loc))
LZ_METHOD(ValuesIndices, median, (int64_t axis, bool keepdim, Location loc), (axis, keepdim, loc))
LZ_METHOD(ValuesIndices, cummax, (int64_t axis, Location loc), (axis, loc))
LZ_METHOD(ValuesIndices, cummin, (int64_t axis, Location loc), (axis, loc))
LZ_METHOD(Tensor, quantile,
          (double q, std::optional<int64_t> axis, bool keepdim, std::string_view interpolation, Location loc),
          (q, axis, keepdim, interpolation, loc))
LZ_METHOD(Tensor, quantile,
          (const Tensor &q, std::optional<int64_t> axis, bool keepdim, std::string_view interpolation,
           Location loc),
          (q, axis, keepdim, interpolation, loc))
LZ_METHOD(Tensor, nanquantile,
          (double q, std::optional<int64_t> axis, bool keepdim, std::string_view interpolation, Location loc),
          (q, axis, keepdim, interpolation, loc))
LZ_METHOD(Tensor, nanquantile,
          (const Tensor &q, std::optional<int64_t> axis, bool keepdim, std::string_view interpolation,
           Location loc),
          (q, axis, keepdim, interpolation, loc))
LZ_METHOD(ValuesIndices, kthvalue, (int64_t k, int64_t axis, bool keepdim, Location loc),
          (k, axis, keepdim, loc))
// functional.h
LZ_TEMPORARY(Tensor, gelu, (Gelu approximation, Location loc), (approximation, loc))
LZ_TEMPORARY(Tensor, softplus, (const Scalar &beta, const Scalar &threshold, Location loc),
             (beta, threshold, loc))
LZ_TEMPORARY(Tensor, leaky_relu, (const Scalar &slope, Location loc), (slope, loc))
LZ_TEMPORARY(Tensor, dropout, (double p, bool training, Location loc), (p, training, loc))
LZ_METHOD(Tensor, softmax, (int64_t axis, std::optional<DType> dtype, Location loc), (axis, dtype, loc))
LZ_METHOD(Tensor, log_softmax, (int64_t axis, std::optional<DType> dtype, Location loc), (axis, dtype, loc))
LZ_TEMPORARY(Tensor, layer_norm,
             (const Sizes &shape, const Tensor &weight, const Tensor &bias, double eps, Location loc),
             (shape, weight, bias, eps, loc))
LZ_TEMPORARY(Tensor, rms_norm,
             (const Sizes &shape, const Tensor &weight, std::optional<double> eps, Location loc),
             (shape, weight, eps, loc))
LZ_TEMPORARIES(Tensor, cross_entropy, (const CrossEntropyOptions &options, Location loc), (options, loc))
LZ_TEMPORARIES(Tensor, nll_loss, (const CrossEntropyOptions &options, Location loc), (options, loc))
LZ_TEMPORARIES(Tensor, mse_loss, (Reduction reduction, Location loc), (reduction, loc))
// linalg.h
LZ_METHOD_OF_TWO(Tensor, matmul, (Location loc), (loc))
LZ_METHOD_OF_TWO(Tensor, matmul, (DType out_dtype, Location loc), (out_dtype, loc))
LZ_METHOD_OF_TWO(Tensor, mm, (Location loc), (loc))
LZ_METHOD_OF_TWO(Tensor, mm, (DType out_dtype, Location loc), (out_dtype, loc))
LZ_METHOD_OF_TWO(Tensor, mv, (Location loc), (loc))
LZ_METHOD_OF_TWO(Tensor, dot, (Location loc), (loc))
LZ_METHOD_OF_TWO(Tensor, outer, (Location loc), (loc))
LZ_METHOD_OF_TWO(Tensor, bmm, (Location loc), (loc))
LZ_METHOD_OF_TWO(Tensor, bmm, (DType out_dtype, Location loc), (out_dtype, loc))
LZ_METHOD(Tensor, addmm,
          (const Tensor &a, const Tensor &b, const Scalar &beta, const Scalar &alpha, Location loc),
          (a, b, beta, alpha, loc))
LZ_METHOD(Tensor, addmv,
          (const Tensor &a, const Tensor &b, const Scalar &beta, const Scalar &alpha, Location loc),
          (a, b, beta, alpha, loc))
LZ_METHOD(Tensor, addr,
          (const Tensor &a, const Tensor &b, const Scalar &beta, const Scalar &alpha, Location loc),
          (a, b, beta, alpha, loc))
LZ_METHOD(Tensor, baddbmm,
          (const Tensor &a, const Tensor &b, const Scalar &beta, const Scalar &alpha, Location loc),
          (a, b, beta, alpha, loc))
LZ_METHOD(Tensor, addbmm,
          (const Tensor &a, const Tensor &b, const Scalar &beta, const Scalar &alpha, Location loc),
          (a, b, beta, alpha, loc))
LZ_METHOD_OF_TWO(Tensor, kron, (Location loc), (loc))
LZ_TEMPORARIES(Tensor, tensordot, (const Sizes &axes_a, const Sizes &axes_b, Location loc),
               (axes_a, axes_b, loc))
LZ_TEMPORARIES(Tensor, tensordot, (int64_t axes, Location loc), (axes, loc))
LZ_TEMPORARIES(Tensor, cdist, (double p, std::optional<int64_t> compute_mode, Location loc),
               (p, compute_mode, loc))
// statistics.h
LZ_METHOD(Tensor, bincount, (const Tensor &weights, int64_t minlength, Location loc),
          (weights, minlength, loc))
LZ_METHOD(Tensor, histc, (int64_t bins, const Scalar &min, const Scalar &max, Location loc),
          (bins, min, max, loc))
LZ_TEMPORARY(Tensor, bucketize, (const Tensor &boundaries, bool out_int32, bool right, Location loc),
             (boundaries, out_int32, right, loc))
LZ_TEMPORARIES(Tensor, linear, (const Tensor &bias, Location loc), (bias, loc))
// random.h
LZ_TEMPORARY(Tensor, bernoulli, (Location loc), (loc))
LZ_TEMPORARY(Tensor, bernoulli, (Generator & generator, Location loc), (generator, loc))
LZ_TEMPORARY(Tensor, bernoulli, (double p, Location loc), (p, loc))

Tensor Tensor::bincount(Location loc) const & {
    return lz::bincount(*this, {}, 0, loc);
}
Tensor Tensor::bincount(Location loc) && {
    return lz::bincount(std::move(*this), {}, 0, loc);
}
std::tuple<Tensor, Tensor, Tensor> Tensor::unique_dim(int64_t axis, bool sorted, bool return_inverse,
                                                      bool return_counts, Location loc) const {
    return lz::unique_dim(*this, axis, sorted, return_inverse, return_counts, loc);
}
std::tuple<Tensor, Tensor, Tensor> Tensor::unique_consecutive(bool return_inverse, bool return_counts,
                                                              std::optional<int64_t> axis,
                                                              Location loc) const {
    return lz::unique_consecutive(*this, return_inverse, return_counts, axis, loc);
}

Tensor Tensor::contiguous(Location loc) const & {
    return lz::to(*this, dtype(), loc);
}
Tensor Tensor::cpu(Location loc) const & {
    return lz::to(*this, Device::cpu(), detail::in<"cpu">(loc));
}
Tensor Tensor::cuda(const Device &device, const CopyOptions &options, Location loc) const & {
    if (device.is_cpu())
        throw DeviceError("cuda: the device given is cpu; cpu() moves there", loc);
    return lz::to(*this, device, options, detail::in<"cuda">(loc));
}
Tensor Tensor::cuda(int index, const CopyOptions &options, Location loc) const & {
    return cuda(Device::cuda(index), options, loc);
}
Tensor Tensor::cuda(const Device &device, Location loc) const & {
    return cuda(device, CopyOptions{}, loc);
}
Tensor Tensor::cuda(int index, Location loc) const & {
    return cuda(Device::cuda(index), CopyOptions{}, loc);
}

Tensor Tensor::contiguous(Location loc) && {
    return detail::consumed(std::as_const(*this).contiguous(loc), *this);
}
Tensor Tensor::cpu(Location loc) && {
    return detail::consumed(std::as_const(*this).cpu(loc), *this);
}
Tensor Tensor::cuda(const Device &device, const CopyOptions &options, Location loc) && {
    return detail::consumed(std::as_const(*this).cuda(device, options, loc), *this);
}
Tensor Tensor::cuda(int index, const CopyOptions &options, Location loc) && {
    return std::move(*this).cuda(Device::cuda(index), options, loc);
}
Tensor Tensor::cuda(const Device &device, Location loc) && {
    return std::move(*this).cuda(device, CopyOptions{}, loc);
}
Tensor Tensor::cuda(int index, Location loc) && {
    return std::move(*this).cuda(Device::cuda(index), CopyOptions{}, loc);
}

} // namespace lz
