#pragma once
/// For the decoder alone.

#include "tests/support/cuda/ptx/decode.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::ptx {

/// An instruction's name, cut at its dots. Every part has to be taken: what nobody takes is not known.
class Decoder::Name {
public:
    Name(std::string_view name, uint32_t line) : whole_(name), line_(line) {
        for (size_t begin = 0; begin <= name.size();) {
            size_t end = name.find('.', begin);
            if (end == std::string_view::npos)
                end = name.size();
            parts_.push_back(name.substr(begin, end - begin));
            begin = end + 1;
        }
        taken_.resize(parts_.size());
        taken_[0] = true;
    }
    std::string_view base() const { return parts_[0]; }
    uint32_t line() const { return line_; }
    bool take(std::string_view part) {
        for (size_t i = 1; i < parts_.size(); ++i)
            if (!taken_[i] && parts_[i] == part)
                return taken_[i] = true;
        return false;
    }
    template <class T>
    T take_one_of(std::initializer_list<std::pair<std::string_view, T>> choices, T otherwise) {
        for (const auto &[part, value] : choices)
            if (take(part))
                return value;
        return otherwise;
    }
    /// The next part that is a type.
    Type take_type() {
        for (size_t i = 1; i < parts_.size(); ++i)
            if (!taken_[i])
                if (const Type t = type_named(parts_[i]); t != Type::None) {
                    taken_[i] = true;
                    return t;
                }
        return Type::None;
    }
    void take_all_starting_with(std::string_view prefix) {
        for (size_t i = 1; i < parts_.size(); ++i)
            if (parts_[i].starts_with(prefix))
                taken_[i] = true;
    }
    void expect_all_taken() const {
        for (size_t i = 1; i < parts_.size(); ++i)
            if (!taken_[i])
                fail(fmt::format("its part .{} is not known to the interpreter", parts_[i]));
    }
    [[noreturn]] void fail(std::string_view what) const {
        throw ParseError(fmt::format("line {} of the PTX: `{}`: {}.", line_, whole_, what));
    }

private:
    std::string_view whole_;
    uint32_t line_;
    std::vector<std::string_view> parts_;
    std::vector<bool> taken_;
};

inline uint8_t bytes(Type t) {
    return static_cast<uint8_t>(size_of(t));
}
/// Registers are 16 bits wide at least.
inline uint8_t register_bytes(Type t) {
    return std::max<uint8_t>(bytes(t), t == Type::Pred ? 0 : 2);
}

} // namespace lz::ptx
