#pragma once
/// Names of modules' classes.

#include <string>
#include <typeinfo>

namespace lz::nn::detail {

/// The class as it is written, without namespaces, and without `Impl` at its end.
std::string type_name(const std::type_info &type);

} // namespace lz::nn::detail
