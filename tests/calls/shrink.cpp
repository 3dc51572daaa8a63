// A smaller program that is wrong alike.
#include "generate.h"

#include <fmt/format.h>

namespace lz::test::calls {

namespace {

class Shrinker {
public:
    Shrinker(Program program, const std::function<bool(const Program &)> &fails)
        : best_(std::move(program)), fails_(fails) {}

    Program run() {
        if (best_.again) { // once may be enough
            Program candidate = best_;
            candidate.again = false;
            accept(std::move(candidate));
        }
        for (bool better = true; better;) {
            better = drop_statements();
            better |= make_smaller();
        }
        return std::move(best_);
    }

private:
    bool accept(Program candidate) {
        if (tries_ >= 1500 || !fails_(candidate))
            return ++tries_, false;
        ++tries_;
        best_ = std::move(candidate);
        return true;
    }

    /// Runs of statements, then single ones, the last first.
    bool drop_statements() {
        bool better = false;
        for (size_t length = std::max<size_t>(best_.statements.size() / 2, 1);; length /= 2) {
            for (size_t end = best_.statements.size(); end >= length && end > 0; --end) {
                Program candidate = best_;
                const auto first = candidate.statements.begin() + static_cast<std::ptrdiff_t>(end - length);
                candidate.statements.erase(first, first + static_cast<std::ptrdiff_t>(length));
                better |= accept(std::move(candidate));
                end = std::min(end, best_.statements.size() + 1);
            }
            if (length <= 1)
                break;
        }
        return better;
    }

    bool make_smaller() {
        bool better = false;
        for (size_t k = 0; k < best_.statements.size(); ++k)
            for (size_t z = 0; z < best_.statements[k].sizes.size(); ++z)
                for (size_t a = 0; a < best_.statements[k].sizes[z].size(); ++a)
                    for (const int64_t less : {int64_t{1}, int64_t{2}, best_.statements[k].sizes[z][a] / 2}) {
                        const int64_t extent = best_.statements[k].sizes[z][a];
                        if (less >= extent)
                            continue;
                        // Here, or everywhere at once.
                        Program everywhere = best_, here = best_;
                        here.statements[k].sizes[z][a] = less;
                        for (Statement &s : everywhere.statements)
                            for (Extents &sizes : s.sizes)
                                for (int64_t &e : sizes)
                                    e = e == extent ? less : e;
                        better |= accept(std::move(everywhere)) || accept(std::move(here));
                    }
        for (size_t k = 0; k < best_.statements.size(); ++k)
            for (const uint64_t seed : {2u, 3u}) { // palettes of small numbers
                if (best_.statements[k].seed <= 8 || best_.statements[k].row->text != "DATA")
                    break;
                Program candidate = best_;
                candidate.statements[k].seed = seed;
                better |= accept(std::move(candidate));
            }
        return better;
    }

    Program best_;
    const std::function<bool(const Program &)> &fails_;
    int tries_ = 0;
};

} // namespace

Program shrink(const Program &program, const std::function<bool(const Program &)> &fails) {
    return Shrinker(program, fails).run();
}

std::string report(const Program &program, const std::string &what,
                   const std::function<std::string(const Program &)> &run) {
    // Up to the statement's number the same complaint: what is smaller and wrong otherwise is another
    // mistake.
    const auto kind = [](const std::string &text) {
        const size_t at = text.find(": ");
        return text.substr(at == std::string::npos ? 0 : at, 12);
    };
    const Program small = shrink(program, [&](const Program &p) { return kind(run(p)) == kind(what); });
    return fmt::format("seed {}: {}\nshrunk: {}\n{}", program.seed, what, run(small), print(small));
}

} // namespace lz::test::calls
