#pragma once
/// Lines of C++ with their indentation, and how they name values.

#include "ir/kernel/kernel.h"

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lz::codegen::cuda {

class Writer {
public:
    template <class... Args>
    void line(fmt::format_string<Args...> format, Args &&...args) {
        out_.append(static_cast<size_t>(4 * depth_), ' ');
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
        out_ += '\n';
    }
    /// A directive of the preprocessor or an empty line.
    void plain(std::string_view text) {
        out_ += text;
        out_ += '\n';
    }
    /// A line that ends in a brace, which `close` closes.
    template <class... Args>
    void open(fmt::format_string<Args...> format, Args &&...args) {
        line("{} {{", fmt::format(format, std::forward<Args>(args)...));
        ++depth_;
    }
    void open() {
        line("{{");
        ++depth_;
    }
    void close(std::string_view after = "") {
        --depth_;
        line("}}{}", after);
    }
    /// Statements of one more level, without braces around them.
    void indent() { ++depth_; }
    void outdent() { --depth_; }
    const std::string &text() const { return out_; }
    size_t size() const { return out_.size(); }
    /// Whole lines that were written, `count` bytes from `at` on.
    void erase(size_t at, size_t count) { out_.erase(at, count); }
    std::string take() { return std::move(out_); }

private:
    std::string out_;
    int depth_ = 0;
};

/// `a + b + c`; what is nothing, or 0, is left out.
inline std::string plus(std::initializer_list<std::string> terms) {
    std::string sum;
    for (const std::string &term : terms)
        if (!term.empty() && term != "0")
            sum += (sum.empty() ? "" : " + ") + term;
    return sum.empty() ? "0" : sum;
}
/// `a - b` of a name b.
inline std::string minus(const std::string &a, const std::string &b) {
    return b == "0" ? a : a + " - " + b;
}
/// `a < b`, where a is no more than that.
inline std::string less(const std::string &a, const std::string &b) {
    return a == "0" ? b + " > 0" : a + " < " + b;
}
/// `a * b`; 1 of b is left out.
inline std::string times(const std::string &a, int64_t b) {
    return b == 1 ? a : fmt::format("{} * {}", a, b);
}
/// Whether an expression is a name, and so needs no other one.
inline bool is_name(std::string_view expression) {
    return !expression.empty() && (expression[0] < '0' || expression[0] > '9') &&
           expression.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
               std::string_view::npos;
}
/// A number without the parentheses that it has as an operand.
inline std::string bare(const std::string &number) {
    return number.starts_with("(-") && number.find(')') + 1 == number.size()
               ? number.substr(1, number.size() - 2)
               : number;
}

/// How a value is read at the place that is being written.
struct Written {
    std::string name{};      ///< an expression that needs no parentheses; empty: it is not written yet
    std::string packet{};    ///< the packet of halves whose elements are these numbers
    std::string word{};      ///< two equal halves, where all elements of a packet have this number
    ir::DType half{};        ///< of packet and word
    bool of_element = false; ///< each element of a packet has another one
};

/// Names end with the block of the text in which they are given: what is declared there is not known behind
/// it, and a block that stands there twice, as a batch and as what remains, names its values anew.
class Names {
public:
    explicit Names(size_t values) : now_(values) {}
    const Written &operator[](ir::KValue v) const { return now_[v]; }
    /// Whether a value has a name, or needs none: nothing has to be written for it.
    bool has(ir::KValue v) const { return !now_[v].name.empty(); }
    /// Whether what is written next can read it by a name.
    bool can_read(ir::KValue v) const { return has(v) && now_[v].name != kUnread; }
    void give(ir::KValue v, Written written) {
        before_.emplace_back(v, std::exchange(now_[v], std::move(written)));
    }
    /// Of a value that is not written because nothing reads it any more.
    void leave_unread(ir::KValue v) { give(v, {.name = std::string(kUnread)}); }
    void open() { blocks_.push_back(before_.size()); }
    void close() {
        for (; before_.size() > blocks_.back(); before_.pop_back())
            now_[before_.back().first] = std::move(before_.back().second);
        blocks_.pop_back();
    }

private:
    static constexpr std::string_view kUnread = "(unread)";
    std::vector<Written> now_;                           // by value
    std::vector<std::pair<ir::KValue, Written>> before_; // what was so before a name was given, in order
    std::vector<size_t> blocks_;                         // that are open: how long before_ was
};

} // namespace lz::codegen::cuda
