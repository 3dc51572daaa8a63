#include "frontend/nn/layers/parameters.h"

#include <fmt/format.h>

namespace lz::nn::detail {

std::string text(bool value) {
    return value ? "True" : "False";
}

std::string text(double value) {
    const double size = std::fabs(value);
    if (size != 0 && (size < 1e-4 || size >= 1e16)) { // 1e-05
        return fmt::format("{:e}", value).find(".000000e") == std::string::npos
                   ? fmt::format("{}", value)
                   : fmt::format("{:.0e}", value);
    }
    const std::string digits = fmt::format("{}", value);
    return digits.find_first_of(".ne") == std::string::npos ? digits + ".0" : digits;
}

std::string text(const Sizes &sizes) {
    std::string out = "(";
    for (size_t i = 0; i < sizes.size(); ++i)
        out += (i ? ", " : "") + std::to_string(sizes[i]);
    return out + (sizes.size() == 1 ? ",)" : ")");
}

} // namespace lz::nn::detail
