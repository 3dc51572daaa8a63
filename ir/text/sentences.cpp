#include "ir/text/sentences.h"

#include <fmt/format.h>

#include <iterator>

namespace lz::ir {

std::string bytes_text(int64_t bytes) {
    constexpr const char *kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < int64_t{10} * 1024)
        return fmt::format("{} bytes", bytes);
    double value = static_cast<double>(bytes) / 1024;
    size_t unit = 0;
    for (; value >= 10 * 1024 && unit + 1 < std::size(kUnits); ++unit)
        value /= 1024;
    return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string plural(size_t n, std::string_view noun) {
    return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

} // namespace lz::ir
