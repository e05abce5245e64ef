// Vectors the size of a register, by the compiler's own vector types. Wider ones would compile too, but GCC keeps them in memory.
#pragma once

#include <cstdint>
#include <cstring>

#include "layout.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__clang__)
#define PHASED_SHUFFLE(a, b, index) shuffle4(a, b, index)
#else
#define PHASED_SHUFFLE(a, b, index) __builtin_shuffle(a, b, index)
#endif
#define PHASED_LAMBDA __attribute__((always_inline))
#define PHASED_INLINE inline __attribute__((always_inline))

namespace phased {
namespace {  // every instruction set compiles its own copy: nothing here may be shared between them by the linker

template <class T, int N>
struct VectorOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <class T, int N>
using Vector = typename VectorOf<T, N>::type;

#if defined(__AVX512F__)
constexpr int kRegister = 64;  // bytes
#elif defined(__AVX__)
constexpr int kRegister = 32;
#else
constexpr int kRegister = 16;
#endif

template <class T>
constexpr int kWide = kRegister / static_cast<int>(sizeof(T));  // elements of a row that go through a product together
template <class T> constexpr int kEvents = kWide<T> < kLanes ? kWide<T> : kLanes;  // events that go through a cell together
template <class T> using Events = Vector<T, kEvents<T>>;
template <class T> using Row = Vector<T, kWide<T>>;

// Sums kept in registers at once by the loops over a row: enough to hide the latency of a multiplication, and no more than there
// are.
#if defined(__AVX512F__)
constexpr int kSpread = 4, kCollect = 4, kTall = 8, kUnits = 2;
#else
constexpr int kSpread = 8, kCollect = 2, kTall = 6, kUnits = 2;
#endif

template <int N>
struct Count {
  static constexpr int value = N;
};

// Calls work(Count<n>) for a number from 1 to Most that is known only now.
template <int Most, class Work>
PHASED_INLINE void with_count(int64_t n, const Work& work) {
  if constexpr (Most > 0) {
    if (n == Most) return work(Count<Most>());
    with_count<Most - 1>(n, work);
  }
}

template <class V, class T>
PHASED_INLINE V load(const T* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}

template <class V, class T>
PHASED_INLINE void store(T* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

// The first `lanes` elements, and zeros.
template <class V, class T>
PHASED_INLINE V load_some(const T* from, int64_t lanes) {
  if (lanes * sizeof(T) == sizeof(V)) return load<V>(from);
  V value = {};
  std::memcpy(&value, from, lanes * sizeof(T));
  return value;
}

template <class V, class T>
PHASED_INLINE void store_some(T* to, V value, int64_t lanes) {
  if (lanes * sizeof(T) == sizeof(V)) return store(to, value);
  std::memcpy(to, &value, lanes * sizeof(T));
}

template <class To, class From>
PHASED_INLINE To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

template <class T> struct Float;
template <> struct Float<float> {
  using Bits = int32_t;
  static constexpr int mantissa = 23, bias = 127, terms = 8;
  static constexpr float magic = 12582912.0f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f, limit = 40.0f;
};
template <> struct Float<double> {
  using Bits = int64_t;
  static constexpr int mantissa = 52, bias = 1023, terms = 14;
  static constexpr double magic = 6755399441055744.0, ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10,
                          limit = 80.0;
};

#if defined(__clang__)
template <class V, class Index>
PHASED_INLINE V shuffle4(V a, V b, Index index) {
  V result;
  for (int l = 0; l < 4; l++) result[l] = index[l] < 4 ? a[index[l]] : b[index[l] - 4];
  return result;
}
#endif

// The two halves of a vector added up.
template <class T, int N>
PHASED_INLINE Vector<T, N / 2> fold_halves(Vector<T, N> v) {
  Vector<T, N / 2> halves[2];
  std::memcpy(halves, &v, sizeof(v));
  return halves[0] + halves[1];
}

// The sums of four rows' lanes, together: pairs of rows are interleaved and added, so that columns of a 4 x 4 matrix are left.
template <class T>
PHASED_INLINE Vector<T, 4> four_sums(const Row<T> rows[4]) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __m512 a = (__m512)rows[0], b = (__m512)rows[1], c = (__m512)rows[2], d = (__m512)rows[3];
    const __m512d ab = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
    const __m512d cd = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
    const __m512 all = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
    return fold_halves<T, 8>(fold_halves<T, 16>((Row<T>)all));
  }
#elif defined(__AVX__)
  if constexpr (sizeof(T) == 4) {
    const __m256 a = (__m256)rows[0], b = (__m256)rows[1], c = (__m256)rows[2], d = (__m256)rows[3];
    const __m256d ab = _mm256_castps_pd(_mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)));
    const __m256d cd = _mm256_castps_pd(_mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d)));
    const __m256 all = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)), _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));
    return fold_halves<T, 8>((Row<T>)all);
  }
#endif
  if constexpr (kWide<T> == 2) {
    return Vector<T, 4>{rows[0][0] + rows[0][1], rows[1][0] + rows[1][1], rows[2][0] + rows[2][1], rows[3][0] + rows[3][1]};
  } else {
    using Four = Vector<T, 4>;
    using Index = Vector<typename Float<T>::Bits, 4>;
    Four part[4];
    for (int g = 0; g < 4; g++) {
      if constexpr (kWide<T> == 8) {
        part[g] = fold_halves<T, 8>(rows[g]);
      } else if constexpr (kWide<T> == 4) {
        part[g] = rows[g];
      }
    }
    const Index even = {0, 4, 2, 6}, odd = {1, 5, 3, 7}, low = {0, 1, 4, 5}, high = {2, 3, 6, 7};
    const Four left = PHASED_SHUFFLE(part[0], part[1], even) + PHASED_SHUFFLE(part[0], part[1], odd);
    const Four right = PHASED_SHUFFLE(part[2], part[3], even) + PHASED_SHUFFLE(part[2], part[3], odd);
    return PHASED_SHUFFLE(left, right, low) + PHASED_SHUFFLE(left, right, high);
  }
}

// x in [low, high]; a NaN stays one: of two operands, of which one is a NaN, these instructions give the second.
template <class V>
PHASED_INLINE V clamped(V x, V low, V high) {
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32 && sizeof(x[0]) == 4)
    return (V)_mm256_max_ps((__m256)low, _mm256_min_ps((__m256)high, (__m256)x));
  if constexpr (sizeof(V) == 32 && sizeof(x[0]) == 8)
    return (V)_mm256_max_pd((__m256d)low, _mm256_min_pd((__m256d)high, (__m256d)x));
#elif defined(__SSE2__)
  if constexpr (sizeof(x[0]) == 4) return (V)_mm_max_ps((__m128)low, _mm_min_ps((__m128)high, (__m128)x));
  if constexpr (sizeof(x[0]) == 8) return (V)_mm_max_pd((__m128d)low, _mm_min_pd((__m128d)high, (__m128d)x));
#endif
  x = x > high ? high : x;
  return x < low ? low : x;
}

// exp(x) - 1, exact to a few units in the last place for small x too; x beyond +-limit is as good as infinite for a sigmoid.
template <class T, int N, class V = Vector<T, N>>
PHASED_INLINE V expm1_of(V x) {
  using F = Float<T>;
  using I = Vector<typename F::Bits, N>;
  x = clamped(x, V{} - F::limit, V{} + F::limit);
  V shifted =
      x * static_cast<T>(1.44269504088896340736) + F::magic;  // adding 1.5 * 2**mantissa rounds to an integer, in the low bits
  V n = shifted - F::magic;
  V r = x - n * F::ln2_high - n * F::ln2_low;
  constexpr double inverse[] = {1.0,
                                1.0 / 2,
                                1.0 / 6,
                                1.0 / 24,
                                1.0 / 120,
                                1.0 / 720,
                                1.0 / 5040,
                                1.0 / 40320,
                                1.0 / 362880,
                                1.0 / 3628800,
                                1.0 / 39916800,
                                1.0 / 479001600,
                                1.0 / 6227020800.0,
                                1.0 / 87178291200.0,
                                1.0 / 1307674368000.0};
  // 1/2 + r/6 + r**2/24 + ..., pairs of terms first: half the way of one term after another.
  const V squared = r * r;
  V p = V{};
#pragma GCC unroll 16
  for (int term = F::terms - 1; term >= 1; term -= 2)
    p = p * squared + (static_cast<T>(inverse[term]) + r * static_cast<T>(inverse[term + 1]));
  p = p * squared + r;
  V scale = bits<V>((bits<I>(shifted) + F::bias) << F::mantissa);
  return p * scale + (scale - 1);
}

#define PHASED_FUNCTIONS(T)                                                                    \
  PHASED_INLINE Events<T> sigmoid(Events<T> x) { return 1 / (expm1_of<T, kEvents<T>>(-x) + 2); } \
  PHASED_INLINE Events<T> tanh(Events<T> x) {                                                  \
    Events<T> e = expm1_of<T, kEvents<T>>(x + x);                                              \
    return e / (e + 2);                                                                        \
  }
PHASED_FUNCTIONS(float)
PHASED_FUNCTIONS(double)
#undef PHASED_FUNCTIONS

constexpr int kDoubles = kEvents<double>;
using Doubles = Events<double>;

#if defined(__SSE2__) && !defined(__FMA__)
// The upper half of a number's digits.
PHASED_INLINE Doubles upper_half(Doubles a) {
  const Doubles spread = a * 134217729.0;  // 2**27 + 1
  return spread - (spread - a);
}
#endif

// t - whole * tau, rounded once, where `whole` is t / tau rounded to an integer.
PHASED_INLINE Doubles less_whole(Doubles whole, Doubles tau, Doubles t) {
#if defined(__AVX512F__)
  return (Doubles)_mm512_fnmadd_pd((__m512d)whole, (__m512d)tau, (__m512d)t);
#elif defined(__FMA__)
  return (Doubles)_mm256_fnmadd_pd((__m256d)whole, (__m256d)tau, (__m256d)t);
#elif defined(__SSE2__)
  // The product and its rounding error, exactly (Dekker 1971). The product is near t, so taking it off t is exact where the error
  // is not zero.
  const Doubles product = whole * tau, a = upper_half(whole), b = upper_half(tau), c = whole - a, d = tau - b;
  const Doubles error = ((a * b - product) + a * d + c * b) + c * d;
  return (t - product) - error;
#elif defined(__ARM_NEON) && defined(__aarch64__)
  return (Doubles)vfmsq_f64((float64x2_t)t, (float64x2_t)whole, (float64x2_t)tau);
#else
  Doubles result;
  for (int l = 0; l < kDoubles; l++) result[l] = __builtin_fma(-whole[l], tau[l], t[l]);
  return result;
#endif
}

// The floor of values below 2**51: adding 1.5 * 2**52 rounds to an integer.
PHASED_INLINE Doubles floor_of(Doubles x) {
  const double magic = Float<double>::magic;
  const Doubles nearest = (x + magic) - magic;
  return nearest > x ? nearest - 1 : nearest;
}

// The phases of some units (gate.h's `phase`), for times within Layer::near.
PHASED_INLINE Doubles phase_of(Doubles time, Doubles tau, Doubles offset) {
  Doubles rest = less_whole(floor_of(time / tau), tau, time);
  rest = rest < 0 ? rest + tau : rest;
  const Doubles cycles = (rest - offset) / tau, phi = cycles - floor_of(cycles);
  return phi >= 1 ? phi - 1 : phi;
}

// Which of eight units have a rough phase, the fraction of t * rate - lag, below their reach: one bit each.
PHASED_INLINE unsigned within_reach(const double* rate, const double* lag, const double* reach, double t) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  const __m512d cycles = _mm512_fmsub_pd(_mm512_set1_pd(t), _mm512_loadu_pd(rate), _mm512_loadu_pd(lag));
  const __m512d phi = _mm512_reduce_pd(cycles, _MM_FROUND_TO_NEG_INF);
  return _mm512_cmp_pd_mask(phi, _mm512_loadu_pd(reach), _CMP_LT_OQ);
#elif defined(__AVX2__) && defined(__FMA__)
  unsigned result = 0;
  for (int half = 0; half < 2; half++) {
    const __m256d cycles = _mm256_fmsub_pd(_mm256_set1_pd(t), _mm256_loadu_pd(rate + 4 * half), _mm256_loadu_pd(lag + 4 * half));
    const __m256d phi = _mm256_sub_pd(cycles, _mm256_floor_pd(cycles));
    result |= static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(phi, _mm256_loadu_pd(reach + 4 * half), _CMP_LT_OQ)))
              << (4 * half);
  }
  return result;
#else
  unsigned result = 0;
  for (int first = 0; first < kLanes; first += kDoubles) {
    const Doubles cycles = t * load<Doubles>(rate + first) - load<Doubles>(lag + first), phi = cycles - floor_of(cycles);
    const auto below = phi < load<Doubles>(reach + first);
#if defined(__SSE2__)
    result |= static_cast<unsigned>(_mm_movemask_pd((__m128d)below)) << first;
#else
    for (int l = 0; l < kDoubles; l++) result |= static_cast<unsigned>(below[l] & 1) << (first + l);
#endif
  }
  return result;
#endif
}

// Writes first + i for every bit i of `set` below 16, in order; returns their number. May write sixteen numbers.
PHASED_INLINE int64_t list_set(unsigned set, int32_t first, int32_t* to) {
#if defined(__AVX512F__)
  const __m512i from_zero = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i all = _mm512_add_epi32(_mm512_set1_epi32(first), from_zero);
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(set), all));
  return __builtin_popcount(set);
#else
  int64_t count = 0;
  for (; set; set &= set - 1) to[count++] = first + __builtin_ctz(set);
  return count;
#endif
}

}  // namespace
}  // namespace phased
