#include "frontend/compiled/numbers.h"

#include "ir/program/number_form.h"

#include <algorithm>
#include <cmath>

namespace lz::detail {

bool is_another(double a, double b) {
    return std::abs(a - b) > 1e-6 * std::max(std::abs(a), std::abs(b));
}

namespace {

/// Whether what is not the same for all numbers can hardly be the same for these two: not that of a number
/// and its negative (a square), its inverse (x + 1 / x) or what is left of 1 (x * (1 - x)).
bool tell_apart(double a, double b) {
    return is_another(std::abs(a), std::abs(b)) && is_another(a, 1 - b) && is_another(a * b, 1);
}

} // namespace

KnownNumber::KnownNumber(double value, const Trace &trace) : value_(value), seen_{value} {
    is_on_host_ = trace.too_many_on_host() || std::ranges::any_of(trace.on_host, [&](double number) {
                      return std::ranges::any_of(ir::kEachNumberForm, [&](ir::NumberForm form) {
                          return same_bits(ir::in_form(value, form), number);
                      });
                  });
    for (const Trace::Limits &limits : trace.limits)
        if (same_bits(limits.number, value)) {
            limits_.low = std::max(limits_.low, limits.low);
            limits_.high = std::min(limits_.high, limits.high);
        }
    add_range(around(value));
}

KnownNumber::Range KnownNumber::around(double value) {
    constexpr double kMost = std::numeric_limits<double>::max();
    const double size = std::abs(value);
    const double low = size / 2 > 0 ? size / 2 : size, high = std::min(2 * size, kMost);
    return value < 0 ? Range{-high, -low} : Range{low, high};
}

bool KnownNumber::trusts(double other) const {
    return other >= limits_.low && other <= limits_.high &&
           std::ranges::any_of(ranges_,
                               [&](const Range &range) { return other >= range.low && other <= range.high; });
}

/// Of NaN and infinity there is none.
void KnownNumber::add_range(Range range) {
    if (!(range.low <= range.high) || !std::isfinite(range.low))
        return;
    std::erase_if(ranges_, [&](const Range &known) {
        if (known.high < range.low || known.low > range.high)
            return false;
        range = {std::min(range.low, known.low), std::max(range.high, known.high)};
        return true;
    });
    if (ranges_.size() == kRanges)
        ranges_.erase(ranges_.begin());
    ranges_.push_back(range);
}

void KnownNumber::learn(const KnownNumber &before) {
    is_any_ = before.is_any_ && !is_on_host_;
    changed_nothing_ = before.changed_nothing_;
    is_new_ = std::ranges::all_of(before.seen_, [&](double number) { return is_another(value_, number); });
    for (const Range &range : before.ranges_)
        add_range(range);
    for (const double number : before.seen_)
        if (seen_.size() < kUnused && is_another(value_, number))
            seen_.push_back(number);
}

void KnownNumber::note_used() {
    is_any_ = is_any_ || (!is_on_host_ && std::ranges::any_of(seen_, [&](double number) {
                  return tell_apart(value_, number);
              }));
}

void KnownNumber::note_unused() {
    changed_nothing_ += is_new_;
    is_any_ = is_any_ || (!is_on_host_ && changed_nothing_ + 1 >= kUnused);
}

} // namespace lz::detail
