#pragma once
/// What CPU code keeps in the scratch of a worker, where its arguments come from a file.

#include "ir/kernel/kernel.h"

#include <cstdint>
#include <span>

namespace lz::runtime {

/// Whether the panels and partial sums of a product, or the lanes of rows that are read whole, have room in
/// so many bytes, where and as large as the kernel's arguments say: code trusts these. True of phases that
/// keep nothing there.
bool fits_scratch(const ir::Kernel &kernel, const ir::Phase &phase, std::span<const int64_t> args,
                  int64_t worker_bytes);

} // namespace lz::runtime
