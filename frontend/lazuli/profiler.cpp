#include "lazuli/profiler.h"

#include "engine/profile.h"
#include "lazuli/detail/recorder.h"

#include <fstream>

namespace lz {

Profiler::Profiler(Location loc) {
    detail::translated(loc, [] { engine::start_profile(); });
}

Profiler::~Profiler() {
    stop();
}

void Profiler::stop() {
    if (!running_)
        return;
    running_ = false;
    trace_ = engine::stop_profile();
}

std::string Profiler::json() {
    stop();
    return trace_;
}

void Profiler::save(const std::string &path, Location loc) {
    stop();
    std::ofstream out(path);
    out << trace_;
    out.close();
    if (!out)
        throw IoError("Profiler: the trace could not be written to " + path, loc);
}

} // namespace lz
