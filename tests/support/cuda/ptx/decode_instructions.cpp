#include "tests/support/cuda/ptx/arithmetic.h"
#include "tests/support/cuda/ptx/decode_name.h"
#include "tests/support/cuda/ptx/machine.h"
#include "tests/support/cuda/ptx/memory.h"

#include <optional>

namespace lz::ptx {

void Decoder::decode(Instr &x, const RawInstr &raw, Name &name) {
    if (name.base() == "mov")
        return decode_move(x, raw, name);
    if (decode_control(x, raw, name) || decode_memory(x, raw, name) || decode_arithmetic(x, raw, name))
        return;
    name.fail("the interpreter does not know it");
}

/// mov: between registers, of an address, and between one register and several that make it up.
void Decoder::decode_move(Instr &x, const RawInstr &raw, Name &name) {
    x.type = name.take_type();
    if (raw.groups.size() != 2)
        name.fail("two operands were expected");
    const auto &to = raw.groups[0], &from = raw.groups[1];
    if (to.size() == 1 && from.size() == 1) {
        x.dst[x.num_dst++] = destination(to[0], register_bytes(x.type), raw.line);
        x.src[x.num_src++] = value(from[0], register_bytes(x.type), raw.line);
        x.run = find_arithmetic(Arith::Mov, x.type);
        if (x.src[0].size == x.dst[0].size && size_of(x.type) >= 2)
            x.flow = Flow::Move;
    } else if ((to.size() == 1) != (from.size() == 1)) {
        const size_t parts = std::max(to.size(), from.size());
        const auto part = static_cast<uint8_t>(size_of(x.type) / parts);
        if (part < 2 || part * parts != size_of(x.type))
            name.fail(fmt::format("{} parts do not make it up", parts));
        for (const RawOperand &o : to)
            x.dst.at(x.num_dst++) = destination(o, to.size() == 1 ? bytes(x.type) : part, raw.line);
        for (const RawOperand &o : from)
            x.src.at(x.num_src++) = value(o, from.size() == 1 ? bytes(x.type) : part, raw.line);
        x.run = to.size() == 1 ? pack_lanes : unpack_lanes;
        x.flow = Flow::Move;
    }
    if (!x.run)
        name.fail("the interpreter does not know it");
}

bool Decoder::decode_control(Instr &x, const RawInstr &raw, Name &name) {
    const std::string_view base = name.base();
    const auto operand_group = [&](size_t i) -> const std::vector<RawOperand> & {
        if (i >= raw.groups.size())
            name.fail("it has too few operands");
        return raw.groups[i];
    };
    if (base == "bra") {
        name.take("uni");
        x.flow = Flow::Branch;
        fixups_.push_back(
            {static_cast<uint32_t>(kernel_.code.size()), std::string(operand_group(0)[0].name), raw.line});
    } else if (base == "brx") {
        name.take("idx");
        name.take("uni");
        x.flow = Flow::BranchTable;
        x.src[x.num_src++] = value(operand_group(0)[0], 4, raw.line);
        fixups_.push_back(
            {static_cast<uint32_t>(kernel_.code.size()), std::string(operand_group(1)[0].name), raw.line});
    } else if (base == "ret" || base == "exit") {
        name.take("uni");
        x.flow = Flow::Exit;
    } else if (base == "trap") {
        x.run = trap;
    } else if (base == "barrier" && name.take("cluster")) {
        const bool arrives = name.take("arrive");
        if (!arrives && !name.take("wait"))
            name.fail("the interpreter does not know it");
        name.take(arrives ? "release" : "acquire"); // what they are without it; .relaxed is not known
        name.take("aligned");
        x.flow = arrives ? Flow::ClusterArrive : Flow::ClusterWait;
    } else if (base == "bar" || base == "barrier") {
        if (name.take("warp")) { // __syncwarp
            name.take("sync");
            x.flow = Flow::WarpSync;
            x.run = warp_barrier;
            take_sources(x, raw, 0, {4});
            return true;
        }
        name.take("cta");
        const bool reduces = name.take("red");
        if (!reduces && !name.take("sync"))
            name.fail("threads that arrive without waiting are not known");
        name.take("aligned");
        x.flow = reduces ? Flow::BarrierReduce : Flow::Barrier;
        size_t first = 0;
        if (reduces) {
            const bool counts = name.take("popc");
            x.sub = counts ? uint8_t{0} : name.take("and") ? uint8_t{1} : uint8_t{2};
            if (x.sub == 2)
                name.take("or");
            const Type type = name.take_type();
            x.dst[x.num_dst++] = destination(operand_group(0)[0], bytes(type), raw.line);
            first = 1;
        }
        const RawOperand &number = operand_group(first)[0];
        if (number.kind != RawOperand::Kind::Integer || number.bits != 0 ||
            raw.groups.size() != first + (reduces ? 2 : 1))
            name.fail("barriers other than barrier 0 of all threads are not known");
        if (reduces)
            x.src[x.num_src++] = value(operand_group(first + 1)[0], 0, raw.line);
    } else if (base == "shfl") {
        name.take("sync");
        x.type = name.take_type();
        x.sub = static_cast<uint8_t>(name.take_one_of<Shuffle>({{"up", Shuffle::Up},
                                                                {"down", Shuffle::Down},
                                                                {"bfly", Shuffle::Butterfly},
                                                                {"idx", Shuffle::Index}},
                                                               Shuffle::Index));
        x.flow = Flow::WarpSync;
        x.run = shuffle;
        x.dst[x.num_dst++] = destination(operand_group(0)[0], 4, raw.line);
        if (operand_group(0).size() == 2)
            x.dst[x.num_dst++] = destination(operand_group(0)[1], 0, raw.line);
        take_sources(x, raw, 1, {4, 4, 4, 4});
    } else if (base == "vote") {
        name.take("sync");
        x.sub = static_cast<uint8_t>(name.take_one_of<Vote>(
            {{"ballot", Vote::Ballot}, {"any", Vote::Any}, {"all", Vote::All}, {"uni", Vote::Uniform}},
            Vote::Ballot));
        const Type type = name.take_type();
        x.flow = Flow::WarpSync;
        x.run = vote;
        x.dst[x.num_dst++] = destination(operand_group(0)[0], bytes(type), raw.line);
        take_sources(x, raw, 1, {0, 4});
    } else if (base == "match") {
        name.take("sync");
        x.sub = name.take("all") ? 1 : 0;
        name.take("any");
        x.type = name.take_type();
        x.flow = Flow::WarpSync;
        x.run = match;
        x.dst[x.num_dst++] = destination(operand_group(0)[0], 4, raw.line);
        if (operand_group(0).size() == 2)
            x.dst[x.num_dst++] = destination(operand_group(0)[1], 0, raw.line);
        take_sources(x, raw, 1, {bytes(x.type), 4});
    } else if (base == "redux") {
        name.take("sync");
        const Arith op = name.take_one_of<Arith>({{"add", Arith::Add},
                                                  {"min", Arith::Min},
                                                  {"max", Arith::Max},
                                                  {"and", Arith::And},
                                                  {"or", Arith::Or},
                                                  {"xor", Arith::Xor}},
                                                 Arith::Mov);
        x.type = name.take_type();
        x.sub = static_cast<uint8_t>(op);
        x.flow = Flow::WarpSync;
        x.run = op == Arith::Mov || size_of(x.type) != 4 || is_float(x.type) ? nullptr : reduce_lanes;
        if (!x.run)
            name.fail("the interpreter does not know it");
        x.dst[x.num_dst++] = destination(operand_group(0)[0], 4, raw.line);
        take_sources(x, raw, 1, {4, 4});
    } else if (base == "activemask") {
        name.take_type();
        x.run = active_mask;
        x.dst[x.num_dst++] = destination(operand_group(0)[0], 4, raw.line);
    } else if (base == "membar" || base == "fence") {
        // Blocks run one after the other, so memory is as ordered as it can be.
        for (const std::string_view part : {"gl", "cta", "sys", "gpu", "sc", "acq_rel", "cluster"})
            name.take(part);
        x.run = do_nothing;
    } else {
        return false;
    }
    return true;
}

bool Decoder::decode_memory(Instr &x, const RawInstr &raw, Name &name) {
    const std::string_view base = name.base();
    const auto take_space = [&] {
        name.take("cta"); // shared::cta
        return name.take_one_of<Space>({{"global", Space::Global},
                                        {"shared", Space::Shared},
                                        {"shared::cta", Space::Shared},
                                        {"shared::cluster", Space::SharedCluster},
                                        {"local", Space::Local},
                                        {"param", Space::Param},
                                        {"const", Space::Global}},
                                       Space::Generic);
    };
    const auto take_order = [&] { // of memory, between threads: blocks run one after the other
        for (const std::string_view part :
             {"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "cta", "gpu", "sys", "cluster"})
            name.take(part);
    };
    const auto take_hints = [&] {
        for (const std::string_view part : {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"})
            name.take(part);
        name.take_all_starting_with("L1::");
        name.take_all_starting_with("L2::");
    };
    if (base == "ld" || base == "ldu" || base == "st") {
        const bool store = base == "st";
        take_order();
        x.space = take_space();
        take_hints();
        x.vec = name.take_one_of<uint8_t>({{"v2", 2}, {"v4", 4}, {"v8", 8}}, 1);
        x.type = name.take_type();
        if (raw.groups.size() != 2 || raw.groups[store ? 1 : 0].size() != x.vec)
            name.fail(fmt::format("an address and {} operands were expected", x.vec));
        x.src[x.num_src++] = address(raw.groups[store ? 0 : 1][0], raw.line);
        for (const RawOperand &o : raw.groups[store ? 1 : 0]) {
            if (store)
                x.src.at(x.num_src++) = value(o, register_bytes(x.type), raw.line);
            else
                x.dst.at(x.num_dst++) = destination(o, register_bytes(x.type), raw.line);
        }
        x.run = store ? store_lanes : load_lanes;
        if (size_of(x.type) == 0 || size_of(x.type) * x.vec > 32)
            name.fail("an access of this type is not known");
    } else if (base == "atom" || base == "red") {
        take_order();
        x.space = take_space();
        const Atomic op = name.take_one_of<Atomic>({{"add", Atomic::Add},
                                                    {"min", Atomic::Min},
                                                    {"max", Atomic::Max},
                                                    {"and", Atomic::And},
                                                    {"or", Atomic::Or},
                                                    {"xor", Atomic::Xor},
                                                    {"exch", Atomic::Exchange},
                                                    {"cas", Atomic::CompareSwap},
                                                    {"inc", Atomic::Increment},
                                                    {"dec", Atomic::Decrement}},
                                                   Atomic::None);
        x.type = name.take_type();
        if (is_float(x.type))
            name.fail("the order of atomic additions of floats is not defined, and so are their bits");
        if (op == Atomic::None || size_of(x.type) < 4)
            name.fail("the interpreter does not know it");
        x.sub = static_cast<uint8_t>(op);
        x.run = atomic;
        size_t at = 0;
        if (base == "atom")
            x.dst[x.num_dst++] = destination(raw.groups.at(at++).at(0), bytes(x.type), raw.line);
        x.src[x.num_src++] = address(raw.groups.at(at++).at(0), raw.line);
        for (; at < raw.groups.size(); ++at)
            x.src.at(x.num_src++) = value(raw.groups[at][0], bytes(x.type), raw.line);
        if (x.num_src != (op == Atomic::CompareSwap ? 3 : 2))
            name.fail("it has another number of operands");
    } else if (base == "cvta") {
        const bool to = name.take("to");
        const Space space = take_space();
        x.type = name.take_type();
        x.constant = space == Space::Shared || space == Space::SharedCluster ? kSharedWindow
                     : space == Space::Local                                 ? kLocalWindow
                     : space == Space::Param                                 ? kParamWindow
                                                                             : 0;
        if (to)
            x.constant = -x.constant;
        x.dst[x.num_dst++] = destination(raw.groups.at(0).at(0), 8, raw.line);
        take_sources(x, raw, 1, {8});
        x.run = add_constant;
    } else if (base == "mapa") {
        x.space = take_space();
        x.type = name.take_type();
        if (x.space != Space::Generic && x.space != Space::SharedCluster)
            name.fail("it is of addresses in shared memory");
        x.dst[x.num_dst++] = destination(raw.groups.at(0).at(0), bytes(x.type), raw.line);
        take_sources(x, raw, 1, {bytes(x.type), 4});
        x.run = map_to_block;
    } else if (base == "prefetch" || base == "prefetchu") {
        take_space();
        take_hints();
        name.take("L1");
        name.take("L2");
        x.run = do_nothing;
    } else if (base == "cp") {
        if (!name.take("async"))
            return false;
        if (name.take("commit_group")) {
            x.run = commit_copies;
        } else if (name.take("wait_all")) {
            x.flow = Flow::WaitCopies;
            x.constant = ~uint64_t{0};
        } else if (name.take("wait_group")) {
            x.flow = Flow::WaitCopies;
            x.constant = raw.groups.at(0).at(0).bits;
        } else {
            take_hints();
            for (const std::string_view part : {"shared", "shared::cta", "global"})
                name.take(part);
            if (raw.groups.size() < 3 || raw.groups[2][0].kind != RawOperand::Kind::Integer)
                name.fail("a number of bytes was expected");
            x.constant = raw.groups[2][0].bits;
            x.src[x.num_src++] = address(raw.groups[0].at(0), raw.line);
            x.src[x.num_src++] = address(raw.groups[1].at(0), raw.line);
            if (raw.groups.size() == 4)
                x.src[x.num_src++] = value(raw.groups[3].at(0), 4, raw.line);
            x.run = copy_async;
        }
    } else {
        return false;
    }
    return true;
}

bool Decoder::decode_arithmetic(Instr &x, const RawInstr &raw, Name &name) {
    const std::string_view base = name.base();
    for (const std::string_view part : {"approx", "full", "ftz", "rz", "rm", "rp"})
        if (name.take(part) && base != "cvt")
            name.fail(
                fmt::format(".{} is no rounding to nearest: the result would differ from the CPU's", part));
    if (base == "ex2" || base == "lg2" || base == "sin" || base == "cos" || base == "tanh" || base == "rsqrt")
        name.fail("it is an approximation");

    if (base == "setp") {
        const std::optional<Compare> op = name.take_one_of<std::optional<Compare>>({{"eq", Compare::Eq},
                                                                                    {"ne", Compare::Ne},
                                                                                    {"lt", Compare::Lt},
                                                                                    {"le", Compare::Le},
                                                                                    {"gt", Compare::Gt},
                                                                                    {"ge", Compare::Ge},
                                                                                    {"lo", Compare::Lt},
                                                                                    {"ls", Compare::Le},
                                                                                    {"hi", Compare::Gt},
                                                                                    {"hs", Compare::Ge},
                                                                                    {"equ", Compare::Equ},
                                                                                    {"neu", Compare::Neu},
                                                                                    {"ltu", Compare::Ltu},
                                                                                    {"leu", Compare::Leu},
                                                                                    {"gtu", Compare::Gtu},
                                                                                    {"geu", Compare::Geu},
                                                                                    {"num", Compare::Num},
                                                                                    {"nan", Compare::Nan}},
                                                                                   std::nullopt);
        const Join join =
            name.take_one_of<Join>({{"and", Join::And}, {"or", Join::Or}, {"xor", Join::Xor}}, Join::None);
        x.type = name.take_type();
        x.sub = static_cast<uint8_t>(join);
        x.run = op ? find_compare(*op, x.type) : nullptr;
        for (const RawOperand &o : raw.groups.at(0))
            x.dst.at(x.num_dst++) = destination(o, 0, raw.line);
        const uint8_t size = register_bytes(x.type);
        if (join == Join::None)
            take_sources(x, raw, 1, {size, size});
        else
            take_sources(x, raw, 1, {size, size, 0});
    } else if (base == "set") { // a mask of pairs of halves
        const bool equal = name.take("eq"), mask = name.take_type() == Type::U32;
        x.type = name.take_type();
        x.run = equal && mask && (x.type == Type::F16x2 || x.type == Type::BF16x2)
                    ? find_pair_arithmetic(Arith::SetEq, x.type)
                    : nullptr;
        x.dst[x.num_dst++] = destination(raw.groups.at(0).at(0), 4, raw.line);
        take_sources(x, raw, 1, {4, 4});
    } else if (base == "cvt") {
        const Rounding rounding = name.take_one_of<Rounding>({{"rni", Rounding::ToIntegerNearest},
                                                              {"rzi", Rounding::ToIntegerZero},
                                                              {"rmi", Rounding::ToIntegerDown},
                                                              {"rpi", Rounding::ToIntegerUp},
                                                              {"rn", Rounding::Nearest}},
                                                             Rounding::None);
        const bool saturate = name.take("sat");
        x.type = name.take_type();
        x.from = name.take_type();
        x.dst[x.num_dst++] = destination(raw.groups.at(0).at(0), register_bytes(x.type), raw.line);
        if (x.type == Type::F16x2 || x.type == Type::BF16x2) {
            x.run =
                x.from == Type::F32 && rounding == Rounding::Nearest ? find_pair_conversion(x.type) : nullptr;
            take_sources(x, raw, 1, {4, 4});
        } else {
            if (!(saturate && is_float(x.type)))
                x.run = find_conversion(x.type, x.from, rounding, saturate, x.constant);
            take_sources(x, raw, 1, {register_bytes(x.from)});
        }
    } else {
        struct Row {
            std::string_view base, part; ///< a part that makes it another operation, or nothing
            Arith op;
            uint8_t sources;
            bool rounds = false; ///< floats need .rn: without it the assembler may contract
        };
        static constexpr Row rows[] = {
            {"add", "", Arith::Add, 2, true},   {"sub", "", Arith::Sub, 2, true},
            {"mul", "wide", Arith::MulWide, 2}, {"mul", "hi", Arith::MulHi, 2},
            {"mul", "lo", Arith::MulLo, 2},     {"mul", "", Arith::MulLo, 2, true},
            {"mad", "wide", Arith::MadWide, 3}, {"mad", "hi", Arith::MadHi, 3},
            {"mad", "lo", Arith::MadLo, 3},     {"fma", "", Arith::Fma, 3, true},
            {"div", "", Arith::Div, 2, true},   {"rem", "", Arith::Rem, 2},
            {"min", "NaN", Arith::MinNan, 2},   {"max", "NaN", Arith::MaxNan, 2},
            {"min", "", Arith::Min, 2},         {"max", "", Arith::Max, 2},
            {"and", "", Arith::And, 2},         {"or", "", Arith::Or, 2},
            {"xor", "", Arith::Xor, 2},         {"not", "", Arith::Not, 1},
            {"neg", "", Arith::Neg, 1},         {"abs", "", Arith::Abs, 1},
            {"shl", "", Arith::Shl, 2},         {"shr", "", Arith::Shr, 2},
            {"sqrt", "", Arith::Sqrt, 1, true}, {"rcp", "", Arith::Rcp, 1, true},
            {"popc", "", Arith::Popc, 1},       {"clz", "", Arith::Clz, 1},
            {"brev", "", Arith::Brev, 1},       {"bfind", "", Arith::Bfind, 1},
            {"bfe", "", Arith::Bfe, 3},         {"bfi", "", Arith::Bfi, 4},
            {"prmt", "", Arith::Prmt, 3},       {"lop3", "", Arith::Lop3, 3},
            {"selp", "", Arith::Selp, 3},       {"copysign", "", Arith::CopySign, 2},
        };
        const Row *row = nullptr;
        for (const Row &r : rows)
            if (r.base == base && (r.part.empty() || name.take(r.part))) {
                row = &r;
                break;
            }
        Arith op = row ? row->op : Arith::Mov;
        uint8_t sources = row ? row->sources : 0;
        if (base == "shf") {
            const bool left = name.take("l"), wrap = name.take("wrap");
            if (!left)
                name.take("r");
            if (!wrap)
                name.take("clamp");
            op = left ? (wrap ? Arith::ShfLeftWrap : Arith::ShfLeftClamp)
                      : (wrap ? Arith::ShfRightWrap : Arith::ShfRightClamp);
            sources = 3;
        } else if (base == "dp4a") {
            op = Arith::Dp4a;
            sources = 3;
        } else if (!row) {
            return false;
        }
        const bool rounds = name.take("rn");
        x.type = name.take_type();
        if (op == Arith::Dp4a && name.take_type() != x.type)
            op = Arith::Dp4aMixed;
        if (row && row->rounds && is_float(x.type) && !rounds)
            name.fail("without .rn the assembler may contract it with its neighbour, and round once");
        x.run = find_arithmetic(op, x.type);
        const uint8_t wide = register_bytes(x.type);
        const bool widens = op == Arith::MulWide || op == Arith::MadWide;
        const bool counts = op == Arith::Popc || op == Arith::Clz || op == Arith::Bfind;
        x.dst[x.num_dst++] = destination(raw.groups.at(0).at(0),
                                         widens   ? static_cast<uint8_t>(2 * wide)
                                         : counts ? uint8_t{4}
                                                  : wide,
                                         raw.line);
        if (op == Arith::Lop3) {
            RawInstr without_table = raw;
            x.constant = raw.groups.back().at(0).bits;
            without_table.groups.pop_back();
            take_sources(x, without_table, 1, {4, 4, 4});
            if (!x.run)
                name.fail("the interpreter does not know it");
            return true;
        }
        if (op == Arith::Shl || op == Arith::Shr)
            take_sources(x, raw, 1, {wide, 4});
        else if (op == Arith::Bfe)
            take_sources(x, raw, 1, {wide, 4, 4});
        else if (op == Arith::Bfi)
            take_sources(x, raw, 1, {wide, wide, 4, 4});
        else if (op == Arith::Selp)
            take_sources(x, raw, 1, {wide, wide, 0});
        else if (op == Arith::MadWide)
            take_sources(x, raw, 1, {wide, wide, static_cast<uint8_t>(2 * wide)});
        else if (sources == 1)
            take_sources(x, raw, 1, {wide});
        else if (sources == 2)
            take_sources(x, raw, 1, {wide, wide});
        else
            take_sources(x, raw, 1, {wide, wide, wide});
    }
    if (!x.run)
        name.fail("the interpreter does not know it");
    return true;
}

} // namespace lz::ptx
