#pragma once
/// What recordings have shown of the floats that a compiled function is called with: which others may take
/// their place. Where they go is in CompiledPlan::again.
///
/// The function sees plain numbers and may do with them what it likes. So a number is found by its value,
/// and is trusted no further than recordings have shown: two of different sizes have to be where one place of
/// the recording shows it; eight, where none does; and others are taken only near those that were recorded.

#include "frontend/record/trace.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace lz::detail {

inline bool same_bits(double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}
/// Whether two numbers differ by more than one part in a million: those that are nearly the same may become
/// the same, as halves do.
bool is_another(double a, double b);

/// One number of a call.
class KnownNumber {
public:
    /// Nothing but what the trace of its only recording says.
    KnownNumber(double value, const Trace &trace);
    /// Of a program file. `any`: every number takes its place.
    KnownNumber(double value, bool any) : value_(value), is_any_(any), is_bounded_(false) {}

    /// As it was recorded.
    double value() const { return value_; }
    /// Whether it may be this one.
    bool takes(double other) const {
        return same_bits(value_, other) || (is_any_ && (!is_bounded_ || trusts(other)));
    }
    /// Whether it may be another one at all.
    bool is_any() const { return is_any_; }

    /// Two recordings agree: this one, and one in which the number was `before`.
    void learn(const KnownNumber &before);
    /// Afterwards, where something that was recorded is made of the number.
    void note_used();
    /// Or where nothing is, and the number has changed between the two, but no other such number.
    void note_unused();

private:
    /// Around a number that was recorded: from half of it to twice it. What a function does otherwise with
    /// negative numbers, with 0 or with large ones is recorded when they come.
    struct Range {
        double low, high;
    };
    /// So many different numbers that leave no trace, and all do so.
    static constexpr size_t kUnused = 8;
    static constexpr size_t kRanges = 16;

    static Range around(double value);
    bool trusts(double other) const;
    void add_range(Range range);

    double value_;
    bool is_any_ = false;
    bool is_bounded_ = true;
    /// The library computes with it on the host, and no place of the recording shows how.
    bool is_on_host_ = false;
    /// What the library accepts.
    Range limits_{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    std::vector<Range> ranges_;  ///< apart from each other
    std::vector<double> seen_;   ///< different numbers of recordings that agreed, no more than kUnused
    bool is_new_ = false;        ///< those before had not this one
    size_t changed_nothing_ = 0; ///< how often a new one left no trace
};

} // namespace lz::detail
