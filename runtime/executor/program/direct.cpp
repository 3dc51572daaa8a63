#include "runtime/executor/program/layout.h"

#include <algorithm>
#include <array>

namespace lz::runtime {

void LoadedProgram::Layout::find_direct(const ir::Program &program) {
    const auto is_launch = [](const Action &action) { return action.kind == ir::StepKind::Launch; };
    const auto is_empty = [](const ir::ArenaDesc &arena) { return arena.bytes == 0; };
    if (!cpu_only || has_checks || !std::ranges::all_of(actions, is_launch) ||
        !std::ranges::all_of(program.arenas, is_empty) || !program.user_streams.empty() ||
        pointer_buffers.size() > Direct::kMostPointers || args.size() > Direct::kMostArgs ||
        scalars.size() > Direct::kMostScalars || frames.size() > Direct::kMostFrames)
        return;
    Direct found;
    for (const uint32_t b : pointer_buffers) {
        using Of = Direct::Source::Of;
        const ir::BufferKind kind = b == ir::kNone ? ir::BufferKind::Arena : program.buffers[b].kind;
        if (kind == ir::BufferKind::Input)
            found.sources.push_back({Of::Input, program.buffers[b].index});
        else if (kind == ir::BufferKind::Result)
            found.sources.push_back({Of::Result, program.buffers[b].index});
        else // of no elements
            found.sources.push_back({Of::Nothing, 0});
    }
    for (const Action &action : actions) {
        found.launches.push_back(launch(launches[action.index], nullptr, nullptr));
        found.frames.push_back(launches[action.index].frames);
    }
    direct = std::move(found);
}

/// Of a small Program most of a run would be to take a State, to fill it in and to walk its actions. What
/// throws goes on as any other run, from the launch that threw.
Launched LoadedProgram::run_directly(const Bindings &bindings) const {
    using Direct = Layout::Direct;
    const Layout &layout = *layout_;
    const Direct &direct = *layout.direct;
    std::array<void *, Direct::kMostPointers> pointers;
    std::array<int64_t, Direct::kMostArgs> patched;
    std::array<uint64_t, Direct::kMostScalars> scalars;
    std::array<ir::KernelFrame, Direct::kMostFrames> frames;
    for (size_t p = 0; p < direct.sources.size(); ++p) {
        const Direct::Source source = direct.sources[p];
        pointers[p] = source.of == Direct::Source::Of::Input    ? bindings.inputs[source.index]
                      : source.of == Direct::Source::Of::Result ? bindings.results[source.index]
                                                                : nullptr;
    }
    const int64_t *args = layout.args.data();
    if (!layout.patches.empty()) {
        args = std::ranges::copy(layout.args, patched.begin()).out - layout.args.size();
        layout.patch_args(bindings.words, patched.data());
    }
    layout.fill_scalars(bindings.words, scalars.data());
    for (size_t f = 0; f < layout.frames.size(); ++f) {
        const Layout::Frame &frame = layout.frames[f];
        frames[f] = {pointers.data() + frame.pointers, args + frame.args, scalars.data() + frame.scalars,
                     nullptr, frame.code};
    }
    size_t action = 0;
    uint32_t put = 0;
    try {
        for (; action < direct.launches.size(); ++action) {
            Backend::Launch launch = direct.launches[action];
            launch.frames = frames.data() + direct.frames[action];
            launch.put = &put;
            layout.actions[action].backend->launch(launch, ir::kHostStream);
        }
    } catch (...) {
        const Refused refused{action, put, std::current_exception()};
        return run_with_state(bindings, false, &refused);
    }
    return {};
}

} // namespace lz::runtime
