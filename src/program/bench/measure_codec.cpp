// SPDX-License-Identifier: Apache-2.0
#include "bench/measure_codec.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "codec/finite.hpp"
#include "codec/frame.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/message.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/strata.hpp"

namespace eqt::bench {
namespace {

using Segments = std::vector<codec::Segment>;

constexpr std::uint64_t kSeed = 1;
constexpr std::uint32_t kRanks = 4;  // that round against each other, if the compressor's do
// A layer of ResNet-18 and ResNet-50 that holds a fifth of the former: 512 kernels of 512 x 3 x 3.
constexpr std::size_t kRows = 512;
constexpr std::size_t kMatrix = kRows * 4608;

/// One message of a flat buffer, with the memory that a training step would reuse.
class Message {
 public:
  Message(const codec::Compressor& compressor, Segments segments)
      : compressor_(compressor),
        segments_(std::move(segments)),
        frame_(codec::max_message_bytes(compressor, segments_)) {}

  void encode(std::span<const float> values, StepId step = 0) { encode(values, {}, step); }

  /// Encodes with error feedback, unless the residual is empty.
  void encode(std::span<const float> values, std::span<float> residual, StepId step = 0) {
    step_ = step;
    used_ = codec().encode(values,
                           {.run_seed = kSeed,
                            .id = {.step = step},
                            .strata = strata_of(0, kRanks),
                            .residual = residual},
                           frame_);
  }

  void decode_add(std::span<const std::byte> bytes, float scale, std::span<float> sum) {
    codec().decode_add(bytes, {.step = step_}, scale, sum);
  }

  void decode_add_all(std::span<const std::span<const std::byte>> frames, float scale,
                      std::span<float> sum) {
    codec().decode_add_all(frames, {.step = step_}, scale, sum);
  }

  std::span<const std::byte> bytes() const { return std::span(frame_).first(used_); }
  std::size_t payload_bytes() const {
    return used_ - codec::kFrameHeaderBytes - segments_.size() * sizeof(std::uint32_t);
  }
  std::span<const codec::Segment> segments() const { return segments_; }

 private:
  codec::MessageCodec codec() { return {compressor_, segments_, workspace_}; }

  const codec::Compressor& compressor_;
  Segments segments_;
  Workspace workspace_;
  std::vector<std::byte> frame_;
  std::size_t used_ = 0;
  StepId step_ = 0;
};

Segments whole(std::size_t count, std::size_t rows) { return {{.count = count, .rows = rows}}; }

/// Asks the codec itself whether the payload depends on the matrix view.
bool reads_rows(const codec::Compressor& compressor) {
  constexpr std::size_t kSide = 64;
  const auto buffer = bench_gradient(kSide * kSide);
  const auto values = buffer.span();
  Message vector(compressor, whole(values.size(), 0));
  Message matrix(compressor, whole(values.size(), kSide));
  vector.encode(values);
  matrix.encode(values);
  return !std::ranges::equal(vector.bytes(), matrix.bytes());
}

/// The values as one vector or, for codecs that factor matrices, as layers.
Segments segments_for(const codec::Compressor& compressor, std::size_t count) {
  if (!reads_rows(compressor)) return whole(count, 0);
  Segments segments;
  for (std::size_t begin = 0; begin < count; begin += kMatrix) {
    const std::size_t size = std::min(kMatrix, count - begin);
    std::size_t rows = std::min(kRows, size);
    while (size % rows != 0) --rows;
    segments.push_back({.slice = static_cast<std::uint32_t>(segments.size()),
                        .begin = begin,
                        .count = size,
                        .rows = rows});
  }
  return segments;
}

/// Seconds of work(), the median over enough passes; prepare() before each is not timed.
template <typename Prepare, typename Work>
double median_seconds(Prepare prepare, Work work) {
  constexpr double kEnoughSeconds = 0.25, kTooLongSeconds = 4;
  constexpr std::size_t kMinPasses = 7, kMaxPasses = 1000;
  prepare();
  work();
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < kMinPasses || (total < kEnoughSeconds && seconds.size() < kMaxPasses)) {
    prepare();
    const Stopwatch watch;
    work();
    seconds.push_back(watch.seconds());
    total += seconds.back();
    if (total > kTooLongSeconds && seconds.size() >= 3) break;
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

template <typename Work>
double median_seconds(Work work) {
  return median_seconds([] {}, work);
}

double gb_per_second(std::size_t values, double seconds) {
  return static_cast<double>(values * sizeof(float)) / seconds * 1e-9;
}

double relative_error(std::span<const float> decoded, std::span<const float> values) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(decoded[i]) - values[i];
    error += difference * difference;
    norm += static_cast<double>(values[i]) * values[i];
  }
  return norm > 0 ? error / norm : 0;
}

/// Mean and its standard error.
struct Estimate {
  explicit Estimate(std::span<const double> samples) {
    const auto n = static_cast<double>(samples.size());
    for (const double s : samples) mean += s / n;
    double squares = 0;
    for (const double s : samples) squares += (s - mean) * (s - mean);
    deviation = std::sqrt(squares / (n - 1) / n);
  }
  double mean = 0, deviation = 0;
};

/// Returns a number of draws of which this many are surely not zero: by Cauchy and Schwarz, a draw
/// of an unbiased codec is not zero with a probability of at least 1 / (1 + variance), and one of a
/// damped codec with at least 1 - error. Without a bound, it is what takes a few seconds.
double draws_for(double nonzero, const codec::Compressor& compressor, std::size_t count) {
  constexpr double kSurely = 2, kUnknown = 1 << 18;
  const auto bound = compressor.variance_bound(count);
  if (!bound) return kUnknown;
  if (compressor.properties().unbiased) return kSurely * nonzero * (1 + *bound);
  return *bound < 1 ? kSurely * nonzero / (1 - *bound) : kUnknown;
}

/// Averages draws, of which single ones may be zeros. The error of an unbiased codec has mean zero
/// along any direction that does not depend on it; the values and their signs see values that
/// shrink or grow. Other codecs' mean is in the direction of the values.
void verify_mean(const std::string& name, const codec::Compressor& compressor,
                 std::span<const float> values) {
  constexpr std::size_t kSeeds = 96;
  constexpr double kNonzero = 24;  // draws, of fewer of which a standard error says little
  constexpr double kStandardErrors = 6, kRounding = 1e-5;
  const double most = draws_for(kNonzero, compressor, values.size());
  std::size_t rows = std::min<std::size_t>(64, values.size());
  while (values.size() % rows != 0) --rows;
  Message message(compressor, whole(values.size(), rows));
  std::vector<double> along_values, along_signs, errors;
  std::vector<float> decoded(values.size());
  double nonzero = 0;
  for (std::size_t seed = 0;
       seed < kSeeds || (nonzero < kNonzero && static_cast<double>(seed) < most); ++seed) {
    message.encode(values, seed);
    std::ranges::fill(decoded, 0.0f);
    message.decode_add(message.bytes(), 1.0f, decoded);
    double dot = 0, square = 0, signs = 0, magnitudes = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double v = values[i], error = decoded[i] - v;
      dot += error * v;
      square += v * v;
      signs += std::copysign(error, error * v);
      magnitudes += std::abs(v);
    }
    along_values.push_back(dot / square);
    along_signs.push_back(signs / magnitudes);
    errors.push_back(relative_error(decoded, values));
    if (std::ranges::any_of(decoded, [](float v) { return v != 0; })) ++nonzero;
  }
  const std::size_t seeds = errors.size();
  if (!compressor.properties().unbiased) {
    if (const double mean = 1 + Estimate(along_values).mean; !(mean > 0))
      fail(Kind::bug,
           "compressor {}: expected a mean over {} seeds in the direction of the given values, "
           "found {:.3g} times these",
           name, seeds, mean);
    return;
  }
  for (const auto& samples : {along_values, along_signs}) {
    const Estimate bias(samples);
    if (std::abs(bias.mean) > kStandardErrors * bias.deviation + kRounding) {
      fail(Kind::bug,
           "compressor {}: expected decoded values without bias over {} seeds, found a relative "
           "bias of {:.3g} with a standard error of {:.3g}",
           name, seeds, bias.mean, bias.deviation);
    }
  }
  const Estimate variance(errors);
  const auto bound = compressor.variance_bound(values.size());
  if (bound && variance.mean > *bound * (1 + kRounding) + kStandardErrors * variance.deviation) {
    fail(
        Kind::bug,
        "compressor {}: expected a relative variance of at most {:.4g} over {} seeds, found {:.4g} "
        "with a standard error of {:.3g}",
        name, *bound, seeds, variance.mean, variance.deviation);
  }
}

/// The largest bound of the message's segments: also one of the whole.
std::optional<double> bound_of(const codec::Compressor& compressor, const Message& message) {
  std::optional<double> largest;
  for (const codec::Segment& segment : message.segments()) {
    const auto bound = compressor.variance_bound(segment.count);
    if (!bound) return {};
    largest = std::max(largest.value_or(0), *bound);
  }
  return largest;
}

void verify_linear(const std::string& name, std::span<const float> decoded,
                   std::span<const float> half) {
  double squares = 0;
  for (const float v : decoded) squares += static_cast<double>(v) * v;
  const double typical = std::sqrt(squares / static_cast<double>(decoded.size()));
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const double expected = 0.5 * decoded[i];
    if (!(std::abs(half[i] - expected) <= 1e-5 * (std::abs(expected) + typical))) {
      fail(Kind::bug,
           "compressor {}: expected {} at index {} after adding a message with scales 1 and -0.5, "
           "found {}",
           name, expected, i, half[i]);
    }
  }
}

/// Error feedback as the collectives run it: encode g + e, leave e = what was not sent.
double feedback_seconds(Message& message, std::span<const float> values) {
  const FlatBuffer buffer(values.size());
  const auto residual = buffer.span();
  return median_seconds([&] { std::ranges::fill(residual, 0.0f); },
                        [&] { message.encode(values, residual); });
}

/// Eight messages into one sum. A message larger than caches hold is read eight times instead of
/// eight copies of it, which would need gigabytes.
double sum8_seconds(Message& message, std::span<float> sum) {
  constexpr std::size_t kMessages = 8, kBeyondCaches = std::size_t{128} << 20;
  const auto original = message.bytes();
  std::vector<std::vector<std::byte>> copies;
  if (original.size() < kBeyondCaches) copies.assign(kMessages, {original.begin(), original.end()});
  std::vector<std::span<const std::byte>> frames(copies.begin(), copies.end());
  frames.resize(kMessages, original);
  return median_seconds([&] { message.decode_add_all(frames, 0.125f, sum); });
}

}  // namespace

FlatBuffer bench_gradient(std::size_t count) {
  const RandomStream stream({kSeed, 0, 0, static_cast<std::uint32_t>(RandomPurpose::synthetic)});
  FlatBuffer buffer(count);
  const auto values = buffer.span();
  for (std::size_t i = 0; i < values.size(); i += 2) {  // Box and Muller
    const auto index = static_cast<std::uint32_t>(i);
    const float u = 1 - stream.uniform(index);
    const float angle = 2 * std::numbers::pi_v<float> * stream.uniform(index + 1);
    const float radius = static_cast<float>(kBenchDeviation) * std::sqrt(-2 * std::log(u));
    values[i] = radius * std::cos(angle);
    if (i + 1 < count) values[i + 1] = radius * std::sin(angle);
  }
  return buffer;
}

double read_gb_s(std::span<const float> values) {
  std::uint32_t largest = 0;
  const double seconds =
      median_seconds([&] { largest = std::max(largest, codec::largest_magnitude_bits(values)); });
  EQT_CHECK(largest > 0 || values.empty(), "a gradient of zeros");
  return gb_per_second(values.size(), seconds);
}

void verify_codec(const std::string& name, const codec::Compressor& compressor,
                  std::span<const float> values) {
  constexpr std::size_t kMeanValues = 4096;
  Message message(compressor, segments_for(compressor, values.size()));
  message.encode(values);
  {
    Message again(compressor, {message.segments().begin(), message.segments().end()});
    again.encode(values);
    if (!std::ranges::equal(message.bytes(), again.bytes()))
      fail(Kind::bug, "compressor {}: expected equal bytes for equal inputs, found others", name);
  }
  std::vector<float> decoded(values.size());
  message.decode_add(message.bytes(), 1.0f, decoded);
  if (const std::size_t bad = codec::first_non_finite(decoded); bad < decoded.size())
    fail(Kind::bug, "compressor {}: expected finite decoded values, found {} at index {}", name,
         decoded[bad], bad);
  if (compressor.properties().lossless && !std::ranges::equal(decoded, values))
    fail(Kind::bug, "compressor {}: expected every value back, found others", name);
  const auto bound = bound_of(compressor, message);
  const double error = relative_error(decoded, values);
  if (bound && !compressor.properties().random && error > *bound * (1 + 1e-6))
    fail(Kind::bug, "compressor {}: expected a relative variance of at most {:.4g}, found {:.4g}",
         name, *bound, error);
  // A bound of 1 would let zeros pass, which a random codec may draw.
  double along = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    along += static_cast<double>(decoded[i]) * values[i];
  if (!compressor.properties().random && !(along > 0))
    fail(Kind::bug,
         "compressor {}: expected decoded values in the direction of the given ones, found none",
         name);
  std::vector<float> half = decoded;
  message.decode_add(message.bytes(), -0.5f, half);
  verify_linear(name, decoded, half);
  if (compressor.properties().unbiased || compressor.properties().random)
    verify_mean(name, compressor, values.first(std::min(kMeanValues, values.size())));
}

CodecFigures measure_codec(const codec::Compressor& compressor, std::span<const float> values) {
  Message message(compressor, segments_for(compressor, values.size()));
  CodecFigures figures;
  figures.rows = message.segments().front().rows;
  const double encode = median_seconds([&] { message.encode(values); });
  const FlatBuffer buffer(values.size());
  const auto sum = buffer.span();
  message.decode_add(message.bytes(), 1.0f, sum);
  figures.variance = relative_error(sum, values);
  const double decode = median_seconds([&] { message.decode_add(message.bytes(), 1.0f, sum); });

  const auto count = static_cast<double>(values.size());
  figures.encode_gb_s = gb_per_second(values.size(), encode);
  figures.decode_add_gb_s = gb_per_second(values.size(), decode);
  figures.sum8_gb_s = gb_per_second(8 * values.size(), sum8_seconds(message, sum));
  figures.bits_per_value = 8 * static_cast<double>(message.payload_bytes()) / count;
  figures.variance_bound = bound_of(compressor, message);
  if (figures.bits_per_value < 32)
    figures.break_even_gbit = count * (32 - figures.bits_per_value) / (encode + decode) * 1e-9;
  if (!compressor.properties().lossless)
    figures.feedback_gb_s = gb_per_second(values.size(), feedback_seconds(message, values));
  return figures;
}

}  // namespace eqt::bench
