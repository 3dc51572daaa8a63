// The library's join of parts against loops that move one byte at a time.
#include "ir/target.h"
#include "runtime/api/library.h"
#include "runtime/api/parallel.h"
#include "runtime/library/avx512.h"
#include "runtime/library/columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lz::runtime {
namespace {

constexpr size_t kGuard = 128;

/// Elements [begin + r * row + i * step] of a buffer that ends where its last part does.
struct Strided {
    int64_t run, row, step, begin;
};

class Joined {
public:
    Joined(int64_t size, int64_t rows, bool streams) : size_(size), rows_(rows), streams_(streams) {}

    void add(const Strided &part) {
        int64_t low = part.begin, high = part.begin; // what the part reaches
        if (rows_ > 0 && part.run > 0)
            for (const int64_t reach : {(rows_ - 1) * part.row, (part.run - 1) * part.step})
                (reach < 0 ? low : high) += reach;
        ASSERT_GE(low, 0);
        std::vector<std::byte> &buffer = buffers_.emplace_back(static_cast<size_t>((high + 1) * size_));
        for (std::byte &b : buffer)
            b = static_cast<std::byte>((next_ += 0x9e3779b9) >> 24);
        parts_.push_back(part);
    }

    void check(const std::string &what) {
        int64_t pitch = 0;
        std::vector<int64_t> ints = {size_, streams_, 0, rows_, 0};
        std::vector<void *> pointers;
        for (size_t k = 0; k < parts_.size(); ++k) {
            const Strided &p = parts_[k];
            ints.insert(ints.end(), {static_cast<int64_t>(k), p.begin, p.row, 1, p.run, p.step});
            pointers.push_back(buffers_[k].data());
            pitch += p.run;
        }
        const auto bytes = static_cast<size_t>(rows_ * pitch * size_);
        const std::vector<std::byte> untouched(bytes + 2 * kGuard, std::byte{0xa5});
        std::vector<std::byte> out = untouched, expected = untouched;
        // Three of four results begin lines, as those of programs do; others may begin anywhere.
        const auto off = static_cast<size_t>(behind_line(out.data()));
        const size_t begin = ++checks_ % 4 == 0 ? kGuard / 2 + static_cast<size_t>(size_) : kGuard - off;
        pointers.push_back(out.data() + begin);
        std::byte *to = expected.data() + begin;
        for (int64_t r = 0; r < rows_; ++r)
            for (size_t k = 0; k < parts_.size(); ++k)
                for (int64_t i = 0; i < parts_[k].run; ++i, to += size_)
                    std::memcpy(to,
                                buffers_[k].data() +
                                    (parts_[k].begin + r * parts_[k].row + i * parts_[k].step) * size_,
                                static_cast<size_t>(size_));
        ir::Fault fault;
        std::vector<std::byte> scratch(
            static_cast<size_t>(cpu_library().find("concat")->scratch_bytes(ints, {})));
        find_cpu_function("concat")({pointers, ints, &fault, scratch});
        ASSERT_EQ(fault.code.load(), 0);
        const auto at = std::ranges::mismatch(out, expected).in1 - out.begin();
        ASSERT_EQ(at, static_cast<ptrdiff_t>(out.size())) << what << ", from byte " << at << " on";
    }

private:
    int64_t size_, rows_;
    bool streams_;
    uint32_t next_ = 0;
    inline static int checks_ = 0;
    std::vector<Strided> parts_;
    std::vector<std::vector<std::byte>> buffers_;
};

class LibraryConcat : public testing::TestWithParam<int64_t> {
protected:
    void SetUp() override { set_num_threads(3); }
    void TearDown() override { allow_avx512(true); }
};

TEST_P(LibraryConcat, PutsDensePartsOfEqualRunsSideBySide) {
    for (const auto &[streams, avx512] : {std::pair{false, true}, {true, true}, {true, false}})
        for (const int64_t rows : {1, 2, 3, 15, 16, 17, 600})
            for (const int64_t run : {1, 2, 3, 4, 5, 8, 16, 31, 65})
                for (const int64_t parts : {1, 2, 3, 5, 16, 37, 64, 77}) {
                    allow_avx512(avx512);
                    Joined joined(GetParam(), rows, streams);
                    for (int64_t k = 0; k < parts; ++k)
                        joined.add({run, run, 1, 0});
                    joined.check(std::to_string(parts) + " of " + std::to_string(rows) + " x " +
                                 std::to_string(run));
                }
}

TEST_P(LibraryConcat, PutsPartsOfAnyWidthAndStrideSideBySide) {
    std::mt19937 engine(5);
    const auto up_to = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(engine); };
    for (int round = 0; round < 200; ++round) {
        const int64_t rows = up_to(3) == 0 ? up_to(2) : 1 + up_to(300), most = up_to(2) == 0 ? 400 : 4;
        allow_avx512(up_to(3) != 0);
        Joined joined(GetParam(), rows, up_to(1) != 0);
        for (int64_t k = 1 + up_to(60); k > 0; --k) {
            const int64_t run = up_to(most);
            Strided part{run, run, 1, 0}; // dense
            switch (up_to(8)) {
            case 0:
                part = {run, run + up_to(5), 1, up_to(9)}; // columns of a wider one
                break;
            case 1:
                part = {run, 1, rows, 0}; // transposed
                break;
            case 2:
                part = {run, 0, 1, 3}; // the same row again and again
                break;
            case 3:
                part = {run, 1, 0, 0}; // a column repeated
                break;
            case 4:
                part = {run, 0, 0, 1}; // one element
                break;
            case 5:
                part = {run, 3 * run, 3, 2}; // each third
                break;
            case 6:
                part = {run, run, -1, run}; // backwards
                break;
            case 7:
                part = {run, -run, 1, rows * run}; // from the last row on
                break;
            default:
                break;
            }
            joined.add(part);
        }
        joined.check("round " + std::to_string(round));
    }
}

/// Rows wider than a block, of which parts are cut.
TEST_P(LibraryConcat, CutsWideRowsAnywhere) {
    for (const auto &[streams, avx512] : {std::pair{false, true}, {true, true}, {true, false}})
        for (const int64_t run : {1, 3, 40, 70'001})
            for (const int64_t rows : {1, 3, 20}) {
                allow_avx512(avx512);
                Joined joined(GetParam(), rows, streams);
                const int64_t limit = 300'000 / GetParam();
                for (int64_t k = 0, whole = 0; whole < limit; whole += run + k++ % 2)
                    joined.add({run + k % 2, run + k % 2, 1, 0});
                joined.check(std::to_string(rows) + " rows of runs of " + std::to_string(run) +
                             (streams ? ", past the caches" : "") + (avx512 ? "" : ", without AVX-512"));
            }
}

/// One axis of a call: its extent, and the stride of each part along it.
struct Axis {
    int64_t extent;
    std::vector<int64_t> strides;
};

/// A call with slabs, unrolled axes and runs of several axes, whose parts have any strides.
class Strides {
public:
    Strides(int64_t size, uint32_t seed) : size_(size), engine_(seed) {}

    void check(const std::string &what) {
        choose();
        std::vector<int64_t> ints = {size_, up_to(2) != 0 ? 1 : 0};
        const auto extents = [&](const std::vector<Axis> &axes) {
            ints.push_back(static_cast<int64_t>(axes.size()));
            for (const Axis &axis : axes)
                ints.push_back(axis.extent);
        };
        extents(slabs_);
        ints.push_back(rows_.extent);
        extents(unrolled_);
        std::vector<void *> pointers;
        for (size_t p = 0; p < parts_.size(); ++p) {
            ints.insert(ints.end(), {static_cast<int64_t>(p), parts_[p].begin});
            for (const Axis &axis : slabs_)
                ints.push_back(axis.strides[p]);
            ints.push_back(rows_.strides[p]);
            for (const Axis &axis : unrolled_)
                ints.push_back(axis.strides[p]);
            ints.push_back(static_cast<int64_t>(parts_[p].run.size()));
            for (const auto &[extent, stride] : parts_[p].run)
                ints.insert(ints.end(), {extent, stride});
            pointers.push_back(parts_[p].buffer.data());
        }
        const std::vector<std::byte> expected = loops();
        std::vector<std::byte> out(expected.size() + 2 * kGuard, std::byte{0xa5});
        const size_t begin = kGuard - static_cast<size_t>(behind_line(out.data())) +
                             (up_to(3) == 0 ? static_cast<size_t>(size_) : 0);
        pointers.push_back(out.data() + begin);
        ir::Fault fault;
        std::vector<std::byte> scratch(
            static_cast<size_t>(cpu_library().find("concat")->scratch_bytes(ints, {})));
        find_cpu_function("concat")({pointers, ints, &fault, scratch});
        const std::span<const std::byte> written = std::span(out).subspan(begin, expected.size());
        const auto at = std::ranges::mismatch(written, expected).in1 - written.begin();
        ASSERT_EQ(at, static_cast<ptrdiff_t>(expected.size())) << what << ", from byte " << at << " on";
        for (size_t i = 0; i < out.size(); ++i)
            ASSERT_TRUE((i >= begin && i < begin + expected.size()) || out[i] == std::byte{0xa5})
                << what << " wrote to byte " << i << " of " << out.size();
    }

private:
    struct Strided {
        int64_t begin = 0;
        std::vector<std::pair<int64_t, int64_t>> run; ///< extent and stride
        std::vector<std::byte> buffer;
    };

    int64_t up_to(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(engine_); }

    void choose() {
        slabs_.resize(static_cast<size_t>(up_to(3) == 0 ? 1 + up_to(1) : 0));
        unrolled_.resize(static_cast<size_t>(up_to(2) == 0 ? 1 + up_to(1) : 0));
        for (std::vector<Axis> *axes : {&slabs_, &unrolled_})
            for (Axis &axis : *axes)
                axis.extent = 1 + up_to(4);
        static constexpr int64_t kRows[] = {1, 2, 15, 16, 17, 64, 130, 300};
        rows_.extent = kRows[up_to(7)];
        parts_.resize(static_cast<size_t>(1 + up_to(up_to(3) == 0 ? 40 : 4)));
        const int64_t most_axes = up_to(4), most = most_axes > 1 ? 20 : 80;
        int64_t room = 200'000 / rows_.extent; // elements of all runs, once for each point around them
        for (const std::vector<Axis> *axes : {&slabs_, &unrolled_})
            for (const Axis &axis : *axes)
                room /= axis.extent;
        for (Strided &part : parts_) {
            int64_t elements = 1;
            for (int64_t a = up_to(most_axes); a > 0; --a) {
                const int64_t extent = up_to(9) == 0 ? up_to(2) : 1 + up_to(most);
                if (elements * extent * static_cast<int64_t>(parts_.size()) > room)
                    break;
                part.run.emplace_back(extent, 0);
                elements *= extent;
            }
            lay_out(part);
        }
    }

    /// Gives all axes strides in a random order of them in memory, each dense, stepped, backwards or
    /// repeated.
    void lay_out(Strided &part) {
        std::vector<std::pair<int64_t, int64_t>> axes; // extent, stride
        for (const Axis &axis : slabs_)
            axes.emplace_back(axis.extent, 0);
        axes.emplace_back(rows_.extent, 0);
        for (const Axis &axis : unrolled_)
            axes.emplace_back(axis.extent, 0);
        axes.insert(axes.end(), part.run.begin(), part.run.end());
        std::vector<size_t> order(axes.size());
        for (size_t i = 0; i < order.size(); ++i)
            order[i] = order.size() - 1 - i;
        if (up_to(2) != 0)
            std::ranges::shuffle(order, engine_);
        int64_t reach = 1, begin = 0;
        for (const size_t i : order) {
            auto &[extent, stride] = axes[i];
            const int64_t kind = up_to(11), step = kind < 2 ? 2 : kind == 2 ? 3 : 1;
            stride = kind == 3 ? 0 : reach * step;
            reach += std::max<int64_t>(extent - 1, 0) * stride;
            if (kind == 4) { // backwards
                begin += std::max<int64_t>(extent - 1, 0) * stride;
                stride = -stride;
            }
            if (kind != 3 && kind > 5)
                reach = std::abs(stride) * std::max<int64_t>(extent, 1); // dense, from its begin on
        }
        part.begin = begin;
        int64_t high = begin; // no further than this
        for (const auto &[extent, stride] : axes)
            high += std::max<int64_t>(stride * (extent - 1), 0);
        part.buffer.resize(static_cast<size_t>((high + 1) * size_));
        for (std::byte &b : part.buffer)
            b = static_cast<std::byte>(engine_() >> 7);
        size_t at = 0;
        for (std::vector<Axis> *all : {&slabs_, &unrolled_})
            for (Axis &axis : *all) {
                if (all == &unrolled_ && &axis == all->data())
                    rows_.strides.push_back(axes[at++].second);
                axis.strides.push_back(axes[at++].second);
            }
        if (unrolled_.empty())
            rows_.strides.push_back(axes[at++].second);
        for (auto &[extent, stride] : part.run)
            stride = axes[at++].second;
    }

    /// One element at a time.
    std::vector<std::byte> loops() const {
        std::vector<std::byte> out;
        std::vector<Axis> outer = slabs_;
        outer.push_back(rows_);
        outer.insert(outer.end(), unrolled_.begin(), unrolled_.end());
        int64_t points = 1;
        for (const Axis &axis : outer)
            points *= axis.extent;
        for (int64_t p = 0; p < points; ++p)
            for (size_t k = 0; k < parts_.size(); ++k) {
                int64_t from = parts_[k].begin, rest = p, elements = 1;
                for (size_t d = outer.size(); d-- > 0; rest /= outer[d].extent)
                    from += rest % outer[d].extent * outer[d].strides[k];
                for (const auto &[extent, stride] : parts_[k].run)
                    elements *= extent;
                for (int64_t e = 0; e < elements; ++e) {
                    int64_t at = from, left = e;
                    for (size_t d = parts_[k].run.size(); d-- > 0; left /= parts_[k].run[d].first)
                        at += left % parts_[k].run[d].first * parts_[k].run[d].second;
                    const std::byte *element = parts_[k].buffer.data() + at * size_;
                    out.insert(out.end(), element, element + size_);
                }
            }
        return out;
    }

    int64_t size_;
    std::mt19937 engine_;
    std::vector<Axis> slabs_, unrolled_;
    Axis rows_;
    std::vector<Strided> parts_;
};

TEST_P(LibraryConcat, PutsPartsOfSeveralStridesSideBySide) {
    for (uint32_t seed = 0; seed < 300; ++seed) {
        allow_avx512(seed % 3 != 0);
        Strides(GetParam(), seed).check("seed " + std::to_string(seed));
        if (HasFatalFailure())
            return;
    }
}

/// Lines that two blocks share, where the next block fills as many bytes as lines have but begins within one.
TEST_P(LibraryConcat, BlocksOfWholeLinesMayBeginWithinOne) {
    for (const bool avx512 : {true, false}) {
        allow_avx512(avx512);
        const int64_t line = kLine / GetParam();
        Joined joined(GetParam(), 200, true);
        for (const int64_t run : {line / 2, 4 * line, 4 * line, 9 * line, line / 2, 2 * line})
            joined.add({run, run, 1, 0});
        joined.check(avx512 ? "with AVX-512" : "without");
    }
}

/// A run whose planes are joins by themselves: an axis that is another one in memory, and large.
TEST_P(LibraryConcat, TurnsLargePlanesOfOneRow) {
    for (const bool avx512 : {true, false})
        for (const auto &[planes, rows, columns] :
             {std::tuple<int64_t, int64_t, int64_t>{2, 300, 301}, {3, 7, 12'000}, {3, 12'001, 6}}) {
            allow_avx512(avx512);
            const int64_t size = GetParam(), numel = planes * rows * columns;
            std::vector<std::byte> from(static_cast<size_t>(numel * size)), out(from.size()), expected;
            for (size_t i = 0; i < from.size(); ++i)
                from[i] = static_cast<std::byte>(i * 0x9e3779b9 >> 13);
            const std::vector<int64_t> ints = {size,           1,    0, 1,       0,   0, 0, 0, 3, planes,
                                               rows * columns, rows, 1, columns, rows};
            for (int64_t p = 0; p < planes; ++p)
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t c = 0; c < columns; ++c) {
                        const std::byte *at = from.data() + (p * rows * columns + c * rows + r) * size;
                        expected.insert(expected.end(), at, at + size);
                    }
            ir::Fault fault;
            std::vector<std::byte> scratch(
                static_cast<size_t>(cpu_library().find("concat")->scratch_bytes(ints, {})));
            const std::vector<void *> pointers = {from.data(), out.data()};
            find_cpu_function("concat")({pointers, ints, &fault, scratch});
            ASSERT_TRUE(out == expected) << planes << " x " << rows << " x " << columns;
        }
}

INSTANTIATE_TEST_SUITE_P(Widths, LibraryConcat, testing::Values(1, 2, 4, 8),
                         [](const auto &info) { return std::to_string(info.param) + "Bytes"; });

} // namespace
} // namespace lz::runtime
