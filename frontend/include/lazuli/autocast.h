#pragma once
/// Mixed precision: in a scope of autocast products are computed in f16 or bf16, and what needs f32 in f32,
/// whatever the parameters' dtype:
///
///     {
///         const lz::AutocastGuard half(lz::bf16);
///         loss = lz::cross_entropy(net(x), y); // products in bf16, the loss in f32
///     }
///     loss.backward(); // gradients in the parameters' dtype
///
/// In bf16 or f16: matmul, mm, mv, bmm, linear, einsum, and with them linear, recurrent and attention layers.
/// In f32, with results in f32: exp, expm1, log, log1p, log2, tan, asin, acos, sinh, cosh, rsqrt, reciprocal,
/// pow, sum, prod, norm, cumsum, cumprod, softmax, log_softmax, softplus, layer_norm, rms_norm and all
/// losses. Functions whose operands must share a dtype (dot, scatter_add, index_add) take the widest; all
/// others compute in the dtypes that they get. Tensors of f64 and of integers stay as they are. The casts are
/// recorded, and fused, like any other operation; gradients go through them. Backward runs in the dtypes of
/// its forward, wherever it is called. The small gradients of f16, whose range ends at 6e-8, want a
/// GradScaler.

#include "lazuli/core/dtype.h"
#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/device/device.h"

namespace lz {

/// Autocast on for this thread until the end of the scope; or, told so, off. Guards nest.
class LZ_API AutocastGuard {
public:
    /// In this half type, on every device. Throws DTypeError for another dtype than f16 and bf16.
    explicit AutocastGuard(DType dtype, bool enabled = true, Location loc = Location::current());
    /// On devices of one kind; virtual GPUs are DeviceType::Cuda.
    AutocastGuard(DeviceType type, DType dtype, bool enabled = true, Location loc = Location::current());
    ~AutocastGuard();
    AutocastGuard(const AutocastGuard &) = delete;
    AutocastGuard &operator=(const AutocastGuard &) = delete;

private:
    struct Before {
        bool enabled = false;
        DType dtype = DType::BF16;
    };
    void set(DeviceType type, DType dtype, bool enabled);
    Before before_[2];
};

/// Whether autocast is on for this thread and devices of this kind.
LZ_API bool is_autocast_enabled(DeviceType type);
/// The dtype of that; as long as nobody has set it, bf16 on the CPU and f16 on GPUs.
LZ_API DType autocast_dtype(DeviceType type);

} // namespace lz
