#include <lazuli/data.h>
#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <zlib.h>

namespace {

namespace data = lz::data;
using lz::Tensor;
using testing::HasSubstr;

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "lazuli-data-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }
    const std::string &path() const { return path_; }

private:
    std::string path_;
};

void write(const std::string &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}
void write_packed(const std::string &path, const std::string &bytes) {
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
}
template <class F>
std::string io_error(F &&f) {
    try {
        f();
    } catch (const lz::IoError &error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
}

TEST(Idx, AShapeWithoutElementsMayNotOverflowEither) {
    const Folder folder;
    const std::string path = folder / "x";
    std::string file("\0\0\x0b\4\0\0\0\0", 8); // i16 of [0, ...]
    write(path, file + std::string(12, 'R'));
    EXPECT_THAT(io_error([&] { (void)data::read_idx(path); }), HasSubstr("more elements than"));
    write(path, file + std::string("\0\0\0\3\0\0\0\2\0\0\0\1", 12));
    EXPECT_EQ(data::read_idx(path).sizes(), (lz::Sizes{0, 3, 2, 1}));
}

TEST(Csv, ColumnsHaveTypes) {
    const data::CsvTable table = data::parse_csv("\xef\xbb\xbf"
                                                 "id,price,name,ok,\"a \"\"b\"\"\"\r\n"
                                                 "1, 2.5 ,\"x, y\",true,+7\r\n"
                                                 "\r\n"
                                                 "-2,,\"two\nlines\",false,8\n"
                                                 "3,1e400,NA,true,9");
    EXPECT_EQ(table.rows(), 3);
    EXPECT_EQ(table.names(), (std::vector<std::string>{"id", "price", "name", "ok", "a \"b\""}));
    EXPECT_EQ(table.dtype("id"), lz::i64);
    EXPECT_EQ(table.dtype("price"), lz::f64);
    EXPECT_EQ(table.dtype("name"), std::nullopt);
    EXPECT_EQ(table.dtype("ok"), lz::boolean);
    EXPECT_EQ(table.column("id").to_vector<int64_t>(), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(table.column("a \"b\"").to_vector<int64_t>(), (std::vector<int64_t>{7, 8, 9}));
    const std::vector<double> prices = table.column("price").to_vector<double>();
    EXPECT_EQ(prices[0], 2.5);
    EXPECT_TRUE(std::isnan(prices[1]));
    EXPECT_EQ(prices[2], INFINITY);
    EXPECT_EQ(table.text("name"), (std::vector<std::string>{"x, y", "two\nlines", ""}));
    EXPECT_EQ(table.column("ok").to_vector<bool>(), (std::vector<bool>{true, false, true}));
    const auto [codes, values] = table.categories("name");
    EXPECT_EQ(values, (std::vector<std::string>{"two\nlines", "x, y"}));
    EXPECT_EQ(codes.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, -1}));
    const Tensor matrix = table.tensor({"id", "ok"});
    EXPECT_EQ(matrix.sizes(), (lz::Sizes{3, 2}));
    EXPECT_EQ(matrix.to_vector<float>(), (std::vector<float>{1, 1, -2, 0, 3, 1}));
    EXPECT_THROW((void)table.tensor(), lz::DTypeError);
    EXPECT_THROW((void)table.tensor({"price"}, lz::i64), lz::DTypeError);
    EXPECT_THROW((void)table.column("name"), lz::DTypeError);
    EXPECT_THROW((void)table.text("id"), lz::DTypeError);
    EXPECT_THROW((void)table.column("none"), lz::IndexError);
}

TEST(Csv, ReadsThePackedDigits) {
    const data::CsvTable table = data::read_csv(
        std::string(LAZULI_TEST_DATA) + "/../../examples/data/digits.csv.gz", {.header = false});
    EXPECT_EQ(table.rows(), 1797);
    EXPECT_EQ(table.names().size(), 65u);
    const Tensor labels = table.column("64");
    EXPECT_EQ(labels.dtype(), lz::i64);
    EXPECT_EQ(lz::amin(labels).item<int64_t>(), 0);
    EXPECT_EQ(lz::amax(labels).item<int64_t>(), 9);
    EXPECT_EQ(table.tensor({"0", "1"}, lz::u8).sizes(), (lz::Sizes{1797, 2}));
}

TEST(Csv, DamagedFilesSayTheLine) {
    const Folder folder;
    const std::string path = folder / "x.csv";
    const auto error_of = [&](const std::string &text, const data::CsvOptions &options = {}) {
        write(path, text);
        return io_error([&] { (void)data::read_csv(path, options); });
    };
    EXPECT_THAT(error_of("a,b\n1,2\n3\n"),
                HasSubstr("x.csv\", line 3: it has 1 fields, and there are 2 columns"));
    EXPECT_THAT(error_of("a,b\n1,\"2\n3\n"), HasSubstr("line 2: a quoted field does not end"));
    EXPECT_THAT(error_of("a,b\n1,\"2\"3\n"), HasSubstr("line 2: something follows"));
    EXPECT_THAT(error_of("a,a\n1,2\n"), HasSubstr("two columns are named \"a\""));
    EXPECT_THAT(error_of("a\n1234567890\n", {.max_bytes = 5}), HasSubstr("more than 5 bytes"));
    write_packed(path, std::string(100000, 'x'));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    EXPECT_THAT(io_error([&] { (void)data::read_csv(path); }), HasSubstr("cut short"));
    EXPECT_THAT(io_error([&] { (void)data::read_csv(folder / "none.csv"); }), HasSubstr("No such file"));
    EXPECT_EQ(data::parse_csv("").rows(), 0);
    EXPECT_EQ(data::parse_csv("a,b\n").rows(), 0);
    EXPECT_EQ(data::parse_csv("a;b\n'x;''y';2\n", {.delimiter = ';', .quote = '\''}).text("a")[0], "x;'y");
}

std::string idx(char type, std::vector<uint32_t> extents, const std::string &bytes) {
    std::string out{0, 0, type, static_cast<char>(extents.size())};
    for (const uint32_t extent : extents)
        for (int shift = 24; shift >= 0; shift -= 8)
            out += static_cast<char>(extent >> shift);
    return out + bytes;
}

TEST(Images, Mnist) {
    const Folder folder;
    std::string pixels(3 * 28 * 28, '\0');
    pixels[28 * 28 + 5] = '\xff';
    write_packed(folder / "train-images-idx3-ubyte.gz", idx(8, {3, 28, 28}, pixels));
    write(folder / "train-labels-idx1-ubyte", idx(8, {3}, std::string("\5\0\4", 3)));
    const data::MNIST set(folder.path());
    EXPECT_EQ(set.size(), 3);
    EXPECT_EQ(set.images().sizes(), (lz::Sizes{3, 1, 28, 28}));
    EXPECT_EQ(set.targets().to_vector<int64_t>(), (std::vector<int64_t>{5, 0, 4}));
    EXPECT_EQ(set.images().to_vector<float>()[28 * 28 + 5], 1);
    EXPECT_EQ(set.images().sum().item<float>(), 1);
    for (auto [x, y] : data::DataLoader(set, {.batch_size = 2, .drop_last = true}))
        EXPECT_EQ(x.sizes(), (lz::Sizes{2, 1, 28, 28}));
    EXPECT_THAT(io_error([&] { data::MNIST(folder.path(), false); }),
                HasSubstr("t10k-images-idx3-ubyte\": No such"));
    write(folder / "train-labels-idx1-ubyte", idx(8, {2}, std::string("\5\0", 2)));
    EXPECT_THAT(io_error([&] { data::MNIST m(folder.path()); }), HasSubstr("no label for each of 3 images"));
}

TEST(Images, DamagedIdxFiles) {
    const Folder folder;
    const std::string path = folder / "x";
    const auto error_of = [&](const std::string &bytes) {
        write(path, bytes);
        return io_error([&] { (void)data::read_idx(path); });
    };
    EXPECT_THAT(error_of("ab"), HasSubstr("its first number would have 4 bytes, and 2 are there"));
    EXPECT_THAT(error_of("abcd"), HasSubstr("0x61626364, which is no IDX file"));
    EXPECT_THAT(error_of(idx(8, {2, 2}, "123")), HasSubstr("its elements would have 4 bytes, and 3"));
    EXPECT_THAT(error_of(idx(8, {2, 2}, "12345")), HasSubstr("more bytes follow"));
    EXPECT_THAT(error_of(idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, "1")), HasSubstr("64-bit number"));
    EXPECT_THAT(error_of(idx(8, {0xffffffff}, "1")), HasSubstr("would have 4294967295 bytes, and 1"));
    write(path, idx(0x0d, {2}, std::string("\x3f\x80\0\0\xc0\0\0\0", 8)));
    EXPECT_EQ(data::read_idx(path).to_vector<float>(), (std::vector<float>{1, -2}));
}

TEST(Images, Cifar) {
    const Folder folder;
    std::string record(3072, '\0');
    record[1024] = '\xff'; // the first green pixel
    write(folder / "test_batch.bin", "\3" + record + "\7" + record);
    const data::CIFAR10 ten(folder.path(), false);
    EXPECT_EQ(ten.images().sizes(), (lz::Sizes{2, 3, 32, 32}));
    EXPECT_EQ(ten.targets().to_vector<int64_t>(), (std::vector<int64_t>{3, 7}));
    EXPECT_EQ(ten.images().to_vector<float>()[1024], 1);
    write(folder / "test.bin", std::string("\1\x63", 2) + record);
    EXPECT_EQ(data::CIFAR100(folder.path(), false).targets().to_vector<int64_t>(),
              (std::vector<int64_t>{99}));
    write(folder / "test_batch.bin", "\x0b" + record);
    EXPECT_THAT(io_error([&] { data::CIFAR10 bad(folder.path(), false); }),
                HasSubstr("the label 11; there are 10"));
    write(folder / "test_batch.bin", record);
    EXPECT_THAT(io_error([&] { data::CIFAR10 bad(folder.path(), false); }), HasSubstr("not records of 3073"));
    EXPECT_THAT(io_error([&] { data::CIFAR10 bad(folder.path()); }), HasSubstr("data_batch_1.bin"));
}

} // namespace
