#pragma once
/// Where the user constructs a layer, for errors that say where its parameters come from (S06).

#include "lazuli/core/location.h"

namespace lz::nn::detail {

/// In the constructor of a layer: the parameters that `reset` makes, and those of layers within it, were made
/// at this line of the user's. (`reset` takes no line, as LibTorch's takes none.)
class Constructing {
public:
    explicit Constructing(Location loc);
    ~Constructing();
    Constructing(const Constructing &) = delete;
    Constructing &operator=(const Constructing &) = delete;
    /// That line, or `here` where nothing is constructed.
    static Location line(Location here = Location::current());

private:
    const Location outer_;
};

} // namespace lz::nn::detail
