// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of 8-bit operands, as sums of floats that are integers: float32 has every
// sum of kExactProducts products exactly, so that the results are those of 32-bit integers.
//
// A tile of channels is computed at a time. The rows that a filter covers stand in a ring, as
// floats with a frame of zeros, so that each value is converted once. With a stride, an error meets
// every so many of the filter's values at an input: only these are multiplied.
#include <algorithm>
#include <array>
#include <bit>
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
constexpr std::size_t kMostSpacing = 4;      // the largest stride

/// An image is seen in the channels of a tile; its rows become framed rows of a ring.
struct FramedImage {
  const std::int8_t* values = nullptr;  // of the tile's first channel
  std::size_t rows = 0, columns = 0;
  std::size_t channels = 0;  // from a pixel to the next
  std::size_t width = 0;     // channels of the tile
  std::size_t frame = 0;     // [pixels] of zeros on each side
  int zero_point = 0;
};

/// A ring holds framed rows, kTile floats a pixel.
struct Ring {
  float* rows;         // as many as the filter has, and one of zeros
  std::size_t values;  // of a row
};

/// Outputs of a tile are sums over the filter times their channel's factor. The filter moves by
/// `stride` pixels from an output to the next; or the image's pixels stand `spacing` outputs apart,
/// as if there were zeros between them. One of both is 1.
struct TileOutputs {
  float* values;  // of the tile's first channel
  std::size_t rows, columns;
  std::size_t channels;  // from a pixel to the next
  std::size_t stride, spacing;
  const float* factors;  // (kTile)
};

}  // namespace eqt::int8
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::int8::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kTile>;
using Floats = hn::Vec<Tag>;
constexpr std::size_t kLanes = hn::MaxLanes(Tag());

// So many outputs are computed at a time: a filter's value is read once for all of them, a pixel
// once for all that it meets, and their sums do not wait for each other.
constexpr std::size_t kOutputs = 4;

/// Converts the channels of a whole tile at a pixel.
HWY_INLINE void convert_pixel(const std::int8_t* from, int zero_point, float* to) {
  const hn::RebindToSigned<Tag> integers;
#if HWY_ARCH_ARM_A64
  // One load of 16 bytes costs as much as one of four.
  const hn::FixedTag<std::int8_t, kTile> bytes;
  const hn::FixedTag<std::int16_t, kTile / 2> words;
  const auto q = hn::LoadU(bytes, from);
  const auto zero = hn::Set(words, static_cast<std::int16_t>(zero_point));
  const auto store = [&](auto half, float* at) HWY_ATTR {
    const auto difference = hn::Sub(hn::PromoteTo(words, half), zero);
    const auto low = hn::PromoteTo(integers, hn::LowerHalf(difference));
    const auto high =
        hn::PromoteTo(integers, hn::UpperHalf(hn::Half<decltype(words)>(), difference));
    hn::StoreU(hn::ConvertTo(Tag(), low), Tag(), at);
    hn::StoreU(hn::ConvertTo(Tag(), high), Tag(), at + kLanes);
  };
  store(hn::LowerHalf(q), to);
  store(hn::UpperHalf(hn::Half<decltype(bytes)>(), q), to + 2 * kLanes);
#else
  const hn::Rebind<std::int8_t, Tag> bytes;
  const auto zero = hn::Set(integers, zero_point);
  for (std::size_t i = 0; i < kTile; i += kLanes) {
    const auto q = hn::PromoteTo(integers, hn::LoadU(bytes, from + i));
    hn::StoreU(hn::ConvertTo(Tag(), hn::Sub(q, zero)), Tag(), to + i);
  }
#endif
}

/// Converts a row of the image into the places of its pixels in `to`, behind the frame.
HWY_INLINE void convert_row(const FramedImage& of, std::size_t row, float* to) {
  const FramedImage image = of;  // which no store can change, as it could what a reference leads to
  const std::int8_t* from = image.values + row * image.columns * image.channels;
  to += image.frame * kTile;
  for (std::size_t x = 0; x < image.columns; ++x) {
    if (image.width == kTile) {
      convert_pixel(from, image.zero_point, to);
    } else {
      for (std::size_t c = 0; c < image.width; ++c)
        to[c] = static_cast<float>(from[c] - image.zero_point);
    }
    from += image.channels;
    to += kTile;
  }
}

/// Converts an image's rows when they are asked for: at most `kernel` that follow each other, each
/// time from the same row or a later one.
class Window {
 public:
  HWY_INLINE Window(const FramedImage& image, const Ring& ring, std::size_t kernel)
      : image_(image), ring_(ring), kernel_(kernel) {
    std::fill_n(ring.rows, (kernel + 1) * ring.values, 0.0f);
  }

  /// Returns the row, or null above and below the image. @param framed  counts the frame's rows
  HWY_INLINE const float* row(std::size_t framed) {
    const std::size_t row = framed - image_.frame;  // wraps above the image
    if (framed < image_.frame || row >= image_.rows) return nullptr;
    for (; next_ <= row; ++next_) {
      if (next_ + kernel_ > row) convert_row(image_, next_, place(place_));
      if (++place_ == kernel_) place_ = 0;
    }
    const std::size_t behind = next_ - row;  // at most kernel_
    return place(place_ >= behind ? place_ - behind : place_ + kernel_ - behind);
  }

  HWY_INLINE const float* zeros() const { return ring_.rows + kernel_ * ring_.values; }

 private:
  float* place(std::size_t number) const { return ring_.rows + number * ring_.values; }

  const FramedImage& image_;
  const Ring& ring_;
  std::size_t kernel_;
  std::size_t next_ = 0, place_ = 0;  // the row that is converted next, and where it will stand
};

/// These rows of an image and of the filter meet at a row of outputs.
struct Meeting {
  const float* rows[kWidest];     // at the first pixel of the ring
  const float* filters[kWidest];  // at the first value
  std::size_t down = 0;           // rows
};

/// These outputs of a row meet the same values of the filter's rows.
struct OutputRow {
  float* values;
  std::size_t count, step;  // and the values from one output to the next
  std::size_t width;        // channels of the tile
  const float* factors;     // (kTile)
  std::size_t pixel;        // [floats] of the ring's rows that the first output meets first
  std::size_t stride;       // [pixels] from an output to the next
  std::size_t place;        // [floats] of the filter's rows that is used first
  std::size_t across;       // values of a filter's row in use
  std::size_t apart;        // [floats] from one of them to the next
};

/// Adds the products of kAcross values of a filter's row with the pixels from `from` on, which
/// outputs meet kStride apart. Each pixel is read once.
/// @param weight  of place j, weight(j)
template <std::size_t kAcross, std::size_t kStride, std::size_t kCount, typename Weight>
HWY_INLINE void add_row_products(const float* from, Weight weight, Floats (&sums)[kCount]) {
  constexpr std::size_t kPixels = (kCount - 1) * kStride + kAcross;
  Floats pixels[kPixels];
  for (std::size_t n = 0; n < kPixels; ++n) pixels[n] = hn::LoadU(Tag(), from + n * kTile);
  for (std::size_t j = 0; j < kAcross; ++j) {
    const Floats factor = weight(j);
    for (std::size_t n = 0; n < kCount; ++n)
      sums[n] = hn::MulAdd(factor, pixels[n * kStride + j], sums[n]);
  }
}

/// Adds the products of any part of a filter.
/// @tparam kAcross  out.across; 0: any
/// @tparam kStride  out.stride; 0: any
template <std::size_t kAcross, std::size_t kStride>
class AnyProducts {
 public:
  HWY_INLINE AnyProducts(const Meeting& meeting, const OutputRow& out, std::size_t lane)
      : meeting_(meeting), out_(out), place_(out.place + lane) {}

  /// Adds those of kCount outputs, the first of which meets `pixel` of the rows first.
  template <std::size_t kCount>
  HWY_INLINE void add_to(Floats (&sums)[kCount], std::size_t pixel) const {
    for (std::size_t i = 0; i < meeting_.down; ++i) {
      const float* const row = meeting_.rows[i] + pixel;
      const float* const filter = meeting_.filters[i] + place_;
      const auto weight = [&](std::size_t j)
                              HWY_ATTR { return hn::LoadU(Tag(), filter + j * out_.apart); };
      if constexpr (kAcross > 0) {
        add_row_products<kAcross, kStride>(row, weight, sums);
      } else {
        for (std::size_t j = 0; j < out_.across; ++j)
          for (std::size_t n = 0; n < kCount; ++n) {
            const float* const from = row + (n * out_.stride + j) * kTile;
            sums[n] = hn::MulAdd(weight(j), hn::LoadU(Tag(), from), sums[n]);
          }
      }
    }
  }

 private:
  const Meeting& meeting_;
  const OutputRow& out_;
  const std::size_t place_;
};

/// Adds those of a whole filter of 3 x 3, which is kept in registers where there are enough.
template <std::size_t kStride>
class WholeProducts {
 public:
  HWY_INLINE WholeProducts(const Meeting& meeting, const OutputRow& out, std::size_t lane) {
    for (std::size_t i = 0; i < 3; ++i) {
      rows_[i] = meeting.rows[i];
      for (std::size_t j = 0; j < 3; ++j)
        weights_[i][j] = hn::LoadU(Tag(), meeting.filters[i] + out.place + lane + j * kTile);
    }
  }

  template <std::size_t kCount>
  HWY_INLINE void add_to(Floats (&sums)[kCount], std::size_t pixel) const {
    for (std::size_t i = 0; i < 3; ++i)
      add_row_products<3, kStride>(
          rows_[i] + pixel, [&](std::size_t j) HWY_ATTR { return weights_[i][j]; }, sums);
  }

 private:
  const float* rows_[3];
  Floats weights_[3][3];
};

/// Says where the outputs of a row in a vector of channels go on.
struct OutputLanes {
  float* values;
  std::size_t step;           // [values] from one output to the next
  std::size_t channels;       // of the vector that are stored, if not all
  std::size_t pixel, stride;  // [floats] of the ring's rows, and from one output to the next
  Floats factor;
};

/// Computes kCount outputs and goes on behind them.
template <std::size_t kCount, typename Products>
HWY_INLINE void store_outputs(const Products& products, OutputLanes& at) {
  Floats sums[kCount];
  for (auto& sum : sums) sum = hn::Zero(Tag());
  products.add_to(sums, at.pixel);
  for (const Floats sum : sums) {
    const Floats value = hn::Mul(sum, at.factor);
    if (at.channels >= kLanes) {
      hn::StoreU(value, Tag(), at.values);
    } else {
      float all[kLanes];
      hn::StoreU(value, Tag(), all);
      std::copy_n(all, at.channels, at.values);
    }
    at.values += at.step;
  }
  at.pixel += kCount * at.stride;
}

template <typename Products>
HWY_INLINE void correlate_lanes(const Products& products, const OutputRow& out, std::size_t lane) {
  OutputLanes at = {.values = out.values + lane,
                    .step = out.step,
                    .channels = out.width - lane,
                    .pixel = out.pixel + lane,
                    .stride = out.stride * kTile,
                    .factor = hn::LoadU(Tag(), out.factors + lane)};
  static_assert(kOutputs == 4);
  const std::size_t rest = out.count % kOutputs;
  for (std::size_t n = out.count / kOutputs; n > 0; --n) store_outputs<kOutputs>(products, at);
  if (rest == 3) store_outputs<3>(products, at);
  if (rest == 2) store_outputs<2>(products, at);
  if (rest == 1) store_outputs<1>(products, at);
}

template <std::size_t kAcross, std::size_t kStride>
void correlate_row(const Meeting& meeting, const OutputRow& out) {
  for (std::size_t lane = 0; lane < out.width; lane += kLanes) {
    if constexpr (kAcross == 3) {
      if (meeting.down == 3 && out.apart == kTile) {
        correlate_lanes(WholeProducts<kStride>(meeting, out, lane), out, lane);
        continue;
      }
    }
    correlate_lanes(AnyProducts<kAcross, kStride>(meeting, out, lane), out, lane);
  }
}

using CorrelateRow = void (*)(const Meeting&, const OutputRow&);

CorrelateRow correlate_of(const OutputRow& out) {
  const auto is = [&](std::size_t across, std::size_t stride) {
    return out.across == across && out.stride == stride;
  };
  if (is(3, 1)) return correlate_row<3, 1>;
  if (is(3, 2)) return correlate_row<3, 2>;
  if (is(5, 1)) return correlate_row<5, 1>;
  if (is(5, 2)) return correlate_row<5, 2>;
  if (is(2, 1)) return correlate_row<2, 1>;
  if (is(1, 1)) return correlate_row<1, 1>;
  return correlate_row<0, 0>;
}

/// Outputs of a row meet other values of the filter's rows than their neighbours do where errors
/// are `spacing` apart: these are phases, which repeat after `spacing` outputs.
struct Phases {
  OutputRow rows[kMostSpacing];
  CorrelateRow correlate[kMostSpacing];
  std::size_t count = 0;
};

/// Returns the first place of the filter that meets a pixel at an output; it may be beyond the
/// filter's end. Pixels stand at frame + n spacing, behind the frame.
/// @pre spacing is a power of two
HWY_INLINE std::size_t first_place(std::size_t output, std::size_t frame, std::size_t spacing) {
  return (frame - output) & (spacing - 1);
}

Phases phases_of(std::size_t kernel, const FramedImage& image, const TileOutputs& out) {
  Phases phases;
  const std::size_t spacing = out.spacing;
  for (; phases.count < std::min(spacing, out.columns); ++phases.count) {
    const std::size_t phase = phases.count;
    const std::size_t first = std::min(kernel, first_place(phase, image.frame, spacing));
    // Pixels stand one behind the other in the ring: this one is (phase + first - frame) / spacing
    // of the image, behind the frame.
    const std::size_t pixel = (phase + first + (spacing - 1) * image.frame) / spacing;
    phases.rows[phase] = {.values = out.values + phase * out.channels,
                          .count = (out.columns - phase + spacing - 1) / spacing,
                          .step = spacing * out.channels,
                          .width = image.width,
                          .factors = out.factors,
                          .pixel = pixel * kTile,
                          .stride = out.stride,
                          .place = first * kTile,
                          .across = (kernel - first + spacing - 1) / spacing,
                          .apart = spacing * kTile};
    phases.correlate[phase] = correlate_of(phases.rows[phase]);
  }
  return phases;
}

void correlate_channels(std::size_t kernel, const FramedImage& image,
                        const float* HWY_RESTRICT filter, const Ring& ring,
                        const TileOutputs& out) {
  Window window(image, ring, kernel);
  Phases phases = phases_of(kernel, image, out);
  const int shift = std::countr_zero(out.spacing);
  for (std::size_t y = 0; y < out.rows; ++y) {
    Meeting meeting;
    for (std::size_t i = first_place(y, image.frame, out.spacing); i < kernel; i += out.spacing) {
      const std::size_t place = y * out.stride + i;
      if (place < image.frame) continue;
      const float* const row = window.row(((place - image.frame) >> shift) + image.frame);
      if (row == nullptr) continue;
      meeting.rows[meeting.down] = row;
      meeting.filters[meeting.down++] = filter + i * kernel * kTile;
    }
    for (std::size_t phase = 0; phase < phases.count; ++phase) {
      phases.correlate[phase](meeting, phases.rows[phase]);
      phases.rows[phase].values += out.columns * out.channels;
    }
  }
}

// So many errors are taken at a time: what is read for them fits the registers beside the sums.
#if HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
constexpr std::size_t kErrors = 4;
constexpr std::size_t kRowsOfFive = 2;  // of a filter with 5, at a time
#else
constexpr std::size_t kErrors = 1;
constexpr std::size_t kRowsOfFive = 1;
#endif

/// These rows of an image meet a row of errors, and add to these sums.
struct GradientRow {
  const float* rows[kWidest];  // at the first error's first pixel
  const float* errors;         // (columns, kTile)
  std::size_t first, end;      // of the columns
  float* sums;                 // (rows, kernel, kTile)
  std::size_t kernel, stride;
};

/// Adds kCount errors' products, from column x on, to the sums of kDown rows from `down` on.
/// @param begin  [floats] of the rows, in front of the first pixel that column 0 meets
template <std::size_t kDown, std::size_t kAcross, std::size_t kStride, std::size_t kCount>
HWY_INLINE void add_errors(const GradientRow& row, std::size_t down, std::size_t begin,
                           std::size_t x, std::size_t lane, Floats (&sums)[kDown][kAcross]) {
  Floats errors[kCount];
  for (std::size_t n = 0; n < kCount; ++n)
    errors[n] = hn::LoadU(Tag(), row.errors + (x + n) * kTile + lane);
  for (std::size_t i = 0; i < kDown; ++i) {
    const std::size_t stride = kStride > 0 ? kStride : row.stride;
    const float* const from = row.rows[down + i] + begin + x * stride * kTile + lane;
    if constexpr (kStride > 0) {
      constexpr std::size_t kPixels = (kCount - 1) * kStride + kAcross;
      Floats pixels[kPixels];
      for (std::size_t n = 0; n < kPixels; ++n) pixels[n] = hn::LoadU(Tag(), from + n * kTile);
      for (std::size_t n = 0; n < kCount; ++n)
        for (std::size_t j = 0; j < kAcross; ++j)
          sums[i][j] = hn::MulAdd(errors[n], pixels[n * kStride + j], sums[i][j]);
    } else {
      for (std::size_t n = 0; n < kCount; ++n)
        for (std::size_t j = 0; j < kAcross; ++j)
          sums[i][j] =
              hn::MulAdd(errors[n], hn::LoadU(Tag(), from + (n * stride + j) * kTile), sums[i][j]);
    }
  }
}

/// Adds a row of errors to the sums of a part of the filter, which begins at (down, across).
template <std::size_t kDown, std::size_t kAcross, std::size_t kStride>
void add_part(const GradientRow& row, std::size_t down, std::size_t across) {
  for (std::size_t lane = 0; lane < kTile; lane += kLanes) {
    Floats sums[kDown][kAcross];
    const auto place = [&](std::size_t i, std::size_t j) {
      return row.sums + ((down + i) * row.kernel + across + j) * kTile + lane;
    };
    for (std::size_t i = 0; i < kDown; ++i)
      for (std::size_t j = 0; j < kAcross; ++j) sums[i][j] = hn::LoadU(Tag(), place(i, j));
    const std::size_t begin = across * kTile;
    std::size_t x = row.first;
    for (; x + kErrors <= row.end; x += kErrors)
      add_errors<kDown, kAcross, kStride, kErrors>(row, down, begin, x, lane, sums);
    for (; x < row.end; ++x)
      add_errors<kDown, kAcross, kStride, 1>(row, down, begin, x, lane, sums);
    for (std::size_t i = 0; i < kDown; ++i)
      for (std::size_t j = 0; j < kAcross; ++j) hn::StoreU(sums[i][j], Tag(), place(i, j));
  }
}

template <std::size_t kStride>
void add_rows_of_five(const GradientRow& row) {
  std::size_t i = 0;
  for (; i + kRowsOfFive <= 5; i += kRowsOfFive) add_part<kRowsOfFive, 5, kStride>(row, i, 0);
  for (; i < 5; ++i) add_part<1, 5, kStride>(row, i, 0);
}

/// Adds a row of errors to the sums of all rows of the filter.
void add_all_rows(const GradientRow& row) {
  const auto is = [&](std::size_t kernel, std::size_t stride) {
    return row.kernel == kernel && row.stride == stride;
  };
  if (is(3, 1)) return add_part<3, 3, 1>(row, 0, 0);
  if (is(3, 2)) return add_part<3, 3, 2>(row, 0, 0);
  if (is(5, 1)) return add_rows_of_five<1>(row);
  if (is(5, 2)) return add_rows_of_five<2>(row);
  for (std::size_t i = 0; i < row.kernel; ++i)
    for (std::size_t j = 0; j < row.kernel; ++j) add_part<1, 1, 0>(row, i, j);
}

/// Adds the gradient of a filter to its sums (kernel^2, kTile).
/// @param errors  a framed image without a frame
/// @param error_row  (columns, kTile) for one row of it
void add_channel_gradients(std::size_t kernel, const FramedImage& image, const FramedImage& errors,
                           std::size_t stride, const Ring& ring, float* error_row,
                           std::int32_t* sums) {
  Window window(image, ring, kernel);
  std::fill_n(error_row, errors.columns * kTile, 0.0f);
  const std::size_t taps = kernel * kernel * kTile;
  float parts[kWidest * kWidest * kTile];
  std::fill_n(parts, taps, 0.0f);
  std::size_t products = 0;  // in each part
  const auto settle = [&] {
    for (std::size_t i = 0; i < taps; ++i)
      sums[i] += static_cast<std::int32_t>(std::exchange(parts[i], 0.0f));
    products = 0;
  };
  GradientRow row{.rows = {},
                  .errors = error_row,
                  .first = 0,
                  .end = 0,
                  .sums = parts,
                  .kernel = kernel,
                  .stride = stride};
  for (std::size_t y = 0; y < errors.rows; ++y) {
    convert_row(errors, y, error_row);
    for (std::size_t i = 0; i < kernel; ++i) {
      const float* const found = window.row(y * stride + i);
      row.rows[i] = found != nullptr ? found : window.zeros();
    }
    for (std::size_t first = 0; first < errors.columns; first = row.end) {
      row.first = first;
      row.end = std::min(errors.columns, first + kExactProducts);
      if (products + row.end - first > kExactProducts) settle();
      add_all_rows(row);
      products += row.end - first;
    }
  }
  settle();
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
          .spacing = 1,
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
        FramedImage errors = output(error, n, first, width);
        errors.frame = kernel_ / 2;
        HWY_DYNAMIC_DISPATCH(correlate_channels)
        (kernel_, errors, filter_of(turned_, first), ring(scratch),
         {.values = dx.data() + n * shape_.in_count() + first,
          .rows = size(shape_.height),
          .columns = size(shape_.width),
          .channels = channels_,
          .stride = 1,
          .spacing = size(shape_.stride),
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
