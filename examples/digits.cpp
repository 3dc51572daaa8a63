// Trains on the handwritten digits of examples/data/digits.csv.gz (1797 images of 8x8): softmax regression,
// then a network with one hidden layer, with gradients written by hand in eager-looking code.
//
//   digits examples/data/digits.csv.gz [epochs]
#include <lazuli/lazuli.h>

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int64_t kPixels = 64, kClasses = 10, kHeldOut = 360;

struct Digits {
    lz::Tensor images; ///< f32[n,64], 0 to 1
    lz::Tensor labels; ///< i64[n]
    int64_t count = 0;
};

/// Every fifth image is held out: neighbours in the file are by one writer, so the end of the file would be
/// others'.
std::vector<size_t> held_out_last(size_t count) {
    std::vector<size_t> order;
    for (const bool held_out : {false, true})
        for (size_t i = 0; i < count; ++i)
            if ((i % 5 == 0) == held_out)
                order.push_back(i);
    return order;
}

/// One number of the line that begins at `begin`; moves `at` past it and the comma behind it.
int parse_number(const char *begin, const char *&at, const char *end, const std::string &path, size_t line) {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc())
        throw std::runtime_error(path + " is damaged: line " + std::to_string(line) +
                                 " has no number at column " + std::to_string(at - begin + 1));
    at = next < end && *next == ',' ? next + 1 : next;
    return value;
}

Digits read_digits(const std::string &path) {
    gzFile file = gzopen(path.c_str(), "rb");
    if (!file)
        throw std::runtime_error("cannot open " + path +
                                 ": give the path of digits.csv.gz as the first argument");
    std::string text;
    std::vector<char> block(size_t{1} << 16);
    int got = 0;
    while ((got = gzread(file, block.data(), static_cast<unsigned>(block.size()))) > 0)
        text.append(block.data(), static_cast<size_t>(got));
    const int closed = gzclose(file);
    if (got < 0 || closed != Z_OK)
        throw std::runtime_error(path + " is damaged: it does not unpack as gzip");

    std::vector<float> pixels;
    std::vector<int64_t> labels;
    for (size_t at = 0, line = 1; at < text.size(); ++line) {
        const size_t stop = std::min(text.find('\n', at), text.size());
        const char *const begin = text.data() + at, *const end = text.data() + stop;
        const char *cursor = begin;
        for (int64_t p = 0; p < kPixels; ++p)
            pixels.push_back(static_cast<float>(parse_number(begin, cursor, end, path, line)) / 16.0f);
        const int label = parse_number(begin, cursor, end, path, line);
        if (label < 0 || label >= kClasses || cursor != end)
            throw std::runtime_error(path + " is damaged: line " + std::to_string(line) +
                                     " is not 64 pixels and a label from 0 to 9");
        labels.push_back(label);
        at = stop + 1;
    }
    const auto count = static_cast<int64_t>(labels.size());
    if (count <= kHeldOut)
        throw std::runtime_error(path + " is too short: " + std::to_string(count) + " images");
    std::vector<float> images;
    std::vector<int64_t> classes;
    for (const size_t i : held_out_last(labels.size())) {
        const auto first = pixels.begin() + static_cast<ptrdiff_t>(i) * kPixels;
        images.insert(images.end(), first, first + kPixels);
        classes.push_back(labels[i]);
    }
    return {lz::from_blob(images.data(), {count, kPixels}), lz::from_blob(classes.data(), {count}), count};
}

/// A model is its parameters; `gradients` gives the loss and d loss / d parameter in their order.
struct SoftmaxRegression {
    static constexpr const char *kName = "softmax regression";
    std::vector<lz::Tensor> parameters{lz::zeros({kPixels, kClasses}), lz::zeros({kClasses})};

    lz::Tensor logits(const lz::Tensor &x) const { return lz::matmul(x, parameters[0]) + parameters[1]; }

    lz::Tensor gradients(const lz::Tensor &x, const lz::Tensor &y, std::vector<lz::Tensor> &out) const {
        const lz::Tensor log_p = lz::log_softmax(logits(x), 1);
        const lz::Tensor d = (lz::exp(log_p) - y) / static_cast<double>(x.size(0));
        out = {lz::matmul(x.t(), d), d.sum(0)};
        return -(log_p * y).sum() / static_cast<double>(x.size(0));
    }
};

struct TwoLayers {
    static constexpr const char *kName = "two-layer network";
    static constexpr int64_t kHidden = 64;
    std::vector<lz::Tensor> parameters{lz::randn({kPixels, kHidden}) * 0.18, lz::zeros({kHidden}),
                                       lz::randn({kHidden, kClasses}) * 0.18, lz::zeros({kClasses})};

    lz::Tensor hidden(const lz::Tensor &x) const {
        return lz::relu(lz::matmul(x, parameters[0]) + parameters[1]);
    }
    lz::Tensor logits(const lz::Tensor &x) const {
        return lz::matmul(hidden(x), parameters[2]) + parameters[3];
    }

    lz::Tensor gradients(const lz::Tensor &x, const lz::Tensor &y, std::vector<lz::Tensor> &out) const {
        const lz::Tensor h = hidden(x);
        const lz::Tensor log_p = lz::log_softmax(lz::matmul(h, parameters[2]) + parameters[3], 1);
        const lz::Tensor d = (lz::exp(log_p) - y) / static_cast<double>(x.size(0));
        const lz::Tensor dh = lz::where(h > 0, lz::matmul(d, parameters[2].t()), 0.0);
        out = {lz::matmul(x.t(), dh), dh.sum(0), lz::matmul(h.t(), d), d.sum(0)};
        return -(log_p * y).sum() / static_cast<double>(x.size(0));
    }
};

/// Stochastic gradient descent with momentum; all parameters in one kernel.
struct Momentum {
    std::vector<lz::Tensor> velocities;

    void step(std::vector<lz::Tensor> &parameters, const std::vector<lz::Tensor> &gradients, double rate) {
        if (velocities.empty())
            for (const lz::Tensor &p : parameters)
                velocities.push_back(lz::zeros_like(p));
        for (size_t i = 0; i < parameters.size(); ++i) {
            velocities[i] = 0.9 * velocities[i] + gradients[i];
            parameters[i] -= rate * velocities[i];
        }
    }
};

template <class Model>
double train(Model model, const Digits &digits, int epochs) {
    const int64_t trained = digits.count - kHeldOut;
    const lz::Tensor targets = lz::one_hot(digits.labels, kClasses).to(lz::f32);
    const lz::Tensor held_images = digits.images.narrow(0, trained, kHeldOut);
    const lz::Tensor held_labels = digits.labels.narrow(0, trained, kHeldOut);
    lz::eval({targets, held_images, held_labels});
    Momentum optimizer;
    std::vector<lz::Tensor> gradients;
    double accuracy = 0;
    std::cout << "== " << Model::kName << '\n';
    for (int epoch = 0; epoch < epochs; ++epoch) {
        const lz::Tensor order = lz::argsort(lz::rand({trained}));
        order.eval();
        lz::Tensor total = lz::zeros({});
        for (int64_t begin = 0, count = 0; begin < trained; begin += count) {
            // Sizes change. A small rest goes with the last batch: the gradient of one image is a jump.
            const int64_t left = trained - begin, batch = 32 + (begin / 7) % 48;
            count = left < batch + 16 ? left : batch;
            const lz::Tensor rows = order.narrow(0, begin, count);
            const lz::Tensor x = lz::index_select(digits.images, 0, rows);
            const lz::Tensor y = lz::index_select(targets, 0, rows);
            const lz::Tensor loss = model.gradients(x, y, gradients);
            optimizer.step(model.parameters, gradients, 0.05);
            total += loss * static_cast<double>(count);
            if (epoch == 0 && begin == 0)
                std::cout << "one step:\n" << lz::explain() << '\n';
            lz::sync();
        }
        const lz::Tensor right = lz::argmax(model.logits(held_images), 1) == held_labels;
        accuracy = right.to(lz::f32).mean().template item<double>();
        std::printf("epoch %2d  loss %.4f  accuracy on %lld held-out images %.2f %%\n", epoch + 1,
                    total.template item<double>() / static_cast<double>(trained),
                    static_cast<long long>(kHeldOut), accuracy * 100);
    }
    const lz::CompileStats stats = lz::compile_stats();
    std::printf(
        "programs: %lld compiled, %lld reused; kernels: %lld compiled, %lld from memory, %lld from disk\n",
        static_cast<long long>(stats.programs_compiled), static_cast<long long>(stats.programs_reused),
        static_cast<long long>(stats.kernels_compiled), static_cast<long long>(stats.kernels_from_memory),
        static_cast<long long>(stats.kernels_from_disk));
    return accuracy;
}

} // namespace

int main(int argc, char **argv) try {
    if (argc < 2)
        throw std::runtime_error("usage: digits examples/data/digits.csv.gz [epochs]");
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 30;
    lz::manual_seed(3);
    const Digits digits = read_digits(argv[1]);
    std::cout << "read " << digits.count << " images from " << argv[1] << '\n';
    const double regression = train(SoftmaxRegression(), digits, epochs);
    const double network = train(TwoLayers(), digits, epochs);
    if (regression < 0.94 || network < 0.94) {
        std::cerr << "digits: an accuracy is under 94 %\n";
        return 1;
    }
    return 0;
} catch (const std::exception &error) {
    std::cerr << "digits: " << error.what() << '\n';
    return 2;
}
