#include "runtime/api/parallel.h"
#include "runtime/library/boxes.h"
#include "runtime/library/columns.h"
#include "runtime/library/functions.h"
#include "runtime/library/scratch.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace lz::runtime {

namespace {

// Fitted on a Xeon of 2.8 GHz with 48 KiB of first-level and 1.25 MiB of second-level cache a core, on 32 MiB
// of f32 from 2 to 4000 parts (`bench_memory_bound`, cat and stack); a machine with other caches should
// measure the numbers of bytes by powers of two.
/// What one thread puts together at a time where it is not chained: within the first level where few parts
/// allow it, else a part of the second.
constexpr int64_t kLeastBlock = 32 << 10, kMostBlock = 256 << 10;
/// A part gives at least as much to a block, if it has it: enough for the hardware to see a sequence and read
/// ahead. With a fourth of it a thousand parts take twice as long.
constexpr int64_t kReadAtOnce = 2 << 10;
/// Runs from here on are stored past the caches one by one; shorter ones become whole lines first.
constexpr int64_t kLongRun = 1024;
/// Results that stay in the caches are put together in scratch where rows of narrow runs are so far apart
/// that they meet in few sets of the first level.
constexpr int64_t kNarrowRun = 32, kWidePitch = 1024;
/// Blocks of narrow runs are one line wide: more columns are more sequences than the hardware follows. Of
/// wider runs, neighbours in a row are stored together.
constexpr int64_t kNarrowWidth = kLine, kNarrowBlock = 32 << 10, kWideWidth = 256, kWideBlock = 64 << 10;
/// Rows up to the second number that do not begin lines are put together whole, so that none shares a line
/// with the next; up to the first one in tiles, longer ones a block at a time in the second level.
constexpr int64_t kTiledRow = 256, kFlatRow = 640;
/// What is put together in the first level before it is stored, and fetched for the next block meanwhile.
constexpr int64_t kTile = 4 << 10;
/// Units of parallel work for each of several threads, where rows allow it. Where two spans of a row meet,
/// they share a line that neither can store past the caches.
constexpr int64_t kSpansOfThread = 8;
/// Elements of a run that are not neighbours in memory, where those of rows are, become parts of their own,
/// if there are as many rows as the first number, and no more of them than the second. With fewer rows the
/// table of parts costs more than it saves.
constexpr int64_t kColumnRows = 128, kMostColumns = 4096;
/// Rows that are neighbours in memory are read so many at a time: some lines of each column.
constexpr int64_t kTurnedRows = 64;
/// What is put together before it is stored past the caches, where it cannot be stored at once.
constexpr int64_t kStage = 64 << 10;
/// Likewise of what one pass makes dense: within the first level.
constexpr int64_t kEvenStage = 8 << 10;
/// Of columns whose elements are not neighbours, so many rows become neighbours at a time; fetched ahead
/// where they are no more elements apart than the second number.
constexpr int64_t kStagedRows = 128, kNearRow = 4;
/// Of runs of more than two axes, planes from this on are joins of their own.
constexpr int64_t kLeastPlane = 256 << 10;

/// Rows of a few columns that are one unit of parallel work; a multiple of a line's elements.
constexpr int64_t kRowsAtOnce = 4096;

/// Past the caches, but for what shares a line with others.
void stream(std::byte *to, const std::byte *from, int64_t bytes) {
    const int64_t head = std::min(bytes, (kLine - behind_line(to)) % kLine);
    const int64_t lines = (bytes - head) / kLine * kLine;
    std::memcpy(to, from, static_cast<size_t>(head));
    store_lines(to + head, from + head, lines);
    std::memcpy(to + head + lines, from + head + lines, static_cast<size_t>(bytes - head - lines));
}

// --- what is asked for

/// The integers of a call. Rows of the result are those of a slab; the axes between a row and a part's run
/// are unrolled: each of their points has all parts one after another.
struct Request {
    explicit Request(Ints ints) : size(ints[0]), streams(ints[1] != 0) {
        size_t at = 2;
        const auto list = [&] {
            const auto count = static_cast<size_t>(ints[at]);
            const Ints found = ints.subspan(at + 1, count);
            at += count + 1;
            return found;
        };
        slabs = list();
        rows = ints[at++];
        unrolled = list();
        parts = ints.subspan(at);
    }

    struct Strided {
        int64_t buffer, begin;
        Ints slabs; ///< strides
        int64_t row;
        Ints unrolled; ///< strides
        Ints run;      ///< extent and stride of each axis
    };
    template <class F>
    void for_parts(F &&f) const {
        for (Ints at = parts; !at.empty();) {
            const size_t row = 2 + slabs.size(), run = row + 1 + unrolled.size();
            const auto axes = 2 * static_cast<size_t>(at[run]);
            f(Strided{at[0], at[1], at.subspan(2, slabs.size()), at[row],
                      at.subspan(row + 1, unrolled.size()), at.subspan(run + 1, axes)});
            at = at.subspan(run + 1 + axes);
        }
    }

    static int64_t product(Ints extents) {
        int64_t n = 1;
        for (const int64_t e : extents)
            n *= e;
        return n;
    }

    int64_t size, rows;
    bool streams;
    Ints slabs, unrolled, parts;
};

int64_t elements_of(Ints run) {
    int64_t n = 1;
    for (size_t i = 0; i < run.size(); i += 2)
        n *= run[i];
    return n;
}

/// Whether a run of elements so many apart becomes a part each, where rows are neighbours.
bool has_columns(int64_t rows, int64_t run, int64_t row, int64_t step) {
    return run > 1 && step != 1 && row == 1 && rows >= kColumnRows && run <= kMostColumns;
}

/// Table entries that a part takes.
int64_t entries_of(const Request &request, const Request::Strided &part) {
    const Ints run = part.run;
    return run.size() == 2 && has_columns(request.rows, run[0], part.row, run[1]) ? run[0] : 1;
}
/// And those of the innermost plane of its run, where that is a join by itself.
int64_t entries_of_plane(const Request &request, const Request::Strided &part) {
    const Ints run = part.run;
    return run.size() > 2 && request.rows == 1 ? std::min(run[run.size() - 2], kMostColumns) : 0;
}

/// Parts in the order in which they lie in a row, in a table that has room.
class Table {
public:
    Table(Part *parts, int64_t size, int64_t rows) : parts_(parts), size_(size), rows_(rows) {}

    void add(const std::byte *from, int64_t row, Ints run) {
        const int64_t elements = elements_of(run);
        if (elements == 0)
            return;
        const int64_t step = elements == 1 ? 1 : run.back();
        Part part = {from, pitch_, elements * size_, row * size_, step * size_};
        if (run.size() > 2 && elements > 1) {
            part.step = 0;
            part.dims = run.data();
            part.dim_count = static_cast<int64_t>(run.size() / 2);
            push(part);
        } else if (has_columns(rows_, elements, row, step)) {
            for (int64_t i = 0; i < elements; ++i)
                push({from + i * part.step, pitch_ + i * size_, size_, part.row, size_});
        } else {
            push(part);
        }
        pitch_ += part.bytes;
    }

    std::span<Part> parts() const { return {parts_, static_cast<size_t>(count_)}; }
    int64_t pitch() const { return pitch_; }

private:
    void push(const Part &part) { parts_[count_++] = part; }

    Part *parts_;
    int64_t size_, rows_, count_ = 0, pitch_ = 0;
};

// --- a join

/// Rows, each of which consists of the runs of all parts.
class Join {
public:
    Join(int64_t size, bool streams, int64_t rows, std::byte *out, std::span<Part> parts)
        : size_(size), streams_(streams), rows_(rows), out_(out), parts_(parts) {
        for (const Part &p : parts_)
            pitch_ += p.bytes;
    }

    void run() {
        if (rows_ == 0 || pitch_ == 0)
            return;
        if (copy_whole_rows())
            return;
        choose_blocks();
        parallel_for((rows_ + block_rows_ - 1) / block_rows_ * spans_, 1, [&](int64_t begin, int64_t end) {
            begin *= span_;
            end *= span_;
            Block block, next;
            cut(begin, next);
            for (int64_t b = begin; b < end; ++b) {
                std::swap(block, next);
                cut(b + 1 < end ? b + 1 : kNoBlock, next);
                fill(block, next);
            }
            finish_stores();
        });
    }

private:
    static constexpr int64_t kNoBlock = -1;

    /// Bytes of neighbouring parts that one function copies.
    struct Piece {
        const Part *part;
        int64_t at, skip, bytes; ///< at: in a row of the block; skip: in the part's run
        ColumnCopy columns;      ///< if several parts are copied at once
        bool staged = false;     ///< their elements are not neighbours and become so first
    };
    struct Block {
        int64_t row = 0, rows = 0, column = 0, width = 0;
        int64_t span = 0;               ///< the column that its span begins with
        bool first = true, last = true; ///< of its span
        bool lines = false;             ///< each piece begins a line and fills lines, in all rows
        bool chains = false;            ///< its pieces can be chained
        std::vector<Piece> pieces;
    };

    bool is_run(const Part &part) const { return part.step == size_; }
    /// The step that all elements of all rows of a part are apart, or 0.
    int64_t even_step(const Part &part) const {
        if (part.dims)
            return 0;
        if (part.bytes == size_)
            return part.row;
        return part.row == part.bytes / size_ * part.step ? part.step : 0;
    }

    /// If each row is a few dense columns and all of it does not stay in the caches.
    bool copy_whole_rows() const {
        const bool columns =
            streams_ && pitch_ < kLine && behind_line(out_) == 0 &&
            std::ranges::all_of(
                parts_, [&](const Part &p) { return p.bytes == parts_[0].bytes && even_step(p) != 0; });
        const CopyColumns copy =
            columns ? find_row_copy(parts_[0].bytes, static_cast<int64_t>(parts_.size())) : nullptr;
        if (!copy)
            return false;
        Piece piece{parts_.data(), 0, 0, pitch_, {}};
        piece.columns.count = static_cast<int64_t>(parts_.size());
        piece.staged = std::ranges::any_of(parts_, [](const Part &p) { return p.row != p.bytes; });
        parallel_for((rows_ + kRowsAtOnce - 1) / kRowsAtOnce, 1, [&](int64_t begin, int64_t end) {
            auto *const stage = static_cast<std::byte *>(thread_scratch(static_cast<size_t>(kStage)));
            const int64_t row = begin * kRowsAtOnce, rows = std::min(rows_, end * kRowsAtOnce) - row;
            for_columns(piece, row, rows, stage, [&](const Part *parts, int64_t r, int64_t some, int64_t at) {
                copy(parts, piece.columns.count, r, some, out_ + (row + at) * pitch_, pitch_);
            });
            finish_stores();
        });
        return true;
    }

    void choose_blocks() {
        const int64_t run = pitch_ / static_cast<int64_t>(parts_.size());
        // Rows that are neighbours in memory are read by lines.
        const bool turned =
            std::ranges::any_of(parts_, [&](const Part &p) { return p.row == size_ && p.bytes > size_; });
        const int64_t least = std::min(rows_, std::max<int64_t>(kReadAtOnce / run, turned ? kTurnedRows : 1));
        lines_ = pitch_ % kLine == 0 && behind_line(out_) == 0;
        chains_ = streams_ && size_ > 1 && can_chain();
        if (run < kLongRun && (streams_ || (run < kNarrowRun && pitch_ >= kWidePitch))) {
            const bool narrow = run <= kNarrowRun;
            const int64_t whole = (run + kLine - 1) / kLine * kLine;
            const int64_t line = lines_ ? kLine : kFlatRow;
            width_ = pitch_ <= line ? pitch_ : std::max(whole, narrow ? kNarrowWidth : kWideWidth);
            block_rows_ = std::min(rows_, std::max(least, (narrow ? kNarrowBlock : kWideBlock) / width_));
            tile_ = std::max<int64_t>(kTile / width_ / 16 * 16, 16);
            if (width_ == pitch_ && width_ > kTiledRow)
                tile_ = block_rows_ = std::min(rows_, std::max(least, kMostBlock / width_));
        } else {
            const int64_t most = kMostBlock / least;
            width_ = pitch_ <= most ? pitch_ : std::max(most / kLine * kLine, kLine);
            block_rows_ =
                std::clamp<int64_t>((run < kLongRun ? kLeastBlock : kMostBlock) / width_, least, rows_);
        }
        cut_columns();
        const auto across = static_cast<int64_t>(columns_.size()) - 1;
        int64_t widest = 0;
        for (size_t i = 1; i < columns_.size(); ++i)
            widest = std::max(widest, columns_[i] - columns_[i - 1]);
        scratch_ = tile_ > 0 ? block_rows_ * kLine + tile_ * (widest + 2 * kLine) : 0;
        const int64_t down = (rows_ + block_rows_ - 1) / block_rows_;
        const int64_t units = num_threads() == 1 ? 1 : kSpansOfThread * num_threads();
        const int64_t spans = std::clamp<int64_t>(units / down, 1, across);
        span_ = (across + spans - 1) / spans;
        spans_ = (across + span_ - 1) / span_;
    }

    /// Blocks end where parts do, as far as parts are not wider than a block.
    void cut_columns() {
        columns_ = {0};
        for (const Part &part : parts_) {
            const int64_t end = part.begin + part.bytes;
            while (end - columns_.back() >= width_)
                columns_.push_back(tile_ > 0 && part.bytes <= width_ ? end : columns_.back() + width_);
        }
        if (columns_.back() < pitch_)
            columns_.push_back(pitch_);
    }

    /// The block of a number: from left to right in a span, spans from left to right, then down.
    void cut(int64_t number, Block &block) const {
        block.pieces.clear();
        block.rows = block.width = 0;
        if (number == kNoBlock)
            return;
        const int64_t span = number / span_ % spans_, within = number % span_;
        const auto at = static_cast<size_t>(span * span_ + within);
        if (at + 1 >= columns_.size())
            return; // the last span may be shorter
        block.column = columns_[at];
        block.width = columns_[at + 1] - block.column;
        block.row = number / span_ / spans_ * block_rows_;
        block.rows = std::min(block_rows_, rows_ - block.row);
        block.span = columns_[static_cast<size_t>(span * span_)];
        block.first = within == 0;
        block.last = within == span_ - 1 || block.column + block.width == pitch_;
        const Part *part = &*(std::ranges::upper_bound(parts_, block.column, {}, &Part::begin) - 1);
        for (int64_t at = 0; at < block.width;) {
            Piece piece{part, at, block.column + at - part->begin, 0, {}};
            piece.bytes = std::min(part->bytes - piece.skip, block.width - at);
            if (piece.skip == 0)
                piece.columns = columns_at(part, block.width - at);
            if (piece.columns.copy) {
                piece.bytes = part->bytes * piece.columns.count;
                piece.staged = std::any_of(part, part + piece.columns.count,
                                           [](const Part &p) { return p.row != p.bytes; });
            }
            block.pieces.push_back(piece);
            at += piece.bytes;
            part += piece.columns.copy ? piece.columns.count : 1;
        }
        block.chains = chains_;
        block.lines = lines_ && block.column % kLine == 0 &&
                      std::ranges::all_of(block.pieces, [](const Piece &p) { return p.bytes % kLine == 0; });
    }

    ColumnCopy columns_at(const Part *part, int64_t width) const {
        const int64_t bytes = part->bytes;
        if (bytes > kLine / 2)
            return {};
        const int64_t most = std::min({kLine / bytes, width / bytes, parts_.data() + parts_.size() - part});
        const auto *end = std::find_if(part, part + most,
                                       [&](const Part &p) { return p.bytes != bytes || even_step(p) == 0; });
        return find_column_copy(bytes, end - part);
    }

    void fill(const Block &block, const Block &next) const {
        std::byte *to = out_ + block.row * pitch_ + block.column;
        // As much for each block: asking for more would lose what is carried.
        auto *tile = static_cast<std::byte *>(thread_scratch(static_cast<size_t>(scratch_ + kStage)));
        std::byte *const stage = tile + scratch_;
        if (tile_ == 0) {
            copy(block, block.row, block.rows, to, pitch_, streams_, stage);
            return;
        }
        const bool flat = block.width == pitch_;
        // Rows that are whole pages apart would meet in few sets of the cache.
        const int64_t pitch =
            flat ? block.width : kLine + block.width + (block.width % 512 == 448 ? kLine : 0);
        std::byte *carried = tile;
        tile += block_rows_ * kLine;
        for (int64_t done = 0; done < block.rows; done += tile_) {
            const int64_t rows = std::min(tile_, block.rows - done);
            if (tile_ < block_rows_) // the hardware reads ahead in what is longer
                prefetch(next, done, rows);
            if (block.lines) {
                copy(block, block.row + done, rows, to + done * pitch_, pitch_, streams_, stage);
            } else if (block.chains && !flat) {
                chain(block, done, rows, to + done * pitch_, carried + done * kLine, tile, stage);
            } else if (flat) {
                copy(block, block.row + done, rows, tile, pitch, false, stage);
                put(to + done * pitch_, tile, rows * pitch);
            } else {
                for (int64_t r = 0; r < rows && !block.first; ++r)
                    std::memcpy(tile + r * pitch, carried + (done + r) * kLine, kLine);
                copy(block, block.row + done, rows, tile + kLine, pitch, false, stage);
                for (int64_t r = 0; r < rows; ++r)
                    put_row(block, to + (done + r) * pitch_, tile + r * pitch, carried + (done + r) * kLine);
            }
        }
    }

    void put(std::byte *to, const std::byte *from, int64_t bytes) const {
        if (streams_)
            stream(to, from, bytes);
        else
            std::memcpy(to, from, static_cast<size_t>(bytes));
    }

    /// A row of a block that lies behind the first line of `from`. What does not fill a line waits in
    /// `carried` for the next block of the span.
    void put_row(const Block &block, std::byte *to, std::byte *from, std::byte *carried) const {
        const std::byte *end = from + kLine + block.width;
        if (!streams_ || (block.first && block.last)) {
            put(to, from + kLine, block.width);
            return;
        }
        const int64_t behind = behind_line(to);
        std::byte *at = from + kLine;
        if (!block.first) {
            at -= behind;
            to -= behind;
        } else if (behind > 0) {
            std::memcpy(to, at, static_cast<size_t>(kLine - behind));
            at += kLine - behind;
            to += kLine - behind;
        }
        const int64_t lines = (end - at) / kLine * kLine;
        store_lines(to, at, lines);
        if (block.last)
            std::memcpy(to + lines, at + lines, static_cast<size_t>(end - at - lines));
        else
            std::memcpy(carried, end - kLine, kLine);
    }

    /// Rows of a block whose parts are dense, so that they are there when it is their turn.
    void prefetch(const Block &block, int64_t begin, int64_t rows) const {
        rows = std::min(rows, block.rows - begin);
        for (const Piece &piece : block.pieces) {
            const int64_t parts = piece.columns.copy ? piece.columns.count : 1;
            for (const Part *part = piece.part; part < piece.part + parts; ++part) {
                const bool near =
                    even_step(*part) != 0 && part->row > 0 && part->row <= kNearRow * part->bytes;
                if (!near || (parts == 1 && piece.bytes != part->bytes))
                    continue;
                const std::byte *from = part->from + (block.row + begin) * part->row;
                for (int64_t b = 0; b < rows * part->row; b += kLine)
                    __builtin_prefetch(from + b);
            }
        }
    }

    /// Calls f(parts, row, rows, done) for a piece of columns: `rows` rows from `row` of the parts are those
    /// from `begin + done` on, as neighbours.
    template <class F>
    void for_columns(const Piece &piece, int64_t begin, int64_t rows, std::byte *stage, F &&f) const {
        if (!piece.staged) {
            f(piece.part, begin, rows, 0);
            return;
        }
        Part parts[kLine];
        const int64_t count = piece.columns.count, bytes = piece.part->bytes;
        for (int64_t done = 0; done < rows; done += kStagedRows) {
            const int64_t some = std::min(rows - done, kStagedRows);
            for (int64_t c = 0; c < count; ++c) {
                const Part &part = piece.part[c];
                std::byte *column = stage + c * kStagedRows * bytes;
                copy_stepped(part.from + (begin + done) * part.row, even_step(part), some * bytes / size_,
                             column, size_);
                parts[c] = {column, 0, bytes, bytes, size_};
            }
            f(parts, 0, some, done);
        }
    }

    void chain(const Block &block, int64_t done, int64_t rows, std::byte *to, std::byte *carried,
               std::byte *tile, std::byte *stage) const {
        const std::byte *begin = to + block.span - block.column;
        const int64_t row = block.row + done;
        for (const Piece &piece : block.pieces) {
            const bool last = block.last && &piece == &block.pieces.back();
            if (!piece.columns.copy && !is_run(*piece.part)) {
                copy_part(*piece.part, piece.skip, piece.bytes, row, rows, tile, piece.bytes, false, stage);
                chain_run({tile, 0, piece.bytes, piece.bytes, size_}, 0, piece.bytes, 0, rows, to + piece.at,
                          pitch_, {carried, begin, last});
                continue;
            }
            if (!piece.columns.copy) {
                chain_run(*piece.part, piece.skip, piece.bytes, row, rows, to + piece.at, pitch_,
                          {carried, begin, last});
                continue;
            }
            for_columns(piece, row, rows, stage, [&](const Part *parts, int64_t r, int64_t some, int64_t at) {
                const Chain chain = {carried + at * kLine, begin + at * pitch_, last};
                std::byte *const out = to + at * pitch_ + piece.at;
                if (piece.columns.chain) {
                    piece.columns.chain(parts, r, some, out, pitch_, chain);
                } else {
                    piece.columns.copy(parts, piece.columns.count, r, some, tile, piece.bytes);
                    chain_run({tile, 0, piece.bytes, piece.bytes, size_}, 0, piece.bytes, 0, some, out,
                              pitch_, chain);
                }
            });
        }
    }

    void copy(const Block &block, int64_t row, int64_t rows, std::byte *to, int64_t pitch, bool past_caches,
              std::byte *stage) const {
        for (const Piece &piece : block.pieces) {
            if (!piece.columns.copy) {
                copy_part(*piece.part, piece.skip, piece.bytes, row, rows, to + piece.at, pitch, past_caches,
                          stage);
                continue;
            }
            const CopyColumns copy =
                past_caches && block.lines ? piece.columns.copy_lines : piece.columns.copy;
            for_columns(piece, row, rows, stage, [&](const Part *parts, int64_t r, int64_t some, int64_t at) {
                copy(parts, piece.columns.count, r, some, to + at * pitch + piece.at, pitch);
            });
        }
    }

    void copy_part(const Part &part, int64_t skip, int64_t bytes, int64_t row, int64_t rows, std::byte *to,
                   int64_t pitch, bool past_caches, std::byte *stage) const {
        if (!is_run(part) && even_step(part) != 0 && bytes == part.bytes && bytes <= kLongRun) {
            const int64_t most = std::max(kEvenStage / bytes, int64_t{1});
            for (int64_t r = 0; r < rows; r += most) {
                const int64_t some = std::min(most, rows - r);
                copy_stepped(part.from + (row + r) * part.row, part.step, some * bytes / size_, stage, size_);
                copy_part({stage, 0, bytes, bytes, size_}, 0, bytes, 0, some, to + r * pitch, pitch,
                          past_caches, nullptr);
            }
            return;
        }
        if (!is_run(part)) {
            copy_boxes(part, skip, bytes, row, rows, to, pitch, past_caches, stage);
            return;
        }
        const std::byte *from = part.from + row * part.row + skip;
        const bool lines = lines_ && bytes % kLine == 0 && behind_line(to) == 0;
        if (past_caches && lines) {
            store_runs(from, part.row, bytes, rows, to, pitch);
        } else if (past_caches && bytes >= kLongRun) {
            for (int64_t r = 0; r < rows; ++r)
                stream(to + r * pitch, from + r * part.row, bytes);
        } else {
            copy_runs(from, part.row, bytes, rows, to, pitch);
        }
    }

    // --- parts whose elements are not neighbours

    void copy_boxes(const Part &part, int64_t skip, int64_t bytes, int64_t row, int64_t rows, std::byte *to,
                    int64_t pitch, bool past_caches, std::byte *stage) const {
        const int64_t stepped[2] = {part.bytes / size_, part.step / size_};
        const Ints dims =
            part.dims ? Ints(part.dims, static_cast<size_t>(2 * part.dim_count)) : Ints(stepped);
        const bool turned = part.row == size_;
        const int64_t most_rows = std::min(rows, turned ? kTurnedRows : std::max(kStage / bytes, int64_t{1}));
        const int64_t most = std::min(bytes, std::max(kStage / most_rows / kLine * kLine, kLine));
        for (int64_t r = 0; r < rows; r += most_rows)
            for (int64_t at = 0; at < bytes; at += most) {
                const int64_t some = std::min(most_rows, rows - r), wide = std::min(most, bytes - at);
                std::byte *const out = to + r * pitch + at;
                const BoxWriter writer{size_, pitch, past_caches, stage, some, part.row};
                writer.add_run(dims, part.from + (row + r) * part.row, (skip + at) / size_, wide / size_,
                               out);
            }
    }

    /// Boxes of some rows and a range of a run's elements.
    struct BoxWriter {
        int64_t size, pitch;
        bool past_caches;
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
            box[0] = {rows, row, pitch};
            const std::span<BoxDim> all(box, used);
            if (!past_caches) {
                copy_box(from, to, all, size);
            } else if (!copy_box_past_caches(from, to, all, size)) {
                box[0].to = bytes;
                copy_box(from, stage, all, size);
                for (int64_t r = 0; r < rows; ++r)
                    stream(to + r * pitch, stage + r * bytes, bytes);
            }
        }
    };

    int64_t size_;
    bool streams_;
    int64_t rows_, pitch_ = 0;
    std::byte *out_;
    std::span<Part> parts_;        // none is empty
    std::vector<int64_t> columns_; // where blocks begin in a row, and its end
    // How the result is cut: blocks of so many rows and bytes of each, spans of so many blocks, spans across.
    int64_t block_rows_ = 0, width_ = 0, span_ = 1, spans_ = 1;
    int64_t tile_ = 0;    // rows that are put together in the first level and stored from there; 0: none are
    int64_t scratch_ = 0; // bytes that a block needs before its stage
    bool lines_ = false;  // each row begins a line
    bool chains_ = false; // lines that two blocks share are put together from both
};

// --- the whole

class Concat {
public:
    explicit Concat(const LibraryArgs &args)
        : request_(args.ints), buffers_(args.buffers), out_(static_cast<std::byte *>(args.buffers.back())),
          parts_(Scratch(args.scratch).take<Part>(most_parts(request_))) {}

    /// As many parts as tables have.
    static int64_t most_parts(const Request &request) {
        int64_t parts = 0, plane = 0;
        request.for_parts([&](const auto &part) {
            parts += entries_of(request, part);
            plane = std::max(plane, entries_of_plane(request, part));
        });
        return parts * Request::product(request.unrolled) + plane;
    }

    void run() {
        int64_t slab[kMostBoxDims] = {};
        for (int64_t s = 0, all = Request::product(request_.slabs); s < all; ++s) {
            out_ += run_slab(slab);
            next(slab, request_.slabs);
        }
    }

private:
    static void next(int64_t *index, Ints extents) {
        for (size_t d = extents.size(); d-- > 0;) {
            if (++index[d] < extents[d])
                return;
            index[d] = 0;
        }
    }
    static int64_t offset(const int64_t *index, Ints strides) {
        int64_t at = 0;
        for (size_t d = 0; d < strides.size(); ++d)
            at += index[d] * strides[d];
        return at;
    }

    /// Returns its bytes.
    int64_t run_slab(const int64_t *slab) {
        Table table(parts_, request_.size, request_.rows);
        int64_t point[kMostBoxDims] = {};
        for (int64_t p = 0, all = Request::product(request_.unrolled); p < all; ++p) {
            request_.for_parts([&](const Request::Strided &part) {
                const auto *from = static_cast<const std::byte *>(buffers_[static_cast<size_t>(part.buffer)]);
                const int64_t begin = part.begin + offset(slab, part.slabs) + offset(point, part.unrolled);
                table.add(from + begin * request_.size, part.row, part.run);
            });
            next(point, request_.unrolled);
        }
        const std::span<Part> parts = table.parts();
        if (request_.rows == 1 && std::ranges::any_of(parts, [](const Part &p) { return p.dims != nullptr; }))
            run_apart(parts);
        else
            Join(request_.size, request_.streams, request_.rows, out_, parts).run();
        return request_.rows * table.pitch();
    }

    /// Of one row: those that have no one step by themselves, the others as far as they are neighbours.
    void run_apart(std::span<Part> parts) {
        Part *columns = parts.data() + parts.size();
        for (size_t i = 0; i < parts.size();) {
            std::byte *const to = out_ + parts[i].begin;
            if (const Part &part = parts[i]; part.dims) {
                const Ints dims(part.dims, static_cast<size_t>(2 * part.dim_count));
                run_planes(dims, part.from, to, columns);
                ++i;
                continue;
            }
            size_t end = i;
            for (const int64_t begin = parts[i].begin; end < parts.size() && !parts[end].dims; ++end)
                parts[end].begin -= begin;
            Join(request_.size, request_.streams, 1, to, parts.subspan(i, end - i)).run();
            i = end;
        }
    }

    /// A run of several axes: the first are loops as long as what they contain is large.
    void run_planes(Ints dims, const std::byte *from, std::byte *to, Part *columns) const {
        const int64_t size = request_.size, rows = dims[0], row = dims[1];
        const int64_t bytes = elements_of(dims.subspan(2)) * size;
        if (dims.size() > 4 && bytes >= kLeastPlane) {
            for (int64_t i = 0; i < rows; ++i)
                run_planes(dims.subspan(2), from + i * row * size, to + i * bytes, columns);
            return;
        }
        Table table(columns, size, rows);
        table.add(from, row, dims.subspan(2));
        Join(size, request_.streams, rows, to, table.parts()).run();
    }

    Request request_;
    std::span<void *const> buffers_;
    std::byte *out_;
    Part *parts_;
};

} // namespace

int64_t concat_scratch(Ints ints, const ir::DeviceInfo &) {
    return scratch_for<Part>(Concat::most_parts(Request(ints)));
}

void concat(const LibraryArgs &args) {
    Concat(args).run();
}

} // namespace lz::runtime
