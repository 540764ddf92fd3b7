// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of 8-bit operands, as sums of floats that are integers: float32 has every
// sum of kExactProducts products exactly, so that the results are those of 32-bit integers.
//
// A tile of channels is computed at a time. The rows that a filter covers stand in a ring, as
// floats with a frame of zeros, so that each value is converted once.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "int8/convolution_work.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "int8/depthwise_work.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#ifndef EQT_INT8_DEPTHWISE_WORK_ONCE
#define EQT_INT8_DEPTHWISE_WORK_ONCE
namespace eqt::int8 {

constexpr std::size_t kTile = 16;            // channels at a time
constexpr std::size_t kExactProducts = 512;  // 512 * 255 * 127 < 2^24
constexpr std::size_t kWidest = 11;          // [pixels] of a side of the filters

/// The channels of a tile in an image, whose rows become framed rows of a ring. An error may be
/// spread: its pixels then stand `spacing` apart, with zeros between them.
struct FramedImage {
  const std::int8_t* values = nullptr;  // of the tile's first channel
  std::size_t rows = 0, columns = 0;
  std::size_t channels = 0;  // from a pixel to the next
  std::size_t width = 0;     // channels of the tile
  std::size_t spacing = 1;
  std::size_t frame = 0;  // [pixels] of zeros on each side
  int zero_point = 0;
};

/// A ring of framed rows, kTile floats a pixel.
struct Ring {
  float* rows;         // as many as the filter has, and one of zeros
  std::size_t values;  // of a row
};

/// The outputs of a tile, each a sum over the filter times its channel's factor.
struct TileOutputs {
  float* values;  // of the tile's first channel
  std::size_t rows, columns;
  std::size_t channels;  // from a pixel to the next
  std::size_t stride;    // [pixels] of the framed image from an output to the next
  const float* factors;  // (kTile)
};

}  // namespace eqt::int8
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::int8::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The sums or operands of a tile's channels.
struct TileVector {
  using Tag = hn::CappedTag<float, kTile>;
  static constexpr std::size_t kLanes = hn::MaxLanes(Tag());
  static constexpr std::size_t kVectors = kTile / kLanes;
  hn::Vec<Tag> vectors[kVectors];

  HWY_INLINE TileVector() {
    for (auto& v : vectors) v = hn::Zero(Tag());
  }
  HWY_INLINE explicit TileVector(const float* from) {
    for (std::size_t i = 0; i < kVectors; ++i) vectors[i] = hn::LoadU(Tag(), from + i * kLanes);
  }
  HWY_INLINE void add_product(const TileVector& a, const float* b) {
    for (std::size_t i = 0; i < kVectors; ++i)
      vectors[i] = hn::MulAdd(a.vectors[i], hn::LoadU(Tag(), b + i * kLanes), vectors[i]);
  }
  HWY_INLINE void multiply(const float* factors) {
    for (std::size_t i = 0; i < kVectors; ++i)
      vectors[i] = hn::Mul(vectors[i], hn::LoadU(Tag(), factors + i * kLanes));
  }
  HWY_INLINE void store(float* to) const {
    for (std::size_t i = 0; i < kVectors; ++i) hn::StoreU(vectors[i], Tag(), to + i * kLanes);
  }
  HWY_INLINE void add_to(std::int32_t* sums) const {
    const hn::RebindToSigned<Tag> integers;
    for (std::size_t i = 0; i < kVectors; ++i) {
      std::int32_t* const to = sums + i * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(integers, to), hn::ConvertTo(integers, vectors[i])), integers,
                 to);
    }
  }
};

/// Converts a row of the image into the places of its pixels in `to`, behind the frame.
HWY_INLINE void convert_row(const FramedImage& image, std::size_t row, float* to) {
  const hn::RebindToSigned<TileVector::Tag> integers;
  const hn::Rebind<std::int8_t, TileVector::Tag> bytes;
  const auto zero_point = hn::Set(integers, image.zero_point);
  const std::int8_t* from = image.values + row * image.columns * image.channels;
  to += image.frame * kTile;
  for (std::size_t x = 0; x < image.columns; ++x) {
    if (image.width == kTile) {
      for (std::size_t i = 0; i < kTile; i += TileVector::kLanes) {
        const auto q = hn::PromoteTo(integers, hn::LoadU(bytes, from + i));
        hn::StoreU(hn::ConvertTo(TileVector::Tag(), hn::Sub(q, zero_point)), TileVector::Tag(),
                   to + i);
      }
    } else {
      for (std::size_t c = 0; c < image.width; ++c)
        to[c] = static_cast<float>(from[c] - image.zero_point);
    }
    from += image.channels;
    to += image.spacing * kTile;
  }
}

/// Framed rows of an image, from the first to the last.
template <std::size_t kKernel>
class Window {
 public:
  HWY_INLINE Window(const FramedImage& image, const Ring& ring) : image_(image), ring_(ring) {
    std::fill_n(ring.rows, (kKernel + 1) * ring.values, 0.0f);
  }

  /// Moves on until `first` is the first row of the window.
  HWY_INLINE void move_to(std::size_t first) {
    for (; next_ < first + kKernel; ++next_) {
      const std::size_t inside = next_ - image_.frame;  // wraps above the image
      const std::size_t row = inside / image_.spacing;
      const std::size_t place = next_ % kKernel;
      const bool is_zero =
          next_ < image_.frame || inside % image_.spacing != 0 || row >= image_.rows;
      rows_[place] = ring_.rows + (is_zero ? kKernel : place) * ring_.values;
      if (!is_zero) convert_row(image_, row, ring_.rows + place * ring_.values);
    }
    first_ = first;
  }

  HWY_INLINE const float* row(std::size_t i) const { return rows_[(first_ + i) % kKernel]; }

 private:
  const FramedImage& image_;
  const Ring& ring_;
  std::size_t first_ = 0, next_ = 0;
  const float* rows_[kKernel] = {};
};

template <std::size_t kKernel>
void correlate_tile(const FramedImage& image, const float* HWY_RESTRICT filter, const Ring& ring,
                    const TileOutputs& out) {
  Window<kKernel> window(image, ring);
  constexpr std::size_t kTaps = kKernel * kKernel;
  constexpr std::size_t kKept = kTaps <= 9 ? kTaps : 0;  // of the filter, in registers
  TileVector weights[kKept + 1];
  for (std::size_t t = 0; t < kKept; ++t) weights[t] = TileVector(filter + t * kTile);
  for (std::size_t y = 0; y < out.rows; ++y) {
    window.move_to(y * out.stride);
    const float* rows[kKernel];
    for (std::size_t i = 0; i < kKernel; ++i) rows[i] = window.row(i);
    float* HWY_RESTRICT to = out.values + y * out.columns * out.channels;
    for (std::size_t x = 0; x < out.columns; ++x, to += out.channels) {
      const std::size_t at = x * out.stride * kTile;
      TileVector sum;
      for (std::size_t i = 0; i < kKernel; ++i) {
        for (std::size_t j = 0; j < kKernel; ++j) {
          const std::size_t t = i * kKernel + j;
          const float* const from = rows[i] + at + j * kTile;
          sum.add_product(t < kKept ? weights[t] : TileVector(filter + t * kTile), from);
        }
      }
      sum.multiply(out.factors);
      if (image.width == kTile) {
        sum.store(to);
      } else {
        float all[kTile];
        sum.store(all);
        std::copy_n(all, image.width, to);
      }
    }
  }
}

/// Adds the gradient of a filter to its sums (kernel^2, kTile).
/// @param errors  a framed image without a frame
/// @param error_row  (columns, kTile) for one row of it
template <std::size_t kKernel>
void add_tile_gradient(const FramedImage& image, const FramedImage& errors, std::size_t stride,
                       const Ring& ring, float* error_row, std::int32_t* sums) {
  Window<kKernel> window(image, ring);
  std::fill_n(error_row, errors.columns * kTile, 0.0f);
  for (std::size_t y = 0; y < errors.rows; ++y) {
    window.move_to(y * stride);
    convert_row(errors, y, error_row);
    for (std::size_t i = 0; i < kKernel; ++i) {
      const float* HWY_RESTRICT row = window.row(i);
      for (std::size_t first = 0; first < errors.columns; first += kExactProducts) {
        const std::size_t end = std::min(errors.columns, first + kExactProducts);
        TileVector part[kKernel];
        for (std::size_t x = first; x < end; ++x) {
          const TileVector error(error_row + x * kTile);
          for (std::size_t j = 0; j < kKernel; ++j)
            part[j].add_product(error, row + (x * stride + j) * kTile);
        }
        for (std::size_t j = 0; j < kKernel; ++j) part[j].add_to(sums + (i * kKernel + j) * kTile);
      }
    }
  }
}

/// act(side of the filter, as a constant of its type).
template <typename Act>
HWY_INLINE void with_kernel(std::size_t kernel, Act act) {
  const auto one_of = [&]<std::size_t... kHalves>(std::index_sequence<kHalves...>) HWY_ATTR {
    const auto fits = [&](auto side) HWY_ATTR {
      if (side == kernel) act(side);
    };
    (fits(std::integral_constant<std::size_t, 2 * kHalves + 1>()), ...);
  };
  one_of(std::make_index_sequence<kWidest / 2 + 1>());
}

void correlate_channels(std::size_t kernel, const FramedImage& image, const float* filter,
                        const Ring& ring, const TileOutputs& out) {
  with_kernel(kernel, [&](auto side) HWY_ATTR { correlate_tile<side>(image, filter, ring, out); });
}

void add_channel_gradients(std::size_t kernel, const FramedImage& image, const FramedImage& errors,
                           std::size_t stride, const Ring& ring, float* error_row,
                           std::int32_t* sums) {
  with_kernel(kernel, [&](auto side) HWY_ATTR {
    add_tile_gradient<side>(image, errors, stride, ring, error_row, sums);
  });
}

}  // namespace eqt::int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::int8 {
namespace {

HWY_EXPORT(correlate_channels);
HWY_EXPORT(add_channel_gradients);

using Bytes = std::span<const std::int8_t>;

std::size_t size(int number) { return static_cast<std::size_t>(number); }

class DepthwiseWork final : public ConvolutionWork {
 public:
  explicit DepthwiseWork(const ConvolutionShape& shape)
      : shape_(shape),
        kernel_(size(shape.kernel)),
        taps_(kernel_ * kernel_),
        channels_(size(shape.out_channels)) {
    EQT_CHECK(kernel_ <= kWidest, "a filter of {} pixels", kernel_);
  }

  /// The filters of a tile as floats (tiles, taps, kTile), and the same turned by half a circle.
  void set_weights(Bytes q) override {
    const std::size_t tiles = (channels_ + kTile - 1) / kTile;
    filters_.assign(tiles * taps_ * kTile, 0);
    turned_.assign(filters_.size(), 0);
    for (std::size_t o = 0; o < channels_; ++o) {
      for (std::size_t t = 0; t < taps_; ++t) {
        const auto weight = static_cast<float>(q[o * taps_ + t]);
        const std::size_t tile = o / kTile * taps_, c = o % kTile;
        filters_[(tile + t) * kTile + c] = weight;
        turned_[(tile + taps_ - 1 - t) * kTile + c] = weight;
      }
    }
  }

  std::size_t weight_bytes() const noexcept override {
    return (filters_.size() + turned_.size()) * sizeof(float);
  }

  std::size_t scratch_bytes(int /*samples*/) const override {
    const std::size_t floats =
        (kernel_ + 1) * ring_row() + size(shape_.out_width()) * kTile + taps_ * kTile;
    return floats * sizeof(float);
  }

  void forward(Bytes x, int zero_point, std::span<const float> scales,
               std::span<const float> weight_scales, std::span<float> out,
               std::span<std::byte> scratch) const override {
    for_each_tile({}, [&](std::size_t first, std::size_t width) {
      for (std::size_t n = 0; n < scales.size(); ++n) {
        std::array<float, kTile> factors{};
        for (std::size_t c = 0; c < width; ++c) factors[c] = scales[n] * weight_scales[first + c];
        HWY_DYNAMIC_DISPATCH(correlate_channels)
        (kernel_, input(x, n, first, width, zero_point), filter_of(filters_, first), ring(scratch),
         {.values = out.data() + n * shape_.out_count() + first,
          .rows = size(shape_.out_height()),
          .columns = size(shape_.out_width()),
          .channels = channels_,
          .stride = size(shape_.stride),
          .factors = factors.data()});
      }
    });
  }

  void backward_input(Bytes error, std::span<const float> scales, std::span<float> dx,
                      std::span<std::byte> scratch) const override {
    for_each_tile({}, [&](std::size_t first, std::size_t width) {
      for (std::size_t n = 0; n < scales.size(); ++n) {
        std::array<float, kTile> factors{};
        factors.fill(scales[n]);
        FramedImage spread = output(error, n, first, width);
        spread.spacing = size(shape_.stride);
        spread.frame = kernel_ / 2;
        HWY_DYNAMIC_DISPATCH(correlate_channels)
        (kernel_, spread, filter_of(turned_, first), ring(scratch),
         {.values = dx.data() + n * shape_.in_count() + first,
          .rows = size(shape_.height),
          .columns = size(shape_.width),
          .channels = channels_,
          .stride = 1,
          .factors = factors.data()});
      }
    });
  }

  void add_weight_gradient(Bytes x, int zero_point, std::span<const float> scales, Bytes error,
                           std::span<const float> error_scales, std::span<float> dw,
                           std::span<std::byte> scratch, OutputPart part) const override {
    auto* const error_row = reinterpret_cast<float*>(scratch.data()) + (kernel_ + 1) * ring_row();
    auto* const sums =
        reinterpret_cast<std::int32_t*>(error_row + size(shape_.out_width()) * kTile);
    for_each_tile(part, [&](std::size_t first, std::size_t width) {
      std::fill_n(sums, taps_ * kTile, 0);
      for (std::size_t n = 0; n < scales.size(); ++n) {
        HWY_DYNAMIC_DISPATCH(add_channel_gradients)
        (kernel_, input(x, n, first, width, zero_point), output(error, n, first, width),
         size(shape_.stride), ring(scratch), error_row, sums);
        const bool is_last = n + 1 == scales.size() || scales[n + 1] != scales[n] ||
                             error_scales[n + 1] != error_scales[n];
        if (!is_last) continue;
        const float scale = scales[n] * error_scales[n];
        for (std::size_t c = 0; c < width; ++c)
          for (std::size_t t = 0; t < taps_; ++t)
            dw[(first + c) * taps_ + t] += static_cast<float>(sums[t * kTile + c]) * scale;
        std::fill_n(sums, taps_ * kTile, 0);
      }
    });
  }

 private:
  /// f(first channel, channels) of each tile of a part.
  template <typename F>
  void for_each_tile(OutputPart part, F f) const {
    const std::size_t end = channels_ * (part.index + 1) / part.count;
    for (std::size_t c = channels_ * part.index / part.count; c < end; c += kTile)
      f(c, std::min(kTile, end - c));
  }

  std::size_t ring_row() const { return (size(shape_.width) + kernel_ - 1) * kTile; }
  Ring ring(std::span<std::byte> scratch) const {
    return {reinterpret_cast<float*>(scratch.data()), ring_row()};
  }
  const float* filter_of(const std::vector<float>& filters, std::size_t first) const {
    return filters.data() + first / kTile * taps_ * kTile;
  }

  FramedImage input(Bytes x, std::size_t n, std::size_t first, std::size_t width,
                    int zero_point) const {
    return {.values = x.data() + n * shape_.in_count() + first,
            .rows = size(shape_.height),
            .columns = size(shape_.width),
            .channels = channels_,
            .width = width,
            .frame = kernel_ / 2,
            .zero_point = zero_point};
  }
  FramedImage output(Bytes error, std::size_t n, std::size_t first, std::size_t width) const {
    return {.values = error.data() + n * shape_.out_count() + first,
            .rows = size(shape_.out_height()),
            .columns = size(shape_.out_width()),
            .channels = channels_,
            .width = width};
  }

  ConvolutionShape shape_;
  std::size_t kernel_, taps_, channels_;
  std::vector<float> filters_, turned_;
};

}  // namespace

std::unique_ptr<ConvolutionWork> make_depthwise_work(const ConvolutionShape& shape) {
  return std::make_unique<DepthwiseWork>(shape);
}

}  // namespace eqt::int8
#endif  // HWY_ONCE
