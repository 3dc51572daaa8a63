#include "runtime/allocator/options.h"

#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

namespace lz::runtime {

namespace {

constexpr size_t kUnit = 512;
constexpr size_t kMiB = size_t{1} << 20;
/// Entries of roundup_divisions: from 1 MiB to 64 GiB, as in PyTorch.
constexpr size_t kRoundupEntries = 16;

[[noreturn]] void refuse(std::string_view option, std::string_view value, std::string_view wanted) {
    throw ir::Failure(
        ir::ErrorKind::State,
        fmt::format("Allocator option {}: `{}` was given, and it takes {}.", option, value, wanted));
}

size_t whole_number(std::string_view option, std::string_view text, std::string_view wanted) {
    size_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        refuse(option, text, wanted);
    return value;
}

void set_max_split(AllocatorOptions &options, std::string_view text) {
    constexpr std::string_view wanted = "a whole number of MiB above 20";
    size_t mib = whole_number("max_split_size_mb", text, wanted);
    if (mib <= 20 || mib > SIZE_MAX / kMiB)
        refuse("max_split_size_mb", text, wanted);
    options.max_split_size = mib * kMiB;
}

void set_non_split_rounding(AllocatorOptions &options, std::string_view text) {
    constexpr std::string_view wanted = "a whole number of MiB above 20";
    size_t mib = whole_number("max_non_split_rounding_mb", text, wanted);
    if (mib <= 20 || mib > SIZE_MAX / kMiB)
        refuse("max_non_split_rounding_mb", text, wanted);
    options.max_non_split_rounding = mib * kMiB;
}

void set_garbage_collection(AllocatorOptions &options, std::string_view text) {
    double value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value > 0 && value < 1))
        refuse("garbage_collection_threshold", text, "a number between 0 and 1");
    options.garbage_collection_threshold = value;
}

uint32_t divisions(std::string_view text) {
    constexpr std::string_view wanted = "powers of two, alone or as [256:1,512:2,>:4] with sizes in MiB";
    size_t value = whole_number("roundup_power2_divisions", text, wanted);
    if (!std::has_single_bit(value) || value > 64)
        refuse("roundup_power2_divisions", text, wanted);
    return static_cast<uint32_t>(value);
}

/// `8`, or `[256:1,512:2,>:4]`: from 256 MiB on 1, from 512 MiB on 2, and 4 for what is larger than the last
/// size. Sizes below the first one named take its number, as in PyTorch.
void set_roundup(AllocatorOptions &options, std::string_view text) {
    if (!text.starts_with('[')) {
        options.roundup_divisions.assign(kRoundupEntries, divisions(text));
        return;
    }
    options.roundup_divisions.assign(kRoundupEntries, 0);
    std::string_view rest = text.substr(1, text.size() - 2);
    size_t last = 0;
    for (bool first = true; !rest.empty(); first = false) {
        size_t comma = rest.find(',');
        std::string_view entry = rest.substr(0, comma);
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
        size_t colon = entry.find(':');
        if (colon == std::string_view::npos)
            refuse("roundup_power2_divisions", text, "entries of the form size:divisions");
        std::string_view key = entry.substr(0, colon);
        uint32_t value = divisions(entry.substr(colon + 1));
        if (key == ">") {
            std::fill(options.roundup_divisions.begin() +
                          static_cast<std::ptrdiff_t>(std::min(last + 1, kRoundupEntries)),
                      options.roundup_divisions.end(), value);
            continue;
        }
        size_t mib = whole_number("roundup_power2_divisions", key, "sizes that are powers of two in MiB");
        if (!std::has_single_bit(mib))
            refuse("roundup_power2_divisions", key, "sizes that are powers of two in MiB");
        size_t index = std::min(static_cast<size_t>(std::countr_zero(mib)), kRoundupEntries - 1);
        std::fill(options.roundup_divisions.begin() + static_cast<std::ptrdiff_t>(first ? 0
                                                                                  : last + 1 <= index
                                                                                      ? last + 1
                                                                                      : index),
                  options.roundup_divisions.begin() + static_cast<std::ptrdiff_t>(index + 1), value);
        last = index;
    }
}

struct Setter {
    std::string_view name;
    void (*set)(AllocatorOptions &, std::string_view);
};
constexpr Setter kSetters[] = {
    {"max_split_size_mb", set_max_split},
    {"max_non_split_rounding_mb", set_non_split_rounding},
    {"garbage_collection_threshold", set_garbage_collection},
    {"roundup_power2_divisions", set_roundup},
};

} // namespace

AllocatorOptions AllocatorOptions::parse(std::string_view text) {
    AllocatorOptions options;
    std::string squeezed; // blanks mean nothing
    std::ranges::copy_if(text, std::back_inserter(squeezed), [](char c) { return c != ' ' && c != '\t'; });
    std::string_view rest = squeezed;
    while (!rest.empty()) {
        size_t colon = rest.find(':');
        std::string_view name = rest.substr(0, colon);
        const Setter *setter = std::ranges::find(kSetters, name, &Setter::name);
        if (colon == std::string_view::npos && setter != std::end(kSetters))
            throw ir::Failure(
                ir::ErrorKind::State,
                fmt::format("Allocator option {} has no value; it is written {}:value.", name, name));
        if (setter == std::end(kSetters))
            throw ir::Failure(ir::ErrorKind::State,
                              fmt::format("The allocator has no option `{}`; it has max_split_size_mb, "
                                          "max_non_split_rounding_mb, garbage_collection_threshold and "
                                          "roundup_power2_divisions, written name:value.",
                                          name));
        rest.remove_prefix(colon + 1);
        size_t end = rest.starts_with('[') ? rest.find(']') : rest.find(',');
        if (rest.starts_with('[')) {
            if (end == std::string_view::npos)
                refuse(name, rest, "a list that ends with ]");
            ++end;
        }
        std::string_view value = rest.substr(0, end);
        setter->set(options, value);
        rest.remove_prefix(value.size());
        if (!rest.empty() && rest.front() != ',')
            refuse(name, rest, "nothing after its value but a comma");
        if (!rest.empty())
            rest.remove_prefix(1);
    }
    return options;
}

size_t AllocatorOptions::round(size_t bytes) const {
    if (bytes < kUnit)
        return kUnit;
    if (!roundup_divisions.empty()) {
        size_t power = std::bit_floor(bytes);
        size_t mib = power / kMiB;
        size_t entry =
            mib ? std::min(static_cast<size_t>(std::countr_zero(mib)), roundup_divisions.size() - 1) : 0;
        uint32_t parts = roundup_divisions[entry];
        if (parts > 1 && bytes > kUnit * parts) {
            size_t step = power / parts;
            if (step)
                bytes = (bytes + step - 1) / step * step;
        }
    }
    return (bytes + kUnit - 1) / kUnit * kUnit;
}

} // namespace lz::runtime
