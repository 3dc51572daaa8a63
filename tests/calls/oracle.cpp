// The state of the second implementation.
#include "philox.h"
#include "rows.h"

#include <cstdlib>
#include <map>
#include <string_view>

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

bool automatic_transfers() {
    static const bool are = [] {
        const char *const value = std::getenv("LAZULI_TRANSFER");
        return value && std::string_view(value) == "automatic";
    }();
    return are;
}

bool meets(const Array &x, const Array &y) {
    // A number on the CPU goes with anything, and says nothing about where the result is.
    return x.device == y.device || (automatic_transfers() && !(x.device < 0 && x.shape.empty()));
}

Oracle Oracle::copy() const {
    Oracle out = *this;
    std::map<const Cell *, std::shared_ptr<Cell>> copies;
    for (auto &cell : out.cells_) {
        if (!cell)
            continue;
        std::shared_ptr<Cell> &made = copies[cell.get()];
        if (!made)
            made = std::make_shared<Cell>(*cell);
        cell = made;
    }
    return out;
}

std::vector<uint32_t> Oracle::draw(int64_t words) {
    std::vector<uint32_t> out;
    for (; static_cast<int64_t>(out.size()) < words; ++random_offset) {
        const auto block =
            philox({static_cast<uint32_t>(random_offset), static_cast<uint32_t>(random_offset >> 32), 0, 0},
                   {static_cast<uint32_t>(random_seed), static_cast<uint32_t>(random_seed >> 32)});
        out.insert(out.end(), block.begin(), block.end());
    }
    out.resize(static_cast<size_t>(words));
    return out;
}

} // namespace lz::test::calls
