#pragma once
/// The functions behind the library's symbols (runtime/api/library.h), one file each.

#include "runtime/api/library.h"

namespace lz::runtime {

void concat(const LibraryArgs &args);
void cumsum(const LibraryArgs &args);
void cumprod(const LibraryArgs &args);
void sort(const LibraryArgs &args);
void scatter(const LibraryArgs &args);

/// What is registered for `call` under this name, or nothing.
LibraryFn find_registered_call(std::string_view name);

} // namespace lz::runtime
