#pragma once
/// When two kernels are one to a cache.

#include "ir/kernel/kernel.h"

#include <string>

namespace lz::ir {

/// Bytes that two kernels share exactly when they may share compiled code: everything but the name and
/// sources.
std::string cache_key(const Kernel &kernel);

} // namespace lz::ir
