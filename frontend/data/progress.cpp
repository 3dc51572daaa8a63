#include "lazuli/data/progress.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <unistd.h>
#include <variant>
#include <vector>

namespace lz::detail {

struct ProgressLine::State {
    using Clock = std::chrono::steady_clock;
    std::string label;
    int64_t total = -1, done = 0;
    bool shown = false; ///< stderr is a terminal
    bool begun = false;
    size_t width = 0; ///< of what stands on the line
    Clock::time_point started = Clock::now(), printed;
    std::vector<std::pair<std::string, std::variant<double, Tensor>>> values;

    void set(const std::string &name, std::variant<double, Tensor> value) {
        for (auto &[known, stored] : values)
            if (known == name) {
                stored = std::move(value);
                return;
            }
        values.emplace_back(name, std::move(value));
    }
    void print(const std::string &text) {
        std::fprintf(stderr, "\r%s%*s", text.c_str(),
                     static_cast<int>(width > text.size() ? width - text.size() : 0), "");
        std::fflush(stderr);
        width = text.size();
        printed = Clock::now();
    }
};

ProgressLine::ProgressLine(std::string label, int64_t total) : state_(std::make_unique<State>()) {
    state_->label = std::move(label);
    state_->total = total;
    state_->shown = isatty(STDERR_FILENO) == 1;
}

ProgressLine::~ProgressLine() {
    if (state_->begun && state_->width > 0) // the loop was left
        std::fputc('\n', stderr);
}

void ProgressLine::start() {
    state_->begun = true;
    state_->done = 0;
    state_->started = State::Clock::now();
}

void ProgressLine::step() {
    ++state_->done;
    if (state_->shown && State::Clock::now() - state_->printed > std::chrono::milliseconds(100))
        state_->print(text());
}

void ProgressLine::finish() {
    if (!state_->begun)
        return;
    if (state_->shown) {
        state_->print(text());
        std::fputc('\n', stderr);
    }
    state_->width = 0;
    state_->begun = false;
}

void ProgressLine::set(const std::string &name, double value) {
    state_->set(name, value);
}
void ProgressLine::set(const std::string &name, const Tensor &value) {
    if (state_->shown) // otherwise nobody looks, and what the tensor was made from need not be kept
        state_->set(name, value.detach());
    else
        state_->set(name, Tensor());
}

std::string ProgressLine::text() const {
    const State &s = *state_;
    const double seconds = std::chrono::duration<double>(State::Clock::now() - s.started).count();
    std::string out = s.label.empty() ? "" : s.label + ": ";
    if (s.total > 0)
        out += fmt::format("{}/{} {}% ", s.done, s.total, 100 * s.done / s.total);
    else
        out += fmt::format("{} ", s.done);
    out += fmt::format("{:.1f} s", seconds);
    if (s.done > 0 && seconds > 0)
        out += fmt::format(" {:.3g}/s", static_cast<double>(s.done) / seconds);
    for (const auto &[name, value] : s.values) {
        if (const double *number = std::get_if<double>(&value))
            out += fmt::format(" {} {:.4g}", name, *number);
        else if (const Tensor &tensor = std::get<Tensor>(value); tensor.defined())
            out += fmt::format(" {} {:.4g}", name, tensor.item<double>());
    }
    return out;
}

} // namespace lz::detail
