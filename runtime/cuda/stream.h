#pragma once
/// A stream of a GPU. Its ticks are events, a ring of them: the moment after what was put so far is recorded
/// when somebody asks for it, and whether it has come is a comparison before it is a question to the driver.
/// An event is recorded again when its moment has come and nobody holds it, so nobody waits for a later
/// moment than he asked for: what comes after that one may be waiting for him. The ring grows while the
/// stream is behind.
///
/// A thread of the host stands beside a stream that needs one, for what a driver's callback must not do
/// (wait, or call the user): it waits for a moment of the stream, does its work and writes a word that the
/// stream waits for.

#include "runtime/cuda/device.h"
#include "runtime/cuda/event.h"
#include "runtime/streams/queue.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lz::runtime::cuda {

class CudaStream {
public:
    CudaStream(const CudaDevice &device, StreamId number);
    /// What is on it is done first; nobody waits for that.
    ~CudaStream();
    CudaStream(const CudaStream &) = delete;
    CudaStream &operator=(const CudaStream &) = delete;

    StreamId number() const { return number_; }
    /// Of what is put from now on: 0 is normal, below it more urgent. Order stays.
    void set_priority(int priority);

    /// `put(CUstream)` puts something on the stream, and returns what the driver said, which `what` names.
    /// The context is current.
    template <class F>
    void put(std::string_view what, F &&put) {
        const std::lock_guard lock(mutex_);
        dirty_ = true;
        device_.check(std::forward<F>(put)(handle_), what);
    }

    /// As Backend's. On a lost device `reached` and `synchronize` throw, when the thread beside the stream
    /// has ended what it was doing: it may be a copy from or to memory that the caller then frees.
    uint64_t record() noexcept;
    bool reached(uint64_t tick);
    void synchronize(uint64_t tick);
    /// Goes on when `tick` of the other has come.
    void wait(CudaStream &other, uint64_t tick);
    /// Goes on when the word has reached the value.
    void wait(uint64_t *word, uint64_t value);
    /// Goes on when what another library has put so far on a stream of its own is over.
    void wait_foreign(CUstream foreign);
    /// That stream goes on when `tick` of this one has come.
    void foreign_waits(CUstream foreign, uint64_t tick);

    /// Puts work on the host's thread beside the stream, in the stream's order: it begins when the stream has
    /// come there, and the stream goes on when it is over (also when it was never begun, on a lost device).
    void call_host(std::function<void()> work);

    /// Several calls on the thread beside the stream that belong together: held while they are put.
    class Beside;

private:
    friend class Beside;
    static constexpr size_t kSmallestRing = 64;
    static constexpr size_t kLevels = 6;
    struct Moment {
        std::shared_ptr<const OwnedEvent> event;
        uint64_t tick = 0;
    };

    void make(size_t level);
    void destroy() noexcept;
    std::shared_ptr<const OwnedEvent> make_event() const;
    uint64_t record_locked() noexcept;
    bool has_come(const Moment &moment);
    Moment &next_moment();
    std::shared_ptr<const OwnedEvent> still_to_come(uint64_t tick);
    StreamQueue &thread();
    bool is_over(uint64_t tick);
    template <class Over>
    void wait_until(uint64_t tick, Over over);
    void wait_for_device(uint64_t tick) noexcept;
    bool uses_host() const;

    const CudaDevice &device_;
    const StreamId number_;
    CUstream handle_ = nullptr;             ///< that things are put on now
    std::array<CUstream, kLevels> handles_; ///< by urgency; null: not made yet
    std::mutex mutex_;
    bool dirty_ = false;       ///< something was put since the last moment
    uint64_t ticks_ = 0;       ///< moments so far
    std::vector<Moment> ring_; ///< a moment lies at its tick modulo the size; those before have come
    std::atomic<uint64_t> reached_{0};

    std::mutex beside_mutex_; ///< of who puts work beside the stream; taken before the mutex of the stream
    std::shared_ptr<StreamQueue> thread_;
    std::atomic<StreamQueue *> made_thread_ = nullptr; ///< that, for those who do not hold the mutex
    std::atomic<std::thread::id> thread_id_{};         ///< of who does what is put beside
    uint64_t word_value_ = 0; ///< that the word will have when all work put beside is over
};

/// See CudaStream::Beside.
class CudaStream::Beside {
public:
    explicit Beside(CudaStream &stream) : stream_(stream), lock_(stream.beside_mutex_) {}
    /// Waits for work that the stream does not wait for, because putting that failed: whoever is told of the
    /// failure may use again what the work reads and writes.
    ~Beside();
    Beside(const Beside &) = delete;
    Beside &operator=(const Beside &) = delete;
    /// The thread goes on when the stream has come to `tick`.
    void wait(uint64_t tick);
    /// Work of the thread. Returns the value that the stream's word has when it is over.
    uint64_t run(std::function<void()> work);
    /// The stream goes on when the word has this value.
    void stream_waits(uint64_t value);

private:
    CudaStream &stream_;
    const std::lock_guard<std::mutex> lock_;
    uint64_t put_ = 0, awaited_ = 0; ///< the last values of work put, and of work that the stream waits for
};

} // namespace lz::runtime::cuda
