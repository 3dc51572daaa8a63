#include "codegen/cuda/emitter.h"

#include <algorithm>
#include <optional>

namespace lz::codegen::cuda {

using namespace ir;

namespace {

/// What the packets of a batch take beside a row that is kept. With twice as much NVRTC 13.0 spills for a
/// layer norm of 32,768 f32 on sm_80, with half of it for one of bf16 on sm_90 and sm_120.
constexpr int kBatchBytes = 64;

bool same(const Access &a, const Access &b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.terms.empty() && b.terms.empty() &&
           a.predicate == kNoValue && b.predicate == kNoValue &&
           std::ranges::equal(a.strides, b.strides, [](const AxisStride &x, const AxisStride &y) {
               return x.axis == y.axis && x.cls == y.cls && x.stride == y.stride;
           });
}

} // namespace

/// Nothing else multiplies to upper halves.
bool PhaseEmitter::draws(const Region &region) const {
    return std::ranges::any_of(region, [&](const Stmt &stmt) {
        return stmt.kind == Stmt::Instruction && kernel_.instrs[stmt.id].op == KOp::MulHiU;
    });
}

PhaseEmitter::PacketAccesses PhaseEmitter::packet_accesses(const Region &region, AxisId axis) const {
    PacketAccesses found;
    std::set<uint16_t> stored; // so far
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop)
            continue;
        const Instr &instr = kernel_.instrs[stmt.id];
        if (instr.access == kNoValue || names_.has(stmt.id))
            continue;
        const Access &a = kernel_.accesses[instr.access];
        if (instr.op == KOp::Store) {
            // Two stores to one buffer keep their order.
            if (is_packet(a, axis) && stored.insert(a.buffer).second)
                found.stores.push_back(stmt.id);
        } else if (is_packet(a, axis) && !stored.contains(a.buffer) && !is_dead(stmt.id)) {
            found.loads.push_back(stmt.id);
        }
    }
    // A packet store comes last: nothing of its buffer may be read or written after it.
    std::erase_if(found.stores, [&](KValue v) {
        const uint16_t buffer = kernel_.accesses[kernel_.instrs[v].access].buffer;
        bool after = false, clash = false;
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Instruction && stmt.id == v) {
                after = true;
                continue;
            }
            if (stmt.kind == Stmt::Loop || kernel_.instrs[stmt.id].access == kNoValue)
                continue;
            clash = clash || (after && kernel_.accesses[kernel_.instrs[stmt.id].access].buffer == buffer);
        }
        return clash;
    });
    return found;
}

std::vector<KValue> PhaseEmitter::early_loads(const Region &region, AxisId axis) const {
    std::vector<KValue> loads = packet_accesses(region, axis).loads;
    std::erase_if(loads, [&](KValue v) {
        const Access &a = kernel_.accesses[kernel_.instrs[v].access];
        const auto here = [&](KValue x) { return x != kNoValue && !names_.has(x); };
        return here(a.predicate) ||
               std::ranges::any_of(a.terms, [&](const IndexTerm &t) { return here(t.index); });
    });
    return loads;
}

std::string PhaseEmitter::packet_load(KValue load, const Packet &p) {
    const Access &a = kernel_.accesses[kernel_.instrs[load].access];
    packets_ = true;
    const std::string from = address(a, p.axis, p.first);
    const std::string packet = p.width == 1 ? at_packet_address(from)
                               : entry_ != Entry::Aligned
                                   ? fmt::format("load_each<{}>({}, {})", p.width, from, p.left())
                               : p.whole ? fmt::format("load<{}>({})", p.width, from)
                                         : fmt::format("load_some<{}>({}, {})", p.width, from, p.left());
    if (a.predicate == kNoValue)
        return packet;
    const std::string nothing = p.width == 1 ? "0" : packet_type(kernel_.instrs[load].dtype, p.width) + "{}";
    return fmt::format("{} ? {} : {}", value(a.predicate), packet, nothing);
}

bool PhaseEmitter::note_alignments(const Region &region, AxisId axis, int width, bool whole_axis) {
    const PacketAccesses accesses = packet_accesses(region, axis);
    bool several_rows = false;
    for (const auto *list : {&accesses.loads, &accesses.stores})
        for (const KValue v : *list) {
            const Access &a = kernel_.accesses[kernel_.instrs[v].access];
            alignable_ = note_alignment(a, axis) && alignable_;
            several_rows = several_rows || a.strides.size() > 1;
        }
    if (!several_rows || !whole_axis || width > 16)
        return false;
    // Rows begin at multiples of 16 bytes, and so, mostly, do they end.
    const LaunchAlignment rows{LaunchAlignment::Arg, static_cast<uint8_t>(16 / width),
                               kernel_.axes[axis].extent};
    if (std::ranges::find(alignments_, rows) == alignments_.end())
        alignments_.push_back(rows);
    return true;
}

void PhaseEmitter::write_packet(const Region &region, const Packet &p, const Reduce &reduce) {
    // What does not change along the axis is computed once.
    for (const Stmt &stmt : region)
        if (stmt.kind == Stmt::Instruction && kernel_.instrs[stmt.id].op != KOp::Store &&
            !names_.has(stmt.id) && !is_dead(stmt.id) && !varies(stmt.id, p.axis))
            write_instr(stmt.id);
    const PacketAccesses accesses = packet_accesses(region, p.axis);
    const auto access_of = [&](KValue v) -> const Access & {
        return kernel_.accesses[kernel_.instrs[v].access];
    };
    std::vector<std::pair<Access, std::string>> loaded;
    for (const KeptPackets &kept : kept_)
        loaded.emplace_back(kept.access, kept.packet(round_));
    const bool single = p.width == 1;
    const auto name_elements = [&](KValue v, const std::string &packet) {
        const DType t = kernel_.instrs[v].dtype;
        names_.give(v, {.name = single ? packet : packet + ".at(e)",
                        .packet = is_half(t) && !single ? packet : "",
                        .half = t,
                        .of_element = true});
    };
    for (const KValue v : accesses.loads) {
        const auto known =
            std::ranges::find_if(loaded, [&](const auto &k) { return same(k.first, access_of(v)); });
        if (known != loaded.end()) {
            name_elements(v, known->second);
            continue;
        }
        const std::string name = fmt::format("x{}", v);
        w_.line("const {} {} = {};", packet_type(kernel_.instrs[v].dtype, p.width), name, packet_load(v, p));
        name_elements(v, name);
        loaded.emplace_back(access_of(v), name);
    }
    write_pairs(region, 0, p);
    // Elements beyond the end are computed where that harms nobody.
    const bool touches = has_loop(region) || std::ranges::any_of(region, [&](const Stmt &stmt) {
                             return stmt.kind == Stmt::Instruction && !names_.has(stmt.id) &&
                                    !is_dead(stmt.id) &&
                                    (info(kernel_.instrs[stmt.id].op).cls == KOpClass::Memory ||
                                     info(kernel_.instrs[stmt.id].op).cls == KOpClass::Check) &&
                                    std::ranges::find(accesses.stores, stmt.id) == accesses.stores.end();
                         });
    const bool partial = !(entry_ == Entry::Aligned && p.whole) && p.width > 1;
    const char *const empty = touches && partial ? " = {}" : "";
    std::map<KValue, KValue> rounded_together; // stores of halves: what is rounded, two at a time
    std::map<KValue, std::string> made;        // stores of packets that are there already
    for (const KValue v : accesses.stores) {
        if (single)
            break;
        const KValue half = kernel_.instrs[v].operands[0];
        const DType dtype = kernel_.instrs[v].dtype;
        if (const Written &packet = names_[half]; !packet.packet.empty() && packet.half == dtype) {
            made.emplace(v, packet.packet);
            continue;
        }
        w_.line("{} y{}{};", packet_type(dtype, p.width), v, empty);
        const KValue wide = p.width % 2 == 0 ? rounded_alone(half) : kNoValue;
        if (wide == kNoValue)
            continue;
        rounded_together.emplace(v, wide);
        names_.leave_unread(half);
        w_.line("float z{}[{}]{};", v, p.width, empty);
    }
    const bool indexed = reads_index(region, p.axis), guarded = touches && partial;
    const std::string there = less(plus({p.first, "e"}), p.end);
    const auto each = [&](const std::function<void()> &write) {
        const bool was = std::exchange(in_element_, true);
        if (single) { // where the packet is, its one element is called as its axis
            write();
            in_element_ = was;
            return;
        }
        const size_t from = w_.size();
        w_.plain("#pragma unroll");
        open("for (int e = 0; e < {}; ++e)", p.width);
        const std::optional<std::string> name = p.first == "0" ? std::optional(axis(p.axis)) : std::nullopt;
        // NVRTC sees by the | which bits neighbours share, so that their random words come from one block.
        if (name)
            axis_names_[p.axis] = "e";
        else if (indexed)
            w_.line("const {} {} = {} {} e;", index_type(), axis(p.axis), p.first,
                    p.aligned && draws(region) ? "|" : "+");
        if (guarded)
            open("if ({})", there);
        const size_t inside = w_.size();
        write();
        const bool nothing = w_.size() == inside;
        in_element_ = was;
        if (name)
            axis_names_.erase(p.axis);
        if (guarded)
            close();
        close();
        if (nothing)
            w_.erase(from, w_.size() - from);
    };
    size_t next = 0; // statement
    const auto write_until = [&](size_t end) {
        for (; next < end; ++next) {
            const Stmt &stmt = region[next];
            if (stmt.kind == Stmt::Loop)
                write_loop(stmt.id);
            else if (const auto store = rounded_together.find(stmt.id); store != rounded_together.end())
                w_.line("z{}[e] = {};", stmt.id, value(store->second));
            else if (std::ranges::find(accesses.stores, stmt.id) == accesses.stores.end())
                write_instr(stmt.id);
            else if (!single && !made.contains(stmt.id))
                w_.line("y{}.set(e, {});", stmt.id, bare(value(kernel_.instrs[stmt.id].operands[0])));
        }
    };
    if (p.width > 1 && !guarded && !has_loop(region))
        for (size_t i = 0; i < region.size(); ++i) {
            const KValue v = region[i].id;
            const Instr &instr = kernel_.instrs[v];
            if (p.width % 2 == 0 && begins_pairs(region, i)) {
                write_rounded(region, next, i, p, each, [&] { write_until(i); });
                next = i + 1;
                continue;
            }
            if (instr.op != KOp::Rarely || names_.has(v) || is_dead(v) || rare_.only_for(v) ||
                question(instr).x == kNoValue)
                continue;
            write_choice(region, next, i, p.width, each, [&] { write_until(i); });
            next = i + 1;
        }
    each([&] {
        write_until(region.size());
        if (!reduce)
            return;
        const bool counts = partial && !touches;
        if (counts)
            open("if ({})", there);
        reduce();
        if (counts)
            close();
    });
    std::vector<std::string> pairs;
    for (const auto &[v, wide] : rounded_together)
        pairs.push_back(fmt::format("y{0}.w[p] = {1}(z{0}[2 * p], z{0}[2 * p + 1]);", v,
                                    kernel_.instrs[v].dtype == DType::F16 ? "to_halves" : "to_bfloats"));
    write_words(pairs, p.width);
    for (const KValue v : accesses.stores) {
        const Access &a = access_of(v);
        packets_ = true;
        // What the launch reads again, a row that is kept or a temporary, stays near; and shared memory has
        // no other store.
        const BufferMode mode = kernel_.buffers[a.buffer].mode;
        const bool streaming = schedule_.stores == StoreTier::Streaming &&
                               (mode == BufferMode::Out || mode == BufferMode::InOut);
        const std::string to = address(a, p.axis, p.first);
        const std::string when = a.predicate == kNoValue ? "" : "if (" + value(a.predicate) + ") ";
        if (single) {
            const std::string stored = value(kernel_.instrs[v].operands[0]);
            if (streaming) // of a literal's type none could be made out
                w_.line("{}store_past<{}>({}, {});", when, c_type(kernel_.instrs[v].dtype), to, bare(stored));
            else
                w_.line("{}{} = {};", when, at_packet_address(to), bare(stored));
            continue;
        }
        const bool whole = entry_ == Entry::Aligned && p.whole;
        const auto packet = made.find(v);
        w_.line("{}store{}<{}>({}, {}{});", when,
                whole                      ? ""
                : entry_ != Entry::Aligned ? "_each"
                                           : "_some",
                streaming, to, packet == made.end() ? fmt::format("y{}", v) : packet->second,
                whole ? "" : ", " + p.left());
    }
}

/// Whether an element's index is asked for by what is still to be written.
bool PhaseEmitter::reads_index(const Region &region, AxisId axis) const {
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop)
            return true;
        const Instr &instr = kernel_.instrs[stmt.id];
        if (instr.op == KOp::Axis && instr.index == axis && uses_[stmt.id] > 0)
            return true;
        if (instr.access == kNoValue || names_.has(stmt.id))
            continue;
        const Access &a = kernel_.accesses[instr.access];
        if (!moves_along(a, axis) || (kernel_.buffers[a.buffer].mode == BufferMode::Worker && in_registers()))
            continue;
        // Loads that are packets have names by now; stores that are not are those that clash.
        if (instr.op == KOp::Load && !is_dead(stmt.id))
            return true;
        if (instr.op == KOp::Store) {
            const std::vector<KValue> stores = packet_accesses(region, axis).stores;
            if (std::ranges::find(stores, stmt.id) == stores.end())
                return true;
        }
    }
    return false;
}

/// What is the same for the whole launch, numbers beside tensors mostly, stands before a thread's packets; of
/// halves the word that pairs take, too.
void PhaseEmitter::write_launch_values(const Region &region) {
    std::set<KValue> same;
    const auto is_same = [&](KValue x) {
        if (x == kNoValue || same.contains(x))
            return true;
        const KOp op = kernel_.instrs[x].op;
        return op == KOp::Const || op == KOp::Scalar || op == KOp::Arg;
    };
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop)
            continue;
        const Instr &instr = kernel_.instrs[stmt.id];
        const KOpClass cls = info(instr.op).cls;
        if ((cls == KOpClass::Arith || cls == KOpClass::Convert || cls == KOpClass::Compare) &&
            !is_choice(instr.op) && std::ranges::all_of(instr.operands, is_same)) {
            same.insert(stmt.id);
            write_instr(stmt.id);
        }
    }
    for (const Stmt &stmt : region) {
        const KValue wide = stmt.kind == Stmt::Loop ? kNoValue : operation_of_half(stmt.id);
        if (wide == kNoValue)
            continue;
        const DType half = kernel_.instrs[stmt.id].dtype;
        for (const KValue x : kernel_.instrs[wide].operands)
            if (same.contains(x) && holds_half(x, half) && names_.can_read(x))
                same_word(x, half);
    }
}

/// `all_there`: whether the thread has all elements of `count` packets. It asks once then, and has no branch
/// between its loads; threads at the end take one packet after the other.
void PhaseEmitter::write_packets(const Region &region, Packet packet, int count, const Place &place,
                                 const Reduce &reduce, const std::function<void()> &between,
                                 const std::string &all_there) {
    const bool whole = packet.whole;
    if (count > 1)
        write_launch_values(region);
    std::vector<KValue> early;
    if (count > 1)
        early = early_loads(region, packet.axis);
    std::erase_if(early, [&](KValue v) {
        if (entry_ == Entry::Any && in_rows_ && in_shared_memory(kernel_.instrs[v]))
            return true;
        const Access &a = kernel_.accesses[kernel_.instrs[v].access];
        return std::ranges::any_of(kept_, [&](const KeptPackets &k) { return same(k.access, a); });
    });
    int bytes = 0; // of one packet of each
    for (const KValue v : early)
        bytes += packet.width * size_of(kernel_.instrs[v].dtype);
    const int most = in_registers() ? kBatch : kMostBatch;
    const int batch = std::clamp(kBatchBytes / std::max(bytes, 1), 1, most);
    bool batches = !early.empty() && count > std::max(kBatch, batch) && !between && entry_ != Entry::Any;
    if (batches && batch == 1) { // each is loaded where it is computed
        early.clear();
        batches = false;
    }
    if (batches) {
        w_.plain("#pragma unroll");
        open("for (int u0 = 0; u0 < {}; u0 += {})", count, batch);
    }
    const int at_once = batches ? batch : count;
    const std::string in_batch = batches ? "b" : count > 1 ? "u" : "0";
    const auto body = [&](bool loads, auto &&write) {
        if (count > 1) {
            w_.plain("#pragma unroll");
            open("for (int {0} = 0; {0} < {1}; ++{0})", in_batch, at_once);
            if (batches)
                w_.line("const int u = u0 + b;");
        }
        std::string there = place(loads);
        if (packet.whole && !all_there.empty())
            there.clear();
        if (batches && count % batch != 0)
            there = there.empty() ? fmt::format("u < {}", count) : fmt::format("u < {} && {}", count, there);
        if (!there.empty())
            open("if ({})", there);
        write();
        if (!there.empty())
            close();
        if (count > 1)
            close();
    };
    if (!all_there.empty()) {
        open("if ({})", all_there);
        packet.whole = true;
    }
    const size_t kept = kept_.size();
    const std::string outer = std::exchange(round_, count > 1 ? "u" : "0");
    for (const KValue v : early) {
        const std::string name = fmt::format("x{}", v);
        w_.line("{} {}[{}]{};", packet_type(kernel_.instrs[v].dtype, packet.width), name, at_once,
                all_there.empty() ? " = {}" : "");
        kept_.push_back({kernel_.accesses[kernel_.instrs[v].access], name, in_batch});
    }
    if (!early.empty())
        body(true, [&] {
            for (const KValue v : early)
                w_.line("x{}[{}] = {};", v, in_batch, packet_load(v, packet));
        });
    if (!early.empty() && (entry_ == Entry::Any || (in_rows_ && !in_registers())))
        w_.line("{}", kAllBefore);
    if (between)
        between();
    body(false, [&] { write_packet(region, packet, reduce); });
    if (batches)
        close();
    kept_.resize(kept);
    if (!all_there.empty()) {
        close();
        packet.whole = whole;
        open("else");
        w_.plain("#pragma unroll 1");
        open("for (int u = 0; u < {}; ++u)", count);
        open("if ({})", place(false));
        write_packet(region, packet, reduce);
        close();
        close();
        close();
    }
    round_ = outer;
}

} // namespace lz::codegen::cuda
