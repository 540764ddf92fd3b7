// SPDX-License-Identifier: Apache-2.0
#include "theory/sampling.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.hpp"
#include "core/gamma.hpp"
#include "core/random.hpp"
#include "core/workspace.hpp"

namespace eqt::theory {
namespace {

constexpr std::array kSources{
    Source{"normal", "independent N(0, 1)"},
    Source{"laplace", "independent, density exp(-|x|) / 2"},
    Source{"uniform", "independent in (-1, 1)"},
    Source{"exponential", "independent, density exp(-x), all positive"},
    Source{"student3", "Student's t of 3 degrees of freedom: heavy tails"},
    Source{"lognormal", "exp(2 N(0, 1)) with random signs: very heavy tails"},
    Source{"sparse", "N(0, 1) at 1 % of the places, zeros elsewhere"},
    Source{"equal", "one magnitude with random signs"},
    Source{"one-hot", "a single value that is not zero"},
};

// Each source has its own stream. Its number must not change, because results for a seed depend on
// it.
constexpr std::uint32_t kFirstSlice = 0xF1000000u;

/// `magnitude` or its negative.
double signed_by(RandomSequence& random, double magnitude) {
  return random.uniform() < 0.5 ? -magnitude : magnitude;
}

double student3(RandomSequence& random) {
  const double z = random.normal();
  double squares = 0;
  for (int k = 0; k < 3; ++k) {
    const double x = random.normal();
    squares += x * x;
  }
  return z / std::sqrt(squares / 3);
}

double draw_one(std::string_view source, RandomSequence& random) {
  if (source == "normal") return random.normal();
  if (source == "laplace") return signed_by(random, -std::log(random.uniform()));
  if (source == "uniform") return 2 * random.uniform() - 1;
  if (source == "exponential") return -std::log(random.uniform());
  if (source == "student3") return student3(random);
  if (source == "lognormal") return signed_by(random, std::exp(2 * random.normal()));
  return signed_by(random, 1);  // equal
}

void draw_sparse(std::vector<float>& values, const RandomKey& key, RandomSequence& random) {
  const std::size_t kept = std::max<std::size_t>(1, values.size() / 100);
  const std::vector<std::size_t> places = random_permutation(key, values.size());
  for (std::size_t i = 0; i < kept; ++i) values[places[i]] = static_cast<float>(random.normal());
}

/// Running mean and deviation (Welford).
class Running {
 public:
  void add(double x) {
    ++count_;
    const double delta = x - mean_;
    mean_ += delta / count_;
    squares_ += delta * (x - mean_);
  }
  Sampled result() const {
    return {mean_, count_ > 1 ? std::sqrt(squares_ / (count_ - 1)) : 0, count_};
  }

 private:
  int count_ = 0;
  double mean_ = 0, squares_ = 0;
};

/// Encodes and decodes one message after another.
class Draws {
 public:
  Draws(const codec::Compressor& compressor, std::span<const float> values)
      : compressor_(compressor), values_(values), decoded_(values.size()) {}

  /// @return bytes of the payload
  std::size_t encode_and_decode(const codec::Segment& segment, std::uint64_t seed) {
    const auto part = values_.subspan(segment.begin, segment.count);
    codec::EncodeContext context;
    context.key = {.run_seed = seed, .step = 0, .rank = 0, .slice = segment.slice};
    context.first_index = segment.first_index;
    context.rows = segment.rows;
    if (compressor_.properties().shared_scale) context.shared_scale = compressor_.local_scale(part);
    payload_.resize(compressor_.max_payload_bytes(segment.count));
    const std::size_t bytes = compressor_.encode(part, context, workspace_, payload_);
    const auto to = std::span(decoded_).subspan(segment.begin, segment.count);
    std::fill(to.begin(), to.end(), 0.0f);
    compressor_.decode_add(std::span(payload_).first(bytes), 1, workspace_, to);
    return bytes;
  }

  std::span<const float> decoded() const { return decoded_; }

 private:
  const codec::Compressor& compressor_;
  std::span<const float> values_;
  std::vector<float> decoded_;
  std::vector<std::byte> payload_;
  Workspace workspace_;
};

}  // namespace

std::span<const Source> sources() { return kSources; }

std::vector<float> draw(std::string_view source, std::size_t count, std::uint64_t seed) {
  const auto found = std::ranges::find(kSources, source, &Source::name);
  EQT_CHECK(found != kSources.end(), "a source named {}", source);
  const auto number = static_cast<std::uint32_t>(found - kSources.begin());
  const RandomKey key{.run_seed = seed, .step = 0, .rank = 0, .slice = kFirstSlice + 2 * number};
  RandomSequence random(key);
  std::vector<float> values(count);
  if (count == 0) return values;
  if (source == "sparse") {
    RandomKey places = key;
    places.slice += 1;
    draw_sparse(values, places, random);
  } else if (source == "one-hot") {
    values[count / 3] = 2.5f;
  } else {
    for (float& value : values) value = static_cast<float>(draw_one(source, random));
  }
  return values;
}

double Sampled::standard_error() const {
  return draws > 0 ? deviation / std::sqrt(static_cast<double>(draws)) : 0;
}

std::vector<codec::Segment> one_segment(std::size_t count) {
  codec::Segment segment;
  segment.count = count;
  return {segment};
}

Sample sample_codec(const codec::Compressor& compressor, std::span<const codec::Segment> segments,
                    std::span<const float> values, int draws, std::uint64_t seed) {
  EQT_CHECK(draws >= 1, "{} draws", draws);
  double squares = 0;
  for (const double v : values) squares += v * v;
  Sample sample;
  sample.decoded.assign(values.size(), 0);
  Running variance, bits;
  Draws codec(compressor, values);
  for (int draw = 0; draw < draws; ++draw) {
    double error = 0;
    std::size_t bytes = 0;
    for (const codec::Segment& segment : segments) {
      if (segment.compressed)
        bytes += codec.encode_and_decode(segment, seed + static_cast<std::uint64_t>(draw));
      for (std::size_t i = segment.begin; i < segment.begin + segment.count; ++i) {
        const double exact = values[i];
        const double found = segment.compressed ? codec.decoded()[i] : exact;
        error += (found - exact) * (found - exact);
        sample.decoded[i] += found / draws;
      }
    }
    variance.add(squares > 0 ? error / squares : 0);
    bits.add(8 * static_cast<double>(bytes));
  }
  sample.variance = variance.result();
  sample.payload_bits = bits.result();
  return sample;
}

}  // namespace eqt::theory
