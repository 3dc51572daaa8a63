#include "runtime/api/parallel.h"
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
/// Rows up to here are put together whole.
constexpr int64_t kFlatRow = 256;
/// What is put together in the first level before it is stored, and fetched for the next block meanwhile.
constexpr int64_t kTile = 4 << 10;
/// Units of parallel work, where rows allow it.
constexpr int64_t kLeastSpans = 64;
/// Elements of a run that are not neighbours in memory become parts of their own, if there are as many rows
/// as the first number, and no more of them than the second.
constexpr int64_t kColumnRows = 16, kMostColumns = 4096;

/// Rows of a few columns that are one unit of parallel work; a multiple of a line's elements.
constexpr int64_t kRowsAtOnce = 4096;

// --- runs

/// Runs of kWidth bytes, and of up to twice as many: two copies that overlap.
template <size_t kWidth>
void copy_runs(const std::byte *from, int64_t row, int64_t bytes, int64_t rows, std::byte *to,
               int64_t pitch) {
    const int64_t second = bytes - static_cast<int64_t>(kWidth);
    if (second == 0) {
        for (int64_t r = 0; r < rows; ++r)
            std::memcpy(to + r * pitch, from + r * row, kWidth);
        return;
    }
    for (int64_t r = 0; r < rows; ++r, from += row, to += pitch) {
        std::byte a[kWidth], b[kWidth];
        std::memcpy(a, from, kWidth);
        std::memcpy(b, from + second, kWidth);
        std::memcpy(to, a, kWidth);
        std::memcpy(to + second, b, kWidth);
    }
}

void copy_runs(const std::byte *from, int64_t row, int64_t bytes, int64_t rows, std::byte *to,
               int64_t pitch) {
    using Copy = void (*)(const std::byte *, int64_t, int64_t, int64_t, std::byte *, int64_t);
    static constexpr Copy kCopies[] = {copy_runs<1>,  copy_runs<2>,  copy_runs<4>, copy_runs<8>,
                                       copy_runs<16>, copy_runs<32>, copy_runs<64>};
    const auto width = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(bytes))) - 1;
    if (width < std::size(kCopies)) {
        kCopies[width](from, row, bytes, rows, to, pitch);
        return;
    }
    for (int64_t r = 0; r < rows; ++r)
        std::memcpy(to + r * pitch, from + r * row, static_cast<size_t>(bytes));
}

/// Past the caches, but for what shares a line with others.
void stream(std::byte *to, const std::byte *from, int64_t bytes) {
    const int64_t head = std::min(bytes, (kLine - behind_line(to)) % kLine);
    const int64_t lines = (bytes - head) / kLine * kLine;
    std::memcpy(to, from, static_cast<size_t>(head));
    store_lines(to + head, from + head, lines);
    std::memcpy(to + head + lines, from + head + lines, static_cast<size_t>(bytes - head - lines));
}

// --- the whole

class Concat {
public:
    explicit Concat(const LibraryArgs &args)
        : size_(args.ints[0]), streams_(args.ints[1] != 0), rows_(args.ints[2]),
          out_(static_cast<std::byte *>(args.buffers.back())),
          parts_(Scratch(args.scratch).take<Part>(most_parts(args.ints)), size_t{0}) {
        for (auto at = args.ints.subspan(3); at.size() >= 5; at = at.subspan(5))
            add(static_cast<const std::byte *>(args.buffers[static_cast<size_t>(at[0])]) + at[4] * size_,
                at[1], at[2] * size_, at[3] * size_);
    }

    /// As many parts as `add` makes of them.
    static int64_t most_parts(Ints ints) {
        int64_t parts = 0;
        for (Ints at = ints.subspan(3); at.size() >= 5; at = at.subspan(5))
            parts += has_columns(ints[2], at[1], at[3]) ? at[1] : 1;
        return parts;
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
    };
    struct Block {
        int64_t row = 0, rows = 0, column = 0, width = 0;
        int64_t span = 0;               ///< the column that its span begins with
        bool first = true, last = true; ///< of its span
        bool lines = false;             ///< each piece begins a line and fills lines, in all rows
        bool chains = false;            ///< its pieces can be chained
        std::vector<Piece> pieces;
    };

    /// Whether a run of elements so many apart becomes a part each.
    static bool has_columns(int64_t rows, int64_t run, int64_t step) {
        return run > 1 && step != 1 && rows >= kColumnRows && run <= kMostColumns;
    }
    void add(const Part &part) {
        parts_ = {parts_.data(), parts_.size() + 1};
        parts_.back() = part;
    }
    void add(const std::byte *from, int64_t run, int64_t row, int64_t step) {
        if (run == 0)
            return;
        if (run == 1 || step == size_) {
            add({from, pitch_, run * size_, row, size_});
        } else if (has_columns(rows_, run, step / size_)) {
            for (int64_t i = 0; i < run; ++i)
                add({from + i * step, pitch_ + i * size_, size_, row, size_});
        } else {
            add({from, pitch_, run * size_, row, step});
        }
        pitch_ += run * size_;
    }

    bool is_column(const Part &part) const {
        return part.bytes == parts_[0].bytes && part.row == part.bytes && part.step == size_;
    }

    /// If each row is a few dense columns and all of it does not stay in the caches.
    bool copy_whole_rows() const {
        const bool columns = streams_ && pitch_ < kLine && behind_line(out_) == 0 &&
                             std::ranges::all_of(parts_, [&](const Part &p) { return is_column(p); });
        const CopyColumns copy =
            columns ? find_row_copy(parts_[0].bytes, static_cast<int64_t>(parts_.size())) : nullptr;
        if (!copy)
            return false;
        parallel_for((rows_ + kRowsAtOnce - 1) / kRowsAtOnce, 1, [&](int64_t begin, int64_t end) {
            const int64_t row = begin * kRowsAtOnce;
            copy(parts_.data(), row, std::min(rows_, end * kRowsAtOnce) - row, out_ + row * pitch_, pitch_);
            finish_stores();
        });
        return true;
    }

    void choose_blocks() {
        const int64_t run = pitch_ / static_cast<int64_t>(parts_.size());
        const int64_t least = std::min(rows_, std::max<int64_t>(kReadAtOnce / run, 1));
        lines_ = pitch_ % kLine == 0 && behind_line(out_) == 0;
        chains_ = streams_ && size_ > 1 && can_chain();
        if (run < kLongRun && (streams_ || (run < kNarrowRun && pitch_ >= kWidePitch))) {
            const bool narrow = run <= kNarrowRun;
            const int64_t whole = (run + kLine - 1) / kLine * kLine;
            const int64_t line = lines_ ? kLine : kFlatRow;
            width_ = pitch_ <= line ? pitch_ : std::max(whole, narrow ? kNarrowWidth : kWideWidth);
            block_rows_ = std::min(rows_, std::max(least, (narrow ? kNarrowBlock : kWideBlock) / width_));
            tile_ = std::max<int64_t>(kTile / width_ / 16 * 16, 16);
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
        scratch_ = static_cast<size_t>(block_rows_ * kLine + tile_ * (widest + 2 * kLine));
        const int64_t down = (rows_ + block_rows_ - 1) / block_rows_;
        const int64_t spans = std::clamp<int64_t>(kLeastSpans / down, 1, across);
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
            if (piece.columns.copy)
                piece.bytes = part->bytes * piece.columns.count;
            block.pieces.push_back(piece);
            at += piece.bytes;
            part += piece.columns.copy ? piece.columns.count : 1;
        }
        block.chains = chains_ && std::ranges::all_of(block.pieces, [&](const Piece &p) {
                           return p.columns.copy || p.part->step == size_;
                       });
        block.lines =
            lines_ && std::ranges::all_of(block.pieces, [](const Piece &p) { return p.bytes % kLine == 0; });
    }

    ColumnCopy columns_at(const Part *part, int64_t width) const {
        const int64_t bytes = part->bytes;
        if (bytes > kLine / 2)
            return {};
        const int64_t most = std::min({kLine / bytes, width / bytes, parts_.data() + parts_.size() - part});
        const auto *end = std::find_if(part, part + most, [&](const Part &p) {
            return p.bytes != bytes || p.row != bytes || p.step != size_;
        });
        return find_column_copy(bytes, end - part);
    }

    void fill(const Block &block, const Block &next) const {
        std::byte *to = out_ + block.row * pitch_ + block.column;
        if (tile_ == 0) {
            copy(block, block.row, block.rows, to, pitch_, streams_);
            return;
        }
        const bool flat = block.width == pitch_;
        // Rows that are whole pages apart would meet in few sets of the cache.
        const int64_t pitch =
            flat ? block.width : kLine + block.width + (block.width % 512 == 448 ? kLine : 0);
        // As much for each block: asking for more would lose what is carried.
        auto *tile = static_cast<std::byte *>(thread_scratch(scratch_));
        std::byte *carried = tile;
        tile += block_rows_ * kLine;
        for (int64_t done = 0; done < block.rows; done += tile_) {
            const int64_t rows = std::min(tile_, block.rows - done);
            prefetch(next, done, rows);
            if (block.lines) {
                copy(block, block.row + done, rows, to + done * pitch_, pitch_, streams_);
            } else if (block.chains && !flat) {
                chain(block, done, rows, to + done * pitch_, carried + done * kLine, tile);
            } else if (flat) {
                copy(block, block.row + done, rows, tile, pitch, false);
                put(to + done * pitch_, tile, rows * pitch);
            } else {
                for (int64_t r = 0; r < rows && !block.first; ++r)
                    std::memcpy(tile + r * pitch, carried + (done + r) * kLine, kLine);
                copy(block, block.row + done, rows, tile + kLine, pitch, false);
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
    static void prefetch(const Block &block, int64_t begin, int64_t rows) {
        rows = std::min(rows, block.rows - begin);
        for (const Piece &piece : block.pieces) {
            const int64_t parts = piece.columns.copy ? piece.columns.count : 1;
            for (const Part *part = piece.part; part < piece.part + parts; ++part) {
                if (part->row != part->bytes || (parts == 1 && piece.bytes != part->bytes))
                    continue;
                const std::byte *from = part->from + (block.row + begin) * part->row;
                for (int64_t b = 0; b < rows * part->row; b += kLine)
                    __builtin_prefetch(from + b);
            }
        }
    }

    void chain(const Block &block, int64_t done, int64_t rows, std::byte *to, std::byte *carried,
               std::byte *tile) const {
        const std::byte *begin = to + block.span - block.column;
        for (const Piece &piece : block.pieces) {
            const Chain chain = {carried, begin, block.last && &piece == &block.pieces.back()};
            const int64_t row = block.row + done;
            if (piece.columns.chain) {
                piece.columns.chain(piece.part, row, rows, to + piece.at, pitch_, chain);
            } else if (piece.columns.copy) {
                piece.columns.copy(piece.part, row, rows, tile, piece.bytes);
                const Part few = {tile, 0, piece.bytes, piece.bytes, size_};
                chain_run(few, 0, piece.bytes, 0, rows, to + piece.at, pitch_, chain);
            } else {
                chain_run(*piece.part, piece.skip, piece.bytes, row, rows, to + piece.at, pitch_, chain);
            }
        }
    }

    void copy(const Block &block, int64_t row, int64_t rows, std::byte *to, int64_t pitch,
              bool past_caches) const {
        for (const Piece &piece : block.pieces) {
            if (piece.columns.copy)
                (past_caches && block.lines ? piece.columns.copy_lines : piece.columns.copy)(
                    piece.part, row, rows, to + piece.at, pitch);
            else
                copy_part(*piece.part, piece.skip, piece.bytes, row, rows, to + piece.at, pitch, past_caches);
        }
    }

    void copy_part(const Part &part, int64_t skip, int64_t bytes, int64_t row, int64_t rows, std::byte *to,
                   int64_t pitch, bool past_caches) const {
        const std::byte *from = part.from + row * part.row + skip / size_ * part.step;
        if (part.step != size_) {
            for (int64_t r = 0; r < rows; ++r, from += part.row, to += pitch)
                for (int64_t i = 0; i * size_ < bytes; ++i)
                    std::memcpy(to + i * size_, from + i * part.step, static_cast<size_t>(size_));
        } else if (past_caches && (bytes >= kLongRun || (lines_ && bytes % kLine == 0))) {
            for (int64_t r = 0; r < rows; ++r)
                stream(to + r * pitch, from + r * part.row, bytes);
        } else {
            copy_runs(from, part.row, bytes, rows, to, pitch);
        }
    }

    int64_t size_;
    bool streams_;
    int64_t rows_, pitch_ = 0;
    std::byte *out_;
    std::span<Part> parts_;        // none is empty
    std::vector<int64_t> columns_; // where blocks begin in a row, and its end
    // How the result is cut: blocks of so many rows and bytes of each, spans of so many blocks, spans across.
    int64_t block_rows_ = 0, width_ = 0, span_ = 1, spans_ = 1;
    int64_t tile_ = 0;    // rows that are put together in the first level and stored from there; 0: none are
    size_t scratch_ = 0;  // bytes that a block needs
    bool lines_ = false;  // each row begins a line
    bool chains_ = false; // lines that two blocks share are put together from both
};

} // namespace

int64_t concat_scratch(Ints ints, const ir::DeviceInfo &) {
    return scratch_for<Part>(Concat::most_parts(ints));
}

void concat(const LibraryArgs &args) {
    Concat(args).run();
}

} // namespace lz::runtime
