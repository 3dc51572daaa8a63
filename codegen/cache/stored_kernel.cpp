#include "codegen/cache/stored_kernel.h"

#include "ir/diagnostic.h"
#include "ir/kernel/phase_fields.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lz::codegen {
namespace {

/// Writes what a disk entry holds, value after value.
class Writer {
public:
    template <class T>
    void put(T value)
        requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
    {
        put(std::as_bytes(std::span(&value, 1)));
    }
    void put(const std::string &text) {
        put(static_cast<uint32_t>(text.size()));
        put(std::as_bytes(std::span(text)));
    }
    void put(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

/// Reads it again.
class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
    template <class T>
    void get(T &value)
        requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
    {
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
    }
    void get(std::string &text) {
        const auto bytes = take(count());
        text.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    }
    uint32_t count() {
        uint32_t n;
        get(n);
        return n;
    }
    std::span<const std::byte> rest() const { return rest_; }

private:
    std::span<const std::byte> take(size_t bytes) {
        LZ_CHECK(bytes <= rest_.size(), "an entry of the kernel cache ends early");
        const auto taken = rest_.first(bytes);
        rest_ = rest_.subspan(bytes);
        return taken;
    }
    std::span<const std::byte> rest_;
};

/// Of the number of phases, where the code is a unit's.
constexpr uint32_t kOfUnit = 0x80000000U;

} // namespace

std::vector<std::byte> serialise(const ir::CompiledKernel &kernel, std::string_view unit) {
    Writer to;
    to.put(kernel.format);
    to.put(static_cast<uint32_t>(kernel.phases.size()) | (unit.empty() ? 0 : kOfUnit));
    for (const ir::CompiledPhase &phase : kernel.phases) {
        to.put(static_cast<uint32_t>(phase.alignments.size()));
        to.put(static_cast<uint32_t>(phase.parameters.size()));
        ir::for_stored_fields(phase, [&](const auto &value) { to.put(value); });
    }
    to.put(unit.empty() ? std::span<const std::byte>(kernel.object) : std::as_bytes(std::span(unit)));
    return to.take();
}

StoredKernel deserialise(std::span<const std::byte> bytes, const std::string &name) {
    StoredKernel stored;
    ir::CompiledKernel &kernel = stored.kernel;
    kernel.name = name;
    Reader from(bytes);
    from.get(kernel.format);
    const uint32_t phases = from.count();
    kernel.phases.resize(phases & ~kOfUnit);
    for (ir::CompiledPhase &phase : kernel.phases) {
        phase.alignments.resize(from.count());
        phase.parameters.resize(from.count());
        ir::for_stored_fields(phase, [&](auto &value) { from.get(value); });
    }
    if (phases & kOfUnit)
        stored.unit.assign(reinterpret_cast<const char *>(from.rest().data()), from.rest().size());
    else
        kernel.object.assign(from.rest().begin(), from.rest().end());
    return stored;
}

} // namespace lz::codegen
