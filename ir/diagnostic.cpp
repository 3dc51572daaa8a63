#include "ir/diagnostic.h"

namespace lz::ir {

void internal_failure(const char *file, int line, const std::string &what) {
    // The folder and the file: the rest of the path is the builder's business.
    std::string place = file;
    size_t slash = place.find_last_of('/');
    if (slash != std::string::npos && slash > 0)
        slash = place.find_last_of('/', slash - 1);
    if (slash != std::string::npos)
        place.erase(0, slash + 1);
    throw Failure(ErrorKind::Internal, what + " (" + place + ":" + std::to_string(line) + ")");
}

} // namespace lz::ir
