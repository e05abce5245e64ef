// The cells: a proposal and its adjoint (Eqs. 1-5, 7, 9), element-wise over any type V with arithmetic, sigmoid() and tanh().
// V is a vector of events on a CPU and one float on a GPU. A cell fills at most four products of a unit, so an engine need not know which
// it runs: the LSTM's are i, f, g, o; the GRU's are r, z, and the input and recurrent halves of n. The products are of torch's stacked
// rows of weights: through x, the first `rows` products are of one row each, in order; through h, product g is of row_of_h(g), or of none.
#pragma once

#ifdef __CUDACC__
#define PHASED_METHOD __device__ __forceinline__
#else
#define PHASED_METHOD inline __attribute__((always_inline))
#endif

namespace phased {

struct Lstm {
  static constexpr const char* name = "lstm";
  static constexpr int rows = 4;
  static constexpr int kept = 6;  // i, f, g, o, c before, tanh(c~)
  static constexpr int carry = 1;  // which of them multiplies the state: f
  static constexpr bool has_c = true;
  static constexpr PHASED_METHOD int row_of_h(int g) { return g; }

  // Without peepholes the output gate need not wait for c~.
  template <bool Peephole, class V>
  static PHASED_METHOD void propose(const V a[4], V, V c, const V w[3], V& new_h, V& new_c, V keep[kept]) {
    V i = sigmoid(Peephole ? a[0] + w[0] * c : a[0]), f = sigmoid(Peephole ? a[1] + w[1] * c : a[1]), g = tanh(a[2]);
    new_c = f * c + i * g;
    V o = sigmoid(Peephole ? a[3] + w[2] * new_c : a[3]), squashed = tanh(new_c);  // with peepholes the output gate sees c~
    new_h = o * squashed;
    keep[0] = i, keep[1] = f, keep[2] = g, keep[3] = o, keep[4] = c, keep[5] = squashed;
  }

  // From the gradients to the gated h and c: those to the four products (a), to h and c before, to k and to the peepholes.
  template <class V>
  static PHASED_METHOD void adjoint(const V keep[kept], V h, V k, V to_h, V to_c, const V w[3], V a[4], V& to_h_before, V& to_c_before,
                                      V& to_k, V to_w[3]) {
    V i = keep[0], f = keep[1], g = keep[2], o = keep[3], c = keep[4], squashed = keep[5];
    V new_c = f * c + i * g;
    to_k = to_h * (o * squashed - h) + to_c * (new_c - c);
    V to_new_h = k * to_h;
    a[3] = to_new_h * squashed * o * (1 - o);
    V to_new_c = k * to_c + to_new_h * o * (1 - squashed * squashed) + a[3] * w[2];
    a[0] = to_new_c * g * i * (1 - i);
    a[1] = to_new_c * c * f * (1 - f);
    a[2] = to_new_c * i * (1 - g * g);
    to_h_before = (1 - k) * to_h;
    to_c_before = (1 - k) * to_c + to_new_c * f + a[0] * w[0] + a[1] * w[1];
    to_w[0] = a[0] * c, to_w[1] = a[1] * c, to_w[2] = a[3] * new_c;
  }
};

struct Gru {
  static constexpr const char* name = "gru";
  static constexpr int rows = 3;
  static constexpr int kept = 4;  // r, z, n, recurrent half of n
  static constexpr int carry = 1;  // z
  static constexpr bool has_c = false;
  static constexpr PHASED_METHOD int row_of_h(int g) { return g < 2 ? g : g == 3 ? 2 : -1; }  // -1: none

  template <bool Peephole, class V>
  static PHASED_METHOD void propose(const V a[4], V h, V c, const V[3], V& new_h, V& new_c, V keep[kept]) {
    V r = sigmoid(a[0]), z = sigmoid(a[1]), n = tanh(a[2] + r * a[3]);
    new_h = (1 - z) * n + z * h;
    new_c = c;
    keep[0] = r, keep[1] = z, keep[2] = n, keep[3] = a[3];
  }

  template <class V>
  static PHASED_METHOD void adjoint(const V keep[kept], V h, V k, V to_h, V to_c, const V[3], V a[4], V& to_h_before, V& to_c_before,
                                      V& to_k, V to_w[3]) {
    V r = keep[0], z = keep[1], n = keep[2], half = keep[3];
    to_k = to_h * ((1 - z) * n + z * h - h);
    V to_new_h = k * to_h;
    a[2] = to_new_h * (1 - z) * (1 - n * n);
    a[3] = a[2] * r;
    a[1] = to_new_h * (h - n) * z * (1 - z);
    a[0] = a[2] * half * r * (1 - r);
    to_h_before = (1 - k) * to_h + to_new_h * z;
    to_c_before = to_c;
    to_w[0] = to_w[1] = to_w[2] = to_c - to_c;
  }
};

}  // namespace phased
