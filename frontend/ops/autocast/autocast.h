#pragma once
/// How functions look at autocast (lazuli/autocast.h): each that stands in the table autocast.def begins with
///
///     if (detail::autocasting()) [[unlikely]]
///         return detail::autocast<"matmul">(loc, [&](auto &a, auto &b) { return matmul(a, b, loc); }, a, b);
///
/// which calls it again with operands that are cast and autocast off. Off, it costs the test of one byte.

#include "frontend/ops/compose.h"
#include "ir/host/hot_tls.h"

#include <array>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

namespace lz::detail {

/// What a function's operands become; None: it is not in the table.
enum class CastPolicy : uint8_t { None, Half, Single, Widest };

constexpr CastPolicy cast_policy(std::string_view function) {
#define LZ_AUTOCAST(name, policy)                                                                            \
    if (function == #name)                                                                                   \
        return CastPolicy::policy;
#include "frontend/ops/autocast/autocast.def"
    return CastPolicy::None;
}

/// The dtypes of a thread, by kind of device.
struct AutocastMode {
    bool on = false;                                                    ///< for one kind at least
    std::array<bool, 2> enabled = {};                                   ///< by ir::DeviceKind
    std::array<ir::DType, 2> dtype = {ir::DType::BF16, ir::DType::F16}; ///< likewise
};

class Autocasting {
public:
    static AutocastMode &mode() { return mode_; }

private:
    LZ_HOT_TLS static constinit thread_local AutocastMode mode_;
};

inline bool autocasting() {
    return Autocasting::mode().on;
}

/// Another mode until the end of the scope; by default off.
class AutocastScope {
public:
    explicit AutocastScope(const AutocastMode &mode = {})
        : before_(std::exchange(Autocasting::mode(), mode)) {}
    ~AutocastScope() { Autocasting::mode() = before_; }
    AutocastScope(const AutocastScope &) = delete;
    AutocastScope &operator=(const AutocastScope &) = delete;

private:
    const AutocastMode before_;
};

/// The operands as the policy wants them: those of floats other than f64, on a device for which autocast is
/// on.
void autocast_operands(CastPolicy policy, std::span<Tensor> operands, Location loc);

/// One operand of an elementwise function.
inline Tensor autocast_operand(CastPolicy policy, const Tensor &x, Location loc) {
    Tensor operand = x;
    autocast_operands(policy, {&operand, 1}, loc);
    return operand;
}

/// f of these operands, cast, with autocast off. Undefined ones stay so.
template <FunctionName name, class F, class... T>
auto autocast(Location loc, F &&f, const T &...operands) {
    constexpr CastPolicy policy = cast_policy({name.text, sizeof(name.text) - 1});
    static_assert(policy != CastPolicy::None, "the function needs a row in autocast.def");
    std::array<Tensor, sizeof...(T)> cast = {operands...};
    autocast_operands(policy, cast, loc);
    const AutocastScope off;
    return std::apply(std::forward<F>(f), cast);
}

} // namespace lz::detail
