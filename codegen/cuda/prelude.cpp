#include "codegen/cuda/prelude.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <vector>

namespace lz::codegen::cuda {

namespace {

/// A piece of the prelude: what is written where one of its names is used. Pieces use earlier ones only.
struct Piece {
    std::string_view names; ///< words, a space between each two
    std::string_view text;
};

constexpr Piece kPieces[] = {
    {"Unsigned", R"(template <int bytes> struct UnsignedOf;
template <> struct UnsignedOf<1> { using type = unsigned char; };
template <> struct UnsignedOf<2> { using type = unsigned short; };
template <> struct UnsignedOf<4> { using type = unsigned; };
template <> struct UnsignedOf<8> { using type = unsigned long long; };
template <class T> using Unsigned = typename UnsignedOf<sizeof(T)>::type;
)"},
    // Integers wrap.
    {"add",
     R"(template <class T> __device__ __forceinline__ T add(T x, T y) { return (T)((Unsigned<T>)x + (Unsigned<T>)y); }
)"},
    {"subtract",
     R"(template <class T> __device__ __forceinline__ T subtract(T x, T y) { return (T)((Unsigned<T>)x - (Unsigned<T>)y); }
)"},
    {"multiply",
     R"(template <class T> __device__ __forceinline__ T multiply(T x, T y) { return (T)(1u * (Unsigned<T>)x * (Unsigned<T>)y); }
)"},
    {"negate",
     R"(template <class T> __device__ __forceinline__ T negate(T x) { return (T)(0u - (Unsigned<T>)x); }
)"},
    {"absolute",
     R"(template <class T> __device__ __forceinline__ T absolute(T x) { return x < 0 ? negate(x) : x; }
)"},
    // The divisor is not 0; the lowest value by -1 is the lowest value again.
    {"divide", R"(template <class T> __device__ __forceinline__ T divide(T x, T y) {
    return (T)-1 < (T)0 && y == (T)-1 ? negate(x) : (T)(x / y);
}
)"},
    {"remainder", R"(template <class T> __device__ __forceinline__ T remainder(T x, T y) {
    return (T)-1 < (T)0 && y == (T)-1 ? (T)0 : (T)(x % y);
}
)"},
    // Amounts past the width, as unsigned, shift everything out.
    {"shift_left", R"(template <class T> __device__ __forceinline__ T shift_left(T x, T by) {
    return (Unsigned<T>)by < 8 * sizeof(T) ? (T)((Unsigned<T>)x << (Unsigned<T>)by) : (T)0;
}
)"},
    {"shift_right", R"(template <class T> __device__ __forceinline__ T shift_right(T x, T by) {
    return (T)((Unsigned<T>)by < 8 * sizeof(T) ? x >> (Unsigned<T>)by : x < 0 ? -1 : 0);
}
)"},
    {"shift_logical", R"(template <class T> __device__ __forceinline__ T shift_logical(T x, T by) {
    return (Unsigned<T>)by < 8 * sizeof(T) ? (T)((Unsigned<T>)x >> (Unsigned<T>)by) : (T)0;
}
)"},
    // NaN if either is, and -0 is less than +0; so the instructions of one, and of two halves.
    {"minimum",
     R"(template <class T> __device__ __forceinline__ T minimum(T x, T y) { return x < y ? x : y; }
__device__ __forceinline__ float minimum(float x, float y) {
    float z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
__device__ __forceinline__ double minimum(double x, double y) { return x != x || y != y ? x + y : fmin(x, y); }
)"},
    {"maximum",
     R"(template <class T> __device__ __forceinline__ T maximum(T x, T y) { return x > y ? x : y; }
__device__ __forceinline__ float maximum(float x, float y) {
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
__device__ __forceinline__ double maximum(double x, double y) { return x != x || y != y ? x + y : fmax(x, y); }
)"},
    // x * 2^y for whole y, rounded once: the first product is exact. The low bits of the sum are y and twice
    // the bias, and its high bits are shifted out.
    {"scale_by_power", R"(__device__ __forceinline__ float scale_by_power(float x, float y) {
    const int k = __float_as_int(y + 12583166.0f), half = k >> 1;
    return x * __int_as_float(half << 23) * __int_as_float((k - half) << 23);
}
__device__ __forceinline__ double scale_by_power(double x, double y) {
    const int k = __double2loint(y + 6755399441057790.0), half = k >> 1;
    return x * __hiloint2double(half << 20, 0) * __hiloint2double((k - half) << 20, 0);
}
)"},
    // Where the sum is there already.
    {"scale_by_sum", R"(__device__ __forceinline__ float scale_by_sum(float x, float sum) {
    const int k = __float_as_int(sum), half = k >> 1;
    return x * __int_as_float(half << 23) * __int_as_float((k - half) << 23);
}
)"},
    {"from_half", R"(__device__ __forceinline__ float from_half(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
)"},
    {"to_half", R"(__device__ __forceinline__ unsigned short to_half(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
)"},
    {"from_bfloat",
     R"(__device__ __forceinline__ float from_bfloat(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
)"},
    {"to_bfloat", R"(__device__ __forceinline__ unsigned short to_bfloat(float x) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
)"},
    // Two halves, the first one below.
    {"to_halves", R"(__device__ __forceinline__ unsigned to_halves(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
)"},
    {"to_bfloats", R"(__device__ __forceinline__ unsigned to_bfloats(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
)"},
    // Of a number that a bfloat is.
    {"upper_half",
     R"(__device__ __forceinline__ unsigned short upper_half(float x) { return (unsigned short)(__float_as_uint(x) >> 16); }
)"},
    // To the nearest half and back; the instruction for two makes the float that the upper one is.
    {"round_half", R"(__device__ __forceinline__ float round_half(float x) {
    float y;
    asm("{\n.reg .b16 h;\ncvt.rn.f16.f32 h, %1;\ncvt.f32.f16 %0, h;\n}" : "=f"(y) : "f"(x));
    return y;
}
)"},
    {"round_bfloat", R"(__device__ __forceinline__ float round_bfloat(float x) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(x), "f"(0.0f));
    return __uint_as_float(bits);
}
)"},
    // Two halves at a time, each rounded once. A product and 1, -1 or -0 make sums and products of the one
    // instruction that all architectures have.
    {"add_halves", R"(__device__ __forceinline__ unsigned add_halves(unsigned x, unsigned y) {
    unsigned z;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(0x3c003c00u), "r"(y));
    return z;
}
)"},
    {"subtract_halves", R"(__device__ __forceinline__ unsigned subtract_halves(unsigned x, unsigned y) {
    unsigned z;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(y), "r"(0xbc00bc00u), "r"(x));
    return z;
}
)"},
    {"multiply_halves", R"(__device__ __forceinline__ unsigned multiply_halves(unsigned x, unsigned y) {
    unsigned z;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(y), "r"(0x80008000u));
    return z;
}
)"},
    {"maximum_halves", R"(__device__ __forceinline__ unsigned maximum_halves(unsigned x, unsigned y) {
    unsigned z;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}
)"},
    {"minimum_halves", R"(__device__ __forceinline__ unsigned minimum_halves(unsigned x, unsigned y) {
    unsigned z;
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}
)"},
    {"negate_halves",
     R"(__device__ __forceinline__ unsigned negate_halves(unsigned x) { return x ^ 0x80008000u; }
)"},
    {"absolute_halves",
     R"(__device__ __forceinline__ unsigned absolute_halves(unsigned x) { return x & 0x7fff7fffu; }
)"},
    {"add_bfloats", R"(__device__ __forceinline__ unsigned add_bfloats(unsigned x, unsigned y) {
    unsigned z;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(0x3f803f80u), "r"(y));
    return z;
}
)"},
    {"subtract_bfloats", R"(__device__ __forceinline__ unsigned subtract_bfloats(unsigned x, unsigned y) {
    unsigned z;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(y), "r"(0xbf80bf80u), "r"(x));
    return z;
}
)"},
    {"multiply_bfloats", R"(__device__ __forceinline__ unsigned multiply_bfloats(unsigned x, unsigned y) {
    unsigned z;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(y), "r"(0x80008000u));
    return z;
}
)"},
    {"maximum_bfloats", R"(__device__ __forceinline__ unsigned maximum_bfloats(unsigned x, unsigned y) {
    unsigned z;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}
)"},
    {"minimum_bfloats", R"(__device__ __forceinline__ unsigned minimum_bfloats(unsigned x, unsigned y) {
    unsigned z;
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}
)"},
    {"negate_bfloats",
     R"(__device__ __forceinline__ unsigned negate_bfloats(unsigned x) { return x ^ 0x80008000u; }
)"},
    {"absolute_bfloats",
     R"(__device__ __forceinline__ unsigned absolute_bfloats(unsigned x) { return x & 0x7fff7fffu; }
)"},
    // Conversions to integers saturate, and NaN becomes 0.
    {"to_int", R"(__device__ __forceinline__ int to_int(float x) { return __float2int_rz(x); }
__device__ __forceinline__ int to_int(double x) { return x == x ? __double2int_rz(x) : 0; }
)"},
    {"to_long",
     R"(__device__ __forceinline__ long long to_long(float x) { return x == x ? __float2ll_rz(x) : 0; }
__device__ __forceinline__ long long to_long(double x) { return x == x ? __double2ll_rz(x) : 0; }
)"},
    {"clamp",
     R"(__device__ __forceinline__ int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
)"},
    {"Fault", R"(struct Fault {
    int code;
    unsigned source;
    long long value, limit;
};
)"},
    {"report", R"(// The first failure of a check is kept.
__device__ __forceinline__ void report(Fault *fault, int code, unsigned source, long long value, long long limit) {
    if (atomicCAS(&fault->code, 0, code) == 0) {
        fault->source = source;
        fault->value = value;
        fault->limit = limit;
    }
}
)"},
    {"check_index",
     R"(__device__ __forceinline__ long long check_index(Fault *fault, unsigned source, long long index, long long extent, bool counts = true) {
    const bool good = (unsigned long long)index < (unsigned long long)extent;
    if (!good && counts)
        report(fault, 1, source, index, extent);
    return good ? index : 0;
}
)"},
    {"check_nonzero",
     R"(template <class T> __device__ __forceinline__ T check_nonzero(Fault *fault, unsigned source, T x, bool counts = true) {
    if (x == 0 && counts)
        report(fault, 2, source, 0, 0);
    return x == 0 ? (T)1 : x;
}
)"},
    {"Packet", R"(// Neighbours in memory.
template <class T, int n, bool words = (sizeof(T) < 4 && n * sizeof(T) % 4 == 0 && (T)1 != (T)2)>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Packet {
    T v[n];
    __device__ __forceinline__ T at(int e) const { return v[e]; }
    __device__ __forceinline__ void set(int e, T x) { v[e] = x; }
};
)"},
    {"Words", R"(template <int bytes> struct WordOf { using type = uint4; };
template <> struct WordOf<8> { using type = uint2; };
template <> struct WordOf<4> { using type = unsigned; };
template <> struct WordOf<2> { using type = unsigned short; };
template <> struct WordOf<1> { using type = unsigned char; };
// The largest words that a packet is made of.
template <class P> struct Words {
    using Word = typename WordOf<sizeof(P)>::type;
    static const int count = sizeof(P) / sizeof(Word);
};
)"},
    // Several lie in a register, until each is used: no packet is waited for before all are under way.
    {"char short", R"(template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Packet<T, n, true> {
    static const int in_word = 4 / sizeof(T), bits = 8 * sizeof(T);
    unsigned w[n / in_word];
    __device__ __forceinline__ T at(int e) const { return (T)(w[e / in_word] >> bits * (e % in_word)); }
    // In the order of e.
    __device__ __forceinline__ void set(int e, T x) {
        const unsigned all = w[e / in_word], own = (Unsigned<T>)x;
        w[e / in_word] = e % in_word == 0 ? own : all & (1u << bits * (e % in_word)) - 1 | own << bits * (e % in_word);
    }
};
)"},
    {"load", R"(template <int n, class T> __device__ __forceinline__ Packet<T, n> load(const T *from) {
    using W = Words<Packet<T, n>>;
    Packet<T, n> x;
#pragma unroll
    for (int w = 0; w < W::count; ++w)
        ((typename W::Word *)&x)[w] = ((const typename W::Word *)from)[w];
    return x;
}
)"},
    {"load_each", R"(// Of `count` elements that are there those that a packet holds; 0 for others.
template <int n, class T, class Index> __device__ __forceinline__ Packet<T, n> load_each(const T *from, Index count) {
    Packet<T, n> x;
#pragma unroll
    for (int e = 0; e < n; ++e)
        x.set(e, e < count ? from[e] : T());
    return x;
}
)"},
    {"load_some",
     R"(template <int n, class T, class Index> __device__ __forceinline__ Packet<T, n> load_some(const T *from, Index count) {
    return count >= n ? load<n>(from) : load_each<n>(from, count);
}
)"},
    {"store",
     R"(template <bool streaming, class T, int n> __device__ __forceinline__ void store(T *to, const Packet<T, n> &x) {
    using W = Words<Packet<T, n>>;
#pragma unroll
    for (int w = 0; w < W::count; ++w) {
        const typename W::Word word = ((const typename W::Word *)&x)[w];
        if constexpr (streaming)
            __stcs((typename W::Word *)to + w, word);
        else
            ((typename W::Word *)to)[w] = word;
    }
}
)"},
    {"store_past", R"(// Past the cache.
template <class T> __device__ __forceinline__ void store_past(T *to, T x) { store<true>(to, Packet<T, 1>{x}); }
)"},
    {"store_each", R"(template <bool streaming, class T, int n, class Index>
__device__ __forceinline__ void store_each(T *to, const Packet<T, n> &x, Index count) {
#pragma unroll
    for (int e = 0; e < n; ++e)
        if (e < count)
            to[e] = x.at(e);
}
)"},
    {"store_some", R"(template <bool streaming, class T, int n, class Index>
__device__ __forceinline__ void store_some(T *to, const Packet<T, n> &x, Index count) {
    if (count >= n)
        store<streaming>(to, x);
    else
        store_each<streaming>(to, x, count);
}
)"},
    {"Found", R"(// An extreme value and where it is.
template <class T> struct Found {
    T value;
    long long index;
};
)"},
    {"Sum", R"(struct Sum {
    __device__ float operator()(float x, float y) const { return x + y; }
    __device__ double operator()(double x, double y) const { return x + y; }
    template <class T> __device__ T operator()(T x, T y) const { return add(x, y); }
};
)"},
    {"Product", R"(struct Product {
    __device__ float operator()(float x, float y) const { return x * y; }
    __device__ double operator()(double x, double y) const { return x * y; }
    template <class T> __device__ T operator()(T x, T y) const { return multiply(x, y); }
};
)"},
    {"Largest",
     R"(struct Largest { template <class T> __device__ T operator()(T x, T y) const { return maximum(x, y); } };
)"},
    {"Smallest",
     R"(struct Smallest { template <class T> __device__ T operator()(T x, T y) const { return minimum(x, y); } };
)"},
    {"Any", R"(struct Any { __device__ bool operator()(bool x, bool y) const { return x || y; } };
)"},
    {"All", R"(struct All { __device__ bool operator()(bool x, bool y) const { return x && y; } };
)"},
    // NaN is the extreme; of equals the first.
    {"first_of",
     R"(template <class T> __device__ __forceinline__ Found<T> first_of(Found<T> x, Found<T> y, bool beyond) {
    const bool first = x.index <= y.index, nan_x = x.value != x.value, nan_y = y.value != y.value;
    const bool take_x = nan_x || nan_y ? nan_x && (!nan_y || first) : x.value == y.value ? first : beyond;
    return take_x ? x : y;
}
)"},
    {"FirstLargest", R"(struct FirstLargest {
    template <class T> __device__ Found<T> operator()(Found<T> x, Found<T> y) const { return first_of(x, y, x.value > y.value); }
};
)"},
    {"FirstSmallest", R"(struct FirstSmallest {
    template <class T> __device__ Found<T> operator()(Found<T> x, Found<T> y) const { return first_of(x, y, x.value < y.value); }
};
)"},
    {"row_memory", R"(extern __shared__ __align__(16) unsigned char row_memory[];
)"},
    {"in_block", R"(// Where a block of the cluster has what this one has at that place in its shared memory.
template <class T> __device__ __forceinline__ T *in_block(T *mine, int rank) {
    return (T *)__cluster_map_shared_rank(mine, rank);
}
)"},
    {"sync_cluster", R"(__device__ __forceinline__ void sync_cluster() {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
}
)"},
    // Sixteen threads, half a warp, hold the lanes of a fold; of short rows fewer.
    {"neighbours", R"(template <int threads> __device__ __forceinline__ unsigned neighbours() {
    return (1u << threads) - 1 << (threadIdx.x & 32 - threads);
}
)"},
    {"from_right", R"(template <int threads, class T> __device__ __forceinline__ T from_right(T x, int by) {
    if constexpr (sizeof(T) < 4)
        return (T)__shfl_down_sync(neighbours<threads>(), (int)x, by, threads);
    else
        return __shfl_down_sync(neighbours<threads>(), x, by, threads);
}
)"},
    {"Found",
     R"(template <int threads, class T> __device__ __forceinline__ Found<T> from_right(Found<T> x, int by) {
    return {from_right<threads>(x.value, by), from_right<threads>(x.index, by)};
}
)"},
    {"from_first", R"(template <int threads, class T> __device__ __forceinline__ T from_first(T x) {
    if constexpr (sizeof(T) < 4)
        return (T)__shfl_sync(neighbours<threads>(), (int)x, 0, threads);
    else
        return __shfl_sync(neighbours<threads>(), x, 0, threads);
}
)"},
    {"Found",
     R"(template <int threads, class T> __device__ __forceinline__ Found<T> from_first(Found<T> x) {
    return {from_first<threads>(x.value), from_first<threads>(x.index)};
}
)"},
    {"fold_lanes",
     R"(// Lane i becomes op(lane i, lane i + h) for h halving down to 1; every thread gets lane 0. A thread holds
// `together` neighbours, and above them those of later rounds.
template <class Op, int together, int threads = 16, int n, class T>
__device__ __forceinline__ T fold_lanes(T (&lane)[n]) {
#pragma unroll
    for (int h = n / 2; h >= together; h /= 2)
#pragma unroll
        for (int e = 0; e < h; ++e)
            lane[e] = Op()(lane[e], lane[e + h]);
#pragma unroll
    for (int h = threads / 2; h > 0; h /= 2)
#pragma unroll
        for (int e = 0; e < together; ++e)
            lane[e] = Op()(lane[e], from_right<threads>(lane[e], h));
#pragma unroll
    for (int h = together / 2; h > 0; h /= 2)
#pragma unroll
        for (int e = 0; e < h; ++e)
            lane[e] = Op()(lane[e], lane[e + h]);
    return from_first<threads>(lane[0]);
}
)"},
    {"fold_own_lanes",
     R"(// The same of a thread that has all lanes with a value; one more of the others would change nothing.
template <class Op, int n, class T> __device__ __forceinline__ T fold_own_lanes(T (&lane)[n]) {
#pragma unroll
    for (int h = n / 2; h > 0; h /= 2)
#pragma unroll
        for (int e = 0; e < h; ++e)
            lane[e] = Op()(lane[e], lane[e + h]);
    return lane[0];
}
)"},
    {"fold_list", R"(// Folds results of chunks, at most 1024 of them, as a chunk.
template <class Op, int n, class T, class Empty>
__device__ __forceinline__ T fold_list(const T *list, int count, Empty empty) {
    T lane[n];
#pragma unroll
    for (int e = 0; e < n; ++e)
        lane[e] = empty;
    for (int k = (int)(threadIdx.x % 16) * n; k < count; k += 16 * n)
#pragma unroll
        for (int e = 0; e < n; ++e)
            if (k + e < count)
                lane[e] = Op()(lane[e], list[k + e]);
    return fold_lanes<Op, n>(lane);
}
)"},
    {"fold_long_list", R"(// The same of at most 16 * n times as many.
template <class Op, int n, class T, class Empty>
__device__ __forceinline__ T fold_long_list(const T *list, int count, Empty empty) {
    if (count <= 1024)
        return fold_list<Op, n>(list, count, empty);
    T lane[n];
#pragma unroll
    for (int e = 0; e < n; ++e)
        lane[e] = empty;
    for (int j = 0; j * 1024 < count; ++j) {
        const T part = fold_list<Op, n>(list + j * 1024, min(1024, count - j * 1024), empty);
#pragma unroll
        for (int e = 0; e < n; ++e)
            if (j == (int)(threadIdx.x % 16) * n + e)
                lane[e] = Op()(lane[e], part);
    }
    return fold_lanes<Op, n>(lane);
}
)"},
};

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

} // namespace

bool uses(std::string_view text, std::string_view word) {
    for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
        const size_t end = at + word.size();
        if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
            return true;
    }
    return false;
}

namespace {

bool uses_any(std::string_view text, std::string_view names) {
    while (!names.empty()) {
        const size_t end = std::min(names.find(' '), names.size());
        if (uses(text, names.substr(0, end)))
            return true;
        names.remove_prefix(std::min(end + 1, names.size()));
    }
    return false;
}

} // namespace

std::string prelude_for(std::string_view text) {
    std::vector<bool> taken(std::size(kPieces));
    for (size_t i = std::size(kPieces); i-- > 0;) {
        taken[i] = uses_any(text, kPieces[i].names);
        for (size_t user = i + 1; user < std::size(kPieces) && !taken[i]; ++user)
            taken[i] = taken[user] && uses_any(kPieces[user].text, kPieces[i].names);
    }
    std::string prelude;
    for (size_t i = 0; i < std::size(kPieces); ++i)
        if (taken[i])
            prelude += kPieces[i].text;
    return prelude;
}

} // namespace lz::codegen::cuda
