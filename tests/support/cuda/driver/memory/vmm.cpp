// Virtual memory management: addresses are reserved, memory is created, one is mapped to the other, and each
// device is given access.

#include "tests/support/cuda/driver/handles.h"
#include "tests/support/cuda/driver/memory/memory.h"
#include "tests/support/cuda/driver/memory/spare.h"
#include "tests/support/cuda/driver/settings.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace lz::fake_cuda {
namespace {

constexpr size_t kGranularity = size_t{2} << 20;

struct File {
    explicit File(int number_) : number(number_) {}
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    ~File() {
        if (number >= 0)
            ::close(number);
    }
    const int number;
};
using FilePtr = std::unique_ptr<const File>;

Spare<FilePtr> &spare_files() {
    static auto *const files = new Spare<FilePtr>;
    return *files;
}

/// A file that has no name, so that it can be at several addresses of the host, too.
struct Physical {
    int device = 0;
    size_t bytes = 0;
    CUmemAllocationProp properties{};
    FilePtr file;

    ~Physical() {
        if (file)
            spare_files().put(bytes, std::move(file));
        context_of_device(device).used -= bytes;
    }

    /// Puts it at `place`, too. False: there is no memory.
    bool map(void *place) const {
        return ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->number, 0) !=
               MAP_FAILED;
    }
};

/// Addresses of a device, and as many of the host's, so that what lies side by side there does so here.
struct Reserved {
    size_t bytes = 0;
    unsigned char *host = nullptr;
};

/// Under the driver's lock.
struct Virtual {
    Handles<CUmemGenericAllocationHandle, Physical> handles{"handle of memory"};
    std::map<uint64_t, Reserved> reserved;
    std::map<uint64_t, std::shared_ptr<Physical>> mapped; ///< by address; they outlive their handle
};

Virtual &state() {
    static auto *const s = new Virtual;
    return *s;
}

void check_properties(const CUmemAllocationProp *p) {
    need(p, "prop");
    if (p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        refuse(CUDA_ERROR_INVALID_VALUE, "only page-locked memory of a device is there");
    context_of_device(p->location.id);
    if (p->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
        refuse(CUDA_ERROR_NOT_SUPPORTED, "memory cannot be shared between processes");
}

void check_size(size_t bytes, const char *name) {
    if (bytes == 0 || bytes % kGranularity != 0)
        refuse(CUDA_ERROR_INVALID_VALUE,
               fmt::format("{}: {} is no multiple of {}", name, bytes, kGranularity));
}

/// Where the host has a range that lies in one reservation; null: it does not.
unsigned char *host_of(uint64_t begin, size_t bytes) {
    const auto after = state().reserved.upper_bound(begin);
    if (after == state().reserved.begin())
        return nullptr;
    const auto &[at, reserved] = *std::prev(after);
    return begin + bytes <= at + reserved.bytes ? reserved.host + (begin - at) : nullptr;
}

/// As memory of cuMemAlloc: NaN, and no number that a test expects. It is written to the file and not to its
/// pages: each of those would be cleared first, and be a fault of its own. A file that was filled before is
/// read, which is faster, and written where it has changed.
bool fill(const Physical &physical, bool again) {
    constexpr size_t kFilled = size_t{64} << 20, kPiece = size_t{64} << 10;
    static const auto &ones = *new std::vector<unsigned char>(size_t{1} << 20, 0xff);
    const size_t end = std::min(physical.bytes, kFilled);
    const auto write = [&](size_t at, size_t bytes) {
        return ::pwrite(physical.file->number, ones.data(), bytes, static_cast<off_t>(at)) ==
               static_cast<ssize_t>(bytes);
    };
    if (again) {
        void *const memory = ::mmap(nullptr, end, PROT_READ, MAP_SHARED, physical.file->number, 0);
        if (memory == MAP_FAILED)
            return false;
        bool all = true;
        for (size_t at = 0; at < end && all; at += kPiece)
            if (std::memcmp(static_cast<const unsigned char *>(memory) + at, ones.data(), kPiece) != 0)
                all = write(at, kPiece);
        ::munmap(memory, end);
        return all;
    }
    for (size_t at = 0; at < end; at += ones.size())
        if (!write(at, std::min(ones.size(), end - at)))
            return false;
    return true;
}

/// The mapped blocks that make up a range exactly; refuses when they do not.
std::vector<Block> blocks_of(uint64_t begin, size_t bytes) {
    std::vector<Block> blocks;
    for (uint64_t at = begin; at < begin + bytes;) {
        auto block = address_space().find(at);
        if (!block || block->kind != BlockKind::Mapped || block->begin != at || block->end > begin + bytes)
            refuse(CUDA_ERROR_INVALID_VALUE,
                   fmt::format("{} bytes at 0x{:x} are not whole mappings", bytes, begin));
        at = block->end;
        blocks.push_back(std::move(*block));
    }
    return blocks;
}

uint32_t change_mask(uint32_t mask, int device, bool on) {
    const uint32_t bit = 1u << device;
    return on ? mask | bit : mask & ~bit;
}

void set_access(uint64_t begin, size_t bytes, const CUmemAccessDesc &access) {
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        refuse(CUDA_ERROR_INVALID_VALUE, "access is given to devices");
    const int device = context_of_device(access.location.id).device;
    const bool reads = access.flags & CU_MEM_ACCESS_FLAGS_PROT_READ;
    const bool writes = access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const auto blocks = blocks_of(begin, bytes);
    for (const Block &b : blocks)
        if (b.device != device && !settings().peers && reads)
            refuse(CUDA_ERROR_INVALID_DEVICE,
                   fmt::format("device {} cannot reach device {}", device, b.device));
    for (const Block &b : blocks)
        address_space().change(b.begin, [&](Block &block) {
            block.readers = change_mask(block.readers, device, reads);
            block.writers = change_mask(block.writers, device, writes);
        });
}

} // namespace

size_t physical_bytes_of(int device) {
    size_t bytes = 0;
    std::vector<const Physical *> seen;
    const auto add = [&](const Physical &p) {
        if (p.device == device && std::ranges::find(seen, &p) == seen.end()) {
            seen.push_back(&p);
            bytes += p.bytes;
        }
    };
    state().handles.each(add);
    for (const auto &[address, physical] : state().mapped)
        add(*physical);
    return bytes;
}

size_t live_physical_handles() {
    return state().handles.size() + state().reserved.size();
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags) {
    return call(__func__, [&](Lock &) {
        need(granularity, "granularity");
        check_properties(properties);
        *granularity = kGranularity;
    });
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t align, CUdeviceptr,
                             unsigned long long flags) {
    return call(__func__, [&](Lock &) {
        need(address, "ptr");
        check_size(bytes, "size");
        if (flags != 0 || (align & (align - 1)) != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "flags that are not 0, or an alignment that is no power of two");
        const uint64_t at = address_space().reserve(bytes, std::max(align, kGranularity));
        if (at == 0)
            refuse(CUDA_ERROR_OUT_OF_MEMORY, "no addresses are left");
        void *const host =
            ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (host == MAP_FAILED) {
            address_space().release(at, bytes);
            refuse(CUDA_ERROR_OUT_OF_MEMORY, "the host has no addresses left");
        }
        state().reserved[at] = {bytes, static_cast<unsigned char *>(host)};
        *address = at;
    });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    return call(__func__, [&](Lock &) {
        const auto found = state().reserved.find(address);
        if (found == state().reserved.end() || found->second.bytes != bytes)
            refuse(CUDA_ERROR_INVALID_VALUE, "this is not what was reserved");
        if (address_space().overlaps(address, address + bytes))
            refuse(CUDA_ERROR_INVALID_VALUE, "memory is mapped there");
        ::munmap(found->second.host, bytes);
        state().reserved.erase(found);
        address_space().release(address, bytes);
    });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags) {
    return call(__func__, [&](Lock &) {
        need(handle, "handle");
        check_properties(properties);
        check_size(bytes, "size");
        if (flags != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "flags have to be 0");
        take_memory(context_of_device(properties->location.id), bytes);
        auto physical = std::make_shared<Physical>();
        physical->device = properties->location.id;
        physical->bytes = bytes;
        physical->properties = *properties;
        std::optional<FilePtr> spare = spare_files().take(bytes);
        physical->file = spare
                             ? std::move(*spare)
                             : std::make_unique<const File>(::memfd_create("lazuli_fake_cuda", MFD_CLOEXEC));
        const int file = physical->file->number;
        if (file < 0 || (!spare && ::ftruncate(file, static_cast<off_t>(bytes)) != 0) ||
            !fill(*physical, spare.has_value())) {
            physical->file.reset();
            refuse(CUDA_ERROR_OUT_OF_MEMORY, "the host has no such memory");
        }
        *handle = state().handles.add(std::move(physical));
    });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return call(__func__, [&](Lock &) {
        if (!state().handles.has(handle))
            refuse(CUDA_ERROR_INVALID_VALUE, "this is no live handle of memory");
        state().handles.remove(handle);
    });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                CUmemGenericAllocationHandle handle) {
    return call(__func__, [&](Lock &) {
        need(properties, "prop");
        *properties = state().handles.get(handle)->properties;
    });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    return call(__func__, [&](Lock &) {
        check_size(bytes, "size");
        if (!state().handles.has(handle))
            refuse(CUDA_ERROR_INVALID_VALUE, "this is no live handle of memory");
        const auto physical = state().handles.get(handle);
        if (flags != 0 || offset != 0 || bytes != physical->bytes || address % kGranularity != 0)
            refuse(CUDA_ERROR_INVALID_VALUE,
                   "the whole of what was created is mapped, at a multiple of the granularity");
        unsigned char *const host = host_of(address, bytes);
        if (!host)
            refuse(CUDA_ERROR_INVALID_VALUE, "the addresses are not reserved");
        if (address_space().overlaps(address, address + bytes))
            refuse(CUDA_ERROR_INVALID_VALUE, "memory is mapped there");
        if (!physical->map(host))
            refuse(CUDA_ERROR_OUT_OF_MEMORY, "the host has no such memory");
        Block block;
        block.begin = address;
        block.end = address + bytes;
        block.host = host;
        block.kind = BlockKind::Mapped;
        block.device = physical->device;
        address_space().add(std::move(block));
        state().mapped[address] = physical;
    });
}

// Waits for nothing: what runs and uses the memory finds none. (The host's pages stay until others come
// there.)
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    return call(__func__, [&](Lock &) {
        for (const Block &b : blocks_of(address, bytes)) {
            address_space().remove(b.begin);
            state().mapped.erase(b.begin);
        }
    });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    return call(__func__, [&](Lock &) {
        need(access, "desc");
        for (size_t i = 0; i < count; ++i)
            set_access(address, bytes, access[i]);
    });
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address) {
    return call(__func__, [&](Lock &) {
        need(flags, "flags");
        need(location, "location");
        const auto block = address_space().find(address);
        if (!block || block->kind != BlockKind::Mapped || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
            refuse(CUDA_ERROR_INVALID_VALUE, "no mapping, or no device");
        const int device = context_of_device(location->id).device;
        *flags = block->writers >> device & 1   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : block->readers >> device & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    });
}
