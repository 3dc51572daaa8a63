#include "codegen/cuda/emitter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

namespace lz::codegen::cuda {

using namespace ir;

std::string PhaseEmitter::named(const std::string &expression, std::string_view name) {
    if (expression == "0" || is_name(expression))
        return expression;
    w_.line("const {} {} = {};", index_type(), name, expression);
    return std::string(name);
}

/// What counts the points of the first axes of the grid together, the last innermost: i0_i1_i2.
static std::string joined(std::span<const std::string> axes) {
    return fmt::format("{}", fmt::join(axes, "_"));
}

/// Indices of the first `axes` axes of the grid, of a number that counts their points, the last innermost;
/// it is called `name` where more than one of them need it.
void PhaseEmitter::write_coordinates(const std::string &point, std::string_view name, size_t axes) {
    std::string rest = point;
    std::vector<std::string> names;
    for (size_t i = 0; i < axes; ++i)
        names.push_back(axis(phase_.grid[i]));
    for (size_t i = axes; i-- > 0;) {
        const AxisId a = phase_.grid[i];
        if (i == 0) {
            w_.line("const {} {} = {};", index_type(), axis(a), rest);
            break;
        }
        rest = named(rest, i + 1 == axes ? std::string(name) : joined(std::span(names).first(i + 1)));
        w_.line("const {} {} = {} % {};", index_type(), axis(a), rest, extent(a));
        rest = fmt::format("{} / {}", rest, extent(a));
    }
}

/// Threads count packets: neighbours of the last axis, row by row.
void PhaseEmitter::write_points() {
    const AxisId last = phase_.grid.back();
    const size_t outer = phase_.grid.size() - 1;
    const int width = schedule_.vector, unroll = schedule_.unroll;
    const bool by_itself = width == 1 && (unroll == 1 || has_loop(phase_.body));
    const std::string count = extent(last), first = width == 1 ? axis(last) : "begin";
    const std::string point = width == 1 ? "point" : "packet", points = point + "s";
    std::string in_row = width == 1 ? count : fmt::format("({} + {}) / {}", count, width - 1, width);
    if (outer > 0)
        in_row = named(in_row, "row_packets");
    std::string all = in_row;
    for (size_t i = outer; i-- > 0;)
        all = extent(phase_.grid[i]) + " * " + all;
    // With one axis and no packets a point is the index itself.
    const bool is_index = outer == 0 && width == 1;
    const std::string number = is_index ? axis(last) : point;
    if (unroll > 1)
        all = named(all, points);
    const std::string of_item = fmt::format("item * {} + threadIdx.x", schedule_.threads * schedule_.unroll);
    if (unroll > 1)
        w_.line("const {} first = {};", index_type(), of_item);

    const auto place = [&](bool) -> std::string {
        if (unroll > 1) {
            w_.line("const {} {} = first + u * {};", index_type(), number, schedule_.threads);
        } else {
            w_.line("const {} {} = {};", index_type(), number, of_item);
            w_.line("if ({} >= {})", number, all);
            w_.indent();
            w_.line("return;");
            w_.outdent();
        }
        if (outer > 0) {
            w_.line("const {} {} = {};", index_type(), first, times(number + " % " + in_row, width));
            write_coordinates(number + " / " + in_row, "row", outer);
        } else if (!is_index) {
            w_.line("const {} {} = {};", index_type(), first, times(number, width));
        }
        return unroll > 1 ? fmt::format("{} < {}", number, all) : "";
    };
    if (by_itself) {
        need(unroll == 1, "points with loops are not unrolled");
        place(false);
        return write_region(phase_.body);
    }
    Packet packet{.axis = last, .width = width, .first = first, .end = count};
    packet.aligned = width > 1;
    if (width > 1)
        packet.whole = note_alignments(phase_.body, last, width, true);
    else
        alignable_ = false;
    // Most threads have all elements of all their packets.
    std::string all_there;
    const std::string last_packet = fmt::format("first + {}", (unroll - 1) * schedule_.threads);
    if (unroll > 1 && (packet.whole || width == 1))
        all_there = less(last_packet, all);
    else if (unroll > 1 && entry_ == Entry::Aligned && outer == 0)
        all_there = fmt::format("{} < {} / {}", last_packet, count, width);
    write_packets(phase_.body, packet, unroll, place, {}, {}, all_there);
}

/// What lies turned is read along the tile axis, and from shared memory along the last one. A thread has its
/// part of a tile of every operand under way before it waits for the first: loads beyond an end are of the
/// last element there is, so that no branch stands between them.
void PhaseEmitter::write_tiles() {
    const auto tile = static_cast<AxisId>(schedule_.tile_axis);
    const AxisId last = phase_.grid.back();
    const std::string_view type = index_type();
    const int side = schedule_.tile_m, rows = schedule_.threads / side, count = side / rows;
    need(!has_loop(phase_.body), "tiles of points that have loops");
    w_.line("const {} columns = ({} + {}) / {};", type, extent(last), side - 1, side);
    if (phase_.grid[0] != tile)
        w_.line("const {} rows = ({} + {}) / {};", type, extent(tile), side - 1, side);
    // The tile axis may be any but the last: items count the axes in the order of the grid.
    w_.line("const {} column = item % columns * {};", type, side);
    std::string rest = "item / columns";
    std::vector<std::string> names;
    for (size_t i = 0; i + 1 < phase_.grid.size(); ++i)
        names.push_back(phase_.grid[i] == tile ? "row" : axis(phase_.grid[i]));
    for (size_t i = names.size(); i-- > 0;) {
        const AxisId a = phase_.grid[i];
        const std::string count = a == tile ? "rows" : extent(a),
                          scale = a == tile ? fmt::format(" * {}", side) : "";
        if (i == 0) {
            w_.line("const {} {} = {}{};", type, names[i], rest, scale);
            break;
        }
        const std::string counts = joined(std::span(names).first(i + 1));
        w_.line("const {} {} = {};", type, counts, rest);
        w_.line("const {} {} = {} % {}{};", type, names[i], counts, count, scale);
        rest = fmt::format("{} / {}", counts, count);
    }
    std::vector<KValue> turned;
    for (const Stmt &stmt : phase_.body) {
        const Instr &instr = kernel_.instrs[stmt.id];
        if (instr.op != KOp::Load || is_dead(stmt.id))
            continue;
        const Access &a = kernel_.accesses[instr.access];
        const auto along = std::ranges::find(a.strides, tile, &AxisStride::axis);
        if (along != a.strides.end() && along->cls == StrideClass::Contiguous && moves_along(a, last) &&
            a.terms.empty() && a.predicate == kNoValue && !stored_.contains(a.buffer))
            turned.push_back(stmt.id);
    }
    w_.line("const int x = threadIdx.x % {0}, y = threadIdx.x / {0};", side);
    const auto within = [&](AxisId a, const std::string &at) {
        return fmt::format("{0} < {1} ? {0} : {1} - 1", at, extent(a));
    };
    for (const KValue v : turned) {
        const std::string_view of = c_type(kernel_.instrs[v].dtype);
        const int padding =
            std::max(4 / size_of(kernel_.instrs[v].dtype), 1); // rows are an odd number of words
        w_.line("__shared__ {} tile{}[{}][{}];", of, v, side, side + padding);
        w_.line("{} turned{}[{}];", of, v, count);
    }
    const std::string down = rows == side ? "y" : fmt::format("y + u * {}", rows);
    if (!turned.empty()) {
        w_.plain("#pragma unroll");
        open("for (int u = 0; u < {}; ++u)", count);
        w_.line("const {} {} = {};", type, axis(tile), within(tile, "row + x"));
        w_.line("const {} {} = {};", type, axis(last), within(last, "column + " + down));
        for (const KValue v : turned)
            w_.line("turned{}[u] = {};", v, element(kernel_.accesses[kernel_.instrs[v].access]));
        close();
    }
    const auto turn = [&] {
        if (turned.empty())
            return;
        w_.plain("#pragma unroll");
        open("for (int u = 0; u < {}; ++u)", count);
        for (const KValue v : turned)
            w_.line("tile{}[{}][x] = turned{}[u];", v, down, v);
        close();
        w_.line("__syncthreads();");
    };
    for (const KValue v : turned)
        names_.give(v, {.name = fmt::format("tile{}[x][{}]", v, down)});
    alignable_ = false;
    const auto place = [&](bool early) -> std::string {
        const std::string at = "row + " + down;
        w_.line("const {} {} = {};", type, axis(tile), early ? within(tile, at) : at);
        w_.line("const {} {} = {};", type, axis(last), early ? within(last, "column + x") : "column + x");
        return early ? ""
                     : fmt::format("{} < {} && {} < {}", axis(tile), extent(tile), axis(last), extent(last));
    };
    write_packets(phase_.body, {.axis = last, .width = 1, .first = axis(last), .end = extent(last)}, count,
                  place, {}, turn);
    if (!turned.empty())
        w_.line("__syncthreads(); // the tiles are written again");
}

/// A thread has every sixteenth row and column of a tile, so that neighbours read neighbours. Sums go on in
/// ascending k, one multiply-add after the other.
void PhaseEmitter::write_product() {
    const Contraction &c = *phase_.contraction;
    const std::string_view type = index_type();
    constexpr int kDepth = 16, kSide = 16;
    const int m = schedule_.tile_m / kSide, n = schedule_.tile_n / kSide;
    need(schedule_.threads == kSide * kSide && schedule_.tile_m % kSide == 0 && schedule_.tile_n % kSide == 0,
         "a tile of its product is not made of 16 x 16 threads");
    const DType sum = c.accumulate, dtype = c.dtype;
    const std::string_view sum_type = c_type(sum);
    const auto in_sum_type = [&](const std::string &x) {
        return expression(KOp::Cast, sum, {.x = x, .y = {}, .z = {}, .from = dtype});
    };

    w_.line("const {} columns = ({} + {}) / {};", type, extent(c.n), schedule_.tile_n - 1, schedule_.tile_n);
    w_.line("const {} rows = ({} + {}) / {};", type, extent(c.m), schedule_.tile_m - 1, schedule_.tile_m);
    w_.line("const {} column = item % columns * {};", type, schedule_.tile_n);
    const size_t batches = phase_.grid.size() - 2;
    w_.line("const {} row = item / columns % rows * {};", type, schedule_.tile_m);
    if (batches > 0)
        write_coordinates("item / columns / rows", "batch", batches);
    w_.line("const int x = threadIdx.x % {0}, y = threadIdx.x / {0};", kSide);
    w_.line("__shared__ {} lhs[{}][{}], rhs[{}][{}];", sum_type, kDepth, schedule_.tile_m + 1, kDepth,
            schedule_.tile_n + 1);
    // A thread has one element of a small tile, and of a large one an array of them.
    const bool one = m == 1 && n == 1;
    const std::string element_sum = one ? "sum" : "sum[i][j]";
    one ? w_.line("{} sum = 0;", sum_type) : w_.line("{} sum[{}][{}] = {{}};", sum_type, m, n);
    const auto open_own = [&] {
        for (const auto &[name, own] : {std::pair('i', m), {'j', n}}) {
            if (one)
                break;
            w_.plain("#pragma unroll");
            open("for (int {0} = 0; {0} < {1}; ++{0})", name, own);
        }
    };
    const auto close_own = [&] {
        for (int loops = one ? 0 : 2; loops > 0; --loops)
            close();
    };
    const auto own = [&](const char *of, const char *name) {
        return one ? std::string(of) : fmt::format("{} + {} * {}", of, name, kSide);
    };
    const std::string depth = extent(c.k);
    open("for ({} k = 0; k < {}; k += {})", type, depth, kDepth);
    // Neighbours of a warp are neighbours along whichever axis is contiguous.
    const auto fetch = [&](const Access &a, AxisId free, const std::string &first, int extent_of_tile,
                           const char *to) {
        const auto along = std::ranges::find(a.strides, c.k, &AxisStride::axis);
        const bool k_inner = along != a.strides.end() && along->cls == StrideClass::Contiguous;
        const int elements = extent_of_tile * kDepth;
        const std::string j = elements == schedule_.threads ? "(int)threadIdx.x" : "j";
        if (j == "j") {
            w_.plain("#pragma unroll");
            open("for (int j = threadIdx.x; j < {}; j += {})", elements, schedule_.threads);
        } else {
            open();
        }
        const std::string within =
            k_inner ? fmt::format("{} / {}", j, kDepth) : fmt::format("{} % {}", j, extent_of_tile);
        const std::string deep =
            k_inner ? fmt::format("{} % {}", j, kDepth) : fmt::format("{} / {}", j, extent_of_tile);
        w_.line("const int f = {}, d = {};", within, deep);
        w_.line("const {} {} = {} + f, {} = k + d;", type, axis(free), first, axis(c.k));
        w_.line("{}[d][f] = {} < {} && {} < {} ? {} : 0;", to, axis(free), extent(free), axis(c.k), depth,
                in_sum_type(element(a)));
        close();
    };
    fetch(c.lhs, c.m, "row", schedule_.tile_m, "lhs");
    fetch(c.rhs, c.n, "column", schedule_.tile_n, "rhs");
    w_.line("__syncthreads();");
    // No element beyond the depth is multiplied: 0 times infinity is NaN, and -0 + 0 is 0.
    w_.line("const int steps = {0} - k < {1} ? {2} : {1};", depth, kDepth, as_int(depth + " - k"));
    open("for (int d = 0; d < steps; ++d)");
    open_own();
    const std::string a = fmt::format("lhs[d][{}]", own("y", "i")),
                      b = fmt::format("rhs[d][{}]", own("x", "j"));
    if (is_float(sum))
        w_.line("{0} = {1}({2}, {3}, {0});", element_sum, sum == DType::F32 ? "__fmaf_rn" : "__fma_rn", a, b);
    else
        w_.line("{0} = add<{1}>({0}, multiply<{1}>({2}, {3}));", element_sum, sum_type, a, b);
    close_own();
    close();
    w_.line("__syncthreads();");
    close();

    open_own();
    w_.line("const {} {} = row + {}, {} = column + {};", type, axis(c.m), own("y", "i"), axis(c.n),
            own("x", "j"));
    open("if ({} < {} && {} < {})", axis(c.m), extent(c.m), axis(c.n), extent(c.n));
    const auto instr = std::ranges::find(kernel_.instrs, KOp::Product, &Instr::op);
    const DType result = instr == kernel_.instrs.end() ? sum : info(instr->dtype).compute;
    if (result == sum)
        product_ = element_sum;
    else
        w_.line("const {} product = {};", c_type(result),
                expression(KOp::Cast, result, {.x = element_sum, .y = {}, .z = {}, .from = sum}));
    write_region(phase_.body);
    close();
    close_own();
}

} // namespace lz::codegen::cuda
