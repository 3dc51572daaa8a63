#pragma once
/// What columns.h promises, for machines that have AVX-512 (F, BW and VL): squares of lines transposed in
/// registers. There is none of it but on x86-64.

#include "runtime/library/columns.h"

namespace lz::runtime::avx512 {

/// For `bytes` and `most` that there is some function for; null where squares of 16 bytes are no slower.
ColumnCopy find_column_copy(int64_t bytes, int64_t most);
CopyColumns find_row_copy(int64_t bytes, int64_t columns);

void chain_run(const Part &part, int64_t skip, int64_t bytes, int64_t row, int64_t rows, std::byte *to,
               int64_t pitch, const Chain &chain);
void copy_plane(int64_t size, bool lines, const std::byte *from, int64_t step, int64_t columns, int64_t rows,
                std::byte *to, int64_t pitch);

void store_lines(std::byte *to, const std::byte *from, int64_t bytes);
void store_runs(const std::byte *from, int64_t step, int64_t bytes, int64_t rows, std::byte *to,
                int64_t pitch);

} // namespace lz::runtime::avx512
