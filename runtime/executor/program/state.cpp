#include "runtime/executor/program/state.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::runtime {

LoadedProgram::State::State(const ir::Program &program, const Layout &layout)
    : memory(program.buffers.size() + 1), pointers(layout.pointer_buffers.size()),
      pointer_buffers(layout.pointer_buffers), args(layout.args), scalars(layout.scalars.size()),
      event_ticks(program.num_events), arenas(program.arenas.size()), home_ticks(layout.homes.size()),
      end_ticks(layout.tracks.size()), noted(layout.num_params + program.results.size()) {
    for (const Layout::Faults &f : layout.faults)
        faults.emplace_back(f.backend, f.count);
    guards.reserve(layout.tracks.size());
    for (const Layout::Track &track : layout.tracks)
        tracks.push_back(track.stream);
    for (const Layout::Home &home : layout.homes)
        homes.push_back(home.stream);
    for (const ir::ArenaDesc &arena : program.arenas)
        arena_homes.push_back(arena.device == ir::kCpu ? ir::kHostStream : arena.home);
    for (uint32_t &buffer : pointer_buffers)
        if (buffer == ir::kNone)
            buffer = static_cast<uint32_t>(program.buffers.size());
    for (const Layout::FrameGuard &g : layout.guards)
        fault_guards.push_back(
            {g.slot == ir::kNone ? nullptr : &faults[g.slot].all()[g.fault], g.only_out_of_memory});
    frames.reserve(layout.frames.size());
    for (const Layout::Frame &f : layout.frames)
        frames.push_back({pointers.data() + f.pointers, args.data() + f.args, scalars.data() + f.scalars,
                          f.faults != ir::kNone ? &faults[f.slot].all()[f.faults] : nullptr, f.code,
                          f.guards != ir::kNone ? &fault_guards[f.guards] : nullptr});
    launches.reserve(layout.launches.size());
    for (const Layout::Launch &l : layout.launches)
        launches.push_back(layout.launch(l, frames.data() + l.frames, &segments_put));
}

void LoadedProgram::State::bind_streams(const ir::Program &program, const Layout &layout,
                                        std::span<const ir::StreamRef> streams) {
    if (streams.empty())
        streams = program.user_streams;
    LZ_CHECK(streams.size() == program.user_streams.size(),
             fmt::format("a run binds {} streams of the user's, and its Program names {}", streams.size(),
                         program.user_streams.size()));
    for (const auto [t, user] : layout.user_tracks) {
        if (tracks[t] == streams[user])
            continue;
        if (end_ticks[t] != 0)
            note_earlier({tracks[t], end_ticks[t]});
        end_ticks[t] = 0;
        tracks[t] = streams[user];
    }
    for (const auto [h, user] : layout.user_homes)
        homes[h] = streams[user];
    for (const auto [a, user] : layout.user_arenas)
        arena_homes[a] = streams[user].stream;
}

/// Of each stream the last end is enough.
void LoadedProgram::State::note_earlier(const ir::Point &end) {
    const auto same = std::ranges::find(earlier, end.stream, &ir::Point::stream);
    if (same == earlier.end())
        earlier.push_back(end);
    else
        same->tick = std::max(same->tick, end.tick);
}

void LoadedProgram::State::bind(const ir::Program &program, const Layout &layout, const Bindings &bindings) {
    for (size_t b = 0; b < program.buffers.size(); ++b) {
        const ir::BufferDesc &buffer = program.buffers[b];
        switch (buffer.kind) {
        case ir::BufferKind::Input:
            memory[b] = bindings.inputs[buffer.index];
            break;
        case ir::BufferKind::Result:
            memory[b] = bindings.results[buffer.index];
            break;
        case ir::BufferKind::Arena:
            // Empty values have a buffer even where there is no arena.
            memory[b] =
                buffer.bytes > 0 ? static_cast<char *>(arenas[buffer.arena]) + buffer.offset : nullptr;
            break;
        default: // a Program that runs has no others
            break;
        }
    }
    for (size_t p = 0; p < pointers.size(); ++p)
        pointers[p] = memory[pointer_buffers[p]];
    layout.patch_args(bindings.words, args.data());
    layout.fill_scalars(bindings.words, scalars.data());
}

LoadedProgram::StatePool::~StatePool() {
    delete first_.load();
    while (State *state = more_) {
        more_ = state->next;
        delete state;
    }
}

LoadedProgram::State *LoadedProgram::StatePool::take() {
    if (State *const first = first_.load(std::memory_order_acquire))
        if (!first_taken_.load(std::memory_order_relaxed) &&
            !first_taken_.exchange(true, std::memory_order_acquire))
            return first;
    std::lock_guard lock(mutex_);
    State *state = more_;
    if (state)
        more_ = state->next;
    return state;
}

void LoadedProgram::StatePool::give_back(State *state) {
    if (state == first_.load(std::memory_order_relaxed)) {
        first_taken_.store(false, std::memory_order_release);
        return;
    }
    std::lock_guard lock(mutex_);
    if (!first_.load(std::memory_order_relaxed)) {
        first_.store(state, std::memory_order_release);
        return;
    }
    state->next = more_;
    more_ = state;
}

} // namespace lz::runtime
