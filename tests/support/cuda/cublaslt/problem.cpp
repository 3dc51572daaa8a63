#include "tests/support/cuda/cublaslt/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lz::fake_cublaslt {
namespace {

/// Types that go together: "cublasLtMatmul() supports the following", table of CUDA 13 for ordinary matrices.
struct Types {
    int32_t compute, scale, ab, cd;
};
constexpr std::array kTypes{
    Types{CUBLAS_COMPUTE_16F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F},
    Types{CUBLAS_COMPUTE_32I, CUDA_R_32I, CUDA_R_8I, CUDA_R_32I},
    Types{CUBLAS_COMPUTE_32I, CUDA_R_32F, CUDA_R_8I, CUDA_R_8I},
    Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
    Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
    Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_8I, CUDA_R_32F},
    Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
    Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
    Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    Types{CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    Types{CUBLAS_COMPUTE_32F_FAST_16F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    Types{CUBLAS_COMPUTE_32F_FAST_16BF, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    Types{CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
};

/// Pedantic computations take what the ordinary ones take.
int32_t without_pedantic(int32_t compute) {
    switch (compute) {
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        return CUBLAS_COMPUTE_16F;
    case CUBLAS_COMPUTE_32F_PEDANTIC:
        return CUBLAS_COMPUTE_32F;
    case CUBLAS_COMPUTE_64F_PEDANTIC:
        return CUBLAS_COMPUTE_64F;
    case CUBLAS_COMPUTE_32I_PEDANTIC:
        return CUBLAS_COMPUTE_32I;
    default:
        return compute;
    }
}

void check_types(const Problem &p) {
    const int32_t compute = without_pedantic(p.op.compute);
    if (p.a.type != p.b.type || p.c.type != p.d.type || std::ranges::none_of(kTypes, [&](const Types &t) {
            return t.compute == compute && t.scale == p.op.scale && t.ab == p.a.type && t.cd == p.d.type;
        }))
        unsupported(fmt::format("computation {} with scale {}, A {}, B {}, C {}, D {}", p.op.compute,
                                p.op.scale, p.a.type, p.b.type, p.c.type, p.d.type));
}

void check_layout(const Layout &l, const char *name) {
    if (l.order != CUBLASLT_ORDER_COL && l.order != CUBLASLT_ORDER_ROW)
        unsupported(fmt::format("{}: order {}", name, l.order));
    const uint64_t inner = l.order == CUBLASLT_ORDER_COL ? l.rows : l.cols;
    if (l.rows == 0 || l.cols == 0 || l.ld < 0 || static_cast<uint64_t>(l.ld) < inner)
        invalid(fmt::format("{}: {}x{} with leading dimension {}", name, l.rows, l.cols, l.ld));
    if (l.batch < 1)
        invalid(fmt::format("{}: {} batches", name, l.batch));
}

void check_epilogue(const Problem &p) {
    switch (p.op.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
        return;
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_GELU:
        break;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
        if (p.op.bias_type != -1 && p.op.bias_type != p.d.type)
            unsupported(fmt::format("a bias of type {} for D of type {}", p.op.bias_type, p.d.type));
        if (p.d.order != CUBLASLT_ORDER_COL)
            unsupported("a bias for D by rows");
        break;
    default:
        unsupported(fmt::format("epilogue {}", p.op.epilogue));
    }
    if (p.d.type == CUDA_R_32I || p.d.type == CUDA_R_64F)
        unsupported(fmt::format("epilogue {} for D of type {}", p.op.epilogue, p.d.type));
}

/// Products of 8-bit integers of ordinary order: "All matrix pointers must be 4-byte aligned ... leading
/// dimensions must be multiples of 4 ... only the TN format ... m and k must be multiples of 4".
void check_integers(const Problem &p) {
    if (without_pedantic(p.op.compute) != CUBLAS_COMPUTE_32I)
        return;
    if (p.op.trans_a != CUBLAS_OP_T || p.op.trans_b != CUBLAS_OP_N)
        unsupported("8-bit integers with A not transposed, or B transposed");
    if (p.m % 4 != 0 || p.k % 4 != 0)
        unsupported(fmt::format("8-bit integers with m {} and k {}: no multiples of 4", p.m, p.k));
    for (const Layout *l : {&p.a, &p.b, &p.c, &p.d})
        if (l->ld % 4 != 0)
            unsupported(fmt::format("8-bit integers with leading dimension {}: no multiple of 4", l->ld));
}

uint64_t mix(uint64_t seed, uint64_t value) {
    return (seed ^ value) * 0x9e3779b97f4a7c15u + (seed >> 29);
}

} // namespace

uint64_t Problem::fingerprint() const {
    uint64_t h = 1;
    for (const Layout *l : {&a, &b, &c, &d})
        for (const uint64_t v : {static_cast<uint64_t>(l->type), static_cast<uint64_t>(l->order),
                                 static_cast<uint64_t>(l->batch), l->rows, l->cols,
                                 static_cast<uint64_t>(l->ld), static_cast<uint64_t>(l->stride)})
            h = mix(h, v);
    for (const int32_t v : {op.compute, op.scale, op.trans_a, op.trans_b, static_cast<int32_t>(op.epilogue)})
        h = mix(h, static_cast<uint64_t>(v));
    return h;
}

Problem check_problem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    Problem p{operation_of(operation),
              layout_of(a, "A"),
              layout_of(b, "B"),
              layout_of(c, "C"),
              layout_of(d, "D"),
              0,
              0,
              0};
    check_layout(p.a, "A");
    check_layout(p.b, "B");
    check_layout(p.c, "C");
    check_layout(p.d, "D");
    for (const int32_t t : {p.op.trans_a, p.op.trans_b})
        if (t != CUBLAS_OP_N && t != CUBLAS_OP_T && t != CUBLAS_OP_C)
            invalid(fmt::format("transposition {}", t));
    if (p.op.trans_c != CUBLAS_OP_N)
        unsupported("C cannot be transposed");
    if (p.op.pointer_mode != CUBLASLT_POINTER_MODE_HOST)
        unsupported("alpha and beta are read from the host");
    const bool ta = p.op.trans_a != CUBLAS_OP_N, tb = p.op.trans_b != CUBLAS_OP_N;
    p.m = ta ? p.a.cols : p.a.rows;
    p.k = ta ? p.a.rows : p.a.cols;
    p.n = tb ? p.b.rows : p.b.cols;
    if ((tb ? p.b.cols : p.b.rows) != p.k || p.d.rows != p.m || p.d.cols != p.n || p.c.rows != p.m ||
        p.c.cols != p.n)
        invalid(fmt::format("op(A) is {}x{}, op(B) {}x{}, C {}x{}, D {}x{}", p.m, p.k,
                            tb ? p.b.cols : p.b.rows, p.n, p.c.rows, p.c.cols, p.d.rows, p.d.cols));
    for (const Layout *l : {&p.a, &p.b, &p.c})
        if (l->batch != p.d.batch)
            invalid(fmt::format("{} batches beside {} of D", l->batch, p.d.batch));
    if (p.d.batch > 1 && p.d.stride == 0)
        invalid("all batches of D are in one place");
    check_types(p);
    check_epilogue(p);
    check_integers(p);
    return p;
}

size_t span_bytes(const Layout &l) {
    const uint64_t outer = l.order == CUBLASLT_ORDER_COL ? l.cols : l.rows;
    const uint64_t inner = l.order == CUBLASLT_ORDER_COL ? l.rows : l.cols;
    const uint64_t elements = static_cast<uint64_t>(l.batch - 1) * static_cast<uint64_t>(l.stride) +
                              (outer - 1) * static_cast<uint64_t>(l.ld) + inner;
    return elements * size_of(l.type);
}

} // namespace lz::fake_cublaslt
