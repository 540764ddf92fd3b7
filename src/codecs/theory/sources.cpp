// SPDX-License-Identifier: Apache-2.0
#include "theory/sources.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.hpp"
#include "core/gamma.hpp"
#include "core/random.hpp"

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

}  // namespace eqt::theory
