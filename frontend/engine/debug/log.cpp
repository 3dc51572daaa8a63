#include "frontend/engine/debug/log.h"

#include <cstdio>

namespace lz::engine {

void log_line(std::string_view topic, const std::string &sentence) {
    const std::string line = "lazuli " + std::string(topic) + ": " + sentence + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr); // stdio locks the stream for one call
}

} // namespace lz::engine
