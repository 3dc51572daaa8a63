// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "frontend/io/formats.h"
#include "frontend/io/zip.h"

#include "lazuli/ops/views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace lz::io {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;

constexpr std::array<std::pair<std::string_view, DType>, 9> kDtypes{{{"b1", DType::Bool},
                                                                     {"u1", DType::U8},
                                                                     {"i1", DType::I8},
                                                                     {"i2", DType::I16},
                                                                     {"i4", DType::I32},
                                                                     {"i8", DType::I64},
                                                                     {"f2", DType::F16},
                                                                     {"f4", DType::F32},
                                                                     {"f8", DType::F64}}};

struct Head {
    DType dtype = DType::F32;
    bool big_endian = false, fortran = false;
    Sizes sizes;
};

/// The header: a dictionary as Python writes it, with three keys.
class HeadParser {
public:
    HeadParser(const Source &source, std::string_view text) : source_(source), text_(text) {}

    Head parse() {
        Head head;
        bool dtype = false, order = false, shape = false;
        expect('{');
        while (!take('}')) {
            const std::string_view key = string();
            expect(':');
            if (key == "descr" && !std::exchange(dtype, true))
                parse_dtype(head);
            else if (key == "fortran_order" && !std::exchange(order, true))
                head.fortran = truth();
            else if (key == "shape" && !std::exchange(shape, true))
                head.sizes = tuple();
            else
                fail(fmt::format("names {} twice, or should not", in_quotes(key)));
            if (!take(',')) {
                expect('}');
                break;
            }
        }
        skip();
        if (at_ != text_.size() || !dtype || !order || !shape)
            fail("is not made of descr, fortran_order and shape");
        return head;
    }

private:
    [[noreturn]] void fail(const std::string &what) const { source_.fail("its header " + what); }
    void skip() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n'))
            ++at_;
    }
    bool take(char c) {
        skip();
        if (at_ >= text_.size() || text_[at_] != c)
            return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c))
            fail(fmt::format("has no '{}' at byte {}", c, at_));
    }
    bool word(std::string_view word) {
        skip();
        if (!text_.substr(at_).starts_with(word))
            return false;
        at_ += word.size();
        return true;
    }
    std::string_view string() {
        skip();
        const char quote = at_ < text_.size() ? text_[at_] : '\0';
        const size_t end =
            quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
        if (end == std::string_view::npos)
            fail(fmt::format("has no string at byte {}", at_));
        const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        return out;
    }
    bool truth() {
        if (word("True"))
            return true;
        if (!word("False"))
            fail("says neither True nor False of fortran_order");
        return false;
    }
    Sizes tuple() {
        Sizes sizes;
        expect('(');
        while (!take(')')) {
            skip();
            int64_t extent = 0;
            const auto [end, error] =
                std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
            if (error != std::errc() || extent < 0)
                fail(fmt::format("has no extent at byte {}", at_));
            at_ = static_cast<size_t>(end - text_.data());
            word("L"); // of Python 2
            sizes.push_back(extent);
            if (sizes.size() > 64)
                fail("has more than 64 axes");
            if (!take(',')) {
                expect(')');
                break;
            }
        }
        return sizes;
    }
    void parse_dtype(Head &head) {
        skip();
        if (at_ < text_.size() && text_[at_] == '[')
            source_.fail(fmt::format("its elements are structures of the type {}; save each field by itself",
                                     in_quotes(text_.substr(at_, text_.find(']', at_) - at_ + 1))));
        const std::string_view descr = string();
        const auto *const row = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto &known) {
            return descr.size() == 3 && descr.substr(1) == known.first;
        });
        if (row == kDtypes.end() || std::string_view("<>|=").find(descr[0]) == std::string_view::npos)
            source_.fail(
                fmt::format("its elements are of dtype {}, which Lazuli does not have", in_quotes(descr)));
        head.dtype = row->second;
        head.big_endian = descr[0] == '>' && size_of(head.dtype) > 1;
    }

    const Source &source_;
    std::string_view text_;
    size_t at_ = 0;
};

Source swapped(const Source &source, std::span<const std::byte> bytes, size_t width, Budget &budget) {
    if (!budget.take(bytes.size()))
        source.fail(fmt::format(
            "its {} bytes are big-endian, and a copy of them is more than the {} that may be taken "
            "(max_unpacked_bytes)",
            bytes.size(), budget.max()));
    const Buffer buffer(bytes.size());
    for (size_t at = 0; at < bytes.size(); at += width)
        std::reverse_copy(bytes.data() + at, bytes.data() + at + width, buffer.data() + at);
    Source out = source.part(source.name, buffer.span());
    out.owner = buffer.owner();
    return out;
}

} // namespace

Tensor read_npy(const Source &source, Budget &budget) {
    if (!source.begins_with(kMagic) || source.bytes.size() < 10)
        source.fail("it is no .npy file");
    const int major = static_cast<int>(source.bytes[6]);
    if (major < 1 || major > 3)
        source.fail(fmt::format("its format is version {}; 1 to 3 are read", major));
    const size_t begin = major == 1 ? 10 : 12;
    if (source.bytes.size() < begin)
        source.fail("its header is cut short");
    const size_t length = major == 1 ? source.number<uint16_t>(8) : source.number<uint32_t>(8);
    if (length > source.bytes.size() - begin)
        source.fail(fmt::format("its header would have {} bytes, and {} are there", length,
                                source.bytes.size() - begin));
    const Head head = HeadParser(source, source.text(begin, length)).parse();
    const std::string what = "its array";
    const uint64_t bytes = checked_bytes(source, what, head.sizes, head.dtype);
    const std::span<const std::byte> elements = source.bytes.subspan(begin + length);
    if (elements.size() != bytes)
        source.fail(fmt::format("an array of shape [{}] and dtype {} has {} bytes, and {} are there",
                                fmt::join(head.sizes, ","), name(head.dtype), bytes, elements.size()));
    Sizes sizes = head.sizes;
    if (head.fortran)
        std::reverse(sizes.begin(), sizes.end());
    Tensor tensor;
    if (head.big_endian) {
        const Source copy = swapped(source, elements, static_cast<size_t>(size_of(head.dtype)), budget);
        tensor = tensor_of(copy, what, copy.bytes, head.dtype, sizes);
    } else {
        tensor = tensor_of(source, what, elements, head.dtype, sizes);
    }
    if (!head.fortran || sizes.size() < 2)
        return tensor;
    Sizes axes;
    for (size_t i = sizes.size(); i > 0; --i)
        axes.push_back(static_cast<int64_t>(i - 1));
    return tensor.permute(axes, source.loc);
}

StateDict read_npz(const Source &source, const ZipReader &archive, Budget &budget) {
    constexpr std::string_view kEnding = ".npy";
    StateDict out;
    for (const ZipEntry &entry : archive.entries()) {
        if (!entry.name.ends_with(kEnding))
            source.fail(fmt::format("entry {} is no .npy file", in_quotes(entry.name)));
        const std::string name = entry.name.substr(0, entry.name.size() - kEnding.size());
        Source file = archive.open(entry, budget, true);
        file.name = source.name + ":" + entry.name;
        out.insert(name, read_npy(file, budget));
    }
    return out;
}

namespace {

std::string npy_head(const Tensor &tensor, const std::string &name, Location loc) {
    const auto *const row = std::find_if(kDtypes.begin(), kDtypes.end(),
                                         [&](const auto &known) { return known.second == tensor.dtype(); });
    if (row == kDtypes.end())
        throw IoError(
            fmt::format("save: tensor {} is of {}, which numpy does not have; save it .to(lz::f32), or as "
                        "safetensors",
                        in_quotes(name), lz::name(tensor.dtype())),
            loc);
    const Sizes sizes = tensor.sizes();
    std::string head = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   size_of(tensor.dtype()) > 1 ? '<' : '|', row->first,
                                   fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
    constexpr size_t kBefore = 10;
    head.resize((kBefore + head.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kBefore - 1, ' ');
    head += '\n';
    const auto length = static_cast<uint16_t>(head.size());
    return std::string(kMagic) + std::string("\1\0", 2) +
           std::string(reinterpret_cast<const char *>(&length), sizeof length) + head;
}

} // namespace

std::span<const std::byte> elements_of(const Tensor &host, Location loc) {
    if (host.numel() == 0)
        return {};
    return {host.data<std::byte>(loc), static_cast<size_t>(host.numel() * size_of(host.dtype()))};
}

void write_npy(const StateDict &tensors, const std::string &path, Location loc) {
    if (tensors.size() != 1)
        throw IoError(
            fmt::format("save: a .npy file has one array, not {}; .npz has several", tensors.size()), loc);
    const auto &[name, tensor] = tensors.items()[0];
    const std::string head = npy_head(tensor, name, loc);
    ReplacedFile file(path, "save", loc);
    file.write(head);
    const Tensor host = tensor.detach(loc).cpu(loc);
    const std::span<const std::byte> bytes = elements_of(host, loc);
    file.write(bytes.data(), bytes.size());
    file.commit();
}

void write_npz(const StateDict &tensors, const std::string &path, bool compress, Location loc) {
    for (const auto &[name, tensor] : tensors) { // before the file is touched
        if (name.size() > 0xff00)
            throw IoError(fmt::format("save: the name {} is too long for an archive", in_quotes(name)), loc);
        (void)npy_head(tensor, name, loc);
    }
    ReplacedFile file(path, "save", loc);
    ZipWriter archive(file);
    for (const auto &[name, tensor] : tensors) {
        const Tensor host = tensor.detach(loc).cpu(loc);
        archive.add(name + ".npy", npy_head(tensor, name, loc), elements_of(host, loc), compress);
    }
    archive.finish();
    file.commit();
}

} // namespace lz::io
