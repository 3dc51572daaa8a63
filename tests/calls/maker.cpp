// Random choices, and programs made of them.
#include "generate.h"

#include <algorithm>
#include <cmath>

namespace lz::test::calls {

Maker::Maker(uint64_t seed, Oracle &oracle) : oracle(oracle), random_(seed) {
    static const std::vector<int64_t> extents = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65};
    const int64_t rank = 1 + below(3);
    for (int64_t a = 0; a < rank; ++a)
        master_.push_back(once_in(12) ? 0 : pick(extents));
    while (count(master_) > 1500)
        master_[static_cast<size_t>(below(rank))] = 1 + below(5);
    for (int k = 0; k < 3; ++k)
        dtypes_.push_back(static_cast<DType>(below(10)));
}

std::optional<int> Maker::any(const std::function<bool(const Array &)> &fits) {
    const bool exact = !once_in(8);
    for (const bool strict : {exact, false}) {
        std::vector<int> found;
        for (int h = 0; h < oracle.handles(); ++h)
            if (oracle.defined(h) && (!strict || oracle.value(h).trust == Trust::Exact) &&
                fits(oracle.value(h)))
                found.push_back(h);
        if (!found.empty())
            return pick(found);
    }
    return std::nullopt;
}

std::optional<int> Maker::any() {
    return any([](const Array &) { return true; });
}

int Maker::target() {
    std::vector<int> empty;
    for (int h = 0; h < oracle.handles(); ++h)
        if (!oracle.defined(h))
            empty.push_back(h);
    if (!empty.empty() && !once_in(6))
        return pick(empty);
    return static_cast<int>(below(oracle.handles()));
}

Scalar Maker::number() {
    static const std::vector<double> floats = {0.0,     -0.0,   0.5,  -1.5,     2.0,      1e-8,
                                               65536.0, 0.1,    1e30, -3.0,     INFINITY, 1e300,
                                               1e-40,   1e-300, 0.25, -INFINITY};
    switch (below(6)) {
    case 0:
        return once_in(2);
    case 1:
    case 2:
        return between(-3, 9);
    case 3:
        return pick(std::vector<int64_t>{100, 255, 256, -128, 300, 1 << 20, int64_t{1} << 33, -70000,
                                         INT64_MAX, INT64_MIN});
    default:
        return once_in(20) ? NAN : pick(floats);
    }
}

Scalar Maker::small() {
    switch (below(4)) {
    case 0:
        return once_in(2);
    case 1:
        return pick(std::vector<double>{0.0, -0.0, 0.5, 2.75, 100.25});
    default:
        return between(0, 100);
    }
}

DType Maker::dtype() {
    if (once_in(4))
        return static_cast<DType>(below(10));
    return once_in(2) ? DType::F32 : pick(dtypes_);
}

int64_t Maker::extent() {
    return once_in(3) ? between(0, 9)
                      : master_[static_cast<size_t>(below(static_cast<int64_t>(master_.size())))];
}

Extents Maker::shape() {
    if (!once_in(6)) { // an end of the master shape, with axes that broadcast
        const auto rank = static_cast<size_t>(below(static_cast<int64_t>(master_.size()) + 1));
        Extents shape(master_.end() - static_cast<std::ptrdiff_t>(rank), master_.end());
        for (int64_t &extent : shape)
            if (once_in(8))
                extent = 1;
        if (once_in(30))
            while (shape.size() < 8)
                shape.insert(shape.begin(), 1);
        return shape;
    }
    Extents shape(static_cast<size_t>(once_in(6) ? below(9) : below(4)));
    for (int64_t &extent : shape)
        extent = shape.size() > 4 ? between(1, 2) : this->extent();
    while (count(shape) > 1500)
        shape[static_cast<size_t>(below(static_cast<int64_t>(shape.size())))] = 2;
    return shape;
}

Program generate(uint64_t seed, const GenerateOptions &options) {
    Program program;
    program.seed = seed;
    std::mt19937_64 random(seed * 0x9E3779B97F4A7C15u + 1);
    program.gpus = options.gpus;
    program.handles = 3 + static_cast<int>(random() % 6);
    const int length = 4 + static_cast<int>(random() % static_cast<uint64_t>(options.longest));
    program.random_seed = random() >> 1;
    program.again = seed % 4 == 0;
    Oracle oracle(program.handles);
    oracle.random_seed = program.random_seed;
    Maker maker(random(), oracle);
    maker.gpus = options.gpus;
    const auto weight = [&](const Row &row) {
        return options.wanted.contains(&row) ? 200 * int64_t{row.weight} : row.weight;
    };
    int64_t weights = 0;
    for (const Row &row : table())
        weights += weight(row);
    for (int tries = 0; tries < 20 * length && static_cast<int>(program.statements.size()) < length;
         ++tries) {
        int64_t at = maker.below(weights);
        const Row *row = table().data();
        while (at >= weight(*row))
            at -= weight(*row++);
        Statement s;
        s.row = row;
        s.id = random();
        s.thread = row->threads && maker.once_in(25);
        if (!row->make(maker, s))
            continue;
        bool late = false;
        const bool mistaken = !perform(oracle, s, nullptr, &late).empty();
        if (mistaken &&
            (late ? !row->now || !maker.once_in(2) : !maker.once_in(12))) // most programs are right
            continue;
        program.statements.push_back(std::move(s));
    }
    return program;
}

std::string perform(Oracle &oracle, const Statement &s, std::optional<ErrorType> *type, bool *late) {
    try {
        s.row->expect(oracle, s);
    } catch (const Mistake &mistake) {
        if (type)
            *type = mistake.type;
        if (late)
            *late = mistake.late;
        return mistake.what();
    }
    if (s.row->empties && std::ranges::find(s.out, s.args[0].handle) == s.out.end())
        oracle.drop(s.args[0].handle);
    return "";
}

const std::vector<Row> &table() {
    static const std::vector<Row> all = [] {
        std::vector<Row> rows;
        add_new_rows(rows);
        add_handle_rows(rows);
        add_elementwise_rows(rows);
        add_view_rows(rows);
        add_index_rows(rows);
        add_reduction_rows(rows);
        add_device_rows(rows);
        add_call_rows(rows);
        add_composed_rows(rows);
        add_gather_rows(rows);
        add_statistics_rows(rows);
        add_random_rows(rows);
        add_order_rows(rows);
        return rows;
    }();
    return all;
}

} // namespace lz::test::calls
