// The op `call` on every kind of device, against the interpreter, with random delays and verified schedules.
#include "virtual_gpus.h"

#include "frontend/engine/devices.h"
#include "ir/host/calls.h"
#include "ir/text/text.h"
#include "tests/support/compare.h"

#include <array>
#include <cmath>
#include <string>

namespace lz::test {
namespace {

using namespace lz::ir;

template <class T>
std::span<T> values(const CallTensor &t) {
    size_t count = 1;
    for (const int64_t extent : t.shape)
        count *= static_cast<size_t>(extent);
    return {static_cast<T *>(t.data), count};
}

/// `devices_test.split`: signs and magnitudes of a matrix, transposed by its strides.
const bool registered = [] {
    register_call("devices_test.split", [](std::span<const CallTensor> in, std::span<const CallTensor> out) {
        const auto x = values<float>(in[0]);
        const auto sign = values<bool>(out[0]);
        const auto magnitude = values<float>(out[1]);
        for (int64_t i = 0; i < in[0].shape[0]; ++i)
            for (int64_t k = 0; k < in[0].shape[1]; ++k) {
                const auto from = static_cast<size_t>(i * in[0].strides[0] + k * in[0].strides[1]);
                const auto to = static_cast<size_t>(k * out[1].strides[0] + i * out[1].strides[1]);
                magnitude[to] = std::abs(x[from]);
                sign[to] = x[from] < 0;
            }
    });
    return true;
}();

/// The same graph with everything on another device.
Graph on(const std::string &device, std::string text) {
    for (size_t at = text.find("@here"); at != std::string::npos; at = text.find("@here", at))
        text.replace(at, 5, "@" + device);
    return parse_graph("lazuli 1\n" + text);
}

TEST(Calls, ResultsAreThoseOfTheInterpreterOnEveryDevice) {
    LZ_NEEDS_GPUS();
    for (const char *device : {"cpu", "cuda:0", "cuda:3"})
        EXPECT_EQ(
            check(on(device, R"(graph @g(%x: f32[37,11] @here = random(1), %y: f32[37,11] @here = random(2)) {
  %0 = sub %x, %y : f32[37,11] @here
  %1, %2 = call %0, %y {symbol="devices_test.split"} : bool[11,37] @here, f32[11,37] @here
  %3 = permute %0 {axes=[1,0]} : f32[11,37] @here
  %4 = select %1, %2, %3 : f32[11,37] @here
  %5 = exp %4 : f32[11,37] @here
  %6 = transfer %5 {to=cuda:1} : f32[11,37] @cuda:1
  return %6, %2
}
)"),
                  8),
            "")
            << device;
}

TEST(Calls, OnManyStreamsTheyWaitForTheirOperands) {
    LZ_NEEDS_GPUS();
    const Device device{DeviceKind::Cuda, 0};
    runtime::Backend &backend = engine::Engine::get().devices().backend(device);
    std::array<runtime::StreamId, 3> streams{};
    for (runtime::StreamId &stream : streams)
        stream = backend.create_stream(0);
    const auto named = [&](int i) {
        return " stream(" + std::to_string(streams[static_cast<size_t>(i) % 3]) + ")\n";
    };
    std::string body, sum = "%x";
    for (int i = 0; i < 12; ++i) {
        const std::string n = std::to_string(i);
        body += "  %a" + n + " = add %x, " + sum + " : f32[8,8] @cuda:0" + named(i) + "  %s" + n + ", %m" +
                n + " = call %a" + n +
                " {symbol=\"devices_test.split\"} : bool[8,8] @cuda:0, f32[8,8] @cuda:0" + named(i + 1);
        sum = "%m" + n;
    }
    for (int round = 0; round < 5; ++round)
        EXPECT_EQ(check(parse_graph("lazuli 1\ngraph @g(%x: f32[8,8] @cuda:0 = random(4)) {\n" + body +
                                    "  return " + sum + "\n}\n"),
                        8),
                  "");
    for (const runtime::StreamId stream : streams)
        backend.destroy_stream(stream);
}

} // namespace
} // namespace lz::test
