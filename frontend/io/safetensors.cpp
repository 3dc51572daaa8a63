// https://github.com/huggingface/safetensors: eight bytes that say how long the head is, the head as JSON,
// the elements.
#include "frontend/io/formats.h"
#include "frontend/io/json.h"
#include "frontend/io/replaced_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <ostream>
#include <unordered_map>

namespace lz::io {

namespace {

constexpr size_t kMaxHead = 100'000'000; // as the reference implementation
constexpr size_t kDataAlignment = 64;

constexpr std::array<std::pair<std::string_view, DType>, 10> kDtypes{{{"BOOL", DType::Bool},
                                                                      {"U8", DType::U8},
                                                                      {"I8", DType::I8},
                                                                      {"I16", DType::I16},
                                                                      {"I32", DType::I32},
                                                                      {"I64", DType::I64},
                                                                      {"F16", DType::F16},
                                                                      {"BF16", DType::BF16},
                                                                      {"F32", DType::F32},
                                                                      {"F64", DType::F64}}};

struct Entry {
    TensorInfo info;
    uint64_t begin = 0, end = 0; ///< in the elements' bytes
};

struct Head {
    std::vector<Entry> entries;
    std::map<std::string, std::string> metadata;
    std::span<const std::byte> elements;
};

const Json &member(const Source &source, const Json &object, const char *name, Json::Kind kind,
                   const std::string &what) {
    const Json *const found = object.find(name);
    if (!found || found->kind != kind)
        source.fail(fmt::format("{} has no \"{}\", or one of the wrong type", what, name));
    return *found;
}

std::vector<uint64_t> numbers(const Source &source, const Json &list, const char *name,
                              const std::string &what) {
    std::vector<uint64_t> out;
    for (const Json &entry : list.list) {
        if (entry.kind != Json::Kind::Unsigned)
            source.fail(fmt::format("{}: an entry of its \"{}\" is no whole number from 0 on", what, name));
        out.push_back(entry.number);
    }
    return out;
}

Entry parse_entry(const Source &source, const std::string &name, const Json &json, uint64_t size) {
    const std::string what = "tensor " + in_quotes(name);
    if (json.kind != Json::Kind::Object)
        source.fail(what + " has no dtype, shape and data_offsets");
    Entry entry;
    entry.info.name = name;
    const std::string &dtype = member(source, json, "dtype", Json::Kind::Text, what).text;
    const auto *const row =
        std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto &known) { return known.first == dtype; });
    if (row == kDtypes.end())
        source.fail(fmt::format("{} is of dtype {}, which Lazuli does not have", what, in_quotes(dtype)));
    entry.info.dtype = row->second;
    for (const uint64_t extent :
         numbers(source, member(source, json, "shape", Json::Kind::List, what), "shape", what)) {
        if (extent > INT64_MAX)
            source.fail(fmt::format("{} has an axis of {} elements", what, extent));
        entry.info.sizes.push_back(static_cast<int64_t>(extent));
    }
    const std::vector<uint64_t> offsets =
        numbers(source, member(source, json, "data_offsets", Json::Kind::List, what), "data_offsets", what);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > size)
        source.fail(fmt::format("{} lies at bytes [{}] of the {} bytes of elements", what,
                                fmt::join(offsets, ", "), size));
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const uint64_t bytes = checked_bytes(source, what, entry.info.sizes, entry.info.dtype);
    if (bytes != entry.end - entry.begin)
        source.fail(fmt::format("{} of shape [{}] and dtype {} has {} bytes, and {} are set aside for it",
                                what, fmt::join(entry.info.sizes, ","), dtype, bytes,
                                entry.end - entry.begin));
    return entry;
}

/// The tensors lie one after the other, and nothing lies between them.
void check_layout(const Source &source, const Head &head) {
    std::vector<const Entry *> order;
    for (const Entry &entry : head.entries)
        order.push_back(&entry);
    std::sort(order.begin(), order.end(), [](const Entry *a, const Entry *b) {
        return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
    });
    uint64_t at = 0;
    for (const Entry *entry : order) {
        if (entry->begin != at)
            source.fail(fmt::format("tensor {} begins at byte {} of the elements, and what is before it "
                                    "ends at byte {}: tensors {}",
                                    in_quotes(entry->info.name), entry->begin, at,
                                    entry->begin < at ? "overlap" : "leave a hole"));
        at = entry->end;
    }
    if (at != head.elements.size())
        source.fail(
            fmt::format("its tensors have {} bytes, and {} follow the header", at, head.elements.size()));
}

Head parse_head(const Source &source) {
    if (source.bytes.size() < sizeof(uint64_t))
        source.fail(fmt::format("it has {} bytes, too few for a safetensors file", source.bytes.size()));
    const auto length = source.number<uint64_t>(0);
    const size_t rest = source.bytes.size() - sizeof length;
    if (length > rest && rest > 0 && source.text(sizeof length, 1) != "{")
        source.fail("it has none of the formats that are known: safetensors, .npy, .npz and PyTorch's .pt");
    if (length > rest)
        source.fail(fmt::format("its header would have {} bytes, and {} are there", length, rest));
    if (length > kMaxHead)
        source.fail(fmt::format("its header has {} bytes; at most {} are read", length, kMaxHead));
    const Json json = parse_json(source, source.text(sizeof length, length), "its header");
    if (json.kind != Json::Kind::Object || source.text(sizeof length, 1) != "{")
        source.fail("its header is no JSON object");
    Head head;
    head.elements = source.bytes.subspan(sizeof length + length);
    for (size_t i = 0; i < json.keys.size(); ++i) {
        const std::string &name = json.keys[i];
        const Json &value = json.list[i];
        if (name != "__metadata__") {
            head.entries.push_back(parse_entry(source, name, value, head.elements.size()));
            continue;
        }
        if (value.kind != Json::Kind::Object)
            source.fail("its \"__metadata__\" is no object");
        for (size_t k = 0; k < value.keys.size(); ++k) {
            if (value.list[k].kind != Json::Kind::Text)
                source.fail(fmt::format("its metadata {} is no text", in_quotes(value.keys[k])));
            head.metadata.emplace(value.keys[k], value.list[k].text);
        }
    }
    check_layout(source, head);
    return head;
}

std::string folder_of(const std::string &path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string_view dtype_name(DType dtype) {
    for (const auto &[text, known] : kDtypes)
        if (known == dtype)
            return text;
    throw InternalError("safetensors: a dtype without a name", {});
}

/// Computed already; larger elements first, so that each lies at a multiple of its size.
template <class File>
void write_one(const StateDict &tensors, const std::vector<size_t> &chosen,
               const std::map<std::string, std::string> &metadata, File &file, Location loc) {
    std::vector<size_t> order = chosen;
    const auto tensor = [&](size_t i) -> const Tensor & { return tensors.items()[i].second; };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return std::pair(-size_of(tensor(a).dtype()), a) < std::pair(-size_of(tensor(b).dtype()), b);
    });
    std::unordered_map<size_t, int64_t> begins;
    int64_t at = 0;
    for (const size_t i : order) {
        begins[i] = at;
        at += tensor(i).numel() * size_of(tensor(i).dtype());
    }
    std::string head = "{";
    if (!metadata.empty()) {
        head += "\"__metadata__\":{";
        for (const auto &[key, text] : metadata)
            head += json_text(key, "save", loc) + ":" + json_text(text, "save", loc) + ",";
        head.back() = '}';
    }
    for (const size_t i : chosen) {
        const auto &[name, t] = tensors.items()[i];
        const int64_t begin = begins[i], bytes = t.numel() * size_of(t.dtype());
        head += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                            head.size() > 1 ? "," : "", json_text(name, "save", loc), dtype_name(t.dtype()),
                            fmt::join(t.sizes(), ","), begin, begin + bytes);
    }
    head += '}';
    head.resize((head.size() + sizeof(uint64_t) + kDataAlignment - 1) / kDataAlignment * kDataAlignment -
                    sizeof(uint64_t),
                ' ');
    const auto length = static_cast<uint64_t>(head.size());
    if (length > kMaxHead)
        throw IoError(fmt::format("save: the header of {} tensors has {} bytes; the format has at most {}",
                                  chosen.size(), length, kMaxHead),
                      loc);
    file.write(&length, sizeof length);
    file.write(head);
    for (const size_t i : order) {
        const Tensor host = tensor(i).detach().cpu(loc);
        if (host.numel() > 0)
            file.write(host.data<void>(loc), static_cast<size_t>(host.numel() * size_of(host.dtype())));
    }
}

/// A stream as write_one writes to it.
struct Stream {
    std::ostream &out;
    void write(const void *data, size_t size) {
        out.write(static_cast<const char *>(data), static_cast<std::streamsize>(size));
    }
    void write(std::string_view text) { write(text.data(), text.size()); }
};

void check_names(const StateDict &tensors, Location loc) {
    if (tensors.contains("__metadata__"))
        throw IoError(
            "save: safetensors files use the name \"__metadata__\" for text; a tensor cannot have it", loc);
}

/// Which tensors go into which file: in order, a new file where the next would exceed the limit.
std::vector<std::vector<size_t>> shards(const StateDict &tensors, int64_t max_bytes) {
    std::vector<std::vector<size_t>> out(1);
    int64_t filled = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const Tensor &t = tensors.items()[i].second;
        const int64_t bytes = t.numel() * size_of(t.dtype());
        if (max_bytes > 0 && !out.back().empty() && filled + bytes > max_bytes) {
            out.emplace_back();
            filled = 0;
        }
        out.back().push_back(i);
        filled += bytes;
    }
    return out;
}

} // namespace

bool is_safetensors_index(const Source &source) {
    // Eight characters of an index would be a length of a header beyond any file.
    return source.begins_with("{") &&
           (source.bytes.size() < sizeof(uint64_t) || source.number<uint64_t>(0) > kMaxHead);
}

StateDict read_safetensors(const Source &source, SafetensorsInfo *info) {
    const Head head = parse_head(source);
    StateDict out;
    if (info) {
        for (const Entry &entry : head.entries)
            info->tensors.push_back(entry.info);
        info->metadata.insert(head.metadata.begin(), head.metadata.end());
        return out;
    }
    for (const Entry &entry : head.entries)
        out.insert(entry.info.name, tensor_of(source, "tensor " + in_quotes(entry.info.name),
                                              head.elements.subspan(entry.begin, entry.end - entry.begin),
                                              entry.info.dtype, entry.info.sizes));
    return out;
}

StateDict read_safetensors_index(const Source &source, const LoadOptions &options, SafetensorsInfo *info) {
    const Json json = parse_json(source, source.text(0, source.bytes.size()), "the index");
    const Json &map = member(source, json, "weight_map", Json::Kind::Object, "the index");
    std::map<std::string, StateDict> files;
    StateDict out;
    for (size_t i = 0; i < map.keys.size(); ++i) {
        const std::string &name = map.keys[i];
        const Json &file = map.list[i];
        if (file.kind != Json::Kind::Text || file.text.empty() || file.text[0] == '.' ||
            file.text.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
            source.fail(
                fmt::format("the file of tensor {} is no name of a file beside the index", in_quotes(name)));
        auto found = files.find(file.text);
        if (found == files.end()) {
            const Source shard = open_file(folder_of(source.name) + file.text, options.memory_map,
                                           source.function, source.loc);
            found = files.emplace(file.text, read_safetensors(shard, info)).first;
        }
        if (info)
            continue;
        const Tensor *const tensor = found->second.find(name);
        if (!tensor)
            source.fail(fmt::format("tensor {} is not in {}, where the index says it is", in_quotes(name),
                                    in_quotes(file.text)));
        out.insert(name, *tensor);
    }
    return out;
}

void write_safetensors(const StateDict &tensors, const std::string &path, const SaveOptions &options,
                       Location loc) {
    check_names(tensors, loc);
    const std::vector<std::vector<size_t>> parts = shards(tensors, options.max_shard_bytes);
    if (parts.size() == 1) {
        ReplacedFile file(path, "save", loc);
        write_one(tensors, parts[0], options.metadata, file, loc);
        file.commit();
        return;
    }
    constexpr std::string_view kEnding = ".safetensors";
    const std::string stem = path.ends_with(kEnding) ? path.substr(0, path.size() - kEnding.size()) : path;
    const std::string folder = folder_of(path);
    std::vector<std::unique_ptr<ReplacedFile>> files;
    std::string index = "{\"metadata\":{\"total_size\":";
    int64_t total = 0;
    std::string map;
    for (size_t i = 0; i < parts.size(); ++i) {
        const std::string name = fmt::format("{}-{:05}-of-{:05}{}", stem, i + 1, parts.size(), kEnding);
        files.push_back(std::make_unique<ReplacedFile>(name, "save", loc));
        write_one(tensors, parts[i], options.metadata, *files.back(), loc);
        files.back()->flush();
        for (const size_t t : parts[i]) {
            const auto &[key, tensor] = tensors.items()[t];
            total += tensor.numel() * size_of(tensor.dtype());
            map += fmt::format("{}\n  {}: {}", map.empty() ? "" : ",", json_text(key, "save", loc),
                               json_text(name.substr(folder.size()), "save", loc));
        }
    }
    ReplacedFile last(path + ".index.json", "save", loc);
    last.write(fmt::format("{}{}}},\n \"weight_map\": {{{}\n }}\n}}\n", index, total, map));
    last.flush();
    // All of it is on the disk: what can fail now is a rename.
    for (const auto &file : files)
        file->commit();
    last.commit();
}

void write_safetensors(const StateDict &tensors, std::ostream &stream, const SaveOptions &options,
                       Location loc) {
    if (options.max_shard_bytes > 0)
        throw IoError("save: a stream is one file, and max_shard_bytes asks for several", loc);
    check_names(tensors, loc);
    Stream out{stream};
    write_one(tensors, shards(tensors, 0)[0], options.metadata, out, loc);
    if (!stream.flush())
        throw IoError("save: the stream failed while it was written to", loc);
}

SafetensorsInfo safetensors_info(const std::string &path, Location loc) {
    const Source source = open_file(path, true, "safetensors_info", loc);
    SafetensorsInfo info;
    if (is_safetensors_index(source))
        read_safetensors_index(source, {}, &info);
    else
        read_safetensors(source, &info);
    return info;
}

} // namespace lz::io
