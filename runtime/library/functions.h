#pragma once
/// The functions behind the library's symbols (runtime/api/library.h), one file each.

#include "runtime/api/library.h"

namespace lz::runtime {

void cumsum(const LibraryArgs &args);
void cumprod(const LibraryArgs &args);
void sort(const LibraryArgs &args);
void scatter(const LibraryArgs &args);

} // namespace lz::runtime
