// The cache on disk: files that are checked, bounded and shared between processes.
#include "cache_support.h"
#include "codegen/cache/disk_cache.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

class DiskCacheTest : public lz::test::CacheDirectory {
protected:
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

    std::vector<std::string> log_;
};

TEST_F(DiskCacheTest, WhatIsStoredIsFoundByAnotherProcessesCache) {
    open().store(bytes("key"), bytes("content"));
    DiskCache other = open();
    EXPECT_EQ(text(other.find(bytes("key")).value()), "content");
    EXPECT_FALSE(other.find(bytes("another key")).has_value());
    EXPECT_TRUE(log_.empty());
}

TEST_F(DiskCacheTest, ADamagedFileIsRemovedAndMadeAgain) {
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

TEST_F(DiskCacheTest, AFileUnderAnotherKeysNameIsNotBelieved) {
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

TEST_F(DiskCacheTest, TheOldestGoWhenTheLimitIsPassed) {
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

TEST_F(DiskCacheTest, ADirectoryThatCannotBeMadeIsSaidOnceAndDoneWithout) {
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

TEST_F(DiskCacheTest, ProcessesThatShareADirectoryNeverReadHalfAFile) {
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

TEST_F(DiskCacheTest, ADirectoryThatOthersCanWriteIsNotUsed) {
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

TEST_F(DiskCacheTest, ADirectoryThatOthersCouldReplaceIsNotUsed) {
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

TEST_F(DiskCacheTest, WhatItMakesIsForThisUserAlone) {
    const mode_t before = ::umask(0);
    DiskCache cache((directory_ / "a" / "b").string(), 1 << 20, {});
    cache.store(bytes("key"), bytes("content"));
    ::umask(before);
    for (const auto &entry : fs::recursive_directory_iterator(directory_))
        EXPECT_EQ(static_cast<unsigned>(entry.status().permissions()) & 077u, 0u) << entry.path();
    EXPECT_TRUE(cache.find(bytes("key")).has_value());
}

TEST_F(DiskCacheTest, ADirectoryOrFileOfAnotherUserIsNotUsed) {
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

TEST_F(DiskCacheTest, WhateverStandsInTheWayOfAnEntryDoesNotStopComputing) {
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

TEST_F(DiskCacheTest, ALimitOfFilesDoesNotEndTheProcess) {
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

TEST_F(DiskCacheTest, ADirectoryThatCannotBeWrittenIsReadAndThatIsSaidOnce) {
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

TEST_F(DiskCacheTest, ADirectoryThatIsGoneIsDoneWithout) {
    DiskCache cache = open();
    fs::remove_all(directory_);
    cache.store(bytes("key"), bytes("content"));
    EXPECT_FALSE(cache.find(bytes("key")).has_value());
    EXPECT_EQ(log_.size(), 1u);
}

} // namespace
