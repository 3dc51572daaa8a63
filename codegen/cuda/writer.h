#pragma once
/// Lines of C++ with their indentation.

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

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

} // namespace lz::codegen::cuda
