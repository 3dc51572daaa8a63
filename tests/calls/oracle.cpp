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

Oracle Oracle::clone() const {
    Oracle copy = *this;
    for (size_t k = 0; k < cells_.size(); ++k) {
        size_t first = 0;
        while (cells_[first] != cells_[k])
            ++first;
        copy.cells_[k] = first < k   ? copy.cells_[first]
                         : cells_[k] ? std::make_shared<Cell>(*cells_[k])
                                     : nullptr;
    }
    return copy;
}

} // namespace lz::test::calls
