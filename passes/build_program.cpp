#include "passes/build_program.h"

#include "passes/lower/lower_clusters.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

void touch(Step &step, const ByteRange &range) {
    if (range.begin < range.end)
        step.accesses.push_back(range);
}

void say_accesses(Program &program, uint32_t s) {
    Step &step = program.steps[s];
    const auto whole = [&](uint32_t buffer, bool write) {
        touch(step, {buffer, 0, program.buffers[buffer].bytes, write});
    };
    if (step.kind == StepKind::Copy) {
        const CopyRange &copy = step.copy;
        if (step.ints.empty())
            touch(step, {step.operands[0], copy.from_begin, copy.from_begin + copy.bytes, false});
        else // any part of it
            whole(step.operands[0], false);
        touch(step, {step.operands[1], copy.to_begin, copy.to_begin + copy.bytes, true});
        return;
    }
    for_operands(program, s, [&](BufferMode mode, uint32_t buffer) {
        if (const uint32_t read = read_buffer(program, mode, buffer); read != kNone)
            whole(read, false);
        if (mode != BufferMode::In)
            whole(buffer, true);
    });
}

} // namespace

void build_program(Program &program) {
    for (uint32_t s = 0; s < program.steps.size(); ++s)
        say_accesses(program, s);
    std::erase_if(program.steps, is_wait_stream);
    program.draft = {};
    program.stage = Stage::Final;
}

} // namespace lz::passes
