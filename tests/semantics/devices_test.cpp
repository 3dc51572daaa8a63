// S01 to S08: devices, where tensors are made and where results live.
#include "support.h"

#include <functional>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unordered_set>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

TEST(Semantics, S01_devices_compare_hash_and_print) {
    LZ_NEEDS_GPUS(3);
    EXPECT_EQ(Device("cpu"), Device::cpu());
    EXPECT_EQ(Device("cuda:1"), Device::cuda(1));
    EXPECT_NE(Device::cuda(1), Device::cuda(2));
    EXPECT_NE(Device("cuda"), Device("cuda:0")) << "`cuda` is the current GPU, whichever that is";
    const std::unordered_set<Device> set = {Device("cpu"), Device("cuda:1"), Device::cuda(1)};
    EXPECT_EQ(set.size(), 2u);
    std::ostringstream out;
    out << Device("cuda:1") << ' ' << Device("cpu") << ' ' << Device("cuda");
    EXPECT_EQ(out.str(), "cuda:1 cpu cuda");
    EXPECT_TRUE(caught<lz::DeviceError>([] { Device("gpu:1"); }).has("\"gpu:1\" is not a device"));
}

TEST(Semantics, S01_a_tensors_device_has_its_index) {
    LZ_NEEDS_GPUS(4);
    EXPECT_EQ(lz::zeros({2}, {.device = "cuda"}).device(), kGpu0);
    const lz::cuda::DeviceGuard guard(3);
    EXPECT_EQ(lz::zeros({2}, {.device = "cuda"}).device(), Device::cuda(3));
}

TEST(Semantics, S02_the_default_device_can_be_a_gpu) {
    LZ_NEEDS_GPUS(3);
    EXPECT_EQ(lz::zeros({2}).device(), Device::cpu());
    {
        const lz::DefaultDeviceGuard guard("cuda:2");
        const Tensor x = lz::arange(4) * 2;
        EXPECT_EQ(x.device(), kGpu2);
        EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 4, 6}));
        EXPECT_EQ(lz::tensor({1.5, 2.5}).device(), kGpu2);
    }
    EXPECT_EQ(lz::zeros({2}).device(), Device::cpu());
    lz::set_default_device(kGpu1);
    EXPECT_EQ(lz::randn({2}).device(), kGpu1);
    lz::set_default_device(Device::cpu());
}

TEST(Semantics, S03_the_current_gpu_is_per_thread_guards_nest_and_exceptions_restore_it) {
    LZ_NEEDS_GPUS(4);
    EXPECT_EQ(lz::cuda::current_device(), 0);
    {
        const lz::cuda::DeviceGuard outer(1);
        EXPECT_EQ(lz::cuda::current_device(), 1);
        {
            const lz::cuda::DeviceGuard inner("cuda:3");
            EXPECT_EQ(lz::cuda::current_device(), 3);
            std::thread([] { EXPECT_EQ(lz::cuda::current_device(), 0); }).join();
        }
        EXPECT_EQ(lz::cuda::current_device(), 1);
        try {
            const lz::cuda::DeviceGuard inner(2);
            throw std::runtime_error("away");
        } catch (const std::runtime_error &) {
        }
        EXPECT_EQ(lz::cuda::current_device(), 1);
        const lz::cuda::DeviceGuard on_cpu(Device::cpu()); // one source for both
        EXPECT_EQ(lz::cuda::current_device(), 1);
    }
    EXPECT_EQ(lz::cuda::current_device(), 0);
}

TEST(Semantics, S03_a_new_thread_starts_with_gpu_0_whatever_a_thread_before_it_did) {
    LZ_NEEDS_GPUS(3);
    std::thread([] { lz::cuda::set_device(2); }).join();
    std::thread([] { EXPECT_EQ(lz::cuda::current_device(), 0); }).join();
    EXPECT_EQ(lz::cuda::current_device(), 0);
}

TEST(Semantics, S03_set_device_stays_until_it_is_changed) {
    LZ_NEEDS_GPUS(3);
    lz::cuda::set_device(2);
    EXPECT_EQ(lz::ones({1}, {.device = "cuda"}).device(), kGpu2);
    lz::cuda::set_device(0);
    EXPECT_TRUE(caught<lz::DeviceError>([] { lz::cuda::set_device(9); }).has("There is no device cuda:9"));
    EXPECT_EQ(lz::cuda::current_device(), 0);
}

TEST(Semantics, S04_factories_and_moves_use_the_current_gpu_unless_an_index_is_named) {
    LZ_NEEDS_GPUS(4);
    const Tensor x = lz::ones({3});
    const lz::cuda::DeviceGuard guard(1);
    EXPECT_EQ(lz::ones({3}, {.device = Device::cuda()}).device(), kGpu1);
    EXPECT_EQ(lz::ones({3}, {.device = "cuda:2"}).device(), kGpu2);
    EXPECT_EQ(x.cuda().device(), kGpu1);
    EXPECT_EQ(x.cuda(2).device(), kGpu2);
    EXPECT_EQ(x.to("cuda").device(), kGpu1);
    EXPECT_EQ(x.to(kGpu0).device(), kGpu0);
    EXPECT_EQ(x.cuda().cpu().device(), Device::cpu());
    EXPECT_EQ(floats(x.cuda(2).cuda(3) + 1), (std::vector<float>{2, 2, 2}));
}

TEST(Semantics, S05_a_result_lives_where_its_operands_live) {
    LZ_NEEDS_GPUS(3);
    const Tensor a = lz::full({2}, 3.0, {.device = kGpu1}), b = lz::full({2}, 4.0, {.device = kGpu1});
    const lz::cuda::DeviceGuard guard(2);
    const Tensor c = a * b, d = lz::softmax(c, 0);
    EXPECT_EQ(c.device(), kGpu1);
    EXPECT_EQ(d.device(), kGpu1);
    EXPECT_EQ(floats(c), (std::vector<float>{12, 12}));
    const Tensor scalar = lz::tensor(2.0);
    EXPECT_EQ((scalar * a).device(), kGpu1) << "0-dim CPU tensors do not decide";
    EXPECT_EQ(lz::where(a > 0, scalar, b).device(), kGpu1);
    {
        const Tensor illegal = a + lz::ones({2}, {.device = kGpu0});
        EXPECT_EQ(illegal.device(), kGpu1) << "the first operand's, before anything is checked";
    }
}

TEST(Semantics, S05_the_first_operand_that_the_user_passed_decides) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::ones({2, 3}, {.device = kGpu0}), y = lz::ones({2, 3}, {.device = kGpu1});
    const Tensor mask = y > 0, cpu = lz::ones({2, 3}), classes = lz::zeros({2}, {.dtype = lz::i64});
    const Tensor index = lz::zeros({2, 3}, {.dtype = lz::i64, .device = kGpu1});
    // Each is illegal, and dropped before anything is checked.
    EXPECT_EQ(lz::masked_fill(x, mask, 3).device(), kGpu0);
    EXPECT_EQ(lz::masked_fill(cpu, mask, 3).device(), Device::cpu());
    EXPECT_EQ(lz::nll_loss(x, classes).device(), kGpu0);
    EXPECT_EQ(lz::cross_entropy(x, classes).device(), kGpu0);
    EXPECT_EQ(lz::cross_entropy(x, y).device(), kGpu0);
    EXPECT_EQ(lz::lerp(x, y, 0.5).device(), kGpu0);
    EXPECT_EQ(lz::lerp(x, x, y).device(), kGpu0);
    EXPECT_EQ(lz::where(mask, x, x).device(), kGpu1);
    EXPECT_EQ(lz::where(mask, 1.0, x).device(), kGpu1);
    EXPECT_EQ(lz::addcmul(x, y, cpu).device(), kGpu0);
    EXPECT_EQ(lz::clamp(x, y, Tensor()).device(), kGpu0);
    EXPECT_EQ(lz::take(x, classes).device(), kGpu0);
    EXPECT_EQ(lz::scatter(x, 1, index, y).device(), kGpu0);
    EXPECT_EQ(lz::gather(cpu, 1, index).device(), Device::cpu());
    EXPECT_EQ(lz::cat({lz::ones({0}, {.device = kGpu0}), y.reshape({6})}).device(), kGpu0)
        << "a row of nothing has a device too";
    const Tensor number = lz::tensor(2.0), of_gpu = lz::tensor(3.0, {.device = kGpu1});
    EXPECT_EQ(lz::stack({number, of_gpu}).device(), kGpu1) << "0-dim CPU tensors do not decide";
    EXPECT_EQ(lz::masked_fill(number, of_gpu > 0, 1).device(), kGpu1);
}

TEST(Semantics, S05_a_form_in_place_never_moves_its_tensor) {
    LZ_NEEDS_GPUS(2);
    const Tensor mask = lz::tensor({true, false, true}, {.device = kGpu1}),
                 y = lz::full({3}, 5.0, {.device = kGpu1});
    const Tensor index = lz::zeros({1}, {.dtype = lz::i64, .device = kGpu1});
    struct Form {
        const char *name;
        std::function<void(Tensor &)> change;
        std::vector<float> result;
    };
    const Form forms[] = {
        {"masked_fill_", [&](Tensor &x) { x.masked_fill_(mask, 2); }, {2, 1, 2}},
        {"at(mask) =", [&](Tensor &x) { x.at(mask) = 5; }, {5, 1, 5}},
        {"at(mask) +=", [&](Tensor &x) { x.at(mask) += 5; }, {6, 1, 6}},
        {"at(positions) =", [&](Tensor &x) { x.at({index}) = 7; }, {7, 1, 1}},
        {"+=", [&](Tensor &x) { x += y; }, {6, 6, 6}},
        {"lerp_", [&](Tensor &x) { x.lerp_(y, 0.5); }, {3, 3, 3}},
        {"addcmul_", [&](Tensor &x) { x.addcmul_(y, y); }, {26, 26, 26}},
        {"index_add_", [&](Tensor &x) { x.index_add_(0, index, y.slice(0, 0, 1)); }, {6, 1, 1}},
        {"scatter_", [&](Tensor &x) { x.scatter_(0, index, 9); }, {9, 1, 1}},
    };
    for (const Form &form : forms) {
        SCOPED_TRACE(form.name);
        Tensor x = lz::ones({3}, {.device = kGpu0});
        const Tensor alias = x;
        lz::sync();
        form.change(x);
        EXPECT_EQ(x.device(), kGpu0) << "before it is found to be illegal";
        EXPECT_THROW(lz::sync(), lz::DeviceError);
        EXPECT_EQ(x.device(), kGpu0);
        EXPECT_EQ(floats(x), std::vector<float>(3, 1)) << "and it has not changed";
        lz::cuda::enable_peer_access(kGpu0, kGpu1);
        form.change(x);
        EXPECT_EQ(x.device(), kGpu0);
        EXPECT_EQ(floats(x), form.result);
        EXPECT_EQ(alias.device(), kGpu0);
        EXPECT_EQ(floats(alias), form.result);
        lz::cuda::disable_peer_access(kGpu0, kGpu1);
    }
}

TEST(Semantics, S06_cross_device_add_is_rejected) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::full({2, 3}, 1.0, {.device = kGpu0});
    const uint32_t made_at = __LINE__ + 1;
    const Tensor y = lz::full({2, 3}, 2.0, {.device = kGpu1});
    lz::sync();
    const Tensor legal = x * 3;
    Tensor changed = lz::full({3}, 5.0, {.device = kGpu0});
    changed += 1;
    const uint32_t line = __LINE__ + 1;
    const Tensor z = x + y;
    const Tensor after = z * 2;
    EXPECT_EQ(z.device(), kGpu0);
    const Caught error = caught<lz::DeviceError>([] { lz::sync(); });
    EXPECT_TRUE(error.has("add: ")) << error.what;
    EXPECT_TRUE(error.has("f32[2,3] on cuda:0")) << error.what;
    EXPECT_TRUE(error.has("f32[2,3] on cuda:1")) << error.what;
    EXPECT_TRUE(error.has("b.to(a.device())")) << error.what;
    EXPECT_TRUE(error.has("devices_test.cpp:" + std::to_string(made_at))) << error.what;
    EXPECT_EQ(error.line, line) << error.what;
    // Nothing else has changed, and the sync threw once.
    EXPECT_EQ(floats(legal), std::vector<float>(6, 3));
    EXPECT_EQ(floats(changed), std::vector<float>(3, 6));
    EXPECT_EQ(floats(x), std::vector<float>(6, 1));
    EXPECT_EQ(floats(y), std::vector<float>(6, 2));
    EXPECT_EQ(caught<lz::DeviceError>([&] { after.to_vector<float>(); }).line, line);
    EXPECT_EQ(floats(x + y.to(x.device())), std::vector<float>(6, 3));
}

TEST(Semantics, S06_a_handle_changed_in_place_by_an_illegal_operation_keeps_its_value) {
    LZ_NEEDS_GPUS(2);
    Tensor x = lz::full({2}, 1.0, {.device = kGpu0});
    x += 1;
    const uint32_t line = __LINE__ + 1;
    x += lz::ones({2}, {.device = kGpu1});
    EXPECT_EQ(caught<lz::DeviceError>([&] { x.to_vector<float>(); }).line, line);
    EXPECT_EQ(floats(x), (std::vector<float>{2, 2}));
    x += 1;
    EXPECT_EQ(floats(x), (std::vector<float>{3, 3}));
}

TEST(Semantics, S06_cpu_and_gpu_do_not_mix_either) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::ones({2, 2}, {.device = kGpu1}), w = lz::ones({2, 2});
    const Caught product = caught<lz::DeviceError>([&] { lz::matmul(x, w).to_vector<float>(); });
    EXPECT_TRUE(product.has("f32[2,2] on cpu")) << product.what;
}

std::string place(uint32_t line) {
    return "devices_test.cpp:" + std::to_string(line);
}

TEST(Semantics, S06_functions_made_of_several_operations_are_named_and_so_are_their_operands) {
    LZ_NEEDS_GPUS(2);
    const uint32_t line = __LINE__;
    const Tensor x = lz::randn({3, 4}, {.device = kGpu0}), w = lz::rand({2, 4}, {.device = kGpu0});
    const Tensor b = lz::tensor({1.0f, 2.0f}, {.device = kGpu1});
    const Tensor mask = x > 0, far = x.cuda(1) * 2;
    const Tensor index = lz::zeros({3}, {.dtype = lz::i64, .device = kGpu1});
    lz::eval({b, w}); // stored, while the others are pending
    const std::string of_x = "f32[3,4] on cuda:0 (made by randn at " + place(line + 1) + ")",
                      of_index = "i64[3] on cuda:1 (made by zeros at " + place(line + 4) + ")",
                      of_far = "f32[3,4] on cuda:1 (made by mul at " + place(line + 3) + ")";
    const auto says = [&](const std::string &call, const std::string &operands, const std::string &fix,
                          uint32_t at, auto &&f) {
        EXPECT_EQ(caught<lz::DeviceError>(f).what, call + ": operands are on different devices: " + operands +
                                                       ". Bring them together, for instance with " + fix +
                                                       ", at " + place(at));
    };
    says("linear",
         "a is " + of_x + ", b is f32[2,4] on cuda:0 (made by rand at " + place(line + 1) +
             "), c is f32[2] on cuda:1 (made by tensor at " + place(line + 2) + ")",
         "c.to(a.device())", __LINE__, [&] { lz::linear(x, w, b).to_vector<float>(); });
    const Tensor far_w = w.cuda(1), near_b = b.cuda(0);
    const std::string moved = "(made by cuda at " + place(__LINE__ - 1) + ")";
    says("linear",
         "a is " + of_x + ", b is f32[2,4] on cuda:1 " + moved +
             ", c is f32[2] on cuda:1 (made by tensor at " + place(line + 2) + ")",
         "b.to(a.device()) and c.to(a.device())", __LINE__ + 1,
         [&] { lz::linear(x, far_w, b).to_vector<float>(); });
    says("linear", "a is " + of_x + ", b is f32[2,4] on cuda:1 " + moved + ", c is f32[2] on cuda:0 " + moved,
         "b.to(a.device())", __LINE__, [&] { lz::linear(x, far_w, near_b).to_vector<float>(); });
    says("where",
         "a is bool[3,4] on cuda:0 (made by gt at " + place(line + 3) + "), b is " + of_x + ", c is " +
             of_far,
         "c.to(a.device())", __LINE__, [&] { lz::where(mask, x, far).to_vector<float>(); });
    says("matmul", "a is " + of_x + ", b is f32[4,3] on cuda:1 (made by t at " + place(__LINE__ + 1) + ")",
         "b.to(a.device())", __LINE__, [&] { lz::matmul(x, far.t()).to_vector<float>(); });
    says("embedding", "a is " + of_x + ", b is " + of_index, "b.to(a.device())", __LINE__ + 1,
         [&] { lz::embedding(x, index).to_vector<float>(); });
    says("at", "a is " + of_x + ", b is " + of_index, "b.to(a.device())", __LINE__ + 1,
         [&] { x.at({index}).to_vector<float>(); });
    says("cross_entropy", "a is " + of_x + ", b is " + of_index, "b.to(a.device())", __LINE__ + 1,
         [&] { lz::cross_entropy(x, index).item<float>(); });
    says("cat", "a is " + of_x + ", b is " + of_far, "b.to(a.device())", __LINE__ + 1,
         [&] { lz::cat({x, far}).to_vector<float>(); });
    const Tensor column = index.unsqueeze(1); // i64: converted by the addition itself
    says("add",
         "a is " + of_x + ", b is i64[3,1] on cuda:1 (made by unsqueeze at " + place(__LINE__ - 2) + ")",
         "b.to(a.device())", __LINE__, [&] { (x + column).to_vector<float>(); });
}

TEST(Semantics, S06_operands_are_named_in_the_order_in_which_they_were_passed) {
    LZ_NEEDS_GPUS(2);
    const uint32_t line = __LINE__;
    const Tensor x = lz::ones({3}, {.device = kGpu0}), y = lz::full({3}, 2.0, {.device = kGpu1});
    const Tensor c = lz::arange(3).to(lz::f32), mask = y > 0, number = lz::tensor(1.0);
    lz::sync();
    const std::string of_x = "f32[3] on cuda:0 (made by ones at " + place(line + 1) + ")",
                      of_y = "f32[3] on cuda:1 (made by full at " + place(line + 1) + ")",
                      of_c = "f32[3] on cpu (made by to at " + place(line + 2) + ")",
                      of_mask = "bool[3] on cuda:1 (made by gt at " + place(line + 2) + ")",
                      of_number = "f32[] on cpu (made by tensor at " + place(line + 2) + ")";
    const auto says = [&](const std::string &call, const std::vector<std::string> &operands,
                          const std::string &fix, uint32_t at, auto &&f) {
        std::string list;
        for (size_t k = 0; k < operands.size(); ++k)
            list += std::string(k > 0 ? ", " : "") + static_cast<char>('a' + k) + " is " + operands[k];
        EXPECT_EQ(caught<lz::DeviceError>(f).what, call + ": operands are on different devices: " + list +
                                                       ". Bring them together, for instance with " + fix +
                                                       ", at " + place(at));
    };
    const std::string fix = "b.to(a.device())";
    says("masked_fill", {of_x, of_mask}, fix, __LINE__, [&] { lz::masked_fill(x, mask, 3).eval(); });
    says("masked_fill", {of_x, of_mask, of_number}, fix, __LINE__ + 1,
         [&] { lz::masked_fill(x, mask, number).eval(); });
    says("masked_select", {of_x, of_mask}, fix, __LINE__, [&] { lz::masked_select(x, mask); });
    says("lerp", {of_x, of_y}, fix, __LINE__, [&] { lz::lerp(x, y, 0.5).eval(); });
    says("addcmul", {of_x, of_y, of_c}, "b.to(a.device()) and c.to(a.device())", __LINE__ + 1,
         [&] { lz::addcmul(x, y, c).eval(); });
    says("clamp", {of_x, of_number, of_y}, "c.to(a.device())", __LINE__ + 1,
         [&] { lz::clamp(x, number, y).eval(); });
    says("layer_norm", {of_x, of_y, of_c}, "b.to(a.device()) and c.to(a.device())", __LINE__ + 1,
         [&] { lz::layer_norm(x, {3}, y, c).eval(); });
    says("stack", {of_x, of_y, of_c}, "b.to(a.device()) and c.to(a.device())", __LINE__ + 1,
         [&] { lz::stack({x, y, c}).eval(); });
    Tensor z = x.clone();
    const std::string cloned = "f32[3] on cuda:0 (made by clone at " + place(__LINE__ - 1) + ")";
    says("masked_fill_", {cloned, of_mask}, fix, __LINE__, [&] { z.masked_fill_(mask, 3).eval(); });
    says("lerp_", {cloned, of_y}, fix, __LINE__, [&] { z.lerp_(y, 0.5).eval(); });
    says("add_", {cloned, of_y}, fix, __LINE__, [&] { (z += y).eval(); });
    says("at", {cloned, of_mask}, fix, __LINE__ + 1, [&] {
        z.at(mask) = 0;
        z.eval();
    });
    says("at", {cloned, of_mask, of_number}, fix, __LINE__ + 1, [&] {
        z.at(mask) = number;
        z.eval();
    });
    says("at", {cloned, of_mask}, fix, __LINE__ + 1, [&] {
        z.at(mask) -= 1;
        z.eval();
    });
    // What is changed in place stays where it is, also a number on the CPU.
    Tensor own = c.clone(), sum = number.clone();
    says("add_", {"f32[3] on cpu (made by clone at " + place(__LINE__ - 1) + ")", of_y}, fix, __LINE__ + 1,
         [&] { (own += y).eval(); });
    const Tensor g = lz::tensor(2.0, {.device = kGpu0});
    says("add_",
         {"f32[] on cpu (made by clone at " + place(__LINE__ - 5) + ")",
          "f32[] on cuda:0 (made by tensor at " + place(__LINE__ - 3) + ")"},
         fix, __LINE__, [&] { (sum += g).eval(); });
    EXPECT_EQ(sum.item<float>(), 1);
    EXPECT_EQ(floats(z), std::vector<float>(3, 1));
}

TEST(Semantics, S06_a_call_in_a_loop_names_its_own_operands_only) {
    LZ_NEEDS_GPUS(2);
    Tensor x = lz::ones({2, 2}, {.device = kGpu0});
    std::vector<Tensor> weights;
    for (const Device &device : {kGpu0, kGpu0, kGpu1})
        weights.push_back(lz::ones({2, 2}, {.device = device}));
    const uint32_t line = __LINE__ + 2;
    for (const Tensor &w : weights)
        x = lz::matmul(x, w);
    EXPECT_EQ(caught<lz::DeviceError>([&] { x.to_vector<float>(); }).what,
              "matmul: operands are on different devices: a is f32[2,2] on cuda:0 (made by matmul at " +
                  place(line) + "), b is f32[2,2] on cuda:1 (made by ones at " + place(line - 3) +
                  "). Bring them together, for instance with b.to(a.device()), at " + place(line));
}

TEST(Semantics, S06_an_illegal_result_that_is_dropped_is_not_reported) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::ones({2}, {.device = kGpu0}), y = lz::ones({2}, {.device = kGpu1});
    {
        const Tensor z = x + y;
    }
    EXPECT_NO_THROW(lz::sync());
}

TEST(Child, DISABLED_IllegalAdd) {
    const Tensor x = lz::ones({2}, {.device = kGpu0}), y = lz::ones({2}, {.device = kGpu1});
    uint32_t line = 0;
    const Caught error = caught<lz::DeviceError>([&] {
        line = __LINE__ + 1;
        const Tensor z = x + y;
    });
    EXPECT_EQ(error.line, line);
    EXPECT_TRUE(error.has("operands are on different devices")) << error.what;
    const Caught chosen = caught<lz::DeviceError>([&] { (void)lz::where(x > 0, x, y); });
    EXPECT_TRUE(chosen.has("where: operands are on different devices: a is bool[2] on cuda:0 (made"))
        << chosen.what;
    EXPECT_TRUE(chosen.has("c is f32[2] on cuda:1 (made by ones at devices_test.cpp:")) << chosen.what;
    EXPECT_EQ(floats(x), (std::vector<float>{1, 1}));
}

TEST(Semantics, S06_the_error_can_be_had_at_the_operation) {
    LZ_NEEDS_GPUS(2);
    run_child("LAZULI_CHECK_DEVICES=1", "IllegalAdd");
    run_child("LAZULI_LAUNCH_BLOCKING=1", "IllegalAdd");
}

TEST(Child, DISABLED_Automatic) {
    const Tensor small = lz::full({2, 1}, 2, {.dtype = lz::f32, .device = kGpu1});
    const Tensor large = lz::full({2, 500}, 3, {.dtype = lz::f32, .device = kGpu0});
    lz::sync();
    const Tensor sum = small + large;
    EXPECT_EQ(sum.device(), kGpu1) << "the first operand's, wherever it is computed";
    EXPECT_NE(lz::explain(sum).find("the smaller side of an operation moves"), std::string::npos)
        << lz::explain(sum);
    EXPECT_EQ(floats(sum), std::vector<float>(1000, 5));
    EXPECT_EQ(floats(large * lz::ones({500})), std::vector<float>(1000, 3)) << "the CPU's too";
    Tensor x = lz::ones({3}, {.device = kGpu0});
    const Tensor mask = lz::tensor({true, false, true}, {.device = kGpu1});
    x.masked_fill_(mask, 2);
    x.at(lz::tensor({false, true, false})) = 7;
    x += lz::ones({3}, {.device = kGpu2});
    EXPECT_EQ(x.device(), kGpu0) << "in place is in place";
    EXPECT_EQ(floats(x), (std::vector<float>{3, 8, 3}));
    Tensor number = lz::tensor(1.0);
    number += lz::tensor(2.0, {.device = kGpu1});
    EXPECT_EQ(number.device(), Device::cpu());
    EXPECT_EQ(number.item<float>(), 3);
    EXPECT_EQ(lz::nll_loss(-lz::ones({2, 3}, {.device = kGpu1}), lz::tensor({0, 1})).device(), kGpu1);
}
TEST(Semantics, S06_operands_are_brought_together_where_that_is_asked_for) {
    LZ_NEEDS_GPUS(3);
    run_child("LAZULI_TRANSFER=automatic", "Automatic");
}

TEST(Semantics, S07_0_dim_cpu_tensors_go_with_gpu_operands) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::full({3}, 2.0, {.device = kGpu1});
    const Tensor a = lz::tensor(10.0), b = lz::tensor(100.0);
    lz::sync();
    const Tensor scaled = x * a + b;
    EXPECT_EQ(lz::explain(scaled).find("transfer"), std::string::npos) << "arguments of the kernel";
    EXPECT_EQ(floats(scaled), std::vector<float>(3, 120));
    const Tensor pending = lz::ones({4}).sum(); // not known when the graph is compiled
    EXPECT_EQ(floats(lz::where(x > a, x, pending) * b), std::vector<float>(3, 400));
    const Tensor on_gpu = lz::ones({2}, {.device = kGpu0}).sum().cpu();
    EXPECT_EQ(floats(x + on_gpu), std::vector<float>(3, 4));
    EXPECT_EQ((on_gpu + x).device(), kGpu1);
}

TEST(Semantics, S07_0_dim_cpu_tensors_that_get_axes_go_with_gpu_operands_too) {
    LZ_NEEDS_GPUS(2);
    Tensor x = lz::arange(3, {.dtype = lz::f32, .device = kGpu1});
    const Tensor at = lz::tensor(1), weight = lz::tensor(0.5), eight = lz::tensor(8.0);
    for (const bool pending : {false, true}) { // known when the graph is compiled, and not
        SCOPED_TRACE(pending);
        const Tensor i = pending ? lz::ones({2}, {.dtype = lz::i64}).sum() : at + 1;
        if (!pending)
            lz::sync();
        EXPECT_EQ(floats(x.at({i})), std::vector<float>{2});
        EXPECT_EQ(floats(lz::take(x, i)), std::vector<float>{2});
        EXPECT_EQ(floats(lz::index_select(x, 0, i)), std::vector<float>{2});
        EXPECT_EQ(floats(lz::gather(x, 0, i)), std::vector<float>{2});
        EXPECT_EQ(floats(lz::scatter(x, 0, i, eight)), (std::vector<float>{0, 1, 8}));
        const Tensor both = lz::stack({i.to(lz::f32), x.select(0, 1)});
        EXPECT_EQ(both.device(), kGpu1);
        EXPECT_EQ(floats(both), (std::vector<float>{2, 1}));
        EXPECT_EQ(floats(lz::lerp(x, x + i, weight)), (std::vector<float>{1, 2, 3}));
    }
    x.at({at}) = eight;
    EXPECT_EQ(floats(x), (std::vector<float>{0, 8, 2}));
    x.at(x > 1) = weight;
    EXPECT_EQ(x.device(), kGpu1);
    EXPECT_EQ(floats(x), (std::vector<float>{0, 0.5, 0.5}));
}

TEST(Semantics, S07_copies_go_between_any_two_devices) {
    LZ_NEEDS_GPUS(3);
    const Tensor x = lz::arange(6, {.dtype = lz::f32});
    Tensor y = lz::zeros({6}, {.device = kGpu2});
    y.copy_(x);
    EXPECT_EQ(y.device(), kGpu2);
    EXPECT_EQ(floats(y), floats(x));
    Tensor z = lz::zeros({2, 6}, {.dtype = lz::f64, .device = kGpu1});
    z.copy_(y);
    EXPECT_EQ(z.device(), kGpu1);
    EXPECT_EQ(z.dtype(), lz::f64);
    EXPECT_EQ(floats(z.at({1})), floats(x));
    z.at({0}).copy_(x * 2); // into a part
    EXPECT_EQ(floats(z.at({0})), floats(x * 2));
    EXPECT_EQ(floats(z.at({1})), floats(x));
}

TEST(Semantics, S07_peers_may_be_mixed_while_access_is_enabled) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::full({5}, 1.0, {.device = kGpu0}), y = lz::full({5}, 2.0, {.device = kGpu1});
    lz::sync();
    lz::cuda::enable_peer_access(kGpu0, kGpu1);
    const Tensor z = x + y;
    EXPECT_EQ(z.device(), kGpu0);
    EXPECT_EQ(floats(z), std::vector<float>(5, 3));
    lz::cuda::disable_peer_access(kGpu0, kGpu1);
    EXPECT_THROW(floats(x + y), lz::DeviceError);
}

TEST(Semantics, S44_backward_of_operands_of_peers_runs_where_the_forward_did) {
    LZ_NEEDS_GPUS(2);
    lz::cuda::enable_peer_access(kGpu0, kGpu1);
    for (const auto &[name, function] :
         {std::pair<const char *, lz::Tensor (*)(const lz::Tensor &, const lz::Tensor &)>{
              "maximum", [](const lz::Tensor &a, const lz::Tensor &b) { return lz::maximum(a, b); }},
          {"minimum", [](const lz::Tensor &a, const lz::Tensor &b) { return lz::minimum(a, b); }},
          {"atan2", [](const lz::Tensor &a, const lz::Tensor &b) { return lz::atan2(a, b); }},
          {"pow", [](const lz::Tensor &a, const lz::Tensor &b) { return lz::pow(a, b); }}}) {
        const auto gradients = [&](const lz::Device &first, const lz::Device &second) {
            lz::Tensor x = lz::full({3}, 0.5, {.device = first}).requires_grad_();
            lz::Tensor y = lz::full({3}, 2.0, {.device = second}).requires_grad_();
            function(x, y).sum().backward();
            return std::pair(floats(x.grad()), floats(y.grad()));
        };
        EXPECT_EQ(gradients(kGpu0, kGpu1), gradients(lz::Device::cpu(), lz::Device::cpu())) << name;
    }
    lz::cuda::disable_peer_access(kGpu0, kGpu1);
}

TEST(Semantics, S07_peer_access_has_a_direction) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::full({5}, 1.0, {.device = kGpu0}), y = lz::full({5}, 2.0, {.device = kGpu1});
    lz::sync();
    lz::cuda::enable_peer_access(kGpu0, kGpu1); // cuda:0 may use memory of cuda:1
    EXPECT_EQ(floats(x + y), std::vector<float>(5, 3)) << "it runs on cuda:0";
    const Caught other = caught<lz::DeviceError>([&] { floats(y + x); });
    EXPECT_TRUE(other.has("operands are on different devices")) << other.what;
    EXPECT_TRUE(other.has("enable_peer_access(\"cuda:1\", \"cuda:0\")")) << other.what;
    // Copies go either way.
    EXPECT_EQ(floats(x.cuda(1) + y), std::vector<float>(5, 3));
    EXPECT_EQ(floats(y.cuda(0) + x), std::vector<float>(5, 3));
    lz::cuda::enable_peer_access(kGpu1, kGpu0);
    EXPECT_EQ(floats(y + x), std::vector<float>(5, 3));
    lz::cuda::disable_peer_access(kGpu0, kGpu1);
    EXPECT_EQ(floats(y + x), std::vector<float>(5, 3));
    EXPECT_THROW(floats(x + y), lz::DeviceError);
    lz::cuda::disable_peer_access(kGpu1, kGpu0);
    EXPECT_THROW(floats(y + x), lz::DeviceError);
}

TEST(Semantics, S07_a_number_on_the_cpu_is_written_to_a_part_on_a_gpu) {
    Tensor w = lz::zeros({4}, {.device = kGpu0});
    const Tensor s = lz::tensor(3.0f).clone(), v = lz::arange(3).to(lz::f32);
    lz::sync();
    w.at({1}) = s;
    w.at({2}) = v.select(0, 2);
    EXPECT_EQ(floats(w), (std::vector<float>{0, 3, 2, 0}));
}

TEST(Semantics, S08_moving_to_where_it_is_gives_the_tensor_itself) {
    LZ_NEEDS_GPUS(3);
    const Tensor x = lz::ones({64}, {.device = kGpu1});
    lz::sync();
    const int64_t before = lz::memory_allocated(kGpu1);
    EXPECT_TRUE(x.cuda(1).same_tensor(x));
    EXPECT_TRUE(x.to(kGpu1).same_tensor(x));
    EXPECT_TRUE(x.to(kGpu1, {.non_blocking = true}).same_tensor(x));
    EXPECT_TRUE(x.to(kGpu1, lz::f32).same_tensor(x));
    EXPECT_EQ(lz::memory_allocated(kGpu1), before);
    Tensor moved = x.cuda(2);
    EXPECT_FALSE(moved.same_tensor(x));
    moved += 1;
    EXPECT_EQ(x.device(), kGpu1);
    EXPECT_EQ(floats(x), std::vector<float>(64, 1));
    EXPECT_EQ(floats(moved), std::vector<float>(64, 2));
    EXPECT_TRUE(x.is_cuda());
    EXPECT_EQ(x.get_device(), 1);
    EXPECT_FALSE(x.cpu().is_cuda());
    EXPECT_EQ(x.cpu().get_device(), -1);
}

} // namespace
