#include "runtime/executor/program/layout.h"

#include <algorithm>

namespace lz::runtime {

/// Works out where a run on streams meets earlier runs: at the first use of a parameter's memory on each
/// stream, and at the first use of memory that was taken in the order of another stream. Steps of one run are
/// ordered by the Program's own events.
class LoadedProgram::Layout::Order {
public:
    Order(Layout &layout, const ir::Program &program, const std::vector<DeviceSlot> &devices)
        : layout_(layout), program_(program), devices_(devices),
          results_(static_cast<uint32_t>(program.results.size())) {
        for (const ir::BufferDesc &b : program.buffers)
            if (b.kind == ir::BufferKind::Input)
                layout.num_params = std::max(layout.num_params, b.index + 1);
        layout.written.assign(layout.num_params, false);
        for (const uint32_t result : program.results)
            layout.result_homes.push_back({program.buffers[result].device, ir::kDefaultStream});
        layout.arena_tracks.resize(program.arenas.size());
        const size_t memories = layout.num_params + results_ + program.arenas.size();
        seen_.assign(layout.tracks.size(), std::vector<Seen>(memories));
        waited_.resize(layout.tracks.size());
        used_.assign(results_, false);
    }

    void run() {
        for (Action &action : layout_.actions) {
            action.touches = static_cast<uint32_t>(layout_.touches.size());
            action.waits = static_cast<uint32_t>(layout_.home_waits.size());
            for (const ir::ByteRange &access : program_.steps[action.step].accesses)
                visit(action, access);
            action.end_touches = static_cast<uint32_t>(layout_.touches.size());
            action.end_waits = static_cast<uint32_t>(layout_.home_waits.size());
        }
        for (size_t t = 0; t < layout_.tracks.size(); ++t)
            for (uint32_t m = 0; m < layout_.num_params + results_; ++m)
                if (const Seen &s = seen_[t][m]; s.read || s.written)
                    layout_.tracks[t].uses.push_back({m, s.written});
    }

private:
    /// What a track has done with a piece of memory so far.
    struct Seen {
        bool read = false, written = false;
    };

    /// Memory by number: parameters, results without a donor, arenas.
    uint32_t memory_of(const ir::BufferDesc &b) const {
        switch (b.kind) {
        case ir::BufferKind::Input:
            return b.index;
        case ir::BufferKind::Result:
            return b.donor >= 0 ? program_.buffers[static_cast<size_t>(b.donor)].index
                                : layout_.num_params + b.index;
        case ir::BufferKind::Arena:
        default: // a Program that runs has no others
            break;
        }
        return layout_.num_params + results_ + b.arena;
    }

    void visit(const Action &action, const ir::ByteRange &access) {
        const ir::BufferDesc &buffer = program_.buffers[access.buffer];
        if (buffer.bytes == 0)
            return;
        const uint32_t memory = memory_of(buffer);
        Seen &seen = seen_[action.track][memory];
        const bool first = !seen.read && !seen.written, first_write = access.write && !seen.written;
        (access.write ? seen.written : seen.read) = true;
        if (memory < layout_.num_params) {
            if (access.write)
                layout_.written[memory] = true;
            if (first || first_write)
                layout_.touches.push_back({memory, access.write});
        } else if (memory < layout_.num_params + results_) {
            visit_result(action, memory - layout_.num_params, buffer.device, first && access.write);
        } else if (first) {
            const ir::ArenaDesc &arena = program_.arenas[buffer.arena];
            layout_.arena_tracks[buffer.arena].push_back(action.track);
            wait_for_home(action.track, {arena.device, arena.home});
        }
    }

    /// A fresh block is taken in the order of its first user, if that is a stream of its own device.
    void visit_result(const Action &action, uint32_t result, ir::Device device, bool first_write) {
        ir::StreamRef &home = layout_.result_homes[result];
        const ir::StreamRef stream = layout_.tracks[action.track].stream;
        if (!used_[result] && device != ir::kCpu && stream.device == device)
            home = stream;
        used_[result] = true;
        if (first_write)
            wait_for_home(action.track, home);
    }

    /// Memory of the host is taken when nothing is pending in it, so that nobody waits for that.
    void wait_for_home(uint32_t track, ir::StreamRef home) {
        if (home.device == ir::kCpu || home == layout_.tracks[track].stream)
            return;
        auto &homes = layout_.homes;
        const auto found = std::ranges::find(homes, home, &Home::stream);
        const auto index = static_cast<uint32_t>(found - homes.begin());
        if (found == homes.end())
            homes.push_back({devices_[device_slot(home.device)].backend, home});
        auto &done = waited_[track];
        done.resize(std::max<size_t>(done.size(), index + 1));
        if (done[index])
            return;
        done[index] = true;
        layout_.home_waits.push_back(index);
    }

    Layout &layout_;
    const ir::Program &program_;
    const std::vector<DeviceSlot> &devices_;
    const uint32_t results_;
    std::vector<std::vector<Seen>> seen_;   // by track and memory
    std::vector<std::vector<bool>> waited_; // by track and home
    std::vector<bool> used_;                // by result
};

void LoadedProgram::Layout::order(const ir::Program &program, const std::vector<DeviceSlot> &devices) {
    Order(*this, program, devices).run();
}

} // namespace lz::runtime
