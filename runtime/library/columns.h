#pragma once
/// Dense columns side by side: squares of elements transposed in registers.

#include <cstddef>
#include <cstdint>

namespace lz::runtime {

/// What a part puts into each row of a result, in bytes.
struct Part {
    const std::byte *from;
    int64_t begin, bytes; ///< in a row of the result
    int64_t row, step;    ///< from one row to the next, and from one element of the run to the next
    /// Of a run that has no one step, which is 0 then: extent and stride, in elements, of each axis of it.
    const int64_t *dims = nullptr;
    int64_t dim_count = 0;

    /// Elements of `size` bytes are neighbours in a run.
    bool is_dense(int64_t size) const { return step == size; }
    /// The step that all elements of all rows are apart, or 0.
    int64_t even_step(int64_t size) const {
        if (dims)
            return 0;
        if (bytes == size)
            return row;
        return row == bytes / size * step ? step : 0;
    }
};

/// The bytes of a line of memory. Whole ones can be stored past the caches.
inline constexpr int64_t kLine = 64;
inline int64_t behind_line(const std::byte *at) { ///< how far
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(at) % uintptr_t{kLine});
}

/// Writes the rows [row, row + rows) of `count` parts to `to` and every `pitch` bytes from there.
using CopyColumns = void (*)(const Part *parts, int64_t count, int64_t row, int64_t rows, std::byte *to,
                             int64_t pitch);

/// Rows that are cut into pieces from left to right. The last 64 bytes of each row so far wait here for the
/// next piece, so that each line is stored once, whole and past the caches, wherever rows and pieces begin;
/// but for the outer ends of rows. All begins are at even bytes.
struct Chain {
    std::byte *carried;     ///< 64 bytes a row, aligned
    const std::byte *begin; ///< where the first piece of the first row begins
    bool last;              ///< this piece is the last one of each row
};
using ChainColumns = void (*)(const Part *parts, int64_t row, int64_t rows, std::byte *to, int64_t pitch,
                              const Chain &chain);

/// How to copy `count` parts, at most `most`, of `bytes` bytes a row at once, each of them dense; null if
/// there is no such function. `copy_lines` is for rows that begin lines and parts that fill them: it stores
/// past the caches. It is `copy` where that cannot be.
struct ColumnCopy {
    CopyColumns copy = nullptr, copy_lines = nullptr;
    ChainColumns chain = nullptr; ///< for columns that fill a line; may be null
    int64_t count = 0;
};
ColumnCopy find_column_copy(int64_t bytes, int64_t most);

/// Whether this machine has what follows and chains of columns.
bool can_chain();
/// Likewise for `bytes` bytes of each row of one part from byte `skip` of its run on, whose elements are
/// neighbours.
void chain_run(const Part &part, int64_t skip, int64_t bytes, int64_t row, int64_t rows, std::byte *to,
               int64_t pitch, const Chain &chain);

/// Writes `columns` columns, `step` bytes apart and each of `rows` neighbouring elements of `size` bytes,
/// side by side: rows of so many elements, `pitch` bytes apart. With `lines`, `to` and `pitch` begin lines
/// and the columns fill them; they are stored past the caches where the machine can.
void copy_plane(int64_t size, bool lines, const std::byte *from, int64_t step, int64_t columns, int64_t rows,
                std::byte *to, int64_t pitch);

/// A function for rows that consist of `columns` dense columns of `bytes` bytes, begin with a line and lie
/// one after another; it stores past the caches. Null if there is none.
CopyColumns find_row_copy(int64_t bytes, int64_t columns);

/// `bytes`, whole lines of them, to a line's begin, past the caches where the machine can.
void store_lines(std::byte *to, const std::byte *from, int64_t bytes);
/// Likewise for `rows` runs, `step` bytes apart, to every `pitch` bytes, whole lines too.
void store_runs(const std::byte *from, int64_t step, int64_t bytes, int64_t rows, std::byte *to,
                int64_t pitch);
/// After the last of such stores on a thread: others may read them then.
void finish_stores();

} // namespace lz::runtime
