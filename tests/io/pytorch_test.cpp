#include "files.h"

#include <lazuli/io/pytorch.h>

#include <gmock/gmock.h>

namespace {

using namespace lz::test;
using lz::DType;
using lz::StateDict;
using lz::io::PickleValue;
using testing::HasSubstr;

std::vector<float> halves(size_t n) {
    std::vector<float> out;
    for (size_t i = 0; i < n; ++i)
        out.push_back(static_cast<float>(i) / 2);
    return out;
}

TEST(Pytorch, ReadsTheStateDictOfAModule) {
    for (const bool memory_map : {true, false}) {
        const StateDict dict = lz::load(input("module.pt"), {.memory_map = memory_map});
        EXPECT_EQ(dict.keys(), (std::vector<std::string>{"first.weight", "first.bias", "norm.weight",
                                                         "norm.bias", "norm.running_mean", "norm.running_var",
                                                         "norm.num_batches_tracked"}));
        EXPECT_EQ(dict.at("first.weight").sizes(), (lz::Sizes{2, 3}));
        EXPECT_EQ(dict.at("first.weight").to_vector<float>(), halves(6));
        EXPECT_EQ(dict.at("norm.running_var").to_vector<float>(), (std::vector<float>{1, 1}));
        EXPECT_EQ(dict.at("norm.num_batches_tracked").item<int64_t>(), 0);
        EXPECT_EQ(dict.at("norm.num_batches_tracked").dim(), 0);
    }
}

TEST(Pytorch, ReadsAllDtypes) {
    const StateDict dict = lz::load(input("dtypes.pt"));
    EXPECT_EQ(dict.size(), dtypes().size() + 2);
    for (const auto &[name, dtype] : dtypes())
        expect_counts(dict.at(name), dtype, {2, 3}, name);
    EXPECT_EQ(dict.at("none.f64").sizes(), (lz::Sizes{0, 4}));
}

/// inputs/written.pt was written by this, and torch.load has read it (inputs/check_written.py).
TEST(Pytorch, WritesWhatTorchLoads) {
    const Folder folder;
    StateDict dict;
    for (const auto &[name, dtype] : dtypes())
        dict.insert("of." + name, lz::arange(6).view({2, 3}).to(dtype));
    dict.insert("number", lz::tensor(2.5));
    dict.insert("none", lz::zeros({0, 4}));
    dict.insert("gradient", lz::ones({2}).requires_grad_());
    dict.insert("transposed", lz::arange(6.0).view({2, 3}).t());
    dict.insert("again", dict.at("number"));
    lz::save(dict, folder / "written.pt");
    EXPECT_TRUE(read_file(folder / "written.pt") == read_file(input("written.pt"))) << "other bytes";
    const StateDict back = lz::load(folder / "written.pt");
    EXPECT_EQ(back.keys(), dict.keys());
    for (const auto &[name, tensor] : dict) {
        EXPECT_EQ(back.at(name).dtype(), tensor.dtype()) << name;
        EXPECT_TRUE(lz::equal(back.at(name), tensor.detach())) << name;
    }
    lz::save(lz::ones({2}), folder / "one.pth");
    EXPECT_EQ(lz::load_tensor(folder / "one.pth").to_vector<float>(), (std::vector<float>{1, 1}));
    EXPECT_EQ(folder.count(), 2u);
}

TEST(Pytorch, ReadsViews) {
    const StateDict dict = lz::load(input("views.pt"));
    const lz::Tensor base = lz::tensor(halves(12), {4, 3});
    EXPECT_TRUE(lz::equal(dict.at("transposed"), base.t()));
    EXPECT_TRUE(lz::equal(dict.at("rows"), base.slice(0, 1, 3)));
    EXPECT_TRUE(lz::equal(dict.at("expanded"), base.slice(0, 0, 1).expand({5, 3})));
    EXPECT_TRUE(lz::equal(dict.at("column"), base.select(1, 1)));
    EXPECT_TRUE(lz::equal(dict.at("parameter"), base));
}

TEST(Pytorch, ReadsWholeCheckpoints) {
    const PickleValue checkpoint = lz::io::load_pytorch(input("checkpoint.pt"));
    EXPECT_EQ(checkpoint.at("epoch").as_int(), 7);
    EXPECT_EQ(checkpoint.at("best").as_double(), 0.5);
    EXPECT_EQ(checkpoint.at("name").as_text(), "run");
    EXPECT_FALSE(checkpoint.at("done").as_bool());
    EXPECT_TRUE(checkpoint.at("nothing").is_none());
    EXPECT_EQ(checkpoint.at("sizes").at(1).as_int(), -2);
    EXPECT_EQ(checkpoint.at("pair").at(0).as_int(), int64_t{1} << 40);
    EXPECT_EQ(checkpoint.at("shape").list().size(), 2u);
    EXPECT_EQ(checkpoint.at("model").state_dict().size(), 7u);
    const PickleValue &optimizer = checkpoint.at("optimizer");
    EXPECT_EQ(optimizer.at("param_groups").at(0).at("lr").as_double(), 0.25);
    EXPECT_EQ(optimizer.at("param_groups").at(0).at("params").list().size(), 4u);
    EXPECT_EQ(optimizer.at("state").at(0).at("exp_avg").as_tensor().sizes(), (lz::Sizes{2, 3}));
    EXPECT_EQ(optimizer.at("state").at(0).at("step").as_tensor().item<float>(), 1);
    EXPECT_THROW((void)checkpoint.at("epoch").as_text(), lz::DTypeError);
    EXPECT_THROW((void)checkpoint.at("none"), lz::IndexError);
    EXPECT_THROW((void)checkpoint.at("sizes").at(3), lz::IndexError);
    const StateDict flat = lz::load(input("checkpoint.pt"));
    EXPECT_TRUE(flat.contains("optimizer.state.0.exp_avg"));
    EXPECT_TRUE(flat.contains("model.first.weight"));
    // Numbers are tensors, too, and lists of them.
    EXPECT_EQ(flat.at("epoch").item<int64_t>(), 7);
    EXPECT_EQ(flat.at("epoch").dtype(), lz::i64);
    EXPECT_EQ(flat.at("done").dtype(), lz::boolean);
    EXPECT_EQ(flat.at("optimizer.param_groups.0.lr").item<double>(), 0.25);
    EXPECT_EQ(flat.at("optimizer.param_groups.0.betas").to_vector<double>(),
              (std::vector<double>{0.9, 0.999}));
    EXPECT_EQ(flat.at("optimizer.param_groups.0.params").to_vector<int64_t>(),
              (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(flat.at("sizes").dtype(), lz::i64);
    EXPECT_FALSE(flat.contains("name") || flat.contains("nothing"));
}

TEST(Pytorch, WhatIsNoStateDictIsRefused) {
    EXPECT_THAT(io_error([] { (void)lz::load(input("legacy.pt")); }), HasSubstr("before PyTorch 1.6"));
    EXPECT_THAT(io_error([] { (void)lz::load(input("other_class.pt")); }),
                HasSubstr("names \"__main__.Other\": only tensors, dicts, lists, numbers and text are read"));
}

/// views.pt with another pickle of the same length, filled with STOP.
class Pickles {
public:
    std::string error(std::string pickle) {
        std::string bytes = read_file(input("views.pt"));
        const size_t begin = bytes.find("\x80\x02"), end = bytes.find("PK\7\10", begin);
        pickle.resize(end - begin, '.');
        write_file(path_, bytes.replace(begin, end - begin, pickle));
        return io_error([&] { (void)lz::load(path_); });
    }

private:
    Folder folder_;
    std::string path_ = folder_ / "bad.pt";
};

const std::string kStart("\x80\2", 2);
std::string text(const std::string &value) {
    return std::string("\x8c") + static_cast<char>(value.size()) + value;
}
/// A tensor of storage "0", which has 12 floats: these sizes, strides and this offset.
std::string tensor(const std::string &offset, const std::string &sizes, const std::string &strides,
                   const std::string &key = "0", char numel = 12) {
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text(key) +
           text("cpu") + "K" + numel + "tQ" + offset + "(" + sizes + "t(" + strides +
           "t\x89"
           "ccollections\nOrderedDict\n)RtR";
}

TEST(Pytorch, HostilePicklesSayWhatIsWrong) {
    Pickles pickles;
    const std::string one("K\1", 2), two("K\2", 2), three("K\3", 2), four("K\4", 2), zero("K\0", 2),
        minus("J\xff\xff\xff\xff", 5);
    EXPECT_THAT(pickles.error(kStart + "cos\nsystem\n" + text("true") + "\x85R."),
                HasSubstr("names \"os.system\""));
    EXPECT_THAT(pickles.error(kStart + "c__builtin__\neval\n" + text("1") + "\x85R."),
                HasSubstr("__builtin__.eval"));
    EXPECT_THAT(pickles.error(kStart + text("os") + text("system") + "\x93."),
                HasSubstr("names \"os.system\""));
    EXPECT_THAT(pickles.error(kStart + "(i__main__\nX\n."), HasSubstr("has the opcode 0x69"));
    EXPECT_THAT(pickles.error(kStart + "N\x81."), HasSubstr("has the opcode 0x81"));
    EXPECT_THAT(pickles.error(std::string("\x80\x09.", 3)), HasSubstr("protocol 9"));
    EXPECT_THAT(pickles.error(kStart + "NN."), HasSubstr("leaves more than one value"));
    EXPECT_THAT(pickles.error(kStart + "."), HasSubstr("takes a value that is not there"));
    EXPECT_THAT(pickles.error(kStart + "t."), HasSubstr("a mark that is not there"));
    EXPECT_THAT(pickles.error(kStart + "h\1."), HasSubstr("uses value 1"));
    EXPECT_THAT(pickles.error(kStart + "Na."), HasSubstr("appends to what is not a list"));
    EXPECT_THAT(pickles.error(kStart + "}NNs(Nu."), HasSubstr("a key without a value"));
    EXPECT_THAT(pickles.error(kStart + "]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a."),
                HasSubstr("contains itself"));
    EXPECT_THAT(pickles.error(kStart + std::string(150, ']') + std::string(149, 'a') + "."),
                HasSubstr("more than 100 levels"));
    EXPECT_THAT(pickles.error(kStart + std::string("X\xff\xff\xff\xff", 5)), HasSubstr("is cut short"));
    EXPECT_THAT(pickles.error(kStart + "ctorch\nFloatStorage\n)R."), HasSubstr("with 0 arguments"));
    EXPECT_THAT(pickles.error(kStart + "ctorch\nFloatStorage\n."), HasSubstr("as a value"));
    EXPECT_THAT(pickles.error(kStart + std::string("\x8a\x09", 2) + "123456789."),
                HasSubstr("an int of 9 bytes"));
    EXPECT_THAT(pickles.error(kStart + tensor(zero, four + three, one + four + one) + "."),
                HasSubstr("2 sizes and 3 strides"));
    EXPECT_THAT(pickles.error(kStart + tensor(one, four + three, three + one) + "."),
                HasSubstr("reaches beyond"));
    EXPECT_THAT(pickles.error(kStart + tensor(minus, one, one) + "."), HasSubstr("reaches beyond"));
    EXPECT_THAT(pickles.error(kStart + tensor(zero, two, minus) + "."), HasSubstr("reaches beyond"));
    EXPECT_THAT(pickles.error(kStart + tensor(zero, minus, one) + "."), HasSubstr("an axis of -1"));
    EXPECT_THAT(pickles.error(kStart + tensor(zero, four + four, one + one) + "."), HasSubstr("overlap"));
    EXPECT_THAT(pickles.error(kStart + tensor(zero, one, one, "9") + "."),
                HasSubstr("storage \"9\" is not in it"));
    EXPECT_THAT(pickles.error(kStart + tensor(zero, one, one, "../version") + "."),
                HasSubstr("is not in it"));
    EXPECT_THAT(pickles.error(kStart + tensor(zero, one, one, "0", '\x7f') + "."),
                HasSubstr("would have 127 elements"));
    const std::string large("\x8a\x06\0\0\0\0\0\x10", 8); // 2^44 elements of one
    EXPECT_THAT(pickles.error(kStart + tensor(zero, large, zero) + "."), HasSubstr("that may be taken"));
    EXPECT_THAT(pickles.error(kStart + tensor(zero, large + large, zero + zero) + "."),
                HasSubstr("64-bit number"));
}

/// A MultiStepLR keeps its milestones as a Counter: 4 twice, 2 once.
TEST(Pytorch, ACounterIsTheListOfWhatItCounts) {
    const StateDict dict = lz::load(input("multi_step.pt"));
    EXPECT_EQ(dict.at("schedule.milestones").to_vector<int64_t>(), (std::vector<int64_t>{4, 4, 2}));
    EXPECT_EQ(dict.at("schedule.last_epoch").item<int64_t>(), 3);
    EXPECT_EQ(dict.at("epoch").item<int64_t>(), 3);
}

} // namespace
