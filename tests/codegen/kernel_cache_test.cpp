// The kernel cache: one compile a kernel, files that are checked, bounded and shared between processes.
#include "codegen/cache/disk_cache.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/interpreter.h"
#include "runtime/cpu/backend.h"
#include "runtime/virtual/backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

namespace fs = std::filesystem;
using lz::codegen::DiskCache;

std::span<const std::byte> bytes(const std::string &text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text(const std::vector<std::byte> &b) {
    return {reinterpret_cast<const char *>(b.data()), b.size()};
}

/// A directory of the test's own, gone with it.
class CacheTest : public testing::Test {
protected:
    CacheTest()
        : directory_(fs::temp_directory_path() /
                     ("lazuli-cache-" + std::to_string(::getpid()) + "-" +
                      testing::UnitTest::GetInstance()->current_test_info()->name())) {
        fs::remove_all(directory_);
    }
    ~CacheTest() override { fs::remove_all(directory_); }

    DiskCache open(int64_t limit = 1 << 20) {
        return DiskCache(directory_.string(), limit,
                         [this](const std::string &line) { log_.push_back(line); });
    }
    std::vector<fs::path> files() const {
        std::vector<fs::path> found;
        for (const auto &entry : fs::directory_iterator(directory_))
            found.push_back(entry.path());
        return found;
    }
    void change(const fs::path &file, const std::function<void(std::string &)> &edit) {
        std::ifstream in(file, std::ios::binary);
        std::string content((std::istreambuf_iterator<char>(in)), {});
        in.close();
        edit(content);
        std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
    }

    fs::path directory_;
    std::vector<std::string> log_;
};

TEST_F(CacheTest, WhatIsStoredIsFoundByAnotherProcessesCache) {
    open().store(bytes("key"), bytes("content"));
    DiskCache other = open();
    EXPECT_EQ(text(other.find(bytes("key")).value()), "content");
    EXPECT_FALSE(other.find(bytes("another key")).has_value());
    EXPECT_TRUE(log_.empty());
}

TEST_F(CacheTest, ADamagedFileIsRemovedAndMadeAgain) {
    const std::vector<std::function<void(std::string &)>> damages = {
        [](std::string &s) { s[s.size() / 2] = static_cast<char>(s[s.size() / 2] ^ 1); }, // a bit turned
        [](std::string &s) { s.resize(s.size() / 2); },                                   // cut short
        [](std::string &s) { s.clear(); },                                                // empty
        [](std::string &s) { s[7] = '0'; },                                               // an older format
        [](std::string &s) { s += "more"; }, // longer than it says
    };
    for (const auto &damage : damages) {
        DiskCache cache = open();
        cache.store(bytes("key"), bytes("the content of a kernel"));
        ASSERT_EQ(files().size(), 1u);
        change(files()[0], damage);
        EXPECT_FALSE(cache.find(bytes("key")).has_value());
        EXPECT_TRUE(files().empty()) << "the damaged file is still there";
        cache.store(bytes("key"), bytes("new"));
        EXPECT_EQ(text(cache.find(bytes("key")).value()), "new");
        fs::remove_all(directory_);
    }
}

TEST_F(CacheTest, AFileUnderAnotherKeysNameIsNotBelieved) {
    DiskCache cache = open();
    cache.store(bytes("a"), bytes("content of a"));
    const fs::path a = files()[0];
    cache.store(bytes("b"), bytes("content of b"));
    for (const fs::path &file : files())
        if (file != a)
            fs::copy_file(a, file, fs::copy_options::overwrite_existing); // a collision of names
    EXPECT_FALSE(cache.find(bytes("b")).has_value());
    EXPECT_EQ(text(cache.find(bytes("a")).value()), "content of a");
}

TEST_F(CacheTest, TheOldestGoWhenTheLimitIsPassed) {
    DiskCache cache = open(40000);
    const std::string big(10000, 'x');
    for (int i = 0; i < 8; ++i) {
        const std::string key = "key " + std::to_string(i);
        cache.store(bytes(key), bytes(big));
        // Ages in files' times, without waiting for a clock: key 0 is kept young.
        for (const fs::path &file : files())
            fs::last_write_time(file, fs::last_write_time(file) - std::chrono::seconds(10));
        if (i > 0) {
            EXPECT_TRUE(cache.find(bytes("key 0")).has_value())
                << "used at every step, and gone at step " << i;
        }
    }
    int64_t total = 0;
    for (const fs::path &file : files())
        total += static_cast<int64_t>(fs::file_size(file));
    EXPECT_LE(total, 40000);
    EXPECT_FALSE(cache.find(bytes("key 1")).has_value());
    EXPECT_TRUE(cache.find(bytes("key 7")).has_value());
}

TEST_F(CacheTest, ADirectoryThatCannotBeMadeIsSaidOnceAndDoneWithout) {
    std::ofstream(directory_.string()) << "a file in the way";
    DiskCache cache = open();
    cache.store(bytes("key"), bytes("content"));
    cache.store(bytes("key"), bytes("content"));
    EXPECT_FALSE(cache.find(bytes("key")).has_value());
    ASSERT_EQ(log_.size(), 1u);
    EXPECT_NE(log_[0].find(directory_.string()), std::string::npos) << log_[0];
    std::string deep = directory_.string() + "-deep";
    while (deep.size() < 5000)
        deep += "/d";
    log_.clear();
    DiskCache(deep, 1 << 20, [this](const std::string &line) { log_.push_back(line); });
    EXPECT_EQ(log_.size(), 1u);
    EXPECT_FALSE(fs::exists(directory_.string() + "-deep")) << "none of it is made";
}

TEST_F(CacheTest, ProcessesThatShareADirectoryNeverReadHalfAFile) {
    const std::string content(20000, 'c');
    std::vector<pid_t> children;
    for (int process = 0; process < 4; ++process) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            DiskCache cache(directory_.string(), 100000, {});
            for (int round = 0; round < 60; ++round) {
                const std::string key = "key " + std::to_string((round + process) % 10);
                if (const auto found = cache.find(bytes(key)); found && text(*found) != key + content)
                    ::_exit(1);
                cache.store(bytes(key), bytes(key + content));
            }
            ::_exit(0);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = 0;
        ::waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

// --- what somebody else may have put there

TEST_F(CacheTest, ADirectoryThatOthersCanWriteIsNotUsed) {
    for (const mode_t mode : {0777, 0775, 01777}) {
        ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
        open().store(bytes("key"), bytes("planted"));
        ASSERT_EQ(::chmod(directory_.c_str(), mode), 0);
        log_.clear();
        DiskCache cache = open();
        EXPECT_FALSE(cache.find(bytes("key")).has_value());
        cache.store(bytes("another"), bytes("content"));
        EXPECT_FALSE(cache.find(bytes("another")).has_value());
        ASSERT_EQ(log_.size(), 1u) << "said once";
        EXPECT_NE(log_[0].find("others can write to"), std::string::npos) << log_[0];
        fs::remove_all(directory_);
    }
}

TEST_F(CacheTest, ADirectoryThatOthersCouldReplaceIsNotUsed) {
    const fs::path inner = directory_ / "cache";
    ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
    ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);
    const auto log = [this](const std::string &line) { log_.push_back(line); };
    {
        DiskCache cache(inner.string(), 1 << 20, log);
        cache.store(bytes("key"), bytes("content"));
        EXPECT_FALSE(cache.find(bytes("key")).has_value());
        EXPECT_EQ(log_.size(), 1u);
    }
    ASSERT_EQ(::chmod(directory_.c_str(), 01777), 0); // as /tmp: nobody renames what is not his
    DiskCache cache(inner.string(), 1 << 20, log);
    cache.store(bytes("key"), bytes("content"));
    EXPECT_TRUE(cache.find(bytes("key")).has_value());
    EXPECT_EQ(log_.size(), 1u);
}

TEST_F(CacheTest, WhatItMakesIsForThisUserAlone) {
    const mode_t before = ::umask(0);
    DiskCache cache((directory_ / "a" / "b").string(), 1 << 20, {});
    cache.store(bytes("key"), bytes("content"));
    ::umask(before);
    for (const auto &entry : fs::recursive_directory_iterator(directory_))
        EXPECT_EQ(static_cast<unsigned>(entry.status().permissions()) & 077u, 0u) << entry.path();
    EXPECT_TRUE(cache.find(bytes("key")).has_value());
}

TEST_F(CacheTest, ADirectoryOrFileOfAnotherUserIsNotUsed) {
    if (::geteuid() != 0)
        GTEST_SKIP() << "only root can give a file away";
    DiskCache cache = open();
    cache.store(bytes("key"), bytes("planted"));
    ASSERT_EQ(::chown(files()[0].c_str(), 65534, 65534), 0);
    EXPECT_FALSE(cache.find(bytes("key")).has_value());
    EXPECT_EQ(log_.size(), 1u);
    cache.store(bytes("key"), bytes("content"));
    EXPECT_EQ(text(cache.find(bytes("key")).value()), "content") << "ours took its place";
    ASSERT_EQ(::chown(directory_.c_str(), 65534, 65534), 0);
    log_.clear();
    DiskCache other = open();
    EXPECT_FALSE(other.find(bytes("key")).has_value());
    ASSERT_EQ(log_.size(), 1u);
    EXPECT_NE(log_[0].find("belongs to another user"), std::string::npos) << log_[0];
}

/// What may stand in an entry's place. Each takes the entry's path and that of a good copy of it.
struct InTheWay {
    const char *name;
    std::function<void(const fs::path &, const fs::path &)> put;
    bool stays = false; ///< and cannot be replaced
};
const InTheWay kInTheWay[] = {
    {"a file that others can write",
     [](const fs::path &entry, const fs::path &copy) {
         fs::copy_file(copy, entry);
         ::chmod(entry.c_str(), 0666);
     }},
    {"a link to a good file",
     [](const fs::path &entry, const fs::path &copy) { fs::create_symlink(copy, entry); }},
    {"a link to nothing",
     [](const fs::path &entry, const fs::path &) { fs::create_symlink("/nothing/here", entry); }},
    {"a link to itself", [](const fs::path &entry, const fs::path &) { fs::create_symlink(entry, entry); }},
    {"a link to a device that never ends",
     [](const fs::path &entry, const fs::path &) { fs::create_symlink("/dev/zero", entry); }},
    {"a pipe", [](const fs::path &entry, const fs::path &) { ::mkfifo(entry.c_str(), 0600); }},
    {"a directory", [](const fs::path &entry, const fs::path &) { fs::create_directory(entry); }},
    {"a directory with a file",
     [](const fs::path &entry, const fs::path &copy) {
         fs::create_directory(entry);
         fs::copy_file(copy, entry / "file");
     },
     true},
    {"a sparse file of a tebibyte",
     [](const fs::path &entry, const fs::path &copy) {
         fs::copy_file(copy, entry);
         fs::resize_file(entry, uintmax_t{1} << 40);
     }},
    {"a sparse file of a size that is believed",
     [](const fs::path &entry, const fs::path &) {
         std::ofstream(entry).close();
         fs::resize_file(entry, uintmax_t{50} << 20);
     }},
    {"a header that promises more than there is",
     [](const fs::path &entry, const fs::path &copy) {
         fs::copy_file(copy, entry);
         std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
         file.seekp(16);
         const uint64_t content = uint64_t{1} << 62;
         file.write(reinterpret_cast<const char *>(&content), sizeof content);
     }},
};

TEST_F(CacheTest, WhateverStandsInTheWayOfAnEntryDoesNotStopComputing) {
    for (const InTheWay &thing : kInTheWay) {
        SCOPED_TRACE(thing.name);
        log_.clear();
        {
            DiskCache cache = open();
            cache.store(bytes("key"), bytes("content"));
            const fs::path entry = files().at(0), copy = directory_ / "copy";
            fs::rename(entry, copy);
            thing.put(entry, copy);
            EXPECT_FALSE(cache.find(bytes("key")).has_value());
            cache.store(bytes("key"), bytes("new content"));
            const auto found = cache.find(bytes("key"));
            EXPECT_EQ(found.has_value(), !thing.stays);
            if (found) {
                EXPECT_EQ(text(*found), "new content");
            }
            EXPECT_LE(log_.size(), 1u);
            cache.store(bytes("another"), bytes("content of it"));
            EXPECT_EQ(text(cache.find(bytes("another")).value()), "content of it") << "others are not lost";
        }
        fs::remove_all(directory_);
    }
}

/// Whether `body` returns true in a child of its own, which its limits and rights die with.
template <class F>
bool holds_in_child(F &&body) {
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(body() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(CacheTest, ALimitOfFilesDoesNotEndTheProcess) {
    EXPECT_TRUE(holds_in_child([&] {
        const struct rlimit limit{4096, 4096};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        DiskCache cache = open();
        cache.store(bytes("large"), bytes(std::string(10000, 'x')));
        cache.store(bytes("small"), bytes("fits"));
        return !cache.find(bytes("large")) && text(cache.find(bytes("small")).value()) == "fits" &&
               log_.size() == 1 && files().size() == 1;
    }));
    EXPECT_TRUE(holds_in_child([&] {
        DiskCache cache = open();
        const struct rlimit limit{3, 3};
        ::setrlimit(RLIMIT_NOFILE, &limit);
        cache.store(bytes("key"), bytes("content"));
        cache.store(bytes("key"), bytes("content"));
        return !cache.find(bytes("key")) && log_.size() == 1;
    }));
}

TEST_F(CacheTest, ADirectoryThatCannotBeWrittenIsReadAndThatIsSaidOnce) {
    open().store(bytes("key"), bytes("content"));
    ASSERT_EQ(::chmod(files()[0].c_str(), 0644), 0);
    ASSERT_EQ(::chmod(directory_.c_str(), 0555), 0);
    EXPECT_TRUE(holds_in_child([&] {
        if (::geteuid() == 0 && ::setuid(65534) != 0) // what root prepared, nobody reads
            return false;
        DiskCache cache = open();
        cache.store(bytes("another"), bytes("content"));
        cache.store(bytes("another"), bytes("content"));
        return text(cache.find(bytes("key")).value()) == "content" && !cache.find(bytes("another")) &&
               log_.size() == 1 && log_[0].find("is not written") != std::string::npos;
    }));
    ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
}

TEST_F(CacheTest, ADirectoryThatIsGoneIsDoneWithout) {
    DiskCache cache = open();
    fs::remove_all(directory_);
    cache.store(bytes("key"), bytes("content"));
    EXPECT_FALSE(cache.find(bytes("key")).has_value());
    EXPECT_EQ(log_.size(), 1u);
}

// --- in memory

/// out = in to the power of `products` + 1.
lz::ir::Kernel square(int products = 1) {
    lz::ir::KernelBuilder b("square");
    const lz::ir::AxisId i = b.axis();
    const uint16_t out = b.buffer(lz::ir::DType::F32, lz::ir::BufferMode::Out);
    const uint16_t in = b.buffer(lz::ir::DType::F32, lz::ir::BufferMode::In);
    lz::ir::Phase &phase = b.begin_phase({i}, true);
    phase.on_cpu().block = b.arg(lz::ir::ArgRole::Block);
    const auto access = [&](uint16_t buffer) {
        lz::ir::Access a;
        a.buffer = buffer;
        a.strides = {{i, lz::ir::StrideClass::Contiguous, lz::ir::kNoArg}};
        return a;
    };
    const lz::ir::KValue x = b.load(access(in));
    lz::ir::KValue power = x;
    for (int i = 0; i < products; ++i)
        power = b.mul(power, x);
    b.store(access(out), power);
    b.end_phase();
    return b.take();
}

/// A cache with one compiler and one device to load for.
struct OneCache {
    explicit OneCache(lz::codegen::KernelCacheOptions options,
                      std::unique_ptr<lz::codegen::Compiler> with =
                          lz::codegen::make_llvm_compiler(lz::codegen::host_isa()),
                      lz::runtime::ModuleLoader loader = lz::codegen::host_loader())
        : compiler(std::move(with)), cpu(std::move(loader)), cache(std::move(options)) {}
    lz::codegen::CachedKernelPtr get(const lz::ir::Kernel &kernel) {
        return cache.get({&kernel, compiler.get(), &cpu});
    }
    std::unique_ptr<lz::codegen::Compiler> compiler;
    lz::runtime::CpuBackend cpu;
    lz::codegen::KernelCache cache;
};

/// The squares of 0 to 19, by code of `square`.
void expect_squares(const lz::codegen::CachedKernel &loaded) {
    const auto entry = reinterpret_cast<lz::ir::PhaseEntry>(loaded.module->entry(loaded.phases[0].symbol));
    alignas(64) float in[20], out[20];
    for (int i = 0; i < 20; ++i)
        in[i] = static_cast<float>(i);
    void *const buffers[] = {out, in};
    const int64_t args[] = {20, 20};
    lz::ir::Fault fault;
    const lz::ir::KernelFrame frame{buffers, args, nullptr, &fault, loaded.module->code()};
    entry(&frame, 0, 1, nullptr);
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(out[i], static_cast<float>(i * i));
}

TEST_F(CacheTest, AKernelIsCompiledOnceAndThenComesFromMemoryAndFromDisk) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    const lz::ir::Kernel kernel = square();
    {
        OneCache one(options);
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] { EXPECT_TRUE(one.get(kernel)); });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(one.cache.stats().compiled, 1);
        EXPECT_EQ(one.cache.stats().from_memory, 3);
    }
    OneCache one(options);
    const lz::codegen::CachedKernelPtr loaded = one.get(kernel);
    EXPECT_EQ(one.cache.stats().compiled, 0);
    EXPECT_EQ(one.cache.stats().from_disk, 1);
    expect_squares(*loaded);

    // Another version of compiler or ISA is another key: nothing of the first is used.
    lz::ir::CpuIsa other = lz::codegen::host_isa();
    other.vector_bytes = 16;
    other.features += ",-avx512vp2intersect";
    OneCache skewed(options, lz::codegen::make_llvm_compiler(other));
    skewed.get(kernel);
    EXPECT_EQ(skewed.cache.stats().compiled, 1);
}

TEST_F(CacheTest, TwoCodeGeneratorsHaveEntriesOfTheirOwnInOneCache) {
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    const lz::ir::Kernel kernel = square();
    const std::unique_ptr<lz::codegen::Compiler> interpreter = lz::codegen::make_interpreter();
    {
        OneCache one(options, lz::codegen::make_interpreter());
        expect_squares(*one.get(kernel));
        EXPECT_EQ(one.cache.stats().compiled, 1);
    }
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation, so no second code generator";
    OneCache one(options);
    const lz::codegen::CachedKernelPtr compiled = one.get(kernel);
    const lz::codegen::CachedKernelPtr interpreted = one.cache.get({&kernel, interpreter.get(), &one.cpu});
    EXPECT_NE(compiled->module, interpreted->module);
    EXPECT_EQ(one.cache.stats().compiled, 1);
    EXPECT_EQ(one.cache.stats().from_disk, 1) << "as any other entry";
    expect_squares(*compiled);
    expect_squares(*interpreted);
    EXPECT_EQ(one.cache.get({&kernel, interpreter.get(), &one.cpu}), interpreted);
}

/// Makes no code, and has rules for its launch.
class RuledCompiler final : public lz::codegen::Compiler {
public:
    const std::string &key() const override { return key_; }
    lz::ir::CompiledKernel compile(const lz::ir::Kernel &kernel) const override {
        lz::ir::CompiledKernel compiled;
        compiled.name = kernel.name;
        compiled.format = lz::ir::CodeFormat::Cubin;
        compiled.object.assign(5, std::byte{7});
        compiled.phases = {rules(), lz::ir::CompiledPhase{.symbol = "\n"}};
        return compiled;
    }
    static lz::ir::CompiledPhase rules() {
        using lz::ir::LaunchParameter, lz::ir::LaunchAlignment;
        return {.symbol = "any",
                .aligned = "aligned",
                .alignments = {{LaunchAlignment::Arg, 2, 300}, {LaunchAlignment::Buffer, 1, 1}},
                .parameters = {{LaunchParameter::Items, 4, 2, 70000}},
                .record_bytes = 40,
                .table_bytes = 4000,
                .threads = 1024,
                .shared_bytes = 200000,
                .most_blocks = 264};
    }

private:
    const std::string key_ = "rules";
};

TEST_F(CacheTest, RulesOfALaunchComeFromDiskAsTheyWereStored) {
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    for (const int from_disk : {0, 1}) {
        lz::ir::CompiledKernel seen;
        OneCache one(options, std::make_unique<RuledCompiler>(), [&](const lz::ir::CompiledKernel &kernel) {
            seen = kernel;
            return lz::codegen::load_interpreted(lz::codegen::make_interpreter()->compile(square()));
        });
        const lz::codegen::CachedKernelPtr loaded = one.get(square());
        EXPECT_EQ(one.cache.stats().from_disk, from_disk);
        ASSERT_EQ(loaded->phases.size(), 2U);
        EXPECT_EQ(loaded->phases[0], RuledCompiler::rules());
        EXPECT_EQ(loaded->phases[1], lz::ir::CompiledPhase{.symbol = "\n"});
        EXPECT_EQ(seen.format, lz::ir::CodeFormat::Cubin);
        EXPECT_EQ(seen.object, std::vector<std::byte>(5, std::byte{7}));
    }
}

TEST_F(CacheTest, WhatIsLoadedForOneKindOfDeviceIsNotGivenToAnother) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    lz::runtime::VirtualOptions two;
    two.count = 2;
    const auto gpus = lz::runtime::make_virtual_gpus(two, lz::codegen::host_loader());
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    OneCache one(options);
    const lz::ir::Kernel kernel = square();
    const lz::codegen::CachedKernelPtr cpu = one.get(kernel);
    const lz::codegen::CachedKernelPtr gpu = one.cache.get({&kernel, one.compiler.get(), gpus[0].get()});
    EXPECT_NE(cpu->module, gpu->module);
    EXPECT_EQ(one.cache.get({&kernel, one.compiler.get(), gpus[1].get()}), gpu);
    EXPECT_EQ(one.cache.stats().compiled, 1) << "the code is the same";
}

TEST_F(CacheTest, KernelsInMemoryAreBoundedAndThoseInUseStay) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    static std::atomic<int> loaded;
    loaded = 0;
    struct Counted final : lz::runtime::Module {
        explicit Counted(std::unique_ptr<Module> real) : module(std::move(real)) { ++loaded; }
        ~Counted() override { --loaded; }
        void *entry(const std::string &symbol) const override { return module->entry(symbol); }
        std::unique_ptr<Module> module;
    };
    lz::codegen::KernelCacheOptions options;
    options.max_in_memory = 8;
    OneCache cache(options, lz::codegen::make_llvm_compiler(lz::codegen::host_isa()),
                   [](const lz::ir::CompiledKernel &kernel) -> std::unique_ptr<lz::runtime::Module> {
                       return std::make_unique<Counted>(lz::codegen::cpu_loader()(kernel));
                   });
    // What a Program holds: of one the module alone.
    const lz::codegen::CachedKernelPtr held = cache.get(square(1));
    const std::shared_ptr<const lz::runtime::Module> module = cache.get(square(2))->module;
    for (int i = 3; i < 30; ++i) {
        cache.get(square(i));
        cache.get(square(5)); // used at every step
        EXPECT_LE(cache.cache.size(), 9u);
    }
    EXPECT_EQ(loaded, static_cast<int>(cache.cache.size())) << "the code of what is forgotten is unloaded";
    const auto compiled = [&](int products) {
        cache.cache.reset_stats();
        cache.get(square(products));
        return cache.cache.stats().compiled;
    };
    EXPECT_EQ(cache.get(square(1)), held);
    EXPECT_EQ(cache.get(square(2))->module, module);
    EXPECT_EQ(compiled(29), 0);
    EXPECT_EQ(compiled(5), 0) << "used last";
    EXPECT_EQ(compiled(3), 1) << "unused for longest";
    // More in use than the limit: none is forgotten, and none is looked for in vain each time.
    std::vector<lz::codegen::CachedKernelPtr> all;
    for (int i = 30; i < 60; ++i)
        all.push_back(cache.get(square(i)));
    for (int i = 30; i < 60; ++i)
        EXPECT_EQ(compiled(i), 0) << i;
    all.clear();
    for (int i = 60; i < 100; ++i)
        cache.get(square(i));
    EXPECT_LE(cache.cache.size(), 50u);
}

TEST_F(CacheTest, AKernelThatCannotBeLoadedIsToldByItsPlaceAndByTheNameThatWasGiven) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    std::vector<lz::ir::Kernel> kernels = {square(), square()};
    kernels[1].buffers[0].dtype = kernels[1].buffers[1].dtype = lz::ir::DType::F64;
    for (lz::ir::Instr &instr : kernels[1].instrs)
        instr.dtype = lz::ir::DType::F64;
    lz::codegen::KernelCacheOptions options;
    OneCache one(options, lz::codegen::make_llvm_compiler(lz::codegen::host_isa()),
                 [](const lz::ir::CompiledKernel &kernel) -> std::unique_ptr<lz::runtime::Module> {
                     if (kernel.name == "the first")
                         return lz::codegen::cpu_loader()(kernel);
                     throw lz::ir::Failure(lz::ir::ErrorKind::Compile, kernel.name + " is not wanted.");
                 });
    const lz::codegen::KernelRequest requests[] = {{&kernels[0], one.compiler.get(), &one.cpu},
                                                   {&kernels[1], one.compiler.get(), &one.cpu}};
    try {
        one.cache.get_all(requests, [](size_t r) { return r == 0 ? "the first" : "the second"; });
        FAIL() << "it was loaded";
    } catch (const lz::codegen::KernelFailure &failure) {
        EXPECT_EQ(failure.request(), 1u);
        EXPECT_EQ(failure.message(), "the second is not wanted.");
    }
    EXPECT_TRUE(one.cache.get_all(std::span(requests).first(1)).at(0)) << "the other one is there";
}

} // namespace
