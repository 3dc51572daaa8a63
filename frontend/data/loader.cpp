// The threads of a DataLoader.
#include "lazuli/data/loader.h"

#include "lazuli/autograd.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <system_error>
#include <thread>

namespace lz::data {

DataLoaderError::DataLoaderError(const std::string &message, int64_t batch, int64_t index,
                                 std::exception_ptr cause, Location loc)
    : Error(message, loc), batch_(batch), index_(index), cause_(std::move(cause)) {}
DataLoaderError::~DataLoaderError() = default;

namespace detail {

void rethrow_from(int64_t batch, int64_t index, Location loc) {
    const std::exception_ptr cause = std::current_exception();
    std::string what = "something that is no std::exception was thrown";
    try {
        std::rethrow_exception(cause);
    } catch (const DataLoaderError &) {
        throw;
    } catch (const std::exception &error) {
        what = error.what();
    } catch (...) {
    }
    const std::string where =
        index >= 0 ? fmt::format("example {} of batch {}", index, batch) : fmt::format("batch {}", batch);
    throw DataLoaderError(fmt::format("DataLoader: {} cannot be had: {}", where, what), batch, index, cause,
                          loc);
}

void check_options(const DataLoaderOptions &options, bool stream, Location loc) {
    const auto wrong = [&](const std::string &what) { throw IndexError("DataLoader: " + what, loc); };
    if (options.batch_size < 1)
        wrong(fmt::format("batches of {} examples", options.batch_size()));
    if (options.num_workers < 0)
        wrong(fmt::format("{} workers", options.num_workers()));
    if (options.prefetch_factor < 1)
        wrong(fmt::format("a worker is at least 1 batch ahead, not {}", options.prefetch_factor()));
    if (options.max_jobs < 0)
        wrong(fmt::format("{} jobs at most", options.max_jobs()));
    if (!(options.timeout >= 0) || !std::isfinite(options.timeout()))
        wrong(fmt::format("a timeout of {} s", options.timeout()));
    if (options.timeout > 0 && options.num_workers == 0)
        throw StateError("DataLoader: without workers nobody can stop waiting: a timeout needs num_workers",
                         loc);
    if (stream && (options.shuffle || options.sampler || options.batch_sampler))
        throw StateError(
            "DataLoader: a stream has its own order; shuffle and samplers need a set with get(index)", loc);
    if (options.shuffle && options.sampler)
        throw StateError("DataLoader: shuffle and a sampler exclude each other", loc);
    if (options.batch_sampler &&
        (options.shuffle || options.sampler || options.drop_last || options.batch_size != 1))
        throw StateError(
            "DataLoader: a batch sampler takes the place of batch_size, shuffle, sampler and drop_last", loc);
}

std::shared_ptr<BatchSampler> batch_sampler_of(const DataLoaderOptions &options, int64_t size, Location loc) {
    if (options.batch_sampler)
        return options.batch_sampler;
    std::shared_ptr<Sampler> sampler = options.sampler;
    if (!sampler && options.shuffle)
        sampler = std::make_shared<RandomSampler>(size);
    else if (!sampler)
        sampler = std::make_shared<SequentialSampler>(size);
    return std::make_shared<BatchSampler>(std::move(sampler), options.batch_size(), options.drop_last(), loc);
}

namespace {
using Clock = std::chrono::steady_clock;
}

struct Epoch::State {
    Make make;
    Pull pull;
    int64_t batches = 0; ///< -1: until `pull` says so
    int64_t ahead = 0;
    double timeout = 0;
    bool gradients = true; ///< whether history is kept, on whichever thread a batch is made
    Location loc;

    std::mutex pulling; ///< taken before `mutex`; held while a number is taken and pulled
    std::mutex mutex;
    std::condition_variable made, taken;
    // Under `mutex`:
    struct Result {
        std::shared_ptr<void> batch;
        std::exception_ptr error;
    };
    std::map<int64_t, Result> ready;
    int64_t next_made = 0, next_taken = 0;
    bool stop = false;
    int running = 0;

    std::vector<std::thread> threads; ///< of the thread that iterates

    std::chrono::duration<double> wait() const { return std::chrono::duration<double>(timeout); }

    /// The number of a batch to make; -1 when there is no more. What pulling throws is that batch's.
    int64_t take_number() {
        const std::lock_guard order(pulling);
        int64_t number = 0;
        {
            std::unique_lock lock(mutex);
            taken.wait(lock, [&] { return stop || next_made < next_taken + ahead; });
            if (stop || (batches >= 0 && next_made >= batches))
                return -1;
            number = next_made++;
        }
        if (!pull)
            return number;
        Result end;
        try {
            if (pull(number))
                return number;
        } catch (...) {
            end.error = std::current_exception();
        }
        put(number, std::move(end), true);
        return -1;
    }
    void put(int64_t number, Result result, bool last) {
        const std::lock_guard lock(mutex);
        ready.emplace(number, std::move(result));
        if (last)
            batches = next_made;
        made.notify_all();
        taken.notify_all();
    }
    void work() {
        const AutoGradMode mode(gradients);
        for (int64_t number = take_number(); number >= 0; number = take_number()) {
            Result result;
            try {
                result.batch = make(number);
            } catch (...) {
                result.error = std::current_exception();
            }
            put(number, std::move(result), false);
        }
        const std::lock_guard lock(mutex);
        --running;
        made.notify_all();
    }
    void end() {
        {
            const std::lock_guard lock(mutex);
            stop = true;
            taken.notify_all();
        }
        bool all_ended = true;
        if (timeout > 0) {
            std::unique_lock lock(mutex);
            all_ended = made.wait_for(lock, wait(), [&] { return running == 0; });
        }
        for (std::thread &thread : threads) {
            if (all_ended)
                thread.join();
            else
                thread.detach(); // has a share of this state, and of all that it uses
        }
        threads.clear();
    }
};

Epoch::Epoch(const DataLoaderOptions &options, int64_t batches, Make make, Pull pull, Location loc)
    : state_(std::make_shared<State>()) {
    State &state = *state_;
    state.make = std::move(make);
    state.pull = std::move(pull);
    state.batches = batches;
    state.ahead = options.max_jobs > 0 ? options.max_jobs()
                                       : static_cast<int64_t>(options.num_workers) * options.prefetch_factor;
    state.timeout = options.timeout;
    state.gradients = GradMode::is_enabled();
    state.loc = loc;
    for (int i = 0; i < options.num_workers; ++i) {
        {
            const std::lock_guard lock(state.mutex);
            ++state.running;
        }
        try {
            state.threads.emplace_back([shared = state_] { shared->work(); });
        } catch (const std::system_error &error) {
            {
                const std::lock_guard lock(state.mutex);
                --state.running;
            }
            state.end();
            throw StateError(fmt::format("DataLoader: worker {} of {} got no thread: {}", i + 1,
                                         options.num_workers(), error.what()),
                             loc);
        }
    }
}

Epoch::~Epoch() {
    state_->end();
}

std::shared_ptr<void> Epoch::next() {
    State &state = *state_;
    if (state.threads.empty()) {
        if (state.stop || (state.batches >= 0 && state.next_made >= state.batches))
            return nullptr;
        const AutoGradMode mode(state.gradients);
        const int64_t number = state.next_made++;
        try {
            if (state.pull && !state.pull(number)) {
                state.stop = true;
                return nullptr;
            }
            return state.make(number);
        } catch (...) {
            state.stop = true;
            throw;
        }
    }
    State::Result result;
    {
        std::unique_lock lock(state.mutex);
        if (state.stop || (state.batches >= 0 && state.next_taken >= state.batches))
            return nullptr;
        const auto there = [&] { return state.ready.contains(state.next_taken); };
        if (state.timeout == 0) {
            state.made.wait(lock, there);
        } else if (!state.made.wait_for(lock, state.wait(), there)) {
            throw StateError(
                fmt::format("DataLoader: batch {} was not made within {} s; its workers are busy or "
                            "wait for ever",
                            state.next_taken, state.timeout),
                state.loc);
        }
        const auto found = state.ready.find(state.next_taken);
        result = std::move(found->second);
        state.ready.erase(found);
        ++state.next_taken;
        state.stop = state.stop || result.error;
        state.taken.notify_all();
    }
    if (result.error)
        std::rethrow_exception(result.error);
    return result.batch;
}

} // namespace detail
} // namespace lz::data
