// `a.at({...}) op= v` works in a's memory, for every kind of index, and with another index it is the same
// program (S24, S27).
#include "support.h"

#include <functional>

namespace lz::test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kRows = 64, kColumns = kMiB / 4; // 64 MiB of f32 in rows of 1 MiB

void settle() {
    lz::sync();
    for (const Device &place : places())
        cuda::synchronize(place);
}

struct Update {
    const char *name;
    std::function<void(const lz::Part &)> apply;
    std::function<float(float)> expected;
};
const std::vector<Update> kUpdates = {
    {"+=", [](const lz::Part &p) { p += 2; }, [](float x) { return x + 2; }},
    {"-=", [](const lz::Part &p) { p -= 3; }, [](float x) { return x - 3; }},
    {"*=", [](const lz::Part &p) { p *= 5; }, [](float x) { return x * 5; }},
    {"/=", [](const lz::Part &p) { p /= 2; }, [](float x) { return x / 2; }},
    {"add_", [](const lz::Part &p) { p.add_(7); }, [](float x) { return x + 7; }},
    {"= and then +=",
     [](const lz::Part &p) {
         p = 1;
         p += 2;
     },
     [](float) { return 3.f; }},
};

/// Row i, or rows from i on, of the rows and columns that are chosen.
struct Choice {
    const char *name;
    std::function<void(Tensor &, int64_t, const Update &)> change;
    std::function<bool(int64_t row, int64_t column, int64_t i)> chosen;
};
const std::vector<Choice> kChoices = {
    {"a slice", [](Tensor &a, int64_t i, const Update &u) { u.apply(a.at({Slice(i, i + 1)})); },
     [](int64_t row, int64_t, int64_t i) { return row == i; }},
    {"an integer", [](Tensor &a, int64_t i, const Update &u) { u.apply(a.at({i})); },
     [](int64_t row, int64_t, int64_t i) { return row == i; }},
    {"an integer by []", [](Tensor &a, int64_t i, const Update &u) { u.apply(a[i]); },
     [](int64_t row, int64_t, int64_t i) { return row == i; }},
    {"an element", [](Tensor &a, int64_t i, const Update &u) { u.apply(a.at({i, i})); },
     [](int64_t row, int64_t column, int64_t i) { return row == i && column == i; }},
    {"a block",
     [](Tensor &a, int64_t i, const Update &u) { u.apply(a.at({Slice(i, i + 3), Slice(i, i + 2)})); },
     [](int64_t row, int64_t column, int64_t i) {
         return row >= i && row < i + 3 && column >= i && column < i + 2;
     }},
    {"every second row", [](Tensor &a, int64_t i, const Update &u) { u.apply(a.at({Slice(i, i + 5, 2)})); },
     [](int64_t row, int64_t, int64_t i) { return row >= i && row < i + 5 && (row - i) % 2 == 0; }},
    {"rows backwards", [](Tensor &a, int64_t i, const Update &u) { u.apply(a.at({Slice(i + 3, i, -1)})); },
     [](int64_t row, int64_t, int64_t i) { return row > i && row <= i + 3; }},
    {"columns", [](Tensor &a, int64_t i, const Update &u) { u.apply(a.at({Ellipsis, Slice(i, i + 1)})); },
     [](int64_t, int64_t column, int64_t i) { return column == i; }},
    {"a row with a new axis", [](Tensor &a, int64_t i, const Update &u) { u.apply(a.at({None, i})); },
     [](int64_t row, int64_t, int64_t i) { return row == i; }},
    {"a mask",
     [](Tensor &a, int64_t i, const Update &u) {
         const Tensor rows = arange(a.size(0)).to(a.device());
         u.apply(a.at({rows == i}));
     },
     [](int64_t row, int64_t, int64_t i) { return row == i; }},
};

TEST(PartUpdates, every_form_gives_what_loops_give) {
    for (const Device &place : places())
        for (const Choice &choice : kChoices)
            for (const Update &update : kUpdates) {
                SCOPED_TRACE(std::string(choice.name) + " " + update.name + " on " + place.str());
                Tensor a = arange(12 * 10, {.dtype = f32}).view({12, 10}).to(place).eval();
                std::vector<float> expected(120);
                for (size_t k = 0; k < 120; ++k)
                    expected[k] = static_cast<float>(k);
                for (const int64_t i : {2, 5, 3}) {
                    choice.change(a, i, update);
                    a.eval();
                    for (int64_t k = 0; k < 120; ++k)
                        if (choice.chosen(k / 10, k % 10, i))
                            expected[static_cast<size_t>(k)] =
                                update.expected(expected[static_cast<size_t>(k)]);
                }
                EXPECT_EQ(a.flatten().to_vector<float>(), expected);
            }
}

/// In a's memory: the peak is what the part takes, at most.
TEST(PartUpdates, they_need_no_copy_of_the_tensor) {
    for (const Device &place : places())
        for (const Choice &choice : kChoices)
            for (const Update &update : kUpdates) {
                if (std::string(update.name) == "= and then +=")
                    continue; // two updates in one program: the first does not know that the last is the
                              // result
                SCOPED_TRACE(std::string(choice.name) + " " + update.name + " on " + place.str());
                Tensor a = zeros({kRows, kColumns}, {.device = place}).eval();
                settle();
                const int64_t before = memory_allocated(place);
                reset_peak_memory_stats(place);
                for (const int64_t i : {2, 5, 3}) {
                    choice.change(a, i, update);
                    a.eval();
                }
                settle();
                EXPECT_LE(max_memory_allocated(place) - before, 8 * kMiB);
                EXPECT_EQ(memory_allocated(place), before);
            }
}

TEST(PartUpdates, another_index_never_compiles_again) {
    for (const Device &place : places())
        for (const Choice &choice : kChoices)
            for (const Update &update : kUpdates) {
                SCOPED_TRACE(std::string(choice.name) + " " + update.name + " on " + place.str());
                Tensor a = zeros({16, 16}, {.device = place}).eval();
                choice.change(a, 1, update);
                a.eval();
                const CompileStats before = compile_stats();
                for (int64_t i = 0; i < 12; ++i) {
                    choice.change(a, i, update);
                    a.eval();
                }
                EXPECT_EQ(compile_stats().programs_compiled, before.programs_compiled);
            }
}

/// The old value is needed elsewhere, or the part's value comes of another version: never in place then.
TEST(PartUpdates, a_value_that_is_needed_is_kept) {
    for (const Device &place : places()) {
        Tensor a = arange(8, {.dtype = f32}).to(place).eval();
        const Tensor old = a * 1, part = a.at({Slice(2, 4)});
        a.at({Slice(2, 4)}) += 10;
        a.at({Slice(0, 2)}) += a.at({Slice(2, 4)});
        a.at({Slice(1, 5)}) *= a.at({Slice(0, 4)});
        EXPECT_EQ(floats(old), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
        EXPECT_EQ(floats(part), (std::vector<float>{2, 3}));
        // {12, 14, 12, 13, 4, 5, 6, 7}, then places 1 to 4 by places 0 to 3
        EXPECT_EQ(floats(a), (std::vector<float>{12, 168, 168, 156, 52, 5, 6, 7}));
    }
}

} // namespace
} // namespace lz::test
