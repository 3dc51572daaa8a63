#include "runtime/saved/weights_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <sys/mman.h>

namespace lz::runtime {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostHead = 100'000'000; // as the reference implementation
constexpr int kMostLevels = 8;

constexpr std::array<std::pair<std::string_view, ir::DType>, 10> kDTypes{{{"BOOL", ir::DType::Bool},
                                                                          {"U8", ir::DType::U8},
                                                                          {"I8", ir::DType::I8},
                                                                          {"I16", ir::DType::I16},
                                                                          {"I32", ir::DType::I32},
                                                                          {"I64", ir::DType::I64},
                                                                          {"F16", ir::DType::F16},
                                                                          {"BF16", ir::DType::BF16},
                                                                          {"F32", ir::DType::F32},
                                                                          {"F64", ir::DType::F64}}};

[[noreturn]] void damaged(const std::string &what) {
    fail_io("is damaged: " + what);
}

/// Refuses objects that name a member twice, of which readers would take either.
Json parse(std::string_view text, const char *what) {
    std::vector<std::set<std::string>> names;
    const auto look = [&](int depth, Json::parse_event_t event, Json &parsed) {
        if (depth > kMostLevels)
            damaged(fmt::format("{} has more than {} levels", what, kMostLevels));
        if (event == Json::parse_event_t::object_start)
            names.emplace_back();
        else if (event == Json::parse_event_t::object_end)
            names.pop_back();
        else if (event == Json::parse_event_t::key) {
            const auto &name = parsed.get_ref<const std::string &>();
            if (!names.back().insert(name).second)
                damaged(fmt::format("{} names {} twice", what, in_quotes(name)));
        }
        return true;
    };
    try {
        return Json::parse(text.begin(), text.end(), look);
    } catch (const Json::parse_error &error) {
        damaged(fmt::format("{} is no JSON at byte {}", what, error.byte));
    }
}

/// The member of an object, of that type.
const Json &member(const Json &object, const char *name, Json::value_t type, const std::string &what) {
    if (const auto found = object.find(name); found != object.end() && found->type() == type)
        return *found;
    damaged(fmt::format("{} has no \"{}\", or one of the wrong type", what, name));
}

/// Bytes of dense elements; nothing: more than can be counted.
std::optional<uint64_t> dense_bytes(const std::vector<int64_t> &extents, ir::DType dtype) {
    if (std::ranges::find(extents, 0) != extents.end())
        return 0;
    auto bytes = static_cast<int64_t>(ir::size_of(dtype));
    for (const int64_t extent : extents)
        if (__builtin_mul_overflow(bytes, extent, &bytes))
            return std::nullopt;
    return static_cast<uint64_t>(bytes);
}

/// A list of whole numbers from 0 on.
std::vector<int64_t> numbers(const Json &list, const char *name, const std::string &what) {
    std::vector<int64_t> out;
    for (const Json &entry : list) {
        if (!entry.is_number_unsigned() || entry.get<uint64_t>() > INT64_MAX)
            damaged(fmt::format("{}: an entry of its \"{}\" is no whole number from 0 on", what, name));
        out.push_back(entry.get<int64_t>());
    }
    return out;
}

/// `first`: where the elements of all tensors begin; `file_bytes`: where they end.
WeightsTensor parse_tensor(const std::string &name, const Json &json, uint64_t first, uint64_t file_bytes) {
    const std::string what = "tensor " + in_quotes(name);
    if (!json.is_object())
        damaged(what + " has no dtype, shape and data_offsets");
    WeightsTensor tensor;
    tensor.name = name;
    const auto &dtype = member(json, "dtype", Json::value_t::string, what).get_ref<const std::string &>();
    if (const auto *const row =
            std::ranges::find(kDTypes, dtype, [](const auto &known) { return known.first; });
        row != kDTypes.end())
        tensor.dtype = row->second;
    tensor.extents = numbers(member(json, "shape", Json::value_t::array, what), "shape", what);
    tensor.type = fmt::format("{}[{}]", tensor.dtype ? std::string(ir::name(*tensor.dtype)) : dtype,
                              fmt::join(tensor.extents, ","));
    const std::vector<int64_t> offsets =
        numbers(member(json, "data_offsets", Json::value_t::array, what), "data_offsets", what);
    const uint64_t room = file_bytes - first;
    if (offsets.size() != 2 || offsets[0] > offsets[1])
        damaged(fmt::format("{} lies at bytes [{}]", what, fmt::join(offsets, ", ")));
    if (static_cast<uint64_t>(offsets[1]) > room)
        damaged(
            fmt::format("{} ends at byte {} of the elements, and the file ends at byte {} of them: it was "
                        "cut short",
                        what, offsets[1], room));
    tensor.begin = first + static_cast<uint64_t>(offsets[0]);
    tensor.bytes = static_cast<uint64_t>(offsets[1] - offsets[0]);
    if (tensor.dtype && dense_bytes(tensor.extents, *tensor.dtype) != tensor.bytes)
        damaged(fmt::format("{} is {}, and {} bytes are set aside for it", what, tensor.type, tensor.bytes));
    return tensor;
}

std::string read_text(const ReadFile &file, uint64_t at, uint64_t bytes) {
    std::string text(bytes, '\0');
    file.read(std::as_writable_bytes(std::span(text)), at);
    return text;
}

/// The length of the header, which is what a file begins with.
uint64_t head_bytes(const ReadFile &file) {
    uint64_t length = 0;
    if (file.bytes() < sizeof length)
        fail_io(fmt::format("has {} bytes, too few for a safetensors file", file.bytes()));
    file.read(std::as_writable_bytes(std::span(&length, 1)), 0);
    return length;
}

} // namespace

std::string in_quotes(std::string_view name) {
    constexpr size_t kShown = 200;
    std::string text = "\"";
    for (const char c : name.substr(0, kShown))
        text += static_cast<unsigned char>(c) < ' ' ? '?' : c;
    return text + (name.size() > kShown ? "...\"" : "\"");
}

WeightsFile::WeightsFile(const std::string &path) : file_(path) {
    const uint64_t length = head_bytes(file_), room = file_.bytes() - sizeof length;
    if (length > kMostHead)
        fail_io("is no safetensors file: those begin with the length of their header");
    if (length > room)
        damaged(fmt::format("its header has {} bytes, and {} are there: it was cut short", length, room));
    const std::string text = read_text(file_, sizeof length, length);
    const Json head = parse(text, "its header");
    if (!head.is_object())
        damaged("its header is no JSON object");
    for (const auto &[name, json] : head.items())
        if (name != "__metadata__")
            tensors_.push_back(parse_tensor(name, json, sizeof length + length, file_.bytes()));
    std::ranges::sort(tensors_, {}, [](const WeightsTensor &t) { return std::pair(t.begin, t.bytes); });
    for (size_t t = 0; t < tensors_.size(); ++t)
        by_name_.emplace(tensors_[t].name, t);
}

const WeightsTensor *WeightsFile::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::shared_ptr<const std::byte> WeightsFile::map() const {
    const size_t bytes = file_.bytes();
    void *const pages = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, file_.file.get(), 0);
    if (pages == MAP_FAILED)
        fail_io("could not be mapped: " + error_text(errno));
    return {static_cast<const std::byte *>(pages),
            [bytes](const std::byte *p) { ::munmap(const_cast<std::byte *>(p), bytes); }};
}

std::optional<std::vector<std::string>> read_weights_index(const std::string &path) {
    const ReadFile file(path);
    // Eight characters of JSON would be the length of a header beyond any file.
    if (const uint64_t first = head_bytes(file); (first & 0xff) != '{' || first <= kMostHead)
        return std::nullopt;
    if (file.bytes() > kMostHead)
        damaged("an index of more than 100 MB");
    const Json index = parse(read_text(file, 0, file.bytes()), "the index");
    const Json &map = member(index, "weight_map", Json::value_t::object, "the index");
    std::set<std::string> names;
    for (const auto &[tensor, name] : map.items()) {
        const bool good = name.is_string() && !name.get_ref<const std::string &>().empty() &&
                          name.get_ref<const std::string &>()[0] != '.' &&
                          name.get_ref<const std::string &>().find_first_of(std::string_view("/\0", 2)) ==
                              std::string::npos;
        if (!good)
            damaged(fmt::format("the file of tensor {} is no name of a file beside the index",
                                in_quotes(tensor)));
        names.insert(name.get<std::string>());
    }
    return std::vector<std::string>(names.begin(), names.end());
}

} // namespace lz::runtime
