// S62, completely: the result dtype (or refusal) of every function that takes tensors or numbers, for every
// pair or triple of dtypes and kinds, against PyTorch's own (inputs/make_pytorch_dtypes.py, which tells the
// format). Where Lazuli differs on purpose stands in `differences`, with the reason.
#include "tests/support/files/data.h"
#include "tests/support/tensor_values.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace {

using lz::DType;
using lz::Operand;
using lz::Scalar;
using lz::Tensor;

// --- operands
// -------------------------------------------------------------------------------------------------------

constexpr int kTensors = 20;

bool is_number(int i) {
    return i >= kTensors;
}
DType dtype_of_operand(int i) {
    return static_cast<DType>(i % 10);
}

/// One axis (0 to 9), no axis (10 to 19).
const Tensor &tensor(int i) {
    static const std::vector<Tensor> all = [] {
        std::vector<Tensor> made;
        for (int k = 0; k < kTensors; ++k) {
            const lz::Sizes sizes = k < 10 ? lz::Sizes{1} : lz::Sizes();
            made.push_back(lz::ones(sizes, {.dtype = dtype_of_operand(k)}).eval());
        }
        return made;
    }();
    return all.at(static_cast<size_t>(i));
}
Scalar number(int i) {
    return i == kTensors ? Scalar(true) : i == kTensors + 1 ? Scalar(2) : Scalar(2.5);
}
Operand operand(int i) {
    return is_number(i) ? Operand(number(i)) : Operand(tensor(i));
}
std::string text(int i) {
    if (is_number(i))
        return i == kTensors ? "true" : i == kTensors + 1 ? "2" : "2.5";
    return std::string(lz::name(dtype_of_operand(i))) + (i < 10 ? "[1]" : "[]");
}

using Set = std::vector<int>;
Set range(int from, int to) {
    Set out;
    for (int i = from; i < to; ++i)
        out.push_back(i);
    return out;
}
Set joined(Set a, const Set &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}
const Set rows = range(0, 10), zero_dim = range(10, 20), tensors = range(0, 20), numbers = range(20, 23),
          operands = range(0, 23);

// --- functions
// ------------------------------------------------------------------------------------------------------

/// A function of one to three operands. `dtypes`: the last operand is a dtype argument, left out or one of
/// the ten.
struct Function {
    std::vector<Set> sets;
    std::function<Tensor(const std::vector<int> &)> call;
    bool in_place = false, dtypes = false;
};

Tensor mask_of(const Tensor &x) {
    return lz::ones(x.sizes(), {.dtype = lz::boolean});
}

std::map<std::string, Function> binary_functions() {
    std::map<std::string, Function> out;
    const auto pair = [&](const char *name, auto call, const Set &first = operands,
                          const Set &last = operands) {
        out[name] = {{first, last}, [call](const std::vector<int> &i) { return call(i[0], i[1]); }};
    };
#define LZ_BINARY(name, ...) pair(#name, [](int a, int b) { return lz::name(operand(a), operand(b)); });
#define LZ_COMPARISON(name, ...) LZ_BINARY(name)
#include "lazuli/ops/functions.def"
#define ALPHA(function, what, alpha)                                                                         \
    pair(#function "_alpha_" what, [](int a, int b) { return lz::function(operand(a), operand(b), alpha); });
    ALPHA(add, "true", true)
    ALPHA(add, "int", 2)
    ALPHA(add, "double", 0.5)
    ALPHA(sub, "true", true)
    ALPHA(sub, "int", 2)
    ALPHA(sub, "double", 0.5)
#undef ALPHA
    pair("where", [](int a, int b) { return lz::where(mask_of(lz::ones({1})), operand(a), operand(b)); });
    pair(
        "masked_fill", [](int a, int b) { return tensor(a).masked_fill(mask_of(tensor(a)), operand(b)); },
        tensors, joined(zero_dim, numbers));
    pair(
        "clamp_min",
        [](int a, int b) {
            return is_number(b) ? lz::clamp(tensor(a), number(b)) : lz::clamp(tensor(a), tensor(b), {});
        },
        tensors);
    pair(
        "clamp_max",
        [](int a, int b) {
            return is_number(b) ? lz::clamp(tensor(a), std::nullopt, number(b))
                                : lz::clamp(tensor(a), {}, tensor(b));
        },
        tensors);
    const auto of_tensors = [&](const char *name, auto call, const Set &set) {
        pair(name, [call](int a, int b) { return call(tensor(a), tensor(b)); }, set, set);
    };
    using T = const Tensor &;
    of_tensors("isclose", [](T a, T b) { return lz::isclose(a, b); }, tensors);
    of_tensors("cat", [](T a, T b) { return lz::cat({a, b}); }, rows);
    of_tensors("stack", [](T a, T b) { return lz::stack({a, b}); }, rows);
    of_tensors("mse_loss", [](T a, T b) { return lz::mse_loss(a, b); }, rows);
    of_tensors("matmul", [](T a, T b) { return lz::matmul(a.view({1, 1}), b.view({1, 1})); }, rows);
    of_tensors("outer", [](T a, T b) { return lz::outer(a, b); }, rows);
    of_tensors(
        "scatter_add", [](T a, T b) { return a.scatter_add(0, lz::zeros({1}, {.dtype = lz::i64}), b); },
        rows);
    of_tensors(
        "index_add", [](T a, T b) { return lz::index_add(a, 0, lz::zeros({1}, {.dtype = lz::i64}), b); },
        rows);
    of_tensors("gather", [](T a, T b) { return a.gather(0, lz::zeros_like(b)); }, rows);
    of_tensors("index_select", [](T a, T b) { return a.index_select(0, lz::zeros_like(b)); }, rows);
    of_tensors("take", [](T a, T b) { return a.take(lz::zeros_like(b)); }, rows);
    of_tensors("masked_select", [](T a, T b) { return lz::masked_select(a, b); }, tensors);
    pair(
        "scatter",
        [](int a, int b) {
            return tensor(a).scatter(0, lz::zeros(tensor(a).sizes(), {.dtype = lz::i64}), operand(b));
        },
        tensors, joined(rows, numbers));
    return out;
}

std::map<std::string, Function> in_place_functions() {
    std::map<std::string, Function> out;
    const auto pair = [&](const char *name, auto call, const Set &last = operands) {
        const auto written = [call](const std::vector<int> &i) {
            Tensor x = tensor(i[0]).clone();
            call(x, i[1]);
            return x;
        };
        out[name] = {{tensors, last}, written, true};
    };
#define LZ_BINARY(name, ...) pair(#name "_", [](Tensor &x, int b) { x.name##_(operand(b)); });
#include "lazuli/ops/functions.def"
    out.erase("minimum_"); // PyTorch has none
    out.erase("maximum_");
#define ALPHA(function, what, alpha)                                                                         \
    pair(#function "_alpha_" what, [](Tensor &x, int b) { x.function(operand(b), alpha); });
    ALPHA(add_, "true", true)
    ALPHA(add_, "int", 2)
    ALPHA(add_, "double", 0.5)
    ALPHA(sub_, "true", true)
    ALPHA(sub_, "int", 2)
    ALPHA(sub_, "double", 0.5)
#undef ALPHA
    pair("copy_", [](Tensor &x, int b) { x.copy_(tensor(b)); }, tensors);
    pair("fill_", [](Tensor &x, int b) { x.fill_(operand(b)); }, joined(zero_dim, numbers));
    pair(
        "masked_fill_", [](Tensor &x, int b) { x.masked_fill_(mask_of(x), operand(b)); },
        joined(zero_dim, numbers));
    pair("clamp_min_", [](Tensor &x, int b) { x.clamp_(number(b)); }, numbers);
    pair("clamp_max_", [](Tensor &x, int b) { x.clamp_(std::nullopt, number(b)); }, numbers);
    return out;
}

std::map<std::string, Function> ternary_functions() {
    std::map<std::string, Function> out;
    using I = const std::vector<int> &;
#define VALUE(function, what, value)                                                                         \
    out[#function "_" what] = {{tensors, tensors, tensors}, [](I i) {                                        \
                                   return lz::function(tensor(i[0]), tensor(i[1]), tensor(i[2]), value);     \
                               }};
    VALUE(addcmul, "one", 1)
    VALUE(addcmul, "true", true)
    VALUE(addcmul, "int", 2)
    VALUE(addcmul, "double", 0.5)
    VALUE(addcdiv, "one", 1)
    VALUE(addcdiv, "true", true)
    VALUE(addcdiv, "int", 2)
    VALUE(addcdiv, "double", 0.5)
#undef VALUE
#define WRITTEN(function)                                                                                    \
    out[#function] = {{rows, tensors, tensors}, [](I i) {                                                    \
                          Tensor x = tensor(i[0]).clone();                                                   \
                          const bool is_float = lz::is_floating_point(x.dtype());                            \
                          x.function(tensor(i[1]), tensor(i[2]), is_float ? Scalar(0.5) : Scalar(2));        \
                          return x;                                                                          \
                      }};
    WRITTEN(addcmul_)
    WRITTEN(addcdiv_)
#undef WRITTEN
    out["lerp"] = {{tensors, tensors, operands},
                   [](I i) { return lz::lerp(tensor(i[0]), tensor(i[1]), operand(i[2])); }};
    out["lerp_"] = {{rows, tensors, operands}, [](I i) {
                        Tensor x = tensor(i[0]).clone();
                        x.lerp_(tensor(i[1]), operand(i[2]));
                        return x;
                    }};
    out["clamp"] = {{tensors, tensors, tensors},
                    [](I i) { return lz::clamp(tensor(i[0]), tensor(i[1]), tensor(i[2])); }};
    out["clamp_numbers"] = {{tensors, numbers, numbers},
                            [](I i) { return lz::clamp(tensor(i[0]), number(i[1]), number(i[2])); }};
    return out;
}

std::map<std::string, Function> unary_functions() {
    std::map<std::string, Function> out;
    using T = const Tensor &;
    const auto one = [&](const char *name, auto call) {
        out[name] = {{tensors}, [call](const std::vector<int> &i) { return call(tensor(i[0])); }};
    };
#define LZ_UNARY(name, ...)                                                                                  \
    one(#name, [](T x) { return lz::name(x); });                                                             \
    one(#name "_", [](T x) {                                                                                 \
        Tensor y = x.clone();                                                                                \
        y.name##_();                                                                                         \
        return y;                                                                                            \
    });
#define LZ_UNARY_COMPOSED(name) LZ_UNARY(name)
#include "lazuli/ops/functions.def"
    out.erase("silu_"); // no methods of PyTorch's
    one("isnan", [](T x) { return lz::isnan(x); });
    one("isinf", [](T x) { return lz::isinf(x); });
    one("isfinite", [](T x) { return lz::isfinite(x); });
    one("gelu", [](T x) { return lz::gelu(x); });
    one("softplus", [](T x) { return lz::softplus(x); });
    one("leaky_relu", [](T x) { return lz::leaky_relu(x); });
    one("layer_norm", [](T x) { return lz::layer_norm(x.view({1}), {1}); });
    one("rms_norm", [](T x) { return lz::rms_norm(x.view({1}), {1}); });
    one("flip", [](T x) { return x.flip(0); });
    one("tril", [](T x) { return x.view({1, 1}).tril(); });
    one("one_hot", [](T x) { return lz::one_hot(x, 3); });
    one("bernoulli", [](T x) { return lz::bernoulli(x); });
    one("sort", [](T x) { return x.sort().values; });
    one("argsort", [](T x) { return x.argsort(); });
    one("topk", [](T x) { return x.topk(1).values; });
    one("amax", [](T x) { return x.amax(); });
    one("amin", [](T x) { return x.amin(); });
    one("max", [](T x) { return x.max(); });
    one("min", [](T x) { return x.min(); });
    one("argmax", [](T x) { return x.argmax(); });
    one("argmin", [](T x) { return x.argmin(); });
    one("any", [](T x) { return x.any(); });
    one("all", [](T x) { return x.all(); });
    one("std", [](T x) { return x.std(); });
    one("var", [](T x) { return x.var(); });
    one("norm", [](T x) { return x.norm(); });
    one("max_axis", [](T x) { return x.max(0).values; });
    one("min_axis", [](T x) { return x.min(0).values; });
    one("logsumexp", [](T x) { return x.logsumexp(0); });

    const auto with_dtype = [&](const char *name, auto call) {
        const auto f = [call](const std::vector<int> &i) {
            return call(tensor(i[0]), i[1] == 0 ? std::optional<DType>() : dtype_of_operand(i[1] - 1));
        };
        out[name] = {{tensors, range(0, 11)}, f, false, true};
    };
    using D = std::optional<DType>;
    with_dtype("sum", [](T x, D d) { return x.sum({}, false, d); });
    with_dtype("prod", [](T x, D d) { return x.prod({}, false, d); });
    with_dtype("mean", [](T x, D d) { return x.mean({}, false, d); });
    with_dtype("cumsum", [](T x, D d) { return x.cumsum(0, d); });
    with_dtype("cumprod", [](T x, D d) { return x.cumprod(0, d); });
    with_dtype("softmax", [](T x, D d) { return x.softmax(0, d); });
    with_dtype("log_softmax", [](T x, D d) { return x.log_softmax(0, d); });
    return out;
}

// --- differences
// ----------------------------------------------------------------------------------------------------

struct Case {
    std::string function;
    std::vector<int> operands;
    char pytorch, ours; ///< a dtype's digit, - refused, ! an error that is not of dtypes
    bool has(DType t) const {
        return std::ranges::any_of(operands,
                                   [&](int i) { return !is_number(i) && dtype_of_operand(i) == t; });
    }
};
struct Difference {
    const char *why;
    std::function<bool(const Case &)> is;
};

bool is_one_of(const std::string &name, std::initializer_list<const char *> names) {
    return std::ranges::find(names, name) != names.end();
}

const std::vector<Difference> &differences() {
    const auto accepted = [](const Case &c) { return c.pytorch == '-' && c.ours >= '0'; };
    static const std::vector<Difference> all = {
        {"beside another dtype a bool counts as 0 or 1 in a difference as in every other function; PyTorch "
         "refuses "
         "every bool there",
         [=](const Case &c) {
             const bool has_bool =
                 c.has(DType::Bool) || std::ranges::find(c.operands, kTensors) != c.operands.end();
             return c.function.starts_with("sub") && has_bool && accepted(c) && c.ours != '0';
         }},
        {"activations take integers, which become the default dtype, as all functions that give fractions do",
         [=](const Case &c) {
             return is_one_of(c.function, {"gelu", "silu", "softplus", "leaky_relu"}) && accepted(c) &&
                    c.ours == '8';
         }},
        {"what picks one of its operands, or says where it is, takes bool",
         [=](const Case &c) {
             return (c.function.starts_with("clamp") ||
                     is_one_of(c.function, {"relu", "relu_", "topk", "argmax", "argmin"})) &&
                    c.has(DType::Bool) && accepted(c);
         }},
        {"`any` and `all` give bool; PyTorch gives u8 for u8",
         [](const Case &c) {
             return is_one_of(c.function, {"any", "all"}) && c.has(DType::U8) && c.ours == '0';
         }},
        {"indices may be i32 wherever they may be i64",
         [=](const Case &c) {
             return is_one_of(c.function, {"take", "one_hot"}) && c.has(DType::I32) && accepted(c);
         }},
    };
    return all;
}

// --- comparison
// -----------------------------------------------------------------------------------------------------

/// The file: words by function; those of three operands have a line for each first one.
std::map<std::string, std::vector<std::string>> reference() {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_dtypes.txt"));
    std::map<std::string, std::vector<std::string>> out;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with('#'))
            continue;
        std::istringstream words(line);
        std::string name;
        words >> name;
        std::vector<std::string> &to = out[name.substr(0, name.find('/'))];
        for (std::string word; words >> word;)
            to.push_back(word);
    }
    // A function of floats without a line has that of one with as many operands: their dtypes have one rule.
    const auto like = [&](const std::string &name, std::string_view operands, const std::string &other) {
        if (operands != "Float")
            return;
        for (const char *form : {"", "_"})
            out.try_emplace(name + form, out.at(other + form));
    };
#define LZ_UNARY(name, op, operands) like(#name, #operands, "exp");
#define LZ_BINARY(name, op, operands) like(#name, #operands, "atan2");
#include "lazuli/ops/functions.def"
    return out;
}

char letter_of(const Function &f, const std::vector<int> &at) {
    try {
        return static_cast<char>('0' + static_cast<int>(f.call(at).dtype()));
    } catch (const lz::DTypeError &) {
        return '-';
    } catch (const lz::Error &) {
        return '!';
    }
}

void compare(const std::string &name, const Function &f, const std::vector<std::string> &words,
             std::vector<int> &used) {
    std::string expected;
    for (const std::string &word : words)
        expected += word;
    size_t total = 1;
    for (const Set &set : f.sets)
        total *= set.size();
    ASSERT_EQ(expected.size(), total) << name;
    for (size_t k = 0; k < total; ++k) {
        if (expected[k] == '.')
            continue;
        std::vector<int> at(f.sets.size());
        size_t rest = k;
        for (size_t s = f.sets.size(); s-- > 0; rest /= f.sets[s].size())
            at[s] = f.sets[s][rest % f.sets[s].size()];
        const Case c{name, at, expected[k], letter_of(f, at)};
        if (c.ours == c.pytorch)
            continue;
        bool known = false;
        for (size_t d = 0; d < differences().size(); ++d)
            if (!known && differences()[d].is(c)) {
                known = true;
                ++used[d];
            }
        std::string given;
        for (size_t s = 0; s < at.size(); ++s)
            given +=
                (s ? ", " : "") + (f.dtypes && s == 1
                                       ? at[1] == 0 ? "" : std::string(lz::name(dtype_of_operand(at[1] - 1)))
                                       : text(at[s]));
        EXPECT_TRUE(known) << name << "(" << given << "): PyTorch " << c.pytorch << ", here " << c.ours;
    }
}

TEST(Semantics, S62_every_function_gives_the_dtype_that_pytorch_gives_for_every_pair_of_dtypes_and_kinds) {
    const auto expected = reference();
    std::map<std::string, Function> functions;
    for (auto part : {binary_functions(), in_place_functions(), ternary_functions(), unary_functions()})
        functions.merge(part);
    std::vector<int> used(differences().size());
    for (const auto &[name, f] : functions) {
        ASSERT_TRUE(expected.contains(name)) << name << " is not in the reference file";
        compare(name, f, expected.at(name), used);
    }
    for (const auto &[name, words] : expected)
        EXPECT_TRUE(functions.contains(name)) << name << " of the reference file is not compared";
    for (size_t d = 0; d < used.size(); ++d)
        EXPECT_GT(used[d], 0) << "no longer a difference: " << differences()[d].why;
}

} // namespace
