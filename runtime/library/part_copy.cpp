#include "runtime/library/part_copy.h"

#include "runtime/library/boxes.h"

#include <algorithm>
#include <cstring>

namespace lz::runtime {

namespace {

using Ints = std::span<const int64_t>;

/// What one pass makes dense: within a first level of 48 KiB, on the Xeon of join.cpp.
constexpr int64_t kEvenStage = 8 << 10;

/// Boxes of some rows and a range of a run's elements.
struct BoxWriter {
    int64_t size;
    RowsOut out;
    std::byte *stage;
    int64_t rows, row;

    /// The elements [begin, begin + n) of the run.
    void add_run(Ints dims, const std::byte *from, int64_t begin, int64_t n, std::byte *to) const {
        const int64_t within = elements_of(dims.subspan(2)), stride = dims[1] * size;
        if (dims.size() == 2) {
            write(dims, from + begin * stride, n, to);
            return;
        }
        const auto part = [&](int64_t index, int64_t skip, int64_t some) {
            add_run(dims.subspan(2), from + index * stride, skip, some, to);
            to += some * size;
            begin += some;
            n -= some;
        };
        if (begin % within != 0)
            part(begin / within, begin % within, std::min(n, within - begin % within));
        if (const int64_t whole = n / within; whole > 0) {
            write(dims, from + begin / within * stride, whole, to);
            to += whole * within * size;
            begin += whole * within;
            n -= whole * within;
        }
        if (n > 0)
            part(begin / within, 0, n);
    }

    /// The first axis to this extent, the others whole.
    void write(Ints dims, const std::byte *from, int64_t extent, std::byte *to) const {
        BoxDim box[kMostBoxDims];
        size_t used = 1;
        int64_t bytes = size;
        for (size_t i = dims.size(); i > 0; i -= 2, ++used) {
            const int64_t own = i == 2 ? extent : dims[i - 2];
            box[used] = {own, dims[i - 1] * size, bytes};
            bytes *= own;
        }
        std::reverse(box + 1, box + used);
        box[0] = {rows, row, out.pitch};
        const std::span<BoxDim> all(box, used);
        if (!out.past_caches) {
            copy_box(from, to, all, size);
        } else if (!copy_box_past_caches(from, to, all, size)) {
            box[0].to = bytes;
            copy_box(from, stage, all, size);
            for (int64_t r = 0; r < rows; ++r)
                store_run(to + r * out.pitch, stage + r * bytes, bytes);
        }
    }
};

void copy_boxes(const Part &part, int64_t size, int64_t skip, int64_t bytes, int64_t row, int64_t rows,
                const RowsOut &out, std::byte *stage) {
    const int64_t stepped[2] = {part.bytes / size, part.step / size};
    const Ints dims = part.dims ? Ints(part.dims, static_cast<size_t>(2 * part.dim_count)) : Ints(stepped);
    const bool turned = part.row == size;
    const int64_t most_rows = std::min(rows, turned ? kTurnedRows : std::max(kStage / bytes, int64_t{1}));
    const int64_t most = std::min(bytes, std::max(kStage / most_rows / kLine * kLine, kLine));
    for (int64_t r = 0; r < rows; r += most_rows)
        for (int64_t at = 0; at < bytes; at += most) {
            const int64_t some = std::min(most_rows, rows - r), wide = std::min(most, bytes - at);
            const BoxWriter writer{size, out, stage, some, part.row};
            writer.add_run(dims, part.from + (row + r) * part.row, (skip + at) / size, wide / size,
                           out.to + r * out.pitch + at);
        }
}

} // namespace

int64_t elements_of(Ints run) {
    int64_t n = 1;
    for (size_t i = 0; i < run.size(); i += 2)
        n *= run[i];
    return n;
}

void store_run(std::byte *to, const std::byte *from, int64_t bytes) {
    const int64_t head = std::min(bytes, (kLine - behind_line(to)) % kLine);
    const int64_t lines = (bytes - head) / kLine * kLine;
    std::memcpy(to, from, static_cast<size_t>(head));
    store_lines(to + head, from + head, lines);
    std::memcpy(to + head + lines, from + head + lines, static_cast<size_t>(bytes - head - lines));
}

void copy_part(const Part &part, int64_t size, int64_t skip, int64_t bytes, int64_t row, int64_t rows,
               const RowsOut &out, std::byte *stage) {
    const auto [to, pitch, past_caches] = out;
    if (!part.is_dense(size) && part.even_step(size) != 0 && bytes == part.bytes && bytes <= kLongRun) {
        const int64_t most = std::max(kEvenStage / bytes, int64_t{1});
        for (int64_t r = 0; r < rows; r += most) {
            const int64_t some = std::min(most, rows - r);
            copy_stepped(part.from + (row + r) * part.row, part.step, some * bytes / size, stage, size);
            copy_part({stage, 0, bytes, bytes, size}, size, 0, bytes, 0, some,
                      {to + r * pitch, pitch, past_caches}, nullptr);
        }
        return;
    }
    if (!part.is_dense(size)) {
        copy_boxes(part, size, skip, bytes, row, rows, out, stage);
        return;
    }
    const std::byte *from = part.from + row * part.row + skip;
    const bool lines = pitch % kLine == 0 && bytes % kLine == 0 && behind_line(to) == 0;
    if (past_caches && lines) {
        store_runs(from, part.row, bytes, rows, to, pitch);
    } else if (past_caches && bytes >= kLongRun) {
        for (int64_t r = 0; r < rows; ++r)
            store_run(to + r * pitch, from + r * part.row, bytes);
    } else {
        copy_runs(from, part.row, bytes, rows, to, pitch);
    }
}

} // namespace lz::runtime
