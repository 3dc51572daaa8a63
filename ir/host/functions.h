#pragma once
/// The functions of the process that emitted code calls, by name: whatever loads code asks here.

#include <string_view>

namespace lz::ir {

/// The address of a function of this folder, or null: it has no such name, or is for another processor.
void *find_host_function(std::string_view name);

} // namespace lz::ir
