#include "corpus.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lz::test {
namespace {

std::string graph(const std::string &parameters, const std::string &body) {
    return "lazuli 1\ngraph @g(" + parameters + ") {\n" + body + "}\n";
}

/// `$` stands for the dtype, `&` for the device; `~` for the elements of what is computed element by element,
/// `^` for the number of rows.
std::string filled(std::string text, std::string_view dtype, int elements = 0, int rows = 0) {
    for (size_t at = 0; (at = text.find_first_of("$&~^", at)) != std::string::npos;) {
        const char c = text[at];
        text.replace(at, 1,
                     c == '$'   ? std::string(dtype)
                     : c == '&' ? "@cuda:0"
                                : std::to_string(c == '~' ? elements : rows));
    }
    return text;
}

/// Of rows of n, computed in f32: what nn::LayerNorm records.
std::string layer_norm(int n, std::string_view dtype) {
    const bool wide = dtype == "f32";
    const std::string casts = wide ? "\n"
                                   : fmt::format(R"(
  %xf = cast %x : f32[^,{0}] &
  %wf = cast %w : f32[{0}] &
  %bf = cast %b : f32[{0}] &
)",
                                                 n);
    const std::string_view f = wide ? "" : "f";
    const std::string norm = fmt::format(R"(  %0 = sum %x{1} {{axes=[1]}} : f32[^] &
  %1 = literal {{value={0}}} : f32[^] &
  %2 = div %0, %1 : f32[^] &
  %3 = reshape %2 : f32[^,1] &
  %4 = sub %x{1}, %3 : f32[^,{0}] &
  %5 = mul %4, %4 : f32[^,{0}] &
  %6 = sum %5 {{axes=[1]}} : f32[^] &
  %7 = div %6, %1 : f32[^] &
  %8 = literal {{value=0.00001}} : f32[^] &
  %9 = add %7, %8 : f32[^] &
  %10 = sqrt %9 : f32[^] &
  %11 = reshape %10 : f32[^,1] &
  %12 = div %4, %11 : f32[^,{0}] &
  %13 = mul %12, %w{1} : f32[^,{0}] &
  %14 = add %13, %b{1} : f32[^,{0}] &
)",
                                         n, f);
    return casts + norm +
           (wide ? "  return %14\n" : fmt::format("  %15 = cast %14 : $[^,{}] &\n  return %15\n", n));
}

/// x * rsqrt(mean(x^2) + eps) * w, computed in f32: what lz::rms_norm records.
std::string rms_norm(int n, std::string_view dtype) {
    const bool wide = dtype == "f32";
    const std::string_view f = wide ? "" : "f";
    const std::string casts =
        fmt::format("\n  %xf = cast %x : f32[^,{0}] &\n  %wf = cast %w : f32[{0}] &\n", n);
    return (wide ? "\n" : casts) +
           fmt::format(R"(  %0 = mul %x{1}, %x{1} : f32[^,{0}] &
  %1 = sum %0 {{axes=[1]}} : f32[^] &
  %2 = literal {{value={0}}} : f32[^] &
  %3 = div %1, %2 : f32[^] &
  %4 = literal {{value=0.00001}} : f32[^] &
  %5 = add %3, %4 : f32[^] &
  %6 = rsqrt %5 : f32[^] &
  %7 = reshape %6 : f32[^,1] &
  %8 = mul %x{1}, %7 : f32[^,{0}] &
  %9 = mul %8, %w{1} : f32[^,{0}] &
)",
                       n, f) +
           (wide ? "  return %9\n" : fmt::format("  %10 = cast %9 : $[^,{}] &\n  return %10\n", n));
}

/// One step of so many tensors of three shapes: p - rate * g, and a mean that moves.
CorpusEntry update(int count, std::string_view matrix, std::string_view row) {
    std::string parameters, body = "\n", results;
    for (int k = 0; k < count; ++k) {
        const std::string type = fmt::format("f32[{}] &", k % 3 == 0 ? matrix : k % 3 == 1 ? row : "7");
        parameters += fmt::format("{0}%p{1}: {2}, %g{1}: {2}, %m{1}: {2}", k ? ", " : "", k, type);
        body += fmt::format(R"(  %c{0} = literal {{value=0.9}} : {1}
  %d{0} = mul %m{0}, %c{0} : {1}
  %e{0} = add %d{0}, %g{0} : {1}
  %f{0} = mul %e{0}, %c{0} : {1}
  %h{0} = sub %p{0}, %f{0} : {1}
)",
                            k, type);
        results += fmt::format("{}%e{}, %h{}", k ? ", " : "", k, k);
    }
    return {fmt::format("update of {} f32", count),
            filled(graph(parameters, body + "  return " + results + "\n"), "f32")};
}

} // namespace

std::vector<CorpusEntry> cuda_corpus(CorpusExtents extents) {
    const bool few = extents == CorpusExtents::Few;
    const int elements = few ? 8192 : 1 << 20, one = few ? 1 : 132;
    std::vector<CorpusEntry> all;
    // `length`: of rows, of which a block has several where they are short.
    const auto add = [&](const std::string &name, std::string_view dtype, const std::string &parameters,
                         const std::string &body, int length = 0) {
        const int rows = !few ? 512 : length > 32768 ? 2 : length > 1024 ? 4 : 21;
        all.push_back(
            {fmt::format("{} {}", name, dtype), filled(graph(parameters, body), dtype, elements, rows)});
        if (parameters.find_first_of("~^") != std::string::npos)
            all.back().multiprocessors = one;
    };
    for (const char *const t : {"f32", "f16", "bf16", "f64", "i32", "i64", "u8"})
        add("chain", t, "%x: $[~] &, %y: $[~] &", R"(
  %0 = add %x, %y : $[~] &
  %1 = mul %0, %x : $[~] &
  %2 = maximum %1, %y : $[~] &
  %3 = sub %2, %x : $[~] &
  return %3
)");
    for (const char *const f : {"exp", "log", "tanh", "sigmoid", "erf", "sin"})
        for (const char *const t : {"f32", "bf16"})
            add(f, t, "%x: $[~] &", fmt::format("\n  %0 = {} %x : $[~] &\n  return %0\n", f));
    for (const auto &[n, t] : {std::pair{40, "f32"},
                               {1024, "f32"},
                               {8192, "f32"},
                               {50000, "f32"},
                               {100000, "f32"},
                               {1000000, "bf16"},
                               {1000, "bf16"},
                               {1000, "f64"},
                               {30000, "f64"}})
        add(fmt::format("softmax of {}", n), t, fmt::format("%x: $[^,{}] &", n),
            fmt::format(R"(
  %0 = max %x {{axes=[1]}} : $[^] &
  %1 = reshape %0 : $[^,1] &
  %2 = sub %x, %1 : $[^,{0}] &
  %3 = exp %2 : $[^,{0}] &
  %4 = sum %3 {{axes=[1]}} : $[^] &
  %5 = reshape %4 : $[^,1] &
  %6 = div %3, %5 : $[^,{0}] &
  return %6
)",
                        n),
            n);
    for (const char *const t : {"f32", "bf16"}) // two rows are kept
        add("products of rows", t, "%x: $[^,30000] &, %y: $[^,30000] &", R"(
  %0 = mul %x, %y : $[^,30000] &
  %1 = sum %0 {axes=[1]} : $[^] &
  %2 = reshape %1 : $[^,1] &
  %3 = mul %x, %2 : $[^,30000] &
  %4 = add %3, %y : $[^,30000] &
  return %4
)",
            30000);
    for (const int n : {768, 8192, 32768})
        for (const char *const t : {"f32", "bf16"})
            add(fmt::format("layer norm of {}", n), t,
                fmt::format("%x: $[^,{0}] &, %w: $[{0}] &, %b: $[{0}] &", n), layer_norm(n, t), n);
    for (const int n : {1024, 4096, 32768})
        for (const char *const t : {"f32", "bf16"})
            add(fmt::format("RMS norm of {}", n), t, fmt::format("%x: $[^,{0}] &, %w: $[{0}] &", n),
                rms_norm(n, t), n);
    const int columns = few ? 16 : 512;
    for (const char *const t : {"f32", "bf16", "f64"}) {
        add("full sum", t, fmt::format("%x: $[{}] &", few ? 2100 << 10 : 4 << 20),
            "\n  %0 = sum %x {axes=[0]} : $[] &\n  return %0\n");
        all.back().multiprocessors = one;
        add("column sum", t, fmt::format("%x: $[{},{}] &", few ? 640 : 4096, columns),
            fmt::format("\n  %0 = sum %x {{axes=[0]}} : $[{}] &\n  return %0\n", columns));
        all.back().multiprocessors = one;
    }
    add("argmax", "f32", "%x: $[^,1000] &", "\n  %0 = argmax %x {axis=1} : i64[^] &\n  return %0\n");
    const std::pair<int, int> sides = few ? std::pair{64, 128} : std::pair{512, 1024};
    for (const char *const t : {"f32", "f16", "u8"})
        add("transpose and add", t,
            fmt::format("%x: $[{1},{0}] &, %y: $[{0},{1}] &", sides.first, sides.second),
            fmt::format(R"(
  %0 = permute %x {{axes=[1,0]}} : $[{0},{1}] &
  %1 = add %0, %y : $[{0},{1}] &
  return %1
)",
                        sides.first, sides.second));
    for (const char *const t : {"f32", "f16"})
        add("gather", t, "%x: $[5000,64] &, %i: i64[900,64] &", R"(
  %0 = gather %x, %i {axis=0} : $[900,64] &
  %1 = add %0, %0 : $[900,64] &
  return %1
)");
    const int m = few ? 40 : 256, n = few ? 36 : 200;
    const std::string operands = fmt::format("%x: $[{},300] &, %y: $[300,{}] &", m, n);
    const std::string product = fmt::format(R"(
  %0 = dot %x, %y {{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}} : $[{0},{1}] &
  %1 = add %0, %0 : $[{0},{1}] &
  return %1
)",
                                            m, n);
    for (const char *const t : {"i8", "i32", "i64"})
        add("product", t, operands, product);
    for (const char *const t : {"f32", "bf16"}) {
        add("product in one order", t, operands, product);
        all.back().reproducible = true;
    }
    add("random words", "f32", "%x: $[~] &", R"(
  %0 = philox {seed=7, offset=64} : i32[~] &
  %1 = cast %0 : $[~] &
  %2 = add %1, %x : $[~] &
  return %2
)");
    for (const int count : {12, 60, 1000}) { // tables of 4 KiB, of 32, and in memory
        all.push_back(update(count,
                             !few           ? "768,3072"
                             : count < 1000 ? "12,768"
                                            : "1,768",
                             few ? "384" : "3072"));
        all.back().multiprocessors = one;
    }
    add("division", "i32", "%x: $[100000] &, %y: $[100000] &",
        "\n  %0 = floor_div %x, %y : $[100000] &\n  return %0\n");
    add("joins", "f32", "%x: $[100,30] &, %y: $[100,50] &", R"(
  %0 = concat %x, %y {axis=1} : $[100,80] &
  %1 = flip %0 {axes=[1]} : $[100,80] &
  %2 = add %0, %1 : $[100,80] &
  return %2
)");
    return all;
}

} // namespace lz::test
