// Execution beside the oracle.
#include "generate.h"
#include "probes.h"
#include "watchdog.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <exception>
#include <thread>

#include <fmt/format.h>

namespace lz::test::calls {

namespace {

/// Halves and BFloats in words, unpacked by hand.
double unpacked(DType t, uint16_t bits) {
    const int mantissa = t == f16 ? 10 : 7, exponents = t == f16 ? 31 : 255, bias = t == f16 ? 15 : 127;
    const int m = bits & ((1 << mantissa) - 1), e = (bits >> mantissa) & exponents;
    const double size = e == exponents ? (m ? NAN : INFINITY)
                        : e == 0       ? std::ldexp(m, 1 - bias - mantissa)
                                       : std::ldexp(m + (1 << mantissa), e - bias - mantissa);
    return bits >> 15 ? -size : size;
}

template <class T>
void fill(Array &out, const Tensor &t, Location loc) {
    const std::vector<T> values = t.to_vector<T>(loc);
    const DefaultMode mode;
    for (size_t k = 0; k < out.at.size(); ++k) {
        if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat>)
            out.at[k].f = unpacked(out.dtype, values[k].bits);
        else if constexpr (std::is_floating_point_v<T>)
            out.at[k].f = static_cast<double>(values[k]);
        else
            out.at[k].i = static_cast<int64_t>(values[k]);
    }
}

} // namespace

Array array_of(const Tensor &t, Location loc) {
    Array out = make(t.dtype(loc), t.sizes(loc));
    switch (out.dtype) {
    case DType::Bool:
        fill<bool>(out, t, loc);
        break;
    case DType::U8:
        fill<uint8_t>(out, t, loc);
        break;
    case DType::I8:
        fill<int8_t>(out, t, loc);
        break;
    case DType::I16:
        fill<int16_t>(out, t, loc);
        break;
    case DType::I32:
        fill<int32_t>(out, t, loc);
        break;
    case DType::I64:
        fill<int64_t>(out, t, loc);
        break;
    case DType::F16:
        fill<Half>(out, t, loc);
        break;
    case DType::BF16:
        fill<BFloat>(out, t, loc);
        break;
    case DType::F32:
        fill<float>(out, t, loc);
        break;
    case DType::F64:
        fill<double>(out, t, loc);
        break;
    }
    return out;
}

namespace {

/// "" or how dtype, shape or device of the tensor differ.
std::string unlike(const Tensor &t, const Array &expected) {
    if (t.dtype() != expected.dtype)
        return fmt::format("the dtype is {}, not {}", name(t.dtype()), name(expected.dtype));
    if (t.sizes() != expected.shape)
        return fmt::format("the shape is {}, not {}", to_string(t.sizes()), to_string(expected.shape));
    if ((t.is_cuda() ? t.get_device() : -1) != expected.device)
        return fmt::format("it is on {}, not on {}", t.device().str(), expected.device);
    return "";
}

bool is(const Error &error, ErrorType type) {
    switch (type) {
    case ErrorType::Shape:
        return dynamic_cast<const ShapeError *>(&error);
    case ErrorType::DType:
        return dynamic_cast<const DTypeError *>(&error);
    case ErrorType::Index:
        return dynamic_cast<const IndexError *>(&error);
    case ErrorType::State:
        return dynamic_cast<const StateError *>(&error);
    case ErrorType::Device:
        return dynamic_cast<const DeviceError *>(&error);
    case ErrorType::OutOfMemory:
        return dynamic_cast<const OutOfMemoryError *>(&error);
    }
    return false;
}

constexpr const char *kFile = "program.cpp";

/// One statement on both sides: "" or what was wrong.
std::string step(World &world, Oracle &oracle, const Statement &s, uint32_t line) {
    std::optional<ErrorType> expected;
    const std::string why = [&] {
        const DefaultMode mode;
        return perform(oracle, s, &expected);
    }();
    Call call(world, s, Location(kFile, line));
    try {
        if (!s.thread) {
            s.row->run(call);
        } else {
            std::exception_ptr thrown;
            std::thread([&] {
                try {
                    s.row->run(call);
                } catch (...) {
                    thrown = std::current_exception();
                }
            }).join();
            if (thrown)
                std::rethrow_exception(thrown);
        }
    } catch (const Error &error) {
        if (!expected)
            return fmt::format("throws: {}", error.what());
        if (!is(error, *expected))
            return fmt::format("throws another error than {} ({}): {}", name(*expected), why, error.what());
        if (error.line() != line)
            return fmt::format("the error names line {}: {}", error.line(), error.what());
        return "";
    } catch (const std::exception &error) {
        return fmt::format("throws no error of ours: {}", error.what());
    }
    if (expected)
        return fmt::format("does not throw {}: {}", name(*expected), why);
    for (const int out : s.out)
        if (const std::string problem = unlike(world.x[static_cast<size_t>(out)], oracle.value(out));
            !problem.empty())
            return problem;
    return world.problem;
}

} // namespace

void Call::out(std::vector<Tensor> &&made) {
    if (made.size() < statement_.out.size())
        return fail(fmt::format("there are {} results", made.size()));
    for (size_t k = 0; k < statement_.out.size(); ++k)
        result(k) = std::move(made[k]);
}

std::vector<Index> Call::index() const {
    std::vector<Index> out;
    for (const Entry &e : statement_.index) {
        const auto bound = [](const std::optional<int64_t> &x) {
            return x ? Slice::Bound(*x) : Slice::Bound(None);
        };
        switch (e.kind) {
        case Entry::Kind::Integer:
            out.emplace_back(e.integer, loc);
            break;
        case Entry::Kind::Slice:
            out.emplace_back(Slice(bound(e.start), bound(e.stop), bound(e.step)), loc);
            break;
        case Entry::Kind::Ellipsis:
            out.emplace_back(Ellipsis, loc);
            break;
        case Entry::Kind::None:
            out.emplace_back(None, loc);
            break;
        case Entry::Kind::Tensor:
            out.emplace_back(world_.x[static_cast<size_t>(e.handle)], loc);
            break;
        }
    }
    return out;
}

Part Call::part() const {
    const std::vector<Index> i = index();
    const Tensor &x = world_.x[static_cast<size_t>(statement_.args[0].handle)];
    switch (i.size()) { // a list in braces has its length when it is compiled
    case 0:
        return x.at({}, loc);
    case 1:
        return x.at({i[0]}, loc);
    case 2:
        return x.at({i[0], i[1]}, loc);
    case 3:
        return x.at({i[0], i[1], i[2]}, loc);
    case 4:
        return x.at({i[0], i[1], i[2], i[3]}, loc);
    default:
        return x.at({i[0], i[1], i[2], i[3], i[4]}, loc);
    }
}

std::vector<Tensor> Call::tensors() const {
    std::vector<Tensor> out;
    for (const Arg &arg : statement_.args)
        out.push_back(world_.x[static_cast<size_t>(arg.handle)]);
    return out;
}

void Call::observe(int handle, const std::string &how) {
    const Array &expected = world_.oracle->value(handle);
    const Tensor &t = world_.x[static_cast<size_t>(handle)];
    std::string problem = unlike(t, expected);
    if (problem.empty()) {
        const Array found = array_of(t, loc);
        const DefaultMode mode;
        problem = difference(expected, found);
        for (const Element e : found.at)
            world_.bits = world_.bits * 0x9E3779B97F4A7C15u + 1 +
                          (is_float(found.dtype) && std::isnan(e.f) ? 0x7ff8u : std::bit_cast<uint64_t>(e));
    }
    if (!problem.empty())
        fail(fmt::format("x{} by {}: {}", handle, how, problem));
}

namespace {

/// Bytes on the CPU and on each GPU.
std::vector<int64_t> allocated(int gpus) {
    std::vector<int64_t> out = {memory_allocated()};
    for (int d = 0; d < gpus; ++d)
        out.push_back(memory_allocated(Device::cuda(d)));
    return out;
}

/// The threads that a program leaves behind are the next one's no longer.
struct SameThreads {
    const int threads = num_threads();
    ~SameThreads() {
        if (num_threads() != threads)
            set_num_threads(threads);
    }
};

/// Nor are its peers.
struct NoPeers {
    int gpus;
    explicit NoPeers(int gpus) : gpus(gpus) {}
    ~NoPeers() {
        for (int a = 0; a < gpus; ++a)
            for (int b = 0; b < gpus; ++b)
                if (a != b)
                    cuda::disable_peer_access(Device::cuda(a), Device::cuda(b));
    }
};

} // namespace

namespace {

std::string run_once(const Program &program, Seen &seen) {
    register_calls();
    const std::vector<int64_t> before = allocated(program.gpus);
    std::string problem;
    {
        const DefaultMode mode; // what a program sets ends with it
        const SameThreads threads;
        Oracle oracle(program.handles);
        oracle.random_seed = program.random_seed;
        lz::manual_seed(program.random_seed);
        World world;
        world.oracle = &oracle;
        world.gpus = program.gpus;
        if (program.gpus > 0)
            world.event.emplace();
        const NoPeers no_peers(program.gpus);
        world.x.resize(static_cast<size_t>(program.handles));
        uint32_t line = 0;
        for (const Statement &s : program.statements) {
            ++line;
            problem = step(world, oracle, s, line);
            if (!problem.empty())
                return fmt::format("statement {} ({}): {}", line, s.row->text, problem);
        }
        // What nobody looked at.
        std::fesetenv(FE_DFL_ENV);
        const Statement none;
        Call call(world, none, Location(kFile, line + 1));
        for (int h = 0; h < program.handles && world.problem.empty(); ++h) {
            if (world.x[static_cast<size_t>(h)].defined() != oracle.defined(h))
                return fmt::format("at the end x{} is {}", h, oracle.defined(h) ? "empty" : "not empty");
            for (int g = 0; g < h; ++g)
                if (oracle.defined(h) && oracle.same(g, h) != world.x[static_cast<size_t>(h)].same_tensor(
                                                                  world.x[static_cast<size_t>(g)]))
                    return fmt::format("at the end x{} and x{} are {}", g, h,
                                       oracle.same(g, h) ? "two tensors" : "one tensor");
            try {
                if (!oracle.defined(h))
                    continue;
                call.observe(h, "to_vector");
                const Tensor &x = world.x[static_cast<size_t>(h)];
                if (seen.wants_text)
                    seen.shown += fmt::format("{} {} on {}\n", x.str(), name(x.dtype()), x.device().str());
            } catch (const std::exception &error) {
                return fmt::format("at the end x{} throws: {}", h, error.what());
            }
        }
        problem = world.problem.empty() ? "" : "at the end " + world.problem;
        seen.bits = seen.bits * 31 + world.bits;
    }
    lz::sync();
    for (int d = 0; d < program.gpus; ++d)
        cuda::synchronize(Device::cuda(d));
    if (const std::vector<int64_t> after = allocated(program.gpus); problem.empty() && after != before)
        problem = fmt::format("at the end {} bytes are allocated, {} before", fmt::join(after, ", "),
                              fmt::join(before, ", "));
    return problem;
}

/// Whether the same calls are the same programs the next time. Threads that race claim what they meet, and a
/// new stream of the user's may be another one.
bool compiles_alike(const Program &program) {
    return program.gpus == 0 && std::ranges::none_of(program.statements, [](const Statement &s) {
               return s.row->text.starts_with("from_threads");
           });
}

} // namespace

std::string run(const Program &program) {
    Seen seen;
    return run_and_see(program, seen);
}

std::string run_and_see(const Program &program, Seen &seen) {
    const Watchdog::Guard guard(program);
    const std::vector<Run> runs = runs_of(program);
    for (size_t k = 0; k < runs.size(); ++k) {
        const CompileStats before = compile_stats();
        seen.shown.clear();
        const std::string problem = run_once(runs[k].program, seen);
        const CompileStats after = compile_stats();
        const std::string which = k == 0 ? "" : fmt::format("in run {}, {}, ", k + 1, runs[k].name);
        if (!problem.empty())
            return which + problem;
        if (!runs[k].compiles && compiles_alike(program) &&
            (after.programs_compiled != before.programs_compiled ||
             after.kernels_compiled != before.kernels_compiled))
            return fmt::format("{}compiles: {} programs, {} kernels", which,
                               after.programs_compiled - before.programs_compiled,
                               after.kernels_compiled - before.kernels_compiled);
    }
    return "";
}

} // namespace lz::test::calls
