// Programs as C++.
#include "generate.h"

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

std::string dtype(DType t) {
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
        return dtype(s.dtype);
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
                       to_string(s.sizes[0]), dtype(s.dtype), device(s.device));
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
    if (s.out.empty() || s.row->text.starts_with("OUT"))
        return value + ";";
    if (s.row->list) {
        std::string out = "{ auto r = " + value + ";";
        for (size_t k = 0; k < s.out.size(); ++k)
            out += fmt::format(" {} = r[{}];", handle(s.out[k]), k);
        return out + " }";
    }
    if (s.out.size() == 2)
        return fmt::format("{{ auto r = {}; {} = r.values; {} = r.indices; }}", value, handle(s.out[0]),
                           handle(s.out[1]));
    return handle(s.out[0]) + " = " + value + ";";
}

constexpr const char *kBefore = R"(#include <lazuli/lazuli.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

using lz::Tensor;

static void show(const Tensor &x) {
    std::cout << x << " " << x.dtype() << " on " << x.device() << '\n';
}

int main() {
)";

} // namespace

std::string print(const Scalar &x) {
    if (x.category() == Scalar::Category::Bool)
        return x.to_int() ? "true" : "false";
    return x.is_float() ? number(x.to_double()) : number(x.to_int());
}

std::string print(const Program &program) {
    std::string out = kBefore;
    if (program.gpus > 0)
        out +=
            fmt::format("    lz::use_virtual_gpus({}); // ran with LAZULI_VIRTUAL_DELAY=1\n", program.gpus);
    std::string handles;
    for (int h = 0; h < program.handles; ++h)
        handles += (handles.empty() ? "" : ", ") + handle(h);
    out += "    Tensor " + handles + ";\n";
    Oracle oracle(program.handles);
    for (const Statement &s : program.statements) {
        const std::string text = line(s);
        if (perform(oracle, s).empty())
            out += "    " + text + "\n";
        else
            out += "    try { " + text +
                   " } catch (const lz::Error &error) { std::cout << error.what() << '\\n'; }\n";
    }
    for (int h = 0; h < program.handles; ++h)
        if (oracle.defined(h))
            out += "    show(" + handle(h) + ");\n";
    return out + "}\n";
}

} // namespace lz::test::calls
