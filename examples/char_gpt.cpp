// A small GPT that learns to write a text character by character.
//
//   char_gpt [--text file] [--steps n] [--checkpoint file.safetensors] [--device cuda] [--dtype bf16]
//            [--layers n] [--width n] [--heads n] [--context n] [--batch n] [--rate r] [--sample n]
//
// With --checkpoint it goes on from that file if it is there, and writes it every 100 steps and at the end:
// the loss of each step is then to the bit what it would have been without the interruption.
#include <lazuli/io/safetensors.h>
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

namespace nn = lz::nn;
namespace F = lz::nn::functional;
using lz::Tensor;

struct Config {
    int64_t layers = 4, width = 128, heads = 4, context = 128, batch = 16, vocabulary = 0;
    bool half = false; ///< products in bf16; parameters are f32
};

/// Attention to what came before, then two linear layers, each added to what comes in.
struct BlockImpl : nn::Module {
    explicit BlockImpl(const Config &config) : config(config) {}
    Config config;
    nn::LayerNorm norm1{register_module("norm1", nn::LayerNorm(config.width))};
    nn::Linear qkv{register_module("qkv", nn::Linear(config.width, 3 * config.width))};
    nn::Linear out{register_module("out", nn::Linear(config.width, config.width))};
    nn::LayerNorm norm2{register_module("norm2", nn::LayerNorm(config.width))};
    nn::Linear up{register_module("up", nn::Linear(config.width, 4 * config.width))};
    nn::Linear down{register_module("down", nn::Linear(4 * config.width, config.width))};

    Tensor forward(const Tensor &x) {
        const int64_t n = x.size(0), length = x.size(1), heads = config.heads;
        const std::vector<Tensor> parts = qkv(norm1(x))
                                              .view({n, length, 3, heads, config.width / heads})
                                              .permute({2, 0, 3, 1, 4})
                                              .unbind(0);
        const Tensor attended = F::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
        const Tensor y = x + out(attended.transpose(1, 2).reshape({n, length, config.width}));
        return y + down(lz::gelu(up(norm2(y)), lz::Gelu::Tanh));
    }
};
LZ_MODULE(Block);

/// Characters i64[n, length] to logits of the next ones f32[n, length, vocabulary].
struct GptImpl : nn::Module {
    explicit GptImpl(const Config &config) : config(config) {
        for (int64_t i = 0; i < config.layers; ++i)
            blocks->push_back(Block(config));
        nn::init::normal_(characters->weight, 0, 0.02);
        nn::init::normal_(places->weight, 0, 0.02);
    }
    Config config;
    nn::Embedding characters{register_module("characters", nn::Embedding(config.vocabulary, config.width))};
    nn::Embedding places{register_module("places", nn::Embedding(config.context, config.width))};
    nn::Sequential blocks{register_module("blocks", nn::Sequential())};
    nn::LayerNorm norm{register_module("norm", nn::LayerNorm(config.width))};
    nn::Linear head{register_module("head", nn::Linear(config.width, config.vocabulary))};

    Tensor forward(const Tensor &text) {
        const Tensor at = lz::arange(text.size(1), {.device = text.device()});
        const Tensor x = blocks(characters(text) + places(at));
        return head(norm(x));
    }
};
LZ_MODULE(Gpt);

/// A text as numbers of its different characters.
struct Text {
    std::string characters; ///< in order
    Tensor numbers;         ///< i64[n]

    Text(const std::string &text, const lz::Device &device) {
        std::map<char, int64_t> number;
        for (const char c : text)
            number[c] = 0;
        for (auto &[c, n] : number) {
            n = static_cast<int64_t>(characters.size());
            characters += c;
        }
        std::vector<int64_t> all;
        for (const char c : text)
            all.push_back(number[c]);
        numbers = lz::tensor(all).to(device);
    }
    /// Places i64[n] to what stands there and behind it, i64[n, length].
    Tensor windows(const Tensor &places, int64_t length) const {
        const Tensor offsets = lz::arange(length, {.device = numbers.device()});
        return numbers.take(places.unsqueeze(1) + offsets);
    }
};

std::string read_text(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (file)
        return {std::istreambuf_iterator<char>(file), {}};
    if (path != "/usr/share/common-licenses/GPL-3")
        throw std::runtime_error("cannot read " + path);
    std::string text; // where there is no Debian: something with as simple rules
    for (int i = 0; text.size() < 30000; i = (i * 37 + 11) % 1009)
        text += std::to_string(i) + " times " + std::to_string(i) + " is " + std::to_string(i * i) + ".\n";
    return text;
}

/// Matrices decay, biases and norms do not.
std::vector<lz::optim::OptimizerParamGroup> groups_of(const Gpt &net, double rate) {
    std::vector<Tensor> matrices, vectors;
    for (const Tensor &p : net->parameters())
        (p.dim() > 1 ? matrices : vectors).push_back(p);
    const auto options = lz::optim::AdamWOptions(rate).betas({0.9, 0.99});
    return {{matrices, lz::optim::AdamWOptions(options).weight_decay(0.1)},
            {vectors, lz::optim::AdamWOptions(options).weight_decay(0)}};
}

struct Trainer {
    Config config;
    const Text &text;
    int64_t trained; ///< characters; those behind them are held out
    double rate;
    Gpt net{config};
    lz::optim::AdamW optimizer{groups_of(net, rate)};
    lz::optim::LinearLR schedule{optimizer, 0.025, 1, 40}; ///< warm-up
    lz::Generator generator{7};
    int64_t step = 0;

    /// The mean loss of a batch of windows, in nats a character.
    Tensor loss(const Tensor &window) {
        const lz::AutocastGuard half(lz::bf16, config.half);
        const Tensor logits = net(window.narrow(1, 0, config.context));
        return lz::cross_entropy(logits.flatten(0, 1), window.narrow(1, 1, config.context).flatten());
    }
    Tensor train() {
        const Tensor places = lz::randint(0, trained - config.context, {config.batch}, generator,
                                          {.device = text.numbers.device()});
        optimizer.zero_grad();
        const Tensor now = loss(text.windows(places, config.context + 1));
        now.backward();
        optimizer.step();
        schedule.step();
        ++step;
        lz::sync(); // forward, backward and step are one program
        return now;
    }
    double held_out() {
        const lz::NoGradGuard no_grad;
        const int64_t n = text.numbers.size(0) - trained - config.context - 1;
        const Tensor places =
            lz::arange(0, n, std::max<int64_t>(1, n / 16), {.device = text.numbers.device()});
        return loss(text.windows(places, config.context + 1)).item<double>();
    }
    std::string sample(int64_t count) {
        const lz::NoGradGuard no_grad;
        std::string written;
        Tensor window = text.numbers.narrow(0, trained, config.context).unsqueeze(0);
        for (int64_t i = 0; i < count; ++i) { // a number drawn by its probability (Gumbel 1954)
            const Tensor logits = net(window).select(1, -1),
                         u = lz::rand(logits.sizes(), generator, {.device = logits.device()});
            const Tensor next = (logits / 0.7 - (-u.log()).log()).argmax(1, true);
            window = lz::cat({window.narrow(1, 1, config.context - 1), next}, 1);
            written += text.characters[static_cast<size_t>(next.item<int64_t>())];
        }
        return written;
    }

    void save(const std::string &path) const {
        lz::StateDict all = net->state_dict("net");
        for (const auto &[name, tensor] : optimizer.state_dict())
            all.insert("optimizer." + name, tensor);
        for (const auto &[name, tensor] : schedule.state_dict())
            all.insert("schedule." + name, tensor);
        const lz::Generator::State drawn = generator.get_state();
        lz::save(all, path,
                 {.metadata = {{"step", std::to_string(step)},
                               {"seed", std::to_string(drawn.seed)},
                               {"offset", std::to_string(drawn.offset)}}});
    }
    void load(const std::string &path) {
        std::map<std::string, lz::StateDict> parts; // net, optimizer, schedule
        for (const auto &[name, tensor] : lz::load(path)) {
            const size_t dot = name.find('.');
            parts[name.substr(0, dot)].insert(name.substr(dot + 1), tensor);
        }
        net->load_state_dict(parts["net"]);
        optimizer.load_state_dict(parts["optimizer"]);
        schedule.load_state_dict(parts["schedule"]);
        auto numbers = lz::io::safetensors_info(path).metadata;
        step = std::stoll(numbers.at("step"));
        generator.set_state({std::stoull(numbers.at("seed")), std::stoull(numbers.at("offset"))});
    }
};

int main(int argc, char **argv) try {
    std::map<std::string, std::string> options = {{"--text", "/usr/share/common-licenses/GPL-3"},
                                                  {"--steps", "600"},
                                                  {"--checkpoint", ""},
                                                  {"--device", "cpu"},
                                                  {"--dtype", "f32"},
                                                  {"--layers", "4"},
                                                  {"--width", "128"},
                                                  {"--heads", "4"},
                                                  {"--context", "128"},
                                                  {"--batch", "16"},
                                                  {"--rate", "0.002"},
                                                  {"--sample", "300"}};
    for (int i = 1; i < argc; i += 2) {
        if (!options.contains(argv[i]) || i + 1 == argc)
            throw std::runtime_error(std::string("there is no option ") + argv[i] +
                                     ", or its value is missing");
        options[argv[i]] = argv[i + 1];
    }
    const auto number = [&](const char *name) { return std::stoll(options[name]); };
    if (options["--dtype"] != "f32" && options["--dtype"] != "bf16")
        throw std::runtime_error("--dtype is f32 or bf16, and not " + options["--dtype"]);
    const lz::Device device(options["--device"]);

    lz::manual_seed(5);
    const Text text(read_text(options["--text"]), device);
    const Config config{.layers = number("--layers"),
                        .width = number("--width"),
                        .heads = number("--heads"),
                        .context = number("--context"),
                        .batch = number("--batch"),
                        .vocabulary = static_cast<int64_t>(text.characters.size()),
                        .half = options["--dtype"] == "bf16"};
    Trainer trainer{config, text, text.numbers.size(0) * 9 / 10, std::stod(options["--rate"])};
    trainer.net->to(device);
    const std::string path = options["--checkpoint"];
    if (!path.empty() && std::filesystem::exists(path)) {
        trainer.load(path);
        std::printf("goes on from step %lld of %s\n", static_cast<long long>(trainer.step), path.c_str());
    }
    int64_t parameters = 0;
    for (const Tensor &p : trainer.net->parameters())
        parameters += p.numel();
    std::printf("%lld characters, %zu different; %lld parameters on %s\n",
                static_cast<long long>(text.numbers.size(0)), text.characters.size(),
                static_cast<long long>(parameters), device.str().c_str());

    const int64_t steps = number("--steps"), shown = std::max<int64_t>(1, steps / 20);
    const auto begin = std::chrono::steady_clock::now();
    Tensor sum = lz::zeros({}, {.device = device});
    int64_t summed = 0;
    while (trainer.step < steps) {
        const Tensor loss = trainer.train();
        sum += loss.detach();
        ++summed;
        if (trainer.step % shown == 0 || trainer.step == steps) {
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
            std::printf("step %5lld  loss %.9g  mean %.4f  %.1f s\n", static_cast<long long>(trainer.step),
                        loss.item<double>(), sum.item<double>() / static_cast<double>(summed), took.count());
            std::fflush(stdout);
            sum = lz::zeros({}, {.device = device});
            summed = 0;
        }
        if (!path.empty() && (trainer.step % 100 == 0 || trainer.step == steps))
            trainer.save(path);
    }
    std::printf("held out: loss %.4f\n", trainer.held_out());
    std::cout << "---\n" << trainer.sample(number("--sample")) << "\n---\n";
} catch (const std::exception &error) {
    std::cerr << "char_gpt: " << error.what() << '\n';
    return 1;
}
