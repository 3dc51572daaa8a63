// The state of the second implementation.
#include "rows.h"

namespace lz::test::calls {

const Array &Oracle::value(int handle) const {
    const auto &cell = cells_[static_cast<size_t>(handle)];
    if (!cell)
        throw Mistake(ErrorType::State, "the handle is empty");
    return cell->now;
}

void Oracle::set(int handle, Array value) {
    cells_[static_cast<size_t>(handle)] = std::make_shared<Cell>(Cell{std::move(value)});
}

void Oracle::change(int handle, Array value) {
    cells_[static_cast<size_t>(handle)]->now = std::move(value);
}

} // namespace lz::test::calls
