#include "ir/text/scanner.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace lz::ir {

namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_word_char(char c) {
    return is_letter(c) || is_digit(c) || c == '.';
}

int hex_digit(char c) {
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

template <class T>
std::string shortest_text(T value) {
    if (std::isnan(value))
        return "nan";
    if (std::isinf(value))
        return value > 0 ? "inf" : "-inf";
    char buffer[64];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

} // namespace

size_t TextScanner::position() {
    skip_space();
    return at_;
}

void TextScanner::skip_space() {
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            ++at_;
        else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')
            at_ = std::min(text_.size(), text_.find('\n', at_));
        else
            return;
    }
}

char TextScanner::peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextScanner::accept(char c) {
    if (peek() != c || at_ == text_.size())
        return false;
    ++at_;
    return true;
}

void TextScanner::expect(char c) {
    if (!accept(c))
        fail(std::string("expected `") + c + "`");
}

bool TextScanner::accept_word(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word))
        return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && is_word_char(text_[end]))
        return false;
    at_ = end;
    return true;
}

void TextScanner::expect_word(std::string_view word) {
    if (!accept_word(word))
        fail("expected `" + std::string(word) + "`");
}

std::string_view TextScanner::word(std::string_view what) {
    if (!is_letter(peek()))
        fail("expected " + std::string(what));
    return name(what);
}

std::string_view TextScanner::name(std::string_view what) {
    skip_space();
    size_t end = at_;
    while (end < text_.size() && is_word_char(text_[end]))
        ++end;
    if (end == at_)
        fail("expected " + std::string(what));
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
}

std::string_view TextScanner::number_token(std::string_view what) {
    skip_space();
    size_t end = at_;
    // A sign may stand at the beginning and after the e of an exponent.
    while (end < text_.size() &&
           (is_word_char(text_[end]) || ((text_[end] == '-' || text_[end] == '+') &&
                                         (end == at_ || ((text_[end - 1] == 'e' || text_[end - 1] == 'E') &&
                                                         is_digit(text_[at_ + (text_[at_] == '-')]))))))
        ++end;
    if (end == at_)
        fail("expected " + std::string(what));
    return text_.substr(at_, end - at_);
}

std::string_view TextScanner::number(std::string_view what) {
    const std::string_view token = number_token(what);
    at_ += token.size();
    return token;
}

template <class T>
T TextScanner::whole_number(std::string_view what) {
    const std::string_view token = number_token(what);
    T value = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error == std::errc::result_out_of_range)
        fail("expected " + std::string(what) + " that fits 64 bits");
    if (error != std::errc() || end != token.data() + token.size())
        fail("expected " + std::string(what));
    at_ += token.size();
    return value;
}

int64_t TextScanner::integer(std::string_view what) {
    return whole_number<int64_t>(what);
}

uint64_t TextScanner::unsigned_integer(std::string_view what) {
    return whole_number<uint64_t>(what);
}

int64_t TextScanner::integer_in(std::string_view what, int64_t low, int64_t high) {
    const size_t at = position();
    const int64_t value = integer(what);
    if (value < low || value > high) {
        at_ = at;
        fail("expected " + std::string(what) + " from " + std::to_string(low) + " to " +
             std::to_string(high));
    }
    return value;
}

template <class T>
T TextScanner::real_number(std::string_view what) {
    const std::string_view token = number_token(what);
    T value = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    // from_chars also reads nan(payload), which the printer never writes.
    if (error == std::errc::result_out_of_range)
        fail("expected " + std::string(what) + " within the range of its type");
    if (error != std::errc() || end != token.data() + token.size())
        fail("expected " + std::string(what));
    at_ += token.size();
    // One NaN, whatever the sign in the text.
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

double TextScanner::real(std::string_view what) {
    return real_number<double>(what);
}
float TextScanner::real_float(std::string_view what) {
    return real_number<float>(what);
}

std::string TextScanner::string(std::string_view what) {
    if (peek() != '"')
        fail("expected " + std::string(what) + " in quotes");
    std::string value;
    size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != '"' && text_[i] != '\n'; ++i) {
        if (text_[i] != '\\') {
            value += text_[i];
            continue;
        }
        const char escape = i + 1 < text_.size() ? text_[i + 1] : '\0';
        if (escape == '"' || escape == '\\') {
            value += escape;
            ++i;
        } else if (escape == 'x' && i + 3 < text_.size() && hex_digit(text_[i + 2]) >= 0 &&
                   hex_digit(text_[i + 3]) >= 0) {
            value += static_cast<char>(hex_digit(text_[i + 2]) * 16 + hex_digit(text_[i + 3]));
            i += 3;
        } else {
            fail_at(i, "an escape is one of \\\", \\\\ and \\xHH");
        }
    }
    if (i >= text_.size() || text_[i] != '"')
        fail("expected a closing quote on the same line");
    at_ = i + 1;
    return value;
}

std::string_view TextScanner::raw_string(std::string_view what) {
    if (peek() != '"')
        fail("expected " + std::string(what) + " in quotes");
    const size_t end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos)
        fail("expected a closing quote");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
}

void TextScanner::fail(const std::string &what) {
    skip_space();
    size_t end = at_;
    while (end < text_.size() && end - at_ < 32 && (is_word_char(text_[end]) || end == at_))
        ++end;
    const std::string found =
        at_ == text_.size() ? "the end of the text" : quoted(text_.substr(at_, end - at_));
    fail_at(at_, what + ", found " + found);
}

void TextScanner::fail_at(size_t position, const std::string &what) const {
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::ranges::count(before, '\n');
    const size_t begin = before.rfind('\n');
    const size_t column = begin == std::string_view::npos ? position + 1 : position - begin;
    throw Failure(ErrorKind::Parse, std::to_string(line) + ":" + std::to_string(column) + ": " + what);
}

bool is_word(std::string_view text) {
    return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, is_word_char);
}

std::string quoted(std::string_view text) {
    constexpr char digits[] = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20 || byte > 0x7e) {
            out += "\\x";
            out += digits[byte >> 4];
            out += digits[byte & 15];
        } else {
            out += c;
        }
    }
    return out += '"';
}

std::string shortest(double value) {
    return shortest_text(value);
}
std::string shortest(float value) {
    return shortest_text(value);
}

} // namespace lz::ir
