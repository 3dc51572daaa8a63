// Copies between devices, streams that come and go, guards, events, callbacks and peers.
#include "probes.h"
#include "rows.h"

#include <algorithm>
#include <atomic>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

/// The tensor in each of these places in turn; where it is there already it stays itself (S08).
void moved(Oracle &o, int to, int from, const std::vector<int> &places) {
    const Array &x = o.value(from);
    bool copied = false;
    Array y = x;
    for (const int place : places) {
        copied |= y.device != place;
        y.device = place;
    }
    if (copied)
        o.set(to, std::move(y));
    else
        o.alias(to, from);
}

bool make_move(Maker &m, Statement &s) {
    if (m.gpus == 0 || !make_one_to_one(m, s))
        return false;
    s.ints = {m.below(m.gpus), m.below(m.gpus), m.below(m.gpus)};
    s.device = static_cast<int>(m.below(m.gpus + 1)) - 1;
    return true;
}

Stream &stream(Call &c, int64_t slot) {
    auto &s = c.world().streams[static_cast<size_t>(slot)];
    if (!s)
        s.emplace(Device::cuda(static_cast<int>(slot) % c.world().gpus));
    return *s;
}

/// Two tensors of one shape on two GPUs that fit.
std::optional<std::pair<int, int>> two_apart(Maker &m, const std::function<bool(int, int)> &fits) {
    std::vector<std::pair<int, int>> found;
    for (int x = 0; x < m.oracle.handles(); ++x)
        for (int y = 0; y < m.oracle.handles(); ++y) {
            if (!m.oracle.defined(x) || !m.oracle.defined(y))
                continue;
            const Array &a = m.oracle.value(x), &b = m.oracle.value(y);
            if (a.device >= 0 && b.device >= 0 && a.device != b.device && a.shape == b.shape &&
                fits(a.device, b.device))
                found.emplace_back(x, y);
        }
    return found.empty() ? std::nullopt : std::optional(m.pick(found));
}

bool make_stream_use(Maker &m, Statement &s) {
    if (m.gpus == 0)
        return false;
    s.ints = {m.below(World::kStreams), m.below(World::kStreams), -m.below(3)};
    return true;
}

void nothing(Oracle &, const Statement &) {}

/// What is recorded on a stream counts for it, though the compiler removes it (S41, S43).
void probe(Call &c) {
    const Statement &s = c.statement();
    const Stream &on = stream(c, s.ints[0]);
    const int gpu = on.device().index();
    const int64_t mark = new_mark();
    const Tensor number = full({1}, mark, {.dtype = i64, .device = Device::cuda(gpu)}, c.loc);
    Tensor slow = lz::call("calls.mark", {number}, c.loc)[0], other;
    const Tensor there = s.ints[1] == 3 ? slow.cuda((gpu + 1) % c.world().gpus, c.loc) : Tensor();
    std::atomic<bool> early = false;
    Event event;
    {
        const StreamGuard guard(on);
        switch (s.ints[1]) {
        case 0:
            other = slow.clone(c.loc);
            break;
        case 1:
            other = empty({1}, {.dtype = i64, .device = Device::cuda(gpu)}, c.loc);
            other.copy_(slow, c.loc);
            break;
        case 2:
            other = slow + 1;
            break;
        default: // a copy that is there already
            other = slow.cuda((gpu + 1) % c.world().gpus, c.loc);
        }
        if (s.ints[2] == 1)
            event.record(c.loc);
        if (s.ints[2] == 2)
            on.add_callback([&early, mark] { early = !marked(mark); }, c.loc);
    }
    if (s.ints[2] == 1)
        event.synchronize(c.loc);
    else
        on.synchronize(c.loc);
    if (!marked(mark) || early)
        c.fail("what the stream was given had not been computed");
}

/// A stream in each turn of a loop, urgent in every other one, that lives as long as the turn does. Where
/// nothing is evaluated in between, more of them are pending than there are numbers.
void turns(Call &c) {
    const Device gpu = Device::cuda(static_cast<int>(c.integer(0)) % c.world().gpus);
    const bool each = c.integer(1) % 2 == 0;
    constexpr int kTurns = 70;
    Tensor x = zeros({100}, {.device = gpu}, c.loc);
    for (int k = 0; k < kTurns; ++k) {
        const Stream s(gpu, k % 2 ? -1 : 0, c.loc);
        const StreamGuard guard(s);
        x = lz::add({x, c.loc}, {1, c.loc}, c.loc);
        if (each)
            x.eval(c.loc);
    }
    if (std::ranges::any_of(x.to_vector<float>(c.loc), [](float v) { return v != kTurns; }))
        c.fail("another value than 70");
}

/// Most of a small GPU's memory goes to a copy in; what is computed from it then finds what is left, on
/// whatever stream it was (S52).
void crowd(Call &c) {
    const Device gpu = Device::cuda(static_cast<int>(c.integer(0)) % c.world().gpus);
    const std::vector<float> data(500000, 1.5f);
    Tensor x = lz::tensor(data, TensorOptions{}, c.loc).cuda(gpu, c.loc);
    x.eval(c.loc);
    Tensor y = lz::add({x, c.loc}, {1, c.loc}, c.loc);
    y.eval(c.loc);
    const std::vector<float> back = y.to_vector<float>(c.loc);
    if (back.size() != data.size() || std::ranges::any_of(back, [](float v) { return v != 2.5f; }))
        c.fail("another value than 2.5");
}

} // namespace

void add_device_rows(std::vector<Row> &rows) {
#define loc c.loc
    const auto move = [&](std::string text, std::function<void(Call &)> run,
                          std::function<std::vector<int>(const Statement &)> places, int weight,
                          bool empties = false) {
        rows.push_back(
            {std::move(text), std::move(run),
             [places](Oracle &o, const Statement &s) { moved(o, s.out[0], s.args[0].handle, places(s)); },
             make_move, weight, empties});
    };
    const auto first = [](const Statement &s) { return std::vector<int>{static_cast<int>(s.ints[0])}; };
    move(LZ_CALL(lz::to(T0, V0, loc)), [](const Statement &s) { return std::vector<int>{s.device}; }, 30);
    move(LZ_CALL(M0.to(V0, loc)), [](const Statement &s) { return std::vector<int>{s.device}; }, 10, true);
    move(
        LZ_CALL(lz::to(T0, V0, lz::CopyOptions{.non_blocking = true}, loc)),
        [](const Statement &s) { return std::vector<int>{s.device}; }, 10);
    move(LZ_CALL(T0.cuda(static_cast<int>(I0), loc)), first, 40);
    move(LZ_CALL(T0.cpu(loc)), [](const Statement &) { return std::vector<int>{-1}; }, 30);
    move(
        LZ_CALL(T0.cuda(static_cast<int>(I0), loc).cpu(loc)),
        [](const Statement &s) { return std::vector<int>{static_cast<int>(s.ints[0]), -1}; }, 20);
    move(
        LZ_CALL(T0.cuda(static_cast<int>(I0), loc).cuda(static_cast<int>(I1), loc)),
        [](const Statement &s) {
            return std::vector<int>{static_cast<int>(s.ints[0]), static_cast<int>(s.ints[1])};
        },
        20);
    move(
        LZ_CALL(T0.cuda(static_cast<int>(I0), loc)
                    .cuda(static_cast<int>(I1), loc)
                    .cpu(loc)
                    .cuda(static_cast<int>(I2), loc)),
        [](const Statement &s) {
            return std::vector<int>{static_cast<int>(s.ints[0]), static_cast<int>(s.ints[1]), -1,
                                    static_cast<int>(s.ints[2])};
        },
        15);
    rows.push_back({LZ_CALL(T0.copy_(T1, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]), &y = o.value(s.args[1]);
                        if (broadcast(y.shape, x.shape) != x.shape)
                            throw Mistake(ErrorType::Shape, "does not broadcast");
                        Array now = converted(broadcast_to(y, x.shape), x.dtype);
                        now.device = x.device;
                        o.change(s.args[0].handle, std::move(now));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_one(m, s))
                            return false;
                        const Array &x = m.oracle.value(s.args[0]);
                        const auto y = m.any([&](const Array &v) {
                            return v.shape.size() <= x.shape.size() &&
                                   std::equal(v.shape.rbegin(), v.shape.rend(), x.shape.rbegin());
                        });
                        if (y)
                            s.args.push_back(Arg::of(*y));
                        return y.has_value();
                    },
                    30});
#undef loc
    const auto effect = [&](std::string text, std::function<void(Call &)> run, int weight) {
        rows.push_back(
            {std::move(text), std::move(run), nothing, make_stream_use, weight, false, false, false, false});
    };
    // s0, s1, ...: streams of cuda:(number % GPUs), made when they are used first.
    effect(
        "s[I0] = lz::Stream(gpu(I0), I2)",
        [](Call &c) {
            const int64_t slot = c.integer(0);
            c.world().streams[static_cast<size_t>(slot)].emplace(
                Device::cuda(static_cast<int>(slot) % c.world().gpus), static_cast<int>(c.integer(2)), c.loc);
        },
        40);
    effect(
        "s[I0].reset()", [](Call &c) { c.world().streams[static_cast<size_t>(c.integer(0))].reset(); }, 25);
    effect(
        "guards.push_back(std::make_unique<lz::StreamGuard>(use(s, I0)))",
        [](Call &c) {
            if (c.world().guards.size() < 3)
                c.world().guards.push_back(std::make_unique<StreamGuard>(stream(c, c.integer(0))));
        },
        40);
    effect(
        "if (!guards.empty()) guards.pop_back()",
        [](Call &c) {
            if (!c.world().guards.empty())
                c.world().guards.pop_back();
        },
        30);
    effect("use(s, I0).synchronize()", [](Call &c) { stream(c, c.integer(0)).synchronize(c.loc); }, 10);
    effect("(void)use(s, I0).query()", [](Call &c) { (void)stream(c, c.integer(0)).query(c.loc); }, 5);
    effect(
        "use(s, I0).wait_stream(use(s, I1))",
        [](Call &c) { stream(c, c.integer(0)).wait_stream(stream(c, c.integer(1)), c.loc); }, 10);
    effect(
        "event.record(use(s, I0))", [](Call &c) { c.world().event->record(stream(c, c.integer(0)), c.loc); },
        10);
    effect(
        "event.wait(use(s, I0))", [](Call &c) { c.world().event->wait(stream(c, c.integer(0)), c.loc); }, 10);
    effect("event.synchronize()", [](Call &c) { c.world().event->synchronize(c.loc); }, 5);
    effect(
        "lz::cuda::synchronize(gpu(I0))",
        [](Call &c) {
            cuda::synchronize(Device::cuda(static_cast<int>(c.integer(0)) % c.world().gpus), c.loc);
        },
        5);
    effect(
        "lz::empty_cache(gpu(I0))",
        [](Call &c) { empty_cache(Device::cuda(static_cast<int>(c.integer(0)) % c.world().gpus), c.loc); },
        3);
    rows.push_back({"probe(s, I0, I1, I2)", probe, nothing,
                    [](Maker &m, Statement &s) {
                        if (!make_stream_use(m, s))
                            return false;
                        s.ints[1] = m.below(4);
                        s.ints[2] = m.below(3);
                        return true;
                    },
                    15});
    effect("crowd(gpu(I0))", crowd, 8);
    effect("turns(gpu(I0), I1)", turns, 5);
    // Peers: allowed in one direction only.
    rows.push_back(
        {"lz::cuda::enable_peer_access(gpu(I0), gpu(I1))",
         [](Call &c) {
             cuda::enable_peer_access(Device::cuda(static_cast<int>(c.integer(0))),
                                      Device::cuda(static_cast<int>(c.integer(1))), c.loc);
         },
         [](Oracle &o, const Statement &s) {
             o.peers.insert({static_cast<int>(s.ints[0]), static_cast<int>(s.ints[1])});
         },
         [](Maker &m, Statement &s) {
             s.ints = {m.below(std::max(m.gpus, 1)), m.below(std::max(m.gpus, 1))};
             if (const auto both = two_apart(m, [](int, int) { return true; }); both && !m.once_in(4))
                 s.ints = {m.oracle.value(both->first).device, m.oracle.value(both->second).device};
             return m.gpus > 1 && s.ints[0] != s.ints[1];
         },
         30});
    rows.push_back({"lz::cuda::disable_peer_access(gpu(I0), gpu(I1))",
                    [](Call &c) {
                        cuda::disable_peer_access(Device::cuda(static_cast<int>(c.integer(0))),
                                                  Device::cuda(static_cast<int>(c.integer(1))), c.loc);
                    },
                    [](Oracle &o, const Statement &s) {
                        o.peers.erase({static_cast<int>(s.ints[0]), static_cast<int>(s.ints[1])});
                    },
                    [](Maker &m, Statement &s) {
                        if (m.oracle.peers.empty())
                            return false;
                        s.ints = {m.oracle.peers.begin()->first, m.oracle.peers.begin()->second};
                        return true;
                    },
                    8});
    rows.push_back({"OUT = lz::add(T0, T1).eval()",
                    [](Call &c) {
                        const Tensor sum = lz::add(Operand(std::as_const(c.tensor(0)), c.loc),
                                                   Operand(std::as_const(c.tensor(1)), c.loc), c.loc);
                        sum.eval(c.loc);
                        c.result(0) = sum;
                    },
                    [](Oracle &o, const Statement &s) {
                        Array y = o.value(s.args[1]);
                        const int home = o.value(s.args[0]).device;
                        if (y.device != home && !automatic_transfers() && !o.peers.contains({home, y.device}))
                            throw Mistake(ErrorType::Device, "no peers", true);
                        y.device = home;
                        Oracle two(2);
                        two.set(0, o.value(s.args[0]));
                        two.set(1, std::move(y));
                        o.set(s.out[0], computed(two, "add", {Arg::of(0), Arg::of(1)}));
                    },
                    [](Maker &m, Statement &s) {
                        // What is allowed, what is allowed the other way round only, or anything.
                        const int64_t kind = automatic_transfers() ? 9 : m.below(10);
                        const auto both = two_apart(m, [&](int home, int other) {
                            const bool there = m.oracle.peers.contains({home, other});
                            return kind == 9 ||
                                   (kind < 5 ? there : !there && m.oracle.peers.contains({other, home}));
                        });
                        if (!both)
                            return false;
                        s.args = {Arg::of(both->first), Arg::of(both->second)};
                        s.out = {m.target()};
                        return true;
                    },
                    40, false, false, true});
}

} // namespace lz::test::calls
