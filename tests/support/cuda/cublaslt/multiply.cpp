// Products on the host.

#include "tests/support/cuda/cublaslt/problem.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace lz::fake_cublaslt {
namespace {

/// Rounds to nearest, ties to even; a value that is no number stays one.
uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (value != value)
        return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
T read(const unsigned char *at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

double load(const unsigned char *at, int32_t type) {
    switch (type) {
    case CUDA_R_8I:
        return static_cast<signed char>(*at);
    case CUDA_R_16F:
        return static_cast<double>(read<_Float16>(at));
    case CUDA_R_16BF:
        return std::bit_cast<float>(uint32_t{read<uint16_t>(at)} << 16);
    case CUDA_R_32F:
        return read<float>(at);
    case CUDA_R_32I:
        return read<int32_t>(at);
    default:
        return read<double>(at);
    }
}

template <class T>
void write(unsigned char *at, T value) {
    std::memcpy(at, &value, sizeof value);
}

void store(unsigned char *at, int32_t type, double value) {
    switch (type) {
    case CUDA_R_8I: // saturates, to nearest
        write(at, static_cast<signed char>(std::clamp(std::nearbyint(value), -128.0, 127.0)));
        break;
    case CUDA_R_16F:
        write(at, static_cast<_Float16>(static_cast<float>(value)));
        break;
    case CUDA_R_16BF:
        write(at, to_bf16(static_cast<float>(value)));
        break;
    case CUDA_R_32F:
        write(at, static_cast<float>(value));
        break;
    case CUDA_R_32I:
        write(at, static_cast<int32_t>(static_cast<int64_t>(value)));
        break;
    default:
        write(at, value);
    }
}

/// To the nearest float of so many bits of the fraction, as a tensor core takes it.
double rounded_operand(double value, int32_t compute) {
    const int dropped = compute == CUBLAS_COMPUTE_32F_FAST_TF32   ? 13
                        : compute == CUBLAS_COMPUTE_32F_FAST_16BF ? 16
                                                                  : 0;
    if (dropped == 0 || !std::isfinite(value))
        return value;
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    const uint32_t half = (uint32_t{1} << (dropped - 1)) - 1 + (bits >> dropped & 1);
    return std::bit_cast<float>((bits + half) >> dropped << dropped);
}

/// Bytes of an element's place in its batch.
size_t place(const Layout &l, uint64_t row, uint64_t col) {
    const uint64_t outer = l.order == CUBLASLT_ORDER_COL ? col : row;
    const uint64_t inner = l.order == CUBLASLT_ORDER_COL ? row : col;
    return (outer * static_cast<uint64_t>(l.ld) + inner) * size_of(l.type);
}

/// A batch of op(matrix), rows one after the other.
template <class T>
std::vector<T> gather(const Layout &l, const unsigned char *from, bool transposed, int32_t compute) {
    const uint64_t rows = transposed ? l.cols : l.rows, cols = transposed ? l.rows : l.cols;
    std::vector<T> values(rows * cols);
    for (uint64_t r = 0; r < rows; ++r)
        for (uint64_t c = 0; c < cols; ++c)
            values[r * cols + c] = static_cast<T>(rounded_operand(
                load(from + (transposed ? place(l, c, r) : place(l, r, c)), l.type), compute));
    return values;
}

double activate(double x, uint32_t epilogue) {
    if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0)
        return x > 0 ? x : x != x ? x : 0;
    if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) // the approximation by tanh
        return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

/// One batch, summed in T.
template <class T>
void multiply_batch(const Problem &p, const Pointers &at) {
    const auto a = gather<T>(p.a, at.a, p.op.trans_a != CUBLAS_OP_N, p.op.compute);
    const auto b = gather<T>(p.b, at.b, p.op.trans_b != CUBLAS_OP_N, p.op.compute);
    std::vector<T> sums(p.n);
    for (uint64_t i = 0; i < p.m; ++i) {
        std::ranges::fill(sums, T{});
        for (uint64_t l = 0; l < p.k; ++l)
            for (uint64_t j = 0; j < p.n; ++j)
                sums[j] = static_cast<T>(sums[j] + a[i * p.k + l] * b[l * p.n + j]);
        for (uint64_t j = 0; j < p.n; ++j) {
            double x = at.alpha * static_cast<double>(sums[j]);
            if (at.beta != 0)
                x += at.beta * load(at.c + place(p.c, i, j), p.c.type);
            if (p.op.epilogue & CUBLASLT_EPILOGUE_BIAS)
                x += load(at.bias + i * size_of(p.d.type), p.d.type);
            store(at.d + place(p.d, i, j), p.d.type, activate(x, p.op.epilogue));
        }
    }
}

} // namespace

void multiply(const Problem &p, const Pointers &first) {
    Pointers at = first;
    const auto step = [](const Layout &l) { return l.stride * static_cast<int64_t>(size_of(l.type)); };
    for (int32_t batch = 0; batch < p.d.batch; ++batch) {
        if (p.a.type == CUDA_R_64F)
            multiply_batch<double>(p, at);
        else if (p.a.type == CUDA_R_8I)
            multiply_batch<int32_t>(p, at);
        else
            multiply_batch<float>(p, at);
        at.a += step(p.a);
        at.b += step(p.b);
        at.d += step(p.d);
        if (at.c)
            at.c += step(p.c);
        if (at.bias)
            at.bias += p.op.bias_stride * static_cast<int64_t>(size_of(p.d.type));
    }
}

} // namespace lz::fake_cublaslt
