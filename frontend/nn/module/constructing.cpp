#include "frontend/nn/module/constructing.h"

namespace lz::nn::detail {

namespace {

thread_local Location line_of_constructor;

} // namespace

Constructing::Constructing(Location loc) : outer_(line_of_constructor) {
    if (!outer_.file)
        line_of_constructor = loc;
}
Constructing::~Constructing() {
    line_of_constructor = outer_;
}
Location Constructing::line(Location here) {
    return line_of_constructor.file ? line_of_constructor : here;
}

} // namespace lz::nn::detail
