#pragma once
/// Leaving `main` while other threads compute (S68). Libraries that we stand on (LLVM, oneTBB) have static
/// objects, which are destroyed then, whoever is using them.

#include <utility>

namespace lz::runtime {

/// While one exists on a thread, static objects of those libraries are there: `exit` waits for it as long as
/// the process computes (but not for ever: 5 seconds in which it does not, or a minute of processor time). A
/// thread that makes one when `exit` has begun stops in the constructor, and ends with the process; the
/// thread that leaves may go on, in destructors of the user's statics, and so may one that has another
/// already. Made before any lock is taken that others may wait for. Costs two atomic additions.
class BeforeExit {
public:
    /// Work that another thread is going to begin, or that may be left out when exit has begun: exit waits
    /// for it as if it had begun. When exit has begun already it says nothing.
    class Announced {
    public:
        Announced();
        ~Announced();
        Announced(Announced &&other) noexcept : counts_(std::exchange(other.counts_, false)) {}
        Announced &operator=(Announced &&) = delete;

        /// False when exit had begun already.
        explicit operator bool() const { return counts_; }

    private:
        friend class BeforeExit;
        bool counts_;
    };

    BeforeExit();
    /// Of the thread that begins such work.
    explicit BeforeExit(Announced work);
    ~BeforeExit();
    BeforeExit(const BeforeExit &) = delete;
    BeforeExit &operator=(const BeforeExit &) = delete;

    /// Whether who has one is waited for just now.
    static bool exit_has_begun();

private:
    explicit BeforeExit(bool is_counted);
};

} // namespace lz::runtime
