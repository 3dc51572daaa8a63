// The library's join of parts against loops that move one byte at a time.
#include "ir/target.h"
#include "runtime/api/library.h"
#include "runtime/api/parallel.h"
#include "runtime/library/columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
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
        std::vector<int64_t> ints = {size_, streams_, rows_};
        std::vector<void *> pointers;
        for (size_t k = 0; k < parts_.size(); ++k) {
            const Strided &p = parts_[k];
            ints.insert(ints.end(), {static_cast<int64_t>(k), p.run, p.row, p.step, p.begin});
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

INSTANTIATE_TEST_SUITE_P(Widths, LibraryConcat, testing::Values(1, 2, 4, 8),
                         [](const auto &info) { return std::to_string(info.param) + "Bytes"; });

} // namespace
} // namespace lz::runtime
