#pragma once
/// Element types in the sources of the library's kernels.

#include "ir/types/dtype.h"

#include <string>
#include <string_view>

namespace lz::runtime::cuda {

/// What CUDA C++ calls the dtype: half types are their bits.
std::string_view element_type(ir::DType dtype);

/// Definitions of `Element`, of `Running`, in which running values are kept (unsigned for integers, so that
/// they wrap), and of `widen(x)` and `narrow<T>(running)` between Running and Element or itself.
std::string element_source(ir::DType dtype);

} // namespace lz::runtime::cuda
