#pragma once
/// Values as text.

#include "lazuli/core/export.h"

#include <ostream>
#include <string>

namespace lz {

namespace detail {
/// What `write` writes when it is given a stream and `values`.
LZ_API std::string written(void (*write)(std::ostream &out, const void *values), const void *values);
} // namespace detail

/// All that `<<` writes of these, one after the other: `str("sample-", 3, ".pt")`. Computes the tensors among
/// them.
template <class... T>
std::string str(const T &...values) {
    const auto write = [&](std::ostream &out) { (static_cast<void>(out << values), ...); };
    return detail::written(
        [](std::ostream &out, const void *all) { (*static_cast<const decltype(write) *>(all))(out); },
        &write);
}

} // namespace lz
