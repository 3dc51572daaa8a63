// What a module is: names, moving, saving, hooks, printing.
#include "support.h"

#include <memory>
#include <sstream>

namespace {

using namespace lz::test;
using lz::StateDict;
using lz::Tensor;
namespace nn = lz::nn;
using Names = std::vector<std::string>;

struct Net : nn::Module {
    nn::Linear fc1{register_module("fc1", nn::Linear(4, 3))};
    nn::Linear fc2{register_module("fc2", nn::Linear(nn::LinearOptions(3, 2).bias(false)))};
    Tensor scale = register_parameter("scale", lz::ones({2}));
    Tensor calls = register_buffer("calls", lz::zeros({}, {.dtype = lz::i64}));
    Tensor scratch = register_buffer("scratch", lz::zeros({2}), /*persistent=*/false);
    Tensor forward(const Tensor &x) { return fc2(lz::tanh(fc1(x))) * scale; }
};

/// As LibTorch's programs write it.
struct TwoImpl : nn::Cloneable<TwoImpl> {
    explicit TwoImpl(int64_t width) : width(width) { TwoImpl::reset(); }
    void reset() override {
        fc = register_module("fc", nn::Linear(width, width));
        gain = register_parameter("gain", lz::ones({width}));
    }
    Tensor forward(const Tensor &x) { return fc->forward(x) * gain; }
    int64_t width;
    nn::Linear fc{nullptr};
    Tensor gain;
};
LZ_MODULE(Two);

TEST(Module, HasItsPartsByPyTorchsNames) {
    Net net;
    EXPECT_EQ(net.named_parameters().keys(), (Names{"scale", "fc1.weight", "fc1.bias", "fc2.weight"}));
    EXPECT_EQ(net.named_parameters(false).keys(), Names{"scale"});
    EXPECT_EQ(net.named_buffers().keys(), (Names{"calls", "scratch"}));
    EXPECT_EQ(net.named_children().keys(), (Names{"fc1", "fc2"}));
    EXPECT_EQ(net.named_modules().keys(), (Names{"", "fc1", "fc2"}));
    EXPECT_EQ(net.modules(false).size(), 2u);
    EXPECT_EQ(net.state_dict().keys(), (Names{"scale", "calls", "fc1.weight", "fc1.bias", "fc2.weight"}));
    EXPECT_TRUE(net.parameters()[1].same_tensor(net.fc1->weight));
    EXPECT_TRUE(net.fc1->weight.requires_grad());
    EXPECT_FALSE(net.calls.requires_grad());
    EXPECT_FALSE(net.fc2->bias.defined());
}

TEST(Module, CountsWhatIsSharedOnce) {
    nn::Linear shared(2, 2);
    nn::Sequential net(shared, nn::ReLU(), shared);
    EXPECT_EQ(net->parameters().size(), 2u);
    EXPECT_EQ(net->modules().size(), 3u);
    EXPECT_EQ(net->named_parameters().keys(), (Names{"0.weight", "0.bias"}));
    EXPECT_EQ(net->state_dict().keys(), (Names{"0.weight", "0.bias", "2.weight", "2.bias"})); // as in PyTorch
    int visited = 0;
    net->apply([&](nn::Module &) { ++visited; });
    EXPECT_EQ(visited, 3);
    // One tensor in two modules, moved once.
    struct Tied : nn::Module {
        nn::Linear a{register_module("a", nn::Linear(2, 2))};
        Tensor b = register_parameter("b", a->weight);
    };
    Tied tied;
    EXPECT_EQ(tied.named_parameters().keys(), (Names{"b", "a.bias"}));
    tied.to(lz::f64);
    EXPECT_EQ(tied.a->weight.dtype(), lz::f64);
    EXPECT_EQ(tied.state_dict().size(), 3u);
}

TEST(Module, AppliesToWhatIsInsideFirst) {
    Net net;
    Names order;
    net.apply([&](const std::string &name, nn::Module &) { order.push_back(name); });
    EXPECT_EQ(order, (Names{"fc1", "fc2", ""}));
}

TEST(Module, MovesInPlaceWithItsGradients) {
    Net net;
    const Tensor weight = net.fc1->weight;
    net.forward(lz::ones({1, 4})).sum().backward();
    const std::vector<float> values = floats(weight), gradient = floats(weight.grad());
    EXPECT_EQ(&net.to(lz::f64), &net);
    EXPECT_EQ(weight.dtype(), lz::f64);
    EXPECT_EQ(net.calls.dtype(), lz::i64); // integers stay
    EXPECT_TRUE(weight.requires_grad());
    EXPECT_TRUE(weight.same_tensor(net.parameters()[1]));
    EXPECT_EQ(weight.grad().dtype(), lz::f64);
    EXPECT_EQ(floats(weight), values);
    EXPECT_EQ(floats(weight.grad()), gradient);
    // And goes on from there.
    net.forward(lz::ones({1, 4}, {.dtype = lz::f64})).sum().backward();
    EXPECT_EQ(weight.grad().dtype(), lz::f64);
    EXPECT_NEAR(weight.grad().sum().item<double>(), 2 * lz::tensor(gradient).sum().item<double>(), 1e-5);
    const Caught error = caught<lz::DTypeError>([&] { net.to(lz::i32); });
    EXPECT_TRUE(error.has("not to i32")) << error.what;
    EXPECT_EQ(net.half().parameters()[0].dtype(), lz::f16);
}

TEST(Module, IsInTrainingModeWithAllInside) {
    Net net;
    EXPECT_TRUE(net.is_training() && net.fc1->is_training());
    EXPECT_EQ(&net.eval(), &net);
    EXPECT_FALSE(net.is_training() || net.fc1->is_training());
    net.train();
    EXPECT_TRUE(net.fc2->is_training());
}

TEST(Module, ForgetsGradients) {
    Net net;
    net.forward(lz::ones({1, 4})).sum().backward();
    EXPECT_TRUE(net.scale.grad().defined());
    net.zero_grad(false);
    EXPECT_EQ(floats(net.scale.grad()), (std::vector<float>{0, 0}));
    net.zero_grad();
    EXPECT_FALSE(net.scale.grad().defined());
    net.requires_grad_(false);
    EXPECT_FALSE(net.forward(lz::ones({1, 4})).requires_grad());
}

TEST(Module, SavesWhatItIsNowAndLoadsIt) {
    Net net, other;
    const StateDict state = net.state_dict();
    const std::vector<float> before = floats(net.scale);
    {
        const lz::NoGradGuard no_grad;
        net.scale.add_(1);
    }
    EXPECT_EQ(floats(state.at("scale")), before);
    EXPECT_FALSE(state.at("scale").requires_grad());
    other.load_state_dict(state);
    EXPECT_EQ(floats(other.scale), before);
    EXPECT_EQ(floats(other.fc1->weight), floats(net.fc1->weight));
    EXPECT_TRUE(other.fc1->weight.requires_grad());
    // They are not the same tensors.
    {
        const lz::NoGradGuard no_grad;
        other.fc1->weight.zero_();
    }
    EXPECT_EQ(floats(state.at("fc1.weight")), floats(net.fc1->weight));
    // Another dtype is converted.
    StateDict doubles;
    for (const auto &[name, value] : state)
        doubles.insert(name, name == "calls" ? value : value.to(lz::f64) * 2);
    other.load_state_dict(doubles);
    EXPECT_EQ(other.scale.dtype(), lz::f32);
    EXPECT_EQ(floats(other.scale), (std::vector<float>{2, 2}));
}

TEST(Module, ListsAllThatDoesNotFitAndLoadsNothing) {
    Net net;
    StateDict state = net.state_dict();
    state.erase("fc1.bias");
    state.erase("calls");
    state.insert_or_assign("scale", lz::full({2}, 7.0));
    state.insert_or_assign("fc2.weight", lz::zeros({2, 4}));
    state.insert("fc3.weight", lz::zeros({1}));
    state.insert("empty", Tensor());
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::StateError>([&] { net.load_state_dict(state); });
    EXPECT_EQ(error.line, line);
    EXPECT_TRUE(
        error.has("load_state_dict: the dictionary does not fit Net: missing: \"calls\", \"fc1.bias\"; "
                  "unexpected: \"fc3.weight\", \"empty\"; of other shapes: \"fc2.weight\" ([2, 4] where "
                  "the module has [2, 3]); nothing was loaded"))
        << error.what;
    EXPECT_EQ(floats(net.scale), (std::vector<float>{1, 1}));
    // Not strict: other shapes are still an error, ...
    EXPECT_TRUE(caught<lz::StateError>([&] { net.load_state_dict(state, false); }).has("of other shapes"));
    EXPECT_EQ(floats(net.scale), (std::vector<float>{1, 1}));
    // ... the others are told.
    state.erase("fc2.weight");
    const nn::IncompatibleKeys keys = net.load_state_dict(state, false);
    EXPECT_EQ(keys.missing_keys, (Names{"calls", "fc1.bias", "fc2.weight"}));
    EXPECT_EQ(keys.unexpected_keys, (Names{"fc3.weight", "empty"}));
    EXPECT_EQ(floats(net.scale), (std::vector<float>{7, 7}));
}

TEST(Module, ClonesHaveParametersOfTheirOwn) {
    Two net(3);
    net->eval();
    net->fc->weight.requires_grad_(false);
    const auto copy = std::dynamic_pointer_cast<TwoImpl>(net->clone());
    ASSERT_TRUE(copy);
    EXPECT_EQ(floats(copy->fc->weight), floats(net->fc->weight));
    EXPECT_FALSE(copy->fc->weight.same_tensor(net->fc->weight));
    EXPECT_TRUE(copy->fc->weight.same_tensor(copy->parameters()[1]));
    EXPECT_FALSE(copy->is_training() || copy->fc->is_training() || copy->fc->weight.requires_grad());
    const std::vector<float> before = floats(net->gain);
    {
        const lz::NoGradGuard no_grad;
        copy->gain.mul_(3);
    }
    EXPECT_EQ(floats(net->gain), before);
    EXPECT_EQ(floats(copy->forward(lz::ones({1, 3}))), floats(net(lz::ones({1, 3})) * 3));
    // Containers, and what is registered where it is declared.
    struct Declared : nn::Cloneable<Declared> {
        nn::Sequential body{register_module("body", nn::Sequential(nn::Linear(2, 2), nn::ReLU()))};
    };
    Declared declared;
    const auto twin = std::dynamic_pointer_cast<Declared>(declared.clone());
    ASSERT_TRUE(twin);
    EXPECT_EQ(floats(twin->body->parameters()[0]), floats(declared.body->parameters()[0]));
    EXPECT_FALSE(twin->body->parameters()[0].same_tensor(declared.body->parameters()[0]));
    // A module that does not say how.
    EXPECT_TRUE(caught<lz::StateError>([] { Net().clone(); }).has("nn::Cloneable<Net>"));
}

TEST(Module, PrintsAsInPyTorch) {
    Net net;
    std::ostringstream out;
    out << net;
    EXPECT_EQ(out.str(), "Net(\n"
                         "  (fc1): Linear(in_features=4, out_features=3, bias=True)\n"
                         "  (fc2): Linear(in_features=3, out_features=2, bias=False)\n"
                         ")");
    std::ostringstream nested;
    nested << nn::Sequential(nn::Sequential(nn::ReLU(), nn::ReLU(true)), nn::GELU(), nn::Softmax(1));
    EXPECT_EQ(nested.str(), "Sequential(\n"
                            "  (0): Sequential(\n"
                            "    (0): ReLU()\n"
                            "    (1): ReLU(inplace=True)\n"
                            "  )\n"
                            "  (1): GELU(approximate='none')\n"
                            "  (2): Softmax(dim=1)\n"
                            ")");
}

TEST(Module, CallsHooksAndTakesThemOff) {
    nn::Linear fc(2, 1, false);
    fc->load_state_dict({{"weight", lz::tensor({{2.0, 3.0}})}});
    Names calls;
    auto before = fc->register_forward_pre_hook([&](nn::Module &module, const Tensor &input) {
        calls.push_back("before " + module.name());
        return input * 10;
    });
    auto after = fc->register_forward_hook([&](nn::Module &, const Tensor &input, const Tensor &output) {
        calls.push_back("after " + std::to_string(input.sum().item<float>() > 15));
        return output + 1;
    });
    Tensor seen_input, seen_output;
    auto back = fc->register_full_backward_hook(
        [&](nn::Module &, const Tensor &grad_input, const Tensor &grad_output) {
            calls.push_back("backward");
            seen_input = grad_input;
            seen_output = grad_output;
            return grad_input.defined() ? grad_input * 2 : grad_input;
        });
    const Tensor x = lz::tensor({{1.0, 1.0}}, {.requires_grad = true});
    const Tensor y = fc(x);
    EXPECT_EQ(y.item<float>(), 51);
    (y * 4 + x.sum() * 100).sum().backward(); // other uses of x are not the module's
    EXPECT_EQ(calls, (Names{"before Linear", "after 1", "backward"}));
    EXPECT_EQ(floats(seen_output), (std::vector<float>{4}));
    EXPECT_EQ(floats(seen_input), (std::vector<float>{8, 12}));
    EXPECT_EQ(floats(x.grad()), (std::vector<float>{260, 340}));
    // forward alone calls none, and a Sequential calls them.
    EXPECT_EQ(fc->forward(x).item<float>(), 5);
    EXPECT_EQ(nn::Sequential(fc)(x).item<float>(), 51);
    before.remove();
    after.remove();
    after.remove();
    calls.clear();
    EXPECT_EQ(fc(x).item<float>(), 5);
    // An input that wants no gradient.
    fc(lz::ones({1, 2})).sum().backward();
    EXPECT_EQ(calls, Names{"backward"});
    EXPECT_FALSE(seen_input.defined());
    back.remove();
    fc(x).sum().backward();
    EXPECT_EQ(calls.size(), 1u);
}

TEST(Module, AHookOutlivesNothing) {
    Tensor y;
    {
        nn::Linear fc(2, 1);
        fc->register_full_backward_hook([](nn::Module &, const Tensor &, const Tensor &) { FAIL(); });
        y = fc(lz::ones({1, 2}, {.requires_grad = true}));
    }
    y.sum().backward(); // the module is gone
}

TEST(Module, RefusesNamesAndModulesThatDoNotFit) {
    struct Open : nn::Module {};
    const auto open = std::make_shared<Open>();
    open->register_parameter("w", lz::ones({1}));
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    open->register_buffer("w", lz::ones({1}));
                }).has("register_buffer: the name \"w\" is taken in Open by a parameter"));
    EXPECT_TRUE(
        caught<lz::StateError>([&] { open->register_parameter("a.b", lz::ones({1})); }).has("has a dot"));
    EXPECT_TRUE(caught<lz::StateError>([&] { open->register_parameter("", lz::ones({1})); }).has("is empty"));
    EXPECT_TRUE(caught<lz::DTypeError>([&] {
                    open->register_parameter("n", lz::zeros({1}, {.dtype = lz::i64}));
                }).has("gradients of floats only"));
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    open->register_parameter("c", lz::ones({1}, {.requires_grad = true}) * 2);
                }).has("was computed from tensors that require grad"));
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    open->register_module("m", nn::Linear(nullptr));
                }).has("is no module but an empty holder or pointer"));
    const auto inner = std::make_shared<Open>();
    open->register_module("inner", inner);
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    inner->register_module("outer", open);
                }).has("has this Open among its own modules"));
    EXPECT_EQ(open->named_parameters().keys(), Names{"w"}); // what was refused is not there
    EXPECT_TRUE(caught<lz::StateError>([] {
                    nn::Linear none(nullptr);
                    none(lz::ones({1}));
                }).has("the holder of a Linear is empty"));
    EXPECT_TRUE(caught<lz::ShapeError>([] { nn::Linear(-1, 2); }).has("Linear: in_features is -1"));
}

TEST(Module, ErrorsOfLayersNameTheLineOfTheCall) {
    nn::Linear fc(4, 2);
    uint32_t line = __LINE__ + 1;
    Caught error = caught<lz::ShapeError>([&] { fc(lz::ones({3, 5})); });
    EXPECT_EQ(error.line, line) << error.what;
    nn::Sequential net(nn::Flatten(), fc);
    line = __LINE__ + 1;
    error = caught<lz::ShapeError>([&] { net(lz::ones({3, 5})); });
    EXPECT_EQ(error.line, line) << error.what;
}

TEST(Containers, HoldAnything) {
    struct Own : nn::Module {
        Tensor forward(const Tensor &x) { return x + 1; }
    };
    nn::Sequential net(Own(), nn::Functional(lz::relu), std::make_shared<Own>(),
                       nn::Functional([](const Tensor &x) { return x * 2; }));
    EXPECT_EQ(net(lz::full({}, -3.0)).item<float>(), 2);
    nn::Sequential named({{"fc", nn::Linear(2, 3)}, {"act", nn::ReLU()}});
    named->push_back("out", nn::Linear(3, 1));
    EXPECT_EQ(named->named_children().keys(), (Names{"fc", "act", "out"}));
    EXPECT_EQ(named->at<nn::LinearImpl>(2).options.in_features(), 3);
    EXPECT_TRUE(caught<lz::IndexError>([&] { named->ptr(3); }).has("has 3 entries"));

    nn::ModuleList list(nn::Linear(1, 2), nn::ReLU());
    list->push_back(nn::Linear(2, 3));
    list->insert(1, nn::Linear(2, 2));
    EXPECT_EQ(list->named_parameters().keys(),
              (Names{"0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"}));
    EXPECT_EQ(list->at<nn::Linear>(3).options.out_features(), 3);
    EXPECT_TRUE(caught<lz::StateError>([&] { list->at<nn::Linear>(2); }).has("is a ReLU"));

    nn::ModuleDict dict;
    dict->insert("left", nn::Linear(1, 1));
    dict->insert("right", nn::ReLU());
    EXPECT_EQ(dict->keys(), (Names{"left", "right"}));
    EXPECT_EQ(dict->pop("right")->name(), "ReLU");
    EXPECT_FALSE(dict->contains("right"));
    EXPECT_TRUE(caught<lz::IndexError>([&] { dict->at("right"); }).has("no module \"right\""));

    nn::ParameterList parameters;
    parameters->append(lz::ones({2}));
    parameters->append(lz::ones({3}), false);
    EXPECT_EQ(parameters->named_parameters().keys(), (Names{"0", "1"}));
    EXPECT_TRUE((*parameters)[0].requires_grad());
    EXPECT_FALSE((*parameters)[1].requires_grad());
    nn::ParameterDict by_name;
    by_name->insert("a", lz::ones({2}));
    EXPECT_EQ(by_name->state_dict().keys(), Names{"a"});
    for (const std::shared_ptr<nn::Module> &copy :
         {list->clone(), dict->clone(), parameters->clone(), by_name->clone()})
        EXPECT_GT(copy->parameters().size(), 0u);
}

TEST(Module, ErrorsOfConstructorsHaveTheUsersLine) {
    const auto line_of = [](auto &&make) { return caught<lz::Error>(make).line; };
    EXPECT_EQ(line_of([] { lz::nn::Linear(-1, 2); }), __LINE__);
    EXPECT_EQ(line_of([] { lz::nn::Dropout(1.5); }), __LINE__);
    EXPECT_EQ(line_of([] { lz::nn::GroupNorm(3, 4); }), __LINE__);
    EXPECT_EQ(line_of([] { lz::nn::LSTM(lz::nn::LSTMOptions(3, 4).num_layers(0)); }), __LINE__);
}

} // namespace
