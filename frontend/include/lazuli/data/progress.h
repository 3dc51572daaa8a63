#pragma once
/// A line that says how far a loop is.

#include "lazuli/tensor.h"

#include <iterator>
#include <memory>
#include <string>
#include <utility>

namespace lz {

namespace detail {

/// `epoch 3: 120/938 12% 4.1 s 29.3/s loss 0.412`, on stderr where that is a terminal.
class LZ_API ProgressLine {
public:
    /// `total` -1: unknown.
    ProgressLine(std::string label, int64_t total);
    ProgressLine(const ProgressLine &) = delete;
    ProgressLine &operator=(const ProgressLine &) = delete;
    ~ProgressLine();
    void start();
    void step();
    void finish();
    void set(const std::string &name, double value);
    void set(const std::string &name, const Tensor &value);
    /// What the line says now; computes the tensors in it.
    std::string text() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace detail

/// A range that shows how far the loop over it is. See `progress`.
template <class Range>
class Progress {
public:
    /// See `progress`.
    Progress(Range range, std::string label)
        : range_(std::forward<Range>(range)), line_(std::move(label), total()) {}

    /// A number that the line shows. A tensor is computed only when the line is printed, at most ten times a
    /// second.
    void set(const std::string &name, double value) { line_.set(name, value); }
    void set(const std::string &name, const Tensor &value) { line_.set(name, value); }
    /// What the line says now. Computes the tensors in it.
    std::string text() const { return line_.text(); }

    /// A place in the range.
    template <class Inner>
    class Iterator {
    public:
        /// The range's own.
        Iterator(Inner inner, detail::ProgressLine *line) : inner_(std::move(inner)), line_(line) {}
        /// The range's element.
        decltype(auto) operator*() const { return *inner_; }
        /// Says so, and goes on.
        Iterator &operator++() {
            line_->step();
            ++inner_;
            return *this;
        }
        /// Whether it is the end; the line is then complete.
        template <class End>
        bool is(const End &end) const {
            const bool ended = inner_ == end;
            if (ended)
                line_->finish();
            return ended;
        }

    private:
        Inner inner_;
        detail::ProgressLine *line_;
    };
    /// The end of the range.
    template <class Inner>
    struct End {
        /// The range's own.
        Inner inner;
        template <class I>
        friend bool operator==(const Iterator<I> &at, const End &end) {
            return at.is(end.inner);
        }
    };

    /// The range's, from 0 on.
    auto begin() {
        using std::begin;
        line_.start();
        return Iterator<decltype(begin(range_))>(begin(range_), &line_);
    }
    /// The range's.
    auto end() {
        using std::end;
        return End<decltype(end(range_))>{end(range_)};
    }

private:
    int64_t total() const {
        if constexpr (requires { static_cast<int64_t>(std::size(range_)); })
            return static_cast<int64_t>(std::size(range_));
        else
            return -1;
    }

    Range range_;
    detail::ProgressLine line_;
};

/// Shows on one line of the terminal how far a loop is, how fast it goes, and what it is told:
///
///     auto bar = lz::progress(loader, "epoch 3");
///     for (auto [x, y] : bar) { ...; bar.set("loss", loss); }
///
/// Says nothing, and computes nothing, where stderr is no terminal. A range that is given by name must
/// outlive it.
template <class Range>
Progress<Range> progress(Range &&range, std::string label = {}) {
    return {std::forward<Range>(range), std::move(label)};
}

} // namespace lz
