// Random convolutions over the inputs of a sequence: number of steps at which each convolution exceeds its thresholds. All
// numbers are integers, so the order of sums does not matter, and batches and online sequences give the same counts.
// phased/estimator/shares.py contains the same computation in NumPy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory.h"

namespace phased {

class Shares {
 public:
  static constexpr int64_t kTaps = 9, kMost = 3, kThresholds = 3;

  // column: column of each channel in a row of inputs (channels). dilation: (kernels), ascending. channel: (kernels, kMost),
  // padded with -1. Kernels of the same dilation are sorted by number of channels. tap: the three taps of weight 2 (kernels, 3).
  // Tap j reads the input j * dilation steps ago. threshold: (kThresholds, kernels).
  Shares(int64_t channels, int64_t kernels, const int32_t* column, const int32_t* dilation, const int32_t* channel,
         const int32_t* tap, const int32_t* threshold)
      : channels_(channels),
        kernels_(kernels),
        column_(column, channels),
        channel_(channel, kMost * kernels),
        tap_(tap, 3 * kernels),
        threshold_(threshold, kThresholds * kernels) {
    for (int64_t k = 0; k < kernels; k++) {
      if (!k || dilation[k] != dilation[k - 1]) banks_.push_back({dilation[k], {k, k, k, k}});
      const int32_t* own = channel + kMost * k;
      const int64_t read = kMost - std::count(own, own + kMost, -1);
      for (int64_t n = read; n <= kMost; n++) banks_.back().first[n] = k + 1;
    }
    if (kernels) length_ = (kTaps - 1) * dilation[kernels - 1] + 1;
  }

  int64_t features() const { return kThresholds * kernels_; }
  int64_t length() const { return length_; }

  // Updates ring and counts by the next step of a sequence. row: inputs of the step. ring: last inputs, (length, channels).
  // counts: steps above each threshold, (features). before: number of steps before this step. Ring and counts start as zeros.
  void step(const float* row, int16_t* ring, int32_t* counts, int64_t before) const {
    const std::unique_ptr<int32_t[]> memory(new int32_t[channels_ + kernels_]);
    int32_t *nine = memory.get(), *value = nine + channels_;
    int16_t* now = ring + before % length_ * channels_;
    for (int64_t c = 0; c < channels_; c++) now[c] = static_cast<int16_t>(fixed(row[column_[c]]));
    for (const Bank& bank : banks_) {
      const int16_t* past[kTaps];
      for (int64_t j = 0; j < kTaps; j++) past[j] = ring + (before + length_ - j * bank.dilation) % length_ * channels_;
      for (int64_t c = 0; c < channels_; c++) {
        int32_t sum = 0;
        for (int64_t j = 0; j < kTaps; j++) sum += past[j][c];
        nine[c] = sum;
      }
      values<1>(bank, past, nine, value);
      values<2>(bank, past, nine, value);
      values<3>(bank, past, nine, value);
    }
    for (int64_t q = 0; q < kThresholds; q++) {
      const int32_t* threshold = threshold_.get() + q * kernels_;
      int32_t* count = counts + q * kernels_;
      for (int64_t k = 0; k < kernels_; k++) count[k] += value[k] > threshold[k];
    }
  }

  // Adds the product of weights (outputs, features) and shares, counts / steps, to `out` (outputs). Inlined, so that the compiler
  // options of the caller apply.
  __attribute__((always_inline)) void read(const int32_t* counts, int64_t steps, const float* weight, int64_t outputs,
                                           double* out) const {
    for (int64_t o = 0; o < outputs; o++) {
      const float* of = weight + o * features();
      float low = 0, middle = 0, high = 0;  // three sums, because each addition waits for the previous result
#pragma omp simd reduction(+ : low, middle, high)
      for (int64_t k = 0; k < kernels_; k++) {
        low += of[k] * static_cast<float>(counts[k]);
        middle += of[kernels_ + k] * static_cast<float>(counts[kernels_ + k]);
        high += of[2 * kernels_ + k] * static_cast<float>(counts[2 * kernels_ + k]);
      }
      out[o] += (static_cast<double>(low) + middle + high) / static_cast<double>(steps);
    }
  }

  // Adds the counts of whole sequences to `counts`, (sequences, features), which starts as zeros. rows: inputs of all steps,
  // `stride` numbers apart. The steps of sequence i are offset[i] to offset[i + 1].
  void batch(int64_t sequences, int64_t stride, const int64_t* offset, const float* rows, int32_t* counts) const {
    const int64_t past = length_ - 1, width = past + kBlock + kApart;
    Buffer<int32_t> plane(channels_ * width), nine(channels_ * kBlock);
    for (int64_t i = 0; i < sequences; i++) {
      for (int64_t c = 0; c < channels_; c++) std::fill_n(plane.get() + c * width, past, 0);
      for (int64_t at = offset[i]; at < offset[i + 1]; at += kBlock) {
        const int64_t steps = std::min(kBlock, offset[i + 1] - at);
        for (int64_t t = 0; t < steps; t++) {
          const float* row = rows + (at + t) * stride;
          for (int64_t c = 0; c < channels_; c++) plane[c * width + past + t] = fixed(row[column_[c]]);
        }
        count(plane.get(), width, nine.get(), steps, counts + i * features());
        for (int64_t c = 0; c < channels_ && at + steps < offset[i + 1]; c++)
          std::copy_n(plane.get() + c * width + steps, past, plane.get() + c * width);
      }
    }
  }

 private:
  // Kernels with the same dilation. Kernels first[n - 1] to first[n] read n channels.
  struct Bank {
    int64_t dilation, first[kMost + 1];
  };
  static constexpr int64_t kBlock = 128, kApart = 16;  // steps per block, and padding that avoids cache conflicts

  // Bounds a number to [-30, 30], and rounds it to multiples of 1 / 256, half to even. Adding 1.5 * 2^23 leaves no bits for
  // fractions of numbers below 2^22.
  static int32_t fixed(float x) {
    constexpr float kHalfEven = 12582912.0f;
    const float bounded = x < 30 ? std::max(x, -30.0f) : 30.0f;
    return static_cast<int32_t>((bounded * 256 + kHalfEven) - kHalfEven);
  }

  // Computes the values of the kernels with N channels at one step.
  template <int N>
  void values(const Bank& bank, const int16_t* const* past, const int32_t* nine, int32_t* value) const {
    for (int64_t k = bank.first[N - 1]; k < bank.first[N]; k++) {
      const int32_t *channel = channel_.get() + kMost * k, *tap = tap_.get() + 3 * k;
      const int16_t *a = past[tap[0]], *b = past[tap[1]], *c = past[tap[2]];
      int32_t three = 0, all = 0;
      for (int n = 0; n < N; n++) {
        three += a[channel[n]] + b[channel[n]] + c[channel[n]];
        all += nine[channel[n]];
      }
      value[k] = 3 * three - all;
    }
  }

  // Counts a block of steps for all kernels. plane: inputs (channels, width), starting `length - 1` steps before the block.
  void count(const int32_t* plane, int64_t width, int32_t* nine, int64_t steps, int32_t* counts) const {
    for (const Bank& bank : banks_) {
      for (int64_t c = 0; c < channels_; c++) {
        const int32_t* now = plane + c * width + length_ - 1;
        for (int64_t t = 0; t < steps; t++) {
          int32_t sum = 0;
          for (int64_t j = 0; j < kTaps; j++) sum += now[t - j * bank.dilation];
          nine[c * kBlock + t] = sum;
        }
      }
      count<1>(bank, plane + length_ - 1, width, nine, steps, counts);
      count<2>(bank, plane + length_ - 1, width, nine, steps, counts);
      count<3>(bank, plane + length_ - 1, width, nine, steps, counts);
    }
  }

  // Counts a block of steps for the kernels of a bank with N channels.
  template <int N>
  void count(const Bank& bank, const int32_t* now, int64_t width, const int32_t* nine, int64_t steps, int32_t* counts) const {
    for (int64_t k = bank.first[N - 1]; k < bank.first[N]; k++) {
      const int32_t *own[N][3], *all[N];
      for (int n = 0; n < N; n++) {
        const int64_t channel = channel_[kMost * k + n];
        all[n] = nine + channel * kBlock;
        for (int j = 0; j < 3; j++) own[n][j] = now + channel * width - tap_[3 * k + j] * bank.dilation;
      }
      const int32_t low = threshold_[k], middle = threshold_[kernels_ + k], high = threshold_[2 * kernels_ + k];
      int32_t above_low = 0, above_middle = 0, above_high = 0;
      for (int64_t t = 0; t < steps; t++) {
        int32_t three = 0, sum = 0;
        for (int n = 0; n < N; n++) {
          three += own[n][0][t] + own[n][1][t] + own[n][2][t];
          sum += all[n][t];
        }
        const int32_t value = 3 * three - sum;
        above_low += value > low;
        above_middle += value > middle;
        above_high += value > high;
      }
      counts[k] += above_low;
      counts[kernels_ + k] += above_middle;
      counts[2 * kernels_ + k] += above_high;
    }
  }

  int64_t channels_, kernels_, length_ = 1;  // length: steps that the longest kernel reads
  Buffer<int32_t> column_, channel_, tap_, threshold_;
  std::vector<Bank> banks_;
};

}  // namespace phased
