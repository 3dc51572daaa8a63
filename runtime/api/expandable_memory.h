#pragma once
/// Memory that is put behind addresses which are there before it, so that a caching allocator's segments grow
/// where they are and give back what is free in their middle.

#include <cstddef>

namespace lz::runtime {

/// Virtual memory management of a device. All functions may be called from any thread.
class ExpandableMemory {
public:
    virtual ~ExpandableMemory() = default;
    /// Addresses and sizes are multiples of this, a multiple of 512.
    virtual size_t unit() const = 0;
    /// As many addresses as the device has bytes, rounded up to a unit.
    virtual size_t addresses() const = 0;

    /// `addresses()` of them with no memory behind; null where there are no more.
    virtual char *reserve() = 0;
    /// What `reserve` gave, with all memory that is still behind it; that is waited for as by `unmap`.
    virtual void release(char *begin) noexcept = 0;

    /// Puts memory behind addresses that have none, all of it or nothing. Throws Failure(OutOfMemory) where
    /// the device has no such memory, Failure(Cuda) where it is lost.
    virtual void map(char *at, size_t bytes) = 0;
    struct Range {
        char *begin = nullptr;
        size_t bytes = 0;
    };
    /// Memory comes in pieces, which are given back whole: those that lie inside of these addresses, all of
    /// which have memory. They are one range; it may be empty.
    virtual Range pieces(char *at, size_t bytes) noexcept = 0;
    /// Takes the memory of such a range away, when the device is done with what is on its streams.
    virtual void unmap(char *at, size_t bytes) noexcept = 0;
};

} // namespace lz::runtime
