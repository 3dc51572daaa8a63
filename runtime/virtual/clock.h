#pragma once
/// When things would run on the hardware of a VirtualModel. Times are computed while work is issued, so they
/// depend on the order of issue and on nothing that the host's threads do: the same program has the same
/// timeline on a laptop and on a loaded server.
///
/// The host has a clock, which each call moves by what the call costs, and which waiting for a stream moves
/// to the moment waited for. Each stream has one, too. A device has these engines: kernels, copies in, copies
/// out, and peer copies in and out. Work takes the first gap of its engine after the host has issued it (and
/// its latency has passed) and its stream has come to it. Copy engines do one thing at a time; a copy takes
/// its bytes at the slower end of its route. Copies from or to pageable memory keep the host.
///
/// Kernels share the device's bandwidth and arithmetic. A kernel or library call needs the whole device for
/// the longer of its bytes at the bandwidth and its operations at the rate, and nothing else runs meanwhile.
/// Where that is shorter than a wave of blocks (VirtualModel::wave_seconds) it takes a wave, and of the
/// device only the part that gives it its rate: such kernels run side by side as far as their parts add up to
/// no more than one device. Launch latencies overlap.
///
/// What this does not model: caches, clocks and occupancy beyond that, tensor cores, the last wave of a large
/// kernel, into which another could begin, priorities of streams, contention of several GPUs for the host's
/// memory or for one link, page faults, the host's own work between calls (recording, compiling, the user's
/// code), and questions that do not wait (`query`).

#include "ir/stream.h"
#include "runtime/api/backend.h"
#include "runtime/virtual/model.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace lz::runtime {

class VirtualClock {
public:
    explicit VirtualClock(VirtualModel model) : model_(std::move(model)) {}

    const VirtualModel &model() const { return model_; }

    /// Held by a backend around a call below and the putting of the item that it is for, so that both happen
    /// in one order. Every item that is put on a stream needs exactly one call.
    [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

    // The rest expects the lock. Streams of the CPU are here too; its stream 0 is the host itself.

    /// A kernel or library call.
    TimeSpan work(ir::StreamRef stream, int64_t bytes, int64_t flops);
    enum class Route : uint8_t { In, Out, Inside, Peer };
    /// A copy by `stream`, whose device it leaves (Out, Peer) or enters (In); `peer` is the other one.
    TimeSpan copy(ir::StreamRef stream, Route route, size_t bytes, bool pageable, ir::Device peer = {});
    /// `stream` waits for the tick of another.
    void wait(ir::StreamRef stream, ir::StreamRef of, uint64_t tick);
    /// An item that takes no time. Returns its moment.
    int64_t pass(ir::StreamRef stream);
    /// The moment at which the stream would come to an item issued now.
    int64_t now(ir::StreamRef stream) const;
    /// Whether a tick is after the host's time.
    bool is_ahead(ir::StreamRef of, uint64_t tick) const { return time_of(of, tick) > host_; }
    /// The host waits for a tick.
    void synchronize(ir::StreamRef of, uint64_t tick);
    int64_t host() const { return host_; }

private:
    /// Something that does one thing at a time, or several that each need a part of it; what it will be busy
    /// with.
    class Timetable {
    public:
        static constexpr int64_t kWhole = 1 << 20;
        /// The first moment from `start` on at which so large a part of it is free for so long.
        int64_t gap(int64_t start, int64_t duration, int64_t part = kWhole) const;
        /// A part that is free.
        void take(int64_t begin, int64_t end, int64_t part = kWhole);
        /// Nothing will be asked before this moment.
        void forget(int64_t before);

    private:
        struct Busy {
            int64_t begin, end, part;
        };
        size_t split(int64_t at);

        std::vector<Busy> busy_; ///< in order, apart from each other; neighbours that touch have other parts
    };
    struct Engines {
        Timetable compute, in, out, peer_in, peer_out;
    };
    struct Stream {
        static constexpr size_t kRemembered = 4096;
        int64_t time = 0;
        uint64_t ticks = 0;
        std::vector<int64_t> ends; ///< of the last ticks
    };

    Stream &at(ir::StreamRef stream);
    Engines &engines(ir::Device device);
    int64_t time_of(ir::StreamRef stream, uint64_t tick) const;
    TimeSpan finish(Stream &stream, int64_t begin, int64_t duration);

    const VirtualModel model_;
    std::mutex mutex_;
    int64_t host_ = 0;
    std::map<int, Engines> engines_;    ///< by device
    std::map<int64_t, Stream> streams_; ///< by device and number
};

} // namespace lz::runtime
