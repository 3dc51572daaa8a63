#include "runtime/library/join.h"

#include "runtime/api/parallel.h"
#include "runtime/library/boxes.h"
#include "runtime/library/part_copy.h"

#include <algorithm>
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
/// Of columns whose elements are not neighbours, so many rows become neighbours at a time; fetched ahead
/// where they are no more elements apart than the second number.
constexpr int64_t kStagedRows = 128, kNearRow = 4;
/// Rows of a few columns that are one unit of parallel work; a multiple of a line's elements.
constexpr int64_t kRowsAtOnce = 4096;

/// Rows, each of which consists of the runs of all parts.
class Join {
public:
    Join(int64_t size, bool streams, int64_t rows, std::byte *out, std::span<const Part> parts)
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
            JoinBlock block, next;
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
    struct JoinBlock {
        int64_t row = 0, rows = 0, column = 0, width = 0;
        int64_t span = 0;               ///< the column that its span begins with
        bool first = true, last = true; ///< of its span
        bool lines = false;             ///< each piece begins a line and fills lines, in all rows
        bool chains = false;            ///< its pieces can be chained
        std::vector<Piece> pieces;
    };

    /// If each row is a few dense columns and all of it does not stay in the caches.
    bool copy_whole_rows() const {
        const bool columns =
            streams_ && pitch_ < kLine && behind_line(out_) == 0 &&
            std::ranges::all_of(
                parts_, [&](const Part &p) { return p.bytes == parts_[0].bytes && p.even_step(size_) != 0; });
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
    void cut(int64_t number, JoinBlock &block) const {
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
        const auto *end = std::find_if(
            part, part + most, [&](const Part &p) { return p.bytes != bytes || p.even_step(size_) == 0; });
        return find_column_copy(bytes, end - part);
    }

    void fill(const JoinBlock &block, const JoinBlock &next) const {
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
            store_run(to, from, bytes);
        else
            std::memcpy(to, from, static_cast<size_t>(bytes));
    }

    /// A row of a block that lies behind the first line of `from`. What does not fill a line waits in
    /// `carried` for the next block of the span.
    void put_row(const JoinBlock &block, std::byte *to, std::byte *from, std::byte *carried) const {
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
    void prefetch(const JoinBlock &block, int64_t begin, int64_t rows) const {
        rows = std::min(rows, block.rows - begin);
        for (const Piece &piece : block.pieces) {
            const int64_t parts = piece.columns.copy ? piece.columns.count : 1;
            for (const Part *part = piece.part; part < piece.part + parts; ++part) {
                const bool near =
                    part->even_step(size_) != 0 && part->row > 0 && part->row <= kNearRow * part->bytes;
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
                copy_stepped(part.from + (begin + done) * part.row, part.even_step(size_),
                             some * bytes / size_, column, size_);
                parts[c] = {column, 0, bytes, bytes, size_};
            }
            f(parts, 0, some, done);
        }
    }

    void chain(const JoinBlock &block, int64_t done, int64_t rows, std::byte *to, std::byte *carried,
               std::byte *tile, std::byte *stage) const {
        const std::byte *begin = to + block.span - block.column;
        const int64_t row = block.row + done;
        for (const Piece &piece : block.pieces) {
            const bool last = block.last && &piece == &block.pieces.back();
            if (!piece.columns.copy && !piece.part->is_dense(size_)) {
                copy_part(*piece.part, size_, piece.skip, piece.bytes, row, rows, {tile, piece.bytes, false},
                          stage);
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

    void copy(const JoinBlock &block, int64_t row, int64_t rows, std::byte *to, int64_t pitch,
              bool past_caches, std::byte *stage) const {
        for (const Piece &piece : block.pieces) {
            if (!piece.columns.copy) {
                copy_part(*piece.part, size_, piece.skip, piece.bytes, row, rows,
                          {to + piece.at, pitch, past_caches}, stage);
                continue;
            }
            const CopyColumns copy =
                past_caches && block.lines ? piece.columns.copy_lines : piece.columns.copy;
            for_columns(piece, row, rows, stage, [&](const Part *parts, int64_t r, int64_t some, int64_t at) {
                copy(parts, piece.columns.count, r, some, to + at * pitch + piece.at, pitch);
            });
        }
    }

    int64_t size_;
    bool streams_;
    int64_t rows_, pitch_ = 0;
    std::byte *out_;
    std::span<const Part> parts_;  // none is empty
    std::vector<int64_t> columns_; // where blocks begin in a row, and its end
    // How the result is cut: blocks of so many rows and bytes of each, spans of so many blocks, spans across.
    int64_t block_rows_ = 0, width_ = 0, span_ = 1, spans_ = 1;
    int64_t tile_ = 0;    // rows that are put together in the first level and stored from there; 0: none are
    int64_t scratch_ = 0; // bytes that a block needs before its stage
    bool lines_ = false;  // each row begins a line
    bool chains_ = false; // lines that two blocks share are put together from both
};

} // namespace

void join_rows(int64_t size, bool streams, int64_t rows, std::byte *out, std::span<const Part> parts) {
    Join(size, streams, rows, out, parts).run();
}

} // namespace lz::runtime
