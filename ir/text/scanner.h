#pragma once
/// Reads tokens of `.lz` text from the left to the right. Nothing is copied but strings; space and `//
/// comments` are skipped before each token; every failure is Failure(Parse) `line:column: what, found
/// <token>`.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lz::ir {

class TextScanner {
public:
    explicit TextScanner(std::string_view text) : text_(text) {}

    /// Position of the next token, for `fail_at`.
    size_t position();
    bool at_end() { return position() == text_.size(); }
    /// Characters that are left, an upper bound for what any list in them can hold.
    size_t remaining() const { return text_.size() - at_; }

    /// The next character (0 at the end), after space.
    char peek();
    /// Takes a punctuation mark if it is next.
    bool accept(char c);
    void expect(char c);
    /// Takes a word if it is next and ends there.
    bool accept_word(std::string_view word);
    void expect_word(std::string_view word);

    /// `[A-Za-z_][A-Za-z0-9_.]*`; `what` says in the failure what was wanted ("an op's name").
    std::string_view word(std::string_view what);
    /// The same, but may begin with a digit: names of values.
    std::string_view name(std::string_view what);
    int64_t integer(std::string_view what);
    uint64_t unsigned_integer(std::string_view what);
    /// An integer in [low, high].
    int64_t integer_in(std::string_view what, int64_t low, int64_t high);
    /// The characters of a number, unread.
    std::string_view number(std::string_view what);
    /// A decimal number, `inf`, `-inf` or `nan`: the nearest double.
    double real(std::string_view what);
    float real_float(std::string_view what);
    /// `"..."` with the escapes of `quoted`.
    std::string string(std::string_view what);
    /// What is between the quotes of a string without escapes, uncopied (hexadecimal data).
    std::string_view raw_string(std::string_view what);

    /// Fails at the next token, which the message cites.
    [[noreturn]] void fail(const std::string &what);
    [[noreturn]] void fail_at(size_t position, const std::string &what) const;

private:
    void skip_space();
    template <class T>
    T whole_number(std::string_view what);
    std::string_view number_token(std::string_view what);
    template <class T>
    T real_number(std::string_view what);

    std::string_view text_;
    size_t at_ = 0;
};

/// Whether the text is a word as `TextScanner::word` reads it.
bool is_word(std::string_view text);

/// `"..."` with `"`, `\`, control characters and bytes above 0x7e escaped (`\"`, `\\`, `\xHH`).
std::string quoted(std::string_view text);

/// The shortest decimal text that reads back as the same number; `nan` for every NaN.
std::string shortest(double value);
std::string shortest(float value);

} // namespace lz::ir
