// All work of a run on one GPU at once (Backend::replay).

#include "runtime/executor/program/run.h"

namespace lz::runtime {

/// All actions from `done` on at once, as far as the backend does that: their streams wait for what others do
/// first, then comes the work, and its end is noted by `end`.
void LoadedProgram::Run::replay(size_t &done) {
    for (const uint32_t a : layout_.waiting) {
        try {
            wait_for_others(layout_.actions[a]);
        } catch (const ir::Failure &) { // what is lost by that is found out step by step
            ordering_ = false;
            return;
        }
    }
    waited_ = true;
    state_.replay_streams.clear();
    for (const ir::StreamRef &track : state_.tracks)
        state_.replay_streams.push_back(track.stream);
    note_key();
    state_.replay_calls.resize(layout_.calls.size());
    state_.replay_copies.resize(layout_.replay_copies);
    try {
        layout_.actions[0].backend->replay({.steps = layout_.replay,
                                            .streams = state_.replay_streams,
                                            .key = state_.replay_key,
                                            .launches = state_.launches,
                                            .calls = state_.replay_calls,
                                            .copies = state_.replay_copies,
                                            .event_ticks = state_.event_ticks,
                                            .fill = [this] { fill_replay(); }},
                                           state_.replay_memory, done);
    } catch (const ir::Failure &failure) {
        if (!is_retryable(failure)) {
            ordering_ = layout_.replay[done].kind == Backend::Replay::Kind::Wait;
            throw;
        }
        drain(layout_.actions[done]); // and go on step by step, with the one that was refused
    }
}

/// All that State::bind reads.
void LoadedProgram::Run::note_key() {
    std::vector<uint64_t> &key = state_.replay_key;
    key.clear();
    for (const std::span<void *const> addresses :
         {std::span<void *const>(state_.arenas), bindings_.inputs, bindings_.results})
        for (const void *const address : addresses)
            key.push_back(reinterpret_cast<uintptr_t>(address));
    for (const int64_t word : bindings_.words.first(program_.num_runtime_words))
        key.push_back(static_cast<uint64_t>(word));
}

void LoadedProgram::Run::fill_replay() {
    bind();
    size_t copies = 0;
    for (const Layout::Action &action : layout_.actions) {
        if (action.kind == ir::StepKind::Library)
            state_.replay_calls[action.index] = call_of(action);
        else if (action.kind == ir::StepKind::Copy)
            state_.replay_copies[copies++] = copy_of(action);
    }
}

} // namespace lz::runtime
