#pragma once
/// Objects of threads that may be asked for to the very end of the process.

#include <utility>

namespace lz::ir {

/// The calling thread's T: made when it is first asked for, destroyed when the thread ends. The main thread's
/// go before statics do; for what destructors of statics compute one is made anew, and left (S68).
template <class T>
T &per_thread() {
    thread_local T *mine = nullptr; // no destructor: it can be read at any time
    if (!mine) [[unlikely]] {
        struct Owner {
            ~Owner() { delete std::exchange(*thread, nullptr); }
            T **thread;
        };
        mine = new T;
        thread_local const Owner owner{&mine};
        (void)owner;
    }
    return *mine;
}

} // namespace lz::ir
