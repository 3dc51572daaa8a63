#include "engine/profile.h"

#include "runtime/profiler.h"

namespace lz::engine {

void start_profile() {
    runtime::start_profile();
}
std::string stop_profile() {
    return runtime::trace_json(runtime::stop_profile());
}

} // namespace lz::engine
