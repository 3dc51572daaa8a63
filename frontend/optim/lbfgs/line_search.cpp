#include "frontend/optim/lbfgs/line_search.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lz::optim {

namespace {

/// The lowest point within the bounds of the cubic that has these values and slopes.
double interpolate(const LinePoint &a, const LinePoint &b, double low, double high) {
    const double d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step);
    const double square = d1 * d1 - a.slope * b.slope;
    if (!(square >= 0))
        return (low + high) / 2;
    const double d2 = std::sqrt(square);
    const double lowest =
        a.step <= b.step ? b.step - (b.step - a.step) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
                         : a.step - (a.step - b.step) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2));
    return std::min(std::max(lowest, low), high);
}

} // namespace

LineSearch strong_wolfe(const std::function<LinePoint(double step)> &evaluate, const LinePoint &start,
                        double step, double direction_norm, double tolerance_change, int64_t most) {
    constexpr double kDecrease = 1e-4, kCurvature = 0.9;
    const auto decreases = [&](const LinePoint &p) {
        return !(p.value > start.value + kDecrease * p.step * start.slope);
    };
    const auto is_flat = [&](const LinePoint &p) { return std::fabs(p.slope) <= -kCurvature * start.slope; };
    int64_t evaluations = 0, iterations = 0;
    const auto at = [&](double where) {
        ++evaluations;
        return evaluate(where);
    };
    LinePoint now = at(step), last = start;

    // A bracket that has such a point.
    std::array<LinePoint, 2> bracket;
    bool found = false, done = false;
    for (; iterations < most; ++iterations) {
        if (!decreases(now) || (iterations > 1 && now.value >= last.value)) {
            bracket = {last, now};
            found = true;
            break;
        }
        if (is_flat(now)) {
            bracket = {now, now};
            found = done = true;
            break;
        }
        if (now.slope >= 0) {
            bracket = {last, now};
            found = true;
            break;
        }
        const double next = interpolate(last, now, now.step + 0.01 * (now.step - last.step), now.step * 10);
        last = now;
        now = at(next);
    }
    if (!found)
        bracket = {start, now};

    // It is made smaller until the point is found.
    bool little_progress = false;
    size_t low = bracket[0].value <= bracket[1].value ? 0 : 1, high = 1 - low;
    for (; !done && iterations < most; ++iterations) {
        const double left = std::min(bracket[0].step, bracket[1].step),
                     right = std::max(bracket[0].step, bracket[1].step);
        if ((right - left) * direction_norm < tolerance_change)
            break;
        double next = interpolate(bracket[0], bracket[1], left, right);
        // Where the point is near an end twice, one further inside is tried.
        const double margin = 0.1 * (right - left);
        if (std::min(right - next, next - left) < margin) {
            if (little_progress || next >= right || next <= left) {
                next = std::fabs(next - right) < std::fabs(next - left) ? right - margin : left + margin;
                little_progress = false;
            } else {
                little_progress = true;
            }
        } else {
            little_progress = false;
        }
        now = at(next);
        if (!decreases(now) || now.value >= bracket[low].value) {
            bracket[high] = now;
            low = bracket[0].value <= bracket[1].value ? 0 : 1;
            high = 1 - low;
        } else {
            if (is_flat(now))
                done = true;
            else if (now.slope * (bracket[high].step - bracket[low].step) >= 0)
                bracket[high] = bracket[low];
            bracket[low] = now;
        }
    }
    return {bracket[low], evaluations};
}

} // namespace lz::optim
