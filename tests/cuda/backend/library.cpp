#include "backend/library.h"

#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>

namespace lz::test {

using ir::DType;
using runtime::Backend;

namespace {

/// Whether the element is a NaN: which one is not promised.
bool is_nan(DType dtype, const std::byte *at) {
    uint64_t bits = 0;
    std::memcpy(&bits, at, static_cast<size_t>(ir::size_of(dtype)));
    switch (dtype) {
    case DType::F16:
        return (bits & 0x7FFF) > 0x7C00;
    case DType::BF16:
        return (bits & 0x7FFF) > 0x7F80;
    case DType::F32:
        return (bits & 0x7FFFFFFF) > 0x7F800000;
    case DType::F64:
        return (bits & ~(uint64_t{1} << 63)) > 0x7FF0000000000000;
    default:
        return false;
    }
}

} // namespace

Bytes random_elements(DType dtype, int64_t count, std::mt19937_64 &engine, int64_t spread) {
    const auto size = static_cast<size_t>(ir::size_of(dtype));
    Bytes bytes(static_cast<size_t>(count) * size);
    const auto number = [&](double v) -> uint64_t {
        switch (dtype) {
        case DType::F16:
            return ir::float_to_half(static_cast<float>(v));
        case DType::BF16:
            return ir::float_to_bfloat(static_cast<float>(v));
        case DType::F32:
            return std::bit_cast<uint32_t>(static_cast<float>(v));
        default:
            return std::bit_cast<uint64_t>(v);
        }
    };
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        uint64_t bits = engine();
        const uint64_t kind = engine() % 64;
        if (dtype == DType::Bool)
            bits &= 1;
        else if (!ir::is_float(dtype))
            bits = kind < 8 ? bits : bits % static_cast<uint64_t>(spread);
        else if (kind < 40)
            bits = number(static_cast<double>(static_cast<int64_t>(bits % 41) - 20) / 7.0);
        else if (kind < 60)
            bits = number(static_cast<double>(bits % static_cast<uint64_t>(spread)) - 2);
        else
            bits = number(kind == 60   ? -0.0
                          : kind == 61 ? 0.0
                          : kind == 62 ? 1e30
                                       : std::array{kInfinity, -kInfinity, -kInfinity, 7.0}[bits % 4]);
        std::memcpy(bytes.data() + i * size, &bits, size);
    }
    return bytes;
}

void put_nans(DType dtype, Bytes &bytes, std::mt19937_64 &engine) {
    const auto size = static_cast<size_t>(ir::size_of(dtype));
    for (size_t i = 0; ir::is_float(dtype) && i + size <= bytes.size(); i += size)
        if (engine() % 16 == 0) {
            uint64_t bits = dtype == DType::F16    ? 0x7E00
                            : dtype == DType::BF16 ? 0x7FC0
                            : dtype == DType::F32  ? 0x7FC00000
                                                   : 0x7FF8000000000000;
            bits |= (engine() & 1) << (8 * size - 1);
            std::memcpy(bytes.data() + i, &bits, size);
        }
}

std::string library_difference(const LibraryBuffer &expected, const Bytes &found) {
    const auto size = static_cast<size_t>(ir::size_of(expected.dtype));
    if (found.size() != expected.bytes.size())
        return "another number of bytes";
    std::string wrong;
    int count = 0;
    for (size_t i = 0; i < found.size() && count < 4; i += size)
        if (std::memcmp(&found[i], &expected.bytes[i], size) != 0 &&
            !(is_nan(expected.dtype, &found[i]) && is_nan(expected.dtype, &expected.bytes[i]))) {
            uint64_t is = 0, should_be = 0;
            std::memcpy(&is, &found[i], size);
            std::memcpy(&should_be, &expected.bytes[i], size);
            wrong += fmt::format("{} element {}: {:x}, should be {:x}\n", ir::name(expected.dtype), i / size,
                                 is, should_be);
            ++count;
        }
    return wrong;
}

std::unique_ptr<ir::Fault> call_on_host(const char *symbol, const std::vector<int64_t> &ints,
                                        std::vector<LibraryBuffer> &buffers) {
    const ir::LibraryRule *const rule = runtime::cpu_library().find(symbol);
    ir::DeviceInfo info;
    info.cpu().threads = 2;
    const auto count = static_cast<size_t>(rule->scratch_bytes ? rule->scratch_bytes(ints, info) : 0);
    std::unique_ptr<std::byte[], decltype(&std::free)> scratch(
        static_cast<std::byte *>(std::aligned_alloc(64, (count + 64) / 64 * 64)), &std::free);
    auto fault = std::make_unique<ir::Fault>();
    std::vector<void *> pointers;
    for (LibraryBuffer &buffer : buffers)
        pointers.push_back(buffer.bytes.data());
    runtime::find_cpu_function(symbol)({pointers, ints, fault.get(), {scratch.get(), count}});
    return fault;
}

std::vector<int64_t> scatter_ints(DType dtype, DType index, bool reduce, Folded x, int64_t count,
                                  Folded strides) {
    return {static_cast<int64_t>(dtype),
            static_cast<int64_t>(index),
            1,
            reduce,
            77,
            strides[0],
            strides[1],
            strides[2],
            3,
            x[0],
            x[1],
            x[2],
            x[0],
            count,
            x[2]};
}

std::vector<Bytes> CudaLibrary::call_on_gpu(const char *symbol, const std::vector<int64_t> &ints,
                                            const std::vector<LibraryBuffer> &buffers, size_t past,
                                            const runtime::LibraryFn &function) {
    const ir::LibraryRule *const rule = gpu().library().find(symbol);
    ir::DeviceInfo info;
    info.limits = *gpu().properties().cuda;
    Backend::Call c{};
    c.function = function ? function : gpu().find_library(symbol);
    EXPECT_FALSE(c.function.is_on_host());
    const auto count = static_cast<size_t>(rule->scratch_bytes ? rule->scratch_bytes(ints, info) : 0);
    std::vector<void *> pointers;
    for (const LibraryBuffer &buffer : buffers) {
        auto *const memory = allocate<std::byte>(buffer.bytes.size() + past) + past;
        gpu().copy(memory, buffer.bytes.data(), buffer.bytes.size(), 0);
        pointers.push_back(memory);
    }
    finish();
    auto *const scratch = count ? allocate<std::byte>(count) : nullptr;
    const auto give = [this](ir::Fault *fault) { gpu().free_faults(fault, 1); };
    const std::unique_ptr<ir::Fault, decltype(give)> fault(gpu().allocate_faults(1), give);
    c.args.buffers = pointers;
    c.args.ints = ints;
    c.args.fault = fault.get();
    c.args.scratch = {scratch, count};
    gpu().call(c, 0);
    finish();
    std::vector<Bytes> results;
    for (size_t b = 0; b < buffers.size(); ++b) {
        results.push_back(read(static_cast<const std::byte *>(pointers[b]), buffers[b].bytes.size()));
        give_back(static_cast<std::byte *>(pointers[b]) - past);
    }
    if (scratch)
        give_back(scratch);
    Bytes &copy = results.emplace_back(sizeof(ir::Fault));
    std::memcpy(copy.data(), static_cast<const void *>(fault.get()), sizeof(ir::Fault));
    return results;
}

void CudaLibrary::compare(const char *symbol, const std::vector<int64_t> &ints,
                          std::vector<LibraryBuffer> buffers, const std::string &what, size_t past) {
    const std::vector<LibraryBuffer> inputs = buffers;
    const std::unique_ptr<ir::Fault> fault_there = call_on_host(symbol, ints, buffers);
    const ir::Fault &expected = *fault_there;
    const std::vector<Bytes> results = call_on_gpu(symbol, ints, inputs, past);
    for (size_t b = 0; b < buffers.size(); ++b)
        EXPECT_EQ(library_difference(buffers[b], results[b]), "") << what << " buffer " << b;
    const auto &found = *reinterpret_cast<const ir::Fault *>(results.back().data());
    EXPECT_EQ(found.code.load(), expected.code.load()) << what;
    if (expected.code.load() != 0) {
        EXPECT_EQ(found.source, expected.source) << what;
        EXPECT_EQ(found.value, expected.value) << what;
        EXPECT_EQ(found.limit, expected.limit) << what;
    }
}

} // namespace lz::test
