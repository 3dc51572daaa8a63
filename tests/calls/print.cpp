// Programs as C++.
#include "generate.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

namespace lz::test::calls {

namespace {

std::string number(double x) {
    if (std::isnan(x))
        return "NAN";
    if (std::isinf(x))
        return x > 0 ? "INFINITY" : "-INFINITY";
    std::string text = fmt::format("{}", x);
    if (text.find_first_of(".e") == std::string::npos)
        text += ".0";
    return text;
}

std::string number(int64_t x) {
    if (x == INT64_MIN)
        return "INT64_MIN";
    return x == static_cast<int32_t>(x) ? fmt::format("{}", x) : fmt::format("INT64_C({})", x);
}

std::string handle(int h) {
    return fmt::format("x{}", h);
}

std::string device(int d) {
    return d < 0 ? "\"cpu\"" : fmt::format("\"cuda:{}\"", d);
}

std::string dtype_text(DType t) {
    return t == boolean ? "lz::boolean" : "lz::" + std::string(name(t));
}

std::string bound(const std::optional<int64_t> &x) {
    return x ? number(*x) : "lz::None";
}

std::string entry(const Entry &e) {
    switch (e.kind) {
    case Entry::Kind::Integer:
        return number(e.integer);
    case Entry::Kind::Slice:
        return fmt::format("lz::Slice({}, {}, {})", bound(e.start), bound(e.stop), bound(e.step));
    case Entry::Kind::Ellipsis:
        return "lz::Ellipsis";
    case Entry::Kind::None:
        return "lz::None";
    case Entry::Kind::Tensor:
        return handle(e.handle);
    }
    return "";
}

std::string index(const std::vector<Entry> &entries) {
    std::string out;
    for (const Entry &e : entries)
        out += (out.empty() ? "" : ", ") + entry(e);
    return "{" + out + "}";
}

/// What a placeholder stands for.
std::string meaning(char letter, size_t k, const Statement &s) {
    switch (letter) {
    case 'P':
        return s.args[k].handle < 0 ? print(s.args[k].number) : handle(s.args[k].handle);
    case 'Q':
    case 'M':
        return "std::move(" + handle(s.args[k].handle) + ")";
    case 'T':
        return handle(s.args[k].handle);
    case 'N':
        return print(s.numbers[k]);
    case 'I':
        return number(s.ints[k]);
    case 'B':
        return s.ints[k] ? "true" : "false";
    case 'S':
        return to_string(s.sizes[k]);
    case 'D':
        return dtype_text(s.dtype);
    case 'V':
        return device(s.device);
    case 'A':
        return handle(s.args[0].handle) + ".at(" + index(s.index) + ")";
    case 'L': {
        std::string list;
        for (const Arg &arg : s.args)
            list += (list.empty() ? "" : ", ") + handle(arg.handle);
        return "{" + list + "}";
    }
    default:
        return "?";
    }
}

std::string data(const Statement &s) {
    const Array a = elements_of(s);
    const char *type = s.dtype == boolean  ? "bool"
                       : s.dtype == f32    ? "float"
                       : is_float(s.dtype) ? "double"
                       : s.dtype == u8     ? "uint8_t"
                       : s.dtype == i8     ? "int8_t"
                       : s.dtype == i16    ? "int16_t"
                       : s.dtype == i32    ? "int32_t"
                                           : "int64_t";
    std::string elements;
    for (const Element e : a.at)
        elements += (elements.empty() ? "" : ", ") + (is_float(s.dtype) ? number(e.f) : number(e.i));
    return fmt::format("lz::tensor(std::vector<{}>{{{}}}, {}, {{.dtype = {}, .device = {}}})", type, elements,
                       to_string(s.sizes[0]), dtype_text(s.dtype), device(s.device));
}

std::string expression(const Statement &s) {
    const std::string &text = s.row->text;
    if (text == "DATA")
        return data(s);
    std::string out;
    const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (size_t k = 0; k < text.size();) {
        if (!word(text[k]) || (k > 0 && word(text[k - 1]))) {
            out += text[k++];
            continue;
        }
        size_t end = k;
        while (end < text.size() && word(text[end]))
            ++end;
        const std::string token = text.substr(k, end - k);
        k = end;
        if (token == "loc") { // the caller's own
            if (out.ends_with(", "))
                out.resize(out.size() - 2);
        } else if (token == "OUT") {
            out += handle(s.out[0]);
        } else if (token.size() == 2 && std::isupper(static_cast<unsigned char>(token[0])) &&
                   std::isdigit(static_cast<unsigned char>(token[1]))) {
            out += meaning(token[0], static_cast<size_t>(token[1] - '0'), s);
        } else {
            out += token;
        }
    }
    return out;
}

std::string line(const Statement &s) {
    const std::string value = expression(s);
    if (s.thread) {
        Statement here = s;
        here.thread = false;
        return "std::thread([&] { " + line(here) + " }).join();";
    }
    if (s.out.empty() || s.row->text.starts_with("OUT"))
        return value + ";";
    if (s.row->list) {
        std::string out = "{ auto r = " + value + ";";
        for (size_t k = 0; k < s.out.size(); ++k)
            out += fmt::format(" {} = r[{}];", handle(s.out[k]),
                               s.row->text.starts_with("lz::call") ? s.ints[k + 1] : static_cast<int64_t>(k));
        return out + " }";
    }
    if (s.out.size() == 2)
        return fmt::format("{{ auto r = {}; {} = r.values; {} = r.indices; }}", value, handle(s.out[0]),
                           handle(s.out[1]));
    return handle(s.out[0]) + " = " + value + ";";
}

constexpr const char *kBefore = R"(#include <lazuli/lazuli.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

using lz::Tensor;

)";

/// What statements with such a word need besides, declared where one is used.
struct Helper {
    std::vector<const char *> words;
    const char *code;
};
const std::vector<Helper> kHelpers = {
    {{"show("}, R"([[maybe_unused]] static void show(const Tensor &x) {
    std::cout << x << " " << x.dtype() << " on " << x.device() << '\n';
}
)"},
    {{"turns("}, R"(static void turns(const lz::Device &gpu, int64_t pending) {
    Tensor x = lz::zeros({100}, {.device = gpu});
    for (int k = 0; k < 70; ++k) {
        const lz::Stream s(gpu, k % 2 ? -1 : 0);
        const lz::StreamGuard guard(s);
        x = x + 1;
        if (pending % 2 == 0)
            x.eval();
    }
    show(x);
}
)"},
    {{"crowd("}, R"(static void crowd(const lz::Device &gpu) {
    Tensor x = lz::tensor(std::vector<float>(500000, 1.5f)).cuda(gpu);
    x.eval();
    Tensor y = x + 1;
    y.eval();
    std::cout << y.slice(0, 0, 1) << '\n';
}
)"},
    {{"gpu(", "use(", "probe(", "s["},
     R"([[maybe_unused]] static lz::Device gpu(int k) { return lz::Device::cuda(k % 4); }
)"},
    {{"use(", "probe(", "s["}, R"(using Streams = std::array<std::optional<lz::Stream>, 5>;
[[maybe_unused]] static lz::Stream &use(Streams &s, int k) {
    if (!s[k])
        s[k].emplace(gpu(k));
    return *s[k];
}
)"},
    {{"computed("}, R"(static Tensor computed(const Tensor &x) {
    (void)x.str(); // an eval does not wait for a GPU
    return x;
}
)"},
    {{"from_threads("}, R"(template <class... F>
void from_threads(F... f) {
    (std::thread(f), ...);
}
)"},
    {{"flush_subnormals("}, R"(static void flush_subnormals() {
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}
)"},
    {{"calls."}, R"(static const bool registered = [] {
    for (int n : {1, 2, 3, 128, 129, 130, 200, 256, 300})
        lz::register_call(
            "calls.split" + std::to_string(n), [n](auto in) { return std::vector<lz::CallType>(n, in[0]); },
            [](auto in, auto out) {
                for (size_t k = 0; k < out.size(); ++k)
                    for (int64_t i = 0; i < in[0].numel; ++i)
                        out[k].template values<float>()[i] = in[0].template values<float>()[i] + float(k);
            });
    lz::register_call("calls.throws", [](auto in) { return std::vector{in[0]}; },
                      [](auto, auto) { throw std::runtime_error("as asked"); });
    return true;
}();
)"},
    {{"probe("}, R"(static std::atomic<int64_t> marked = 0; // the largest
static const bool marks = [] {
    lz::register_call("mark", [](auto in) { return std::vector{in[0]}; },
                      [](auto in, auto out) {
                          std::this_thread::sleep_for(std::chrono::microseconds(300));
                          out[0].template values<int64_t>()[0] = in[0].template values<int64_t>()[0];
                          marked = in[0].template values<int64_t>()[0];
                      });
    return true;
}();
/// Something that the compiler removes stands on s[k], by which what it reads has to be computed.
static void probe(Streams &s, int k, int what, int how) {
    static int64_t last = 0;
    const int64_t mark = ++last;
    const lz::Stream on = use(s, k);
    const int other_gpu = (on.device().index() + 1) % 4;
    Tensor slow = lz::call("mark", {lz::full({1}, mark, {.dtype = lz::i64, .device = on.device()})})[0], other;
    const Tensor there = what == 3 ? slow.cuda(other_gpu) : Tensor();
    lz::Event event;
    {
        const lz::StreamGuard guard(on);
        if (what == 0)
            other = slow.clone();
        else if (what == 1)
            (other = lz::empty({1}, {.dtype = lz::i64, .device = on.device()})).copy_(slow);
        else if (what == 2)
            other = slow + 1;
        else
            other = slow.cuda(other_gpu);
        if (how == 1)
            event.record();
        if (how == 2)
            on.add_callback([mark] { std::cout << (marked < mark ? "early\n" : ""); });
    }
    how == 1 ? event.synchronize() : on.synchronize();
    std::cout << (marked < mark ? "WRONG: not computed\n" : "");
}
)"},
};

} // namespace

std::string print(const Scalar &x) {
    if (x.category() == Scalar::Category::Bool)
        return x.to_int() ? "true" : "false";
    return x.is_float() ? number(x.to_double()) : number(x.to_int());
}

namespace {

/// The statements of one run, indented.
std::string body_of(const Program &program) {
    std::string body;
    Oracle oracle(program.handles);
    oracle.random_seed = program.random_seed;
    for (const Statement &s : program.statements) {
        const std::string text = line(s);
        if (perform(oracle, s).empty())
            body += "    " + text + "\n";
        else
            body += "    try { " + text +
                    " } catch (const lz::Error &error) { std::cout << error.what() << '\\n'; }\n";
    }
    for (int h = 0; h < program.handles; ++h)
        if (oracle.defined(h))
            body += "    show(" + handle(h) + ");\n";
    std::string handles;
    for (int h = 0; h < program.handles; ++h)
        handles += (handles.empty() ? "" : ", ") + handle(h);
    const auto says = [&](const char *word) { return body.find(word) != std::string::npos; };
    std::string before;
    if (says("rand") || says("bernoulli") || says("uniform_") || says("normal_"))
        before += "    lz::manual_seed(" + fmt::format("{}u", program.random_seed) + ");\n";
    if (says("s[") || says("use(s") || says("probe(s"))
        before += "    Streams s;\n";
    if (says("event."))
        before += "    lz::Event event;\n";
    if (says("guards."))
        before += "    std::vector<std::unique_ptr<lz::StreamGuard>> guards;\n";
    return before + "    Tensor " + handles + ";\n" + body;
}

} // namespace

std::string print(const Program &program) {
    std::string code, calls;
    if (const std::vector<Run> runs = runs_of(program); runs.size() == 1) {
        calls = body_of(program);
    } else {
        for (size_t k = 0; k < runs.size(); ++k) {
            if (k == 0 || std::string_view(runs[k].name) != runs[0].name)
                code += fmt::format("\nstatic void {}() {{\n{}}}\n", runs[k].name, body_of(runs[k].program));
            calls += fmt::format("    {}();\n", runs[k].name);
        }
    }
    const auto says = [&](const char *word) {
        return code.find(word) != std::string::npos || calls.find(word) != std::string::npos;
    };
    std::string out = kBefore;
    for (const Helper &helper : kHelpers)
        if (std::ranges::any_of(helper.words, says))
            out += helper.code;
    out += code + "\nint main() {\n";
    if (program.gpus > 0)
        out += "    setenv(\"LAZULI_VIRTUAL_GPUS\", \"4\", 0);\n    setenv(\"LAZULI_VIRTUAL_DELAY\", \"1\", "
               "0);\n";
    return out + calls + "}\n";
}

} // namespace lz::test::calls
