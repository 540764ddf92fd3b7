// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <string>

#include "codec/catalogue.hpp"
#include "codec/levels/adaptive_codec.hpp"
#include "codec/levels/level_codec.hpp"
#include "codec/levels/level_design.hpp"
#include "codec/rate/rate_codec.hpp"
#include "codec/rate/whole_bits.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

int level_count(int bits, std::size_t bucket_size) {
  if (bits < 2 || bits > 8) {
    fail(Kind::usage, "compressor.bits: expected 2 to 8 for a level codec, found {}", bits);
  }
  if (bucket_size < 1) {
    fail(Kind::usage, "compressor.bucket_size: expected at least 1 value, found {}", bucket_size);
  }
  return (1 << (bits - 1)) - 1;
}

LevelCodecOptions level_codec(const CompressorRow& row, const CompressorOptions& options,
                              Norm norm) {
  return {.id = row.id,
          .bits = options.bits,
          .bucket_size = options.bucket_size,
          .norm = norm,
          .coding = options.coding,
          .uniform = false,
          .rounding = options.rounding,
          .damped = options.damped};
}

std::unique_ptr<Compressor> make_uniform(const CompressorRow& row, Norm norm,
                                         const CompressorOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  LevelCodecOptions codec = level_codec(row, options, norm);
  codec.uniform = true;
  return std::make_unique<LevelCodec>(codec, uniform_levels(n));
}

Levels general_levels(std::span<const double> table) {
  Levels levels = {0};
  levels.insert(levels.end(), table.begin(), table.end());
  return levels;
}

// `elasticity_of(n)` chooses the elasticity if the options do not have one.
template <typename Choose>
std::unique_ptr<Compressor> make_elastic(const CompressorRow& row, const CompressorOptions& options,
                                         Choose&& elasticity_of) {
  if (options.rate) return std::make_unique<RateCodec>(row, options);
  if (options.rounding == Rounding::nearest) return std::make_unique<WholeBits>(row, options);
  const int n = level_count(options.bits, options.bucket_size);
  const LevelCodecOptions codec = level_codec(row, options, options.norm);
  if (options.levels == LevelFamily::general) {
    return std::make_unique<LevelCodec>(codec, general_levels(options.table));
  }
  const double elasticity = options.elasticity ? *options.elasticity : elasticity_of(n);
  const Levels levels = make_levels(options.levels, n, elasticity);
  if (options.levels != LevelFamily::adaptive) return std::make_unique<LevelCodec>(codec, levels);
  return std::make_unique<AdaptiveLevelCodec>(codec, LevelRule::coordinates, levels);
}

std::unique_ptr<Compressor> make_nuqsgd(const CompressorRow& row,
                                        const CompressorOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  return std::make_unique<LevelCodec>(level_codec(row, options, Norm::l2),
                                      exponential_levels(n, 0.5));
}

/// Fits every level by itself, starting from the sinh levels of smallest worst case.
std::unique_ptr<Compressor> make_alq(const CompressorRow& row, const CompressorOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  return std::make_unique<AdaptiveLevelCodec>(
      level_codec(row, options, Norm::l2), LevelRule::coordinates,
      sinh_levels(n, optimal_theta(n, options.bucket_size, Norm::l2)));
}

/// Fits the multiplier of exponential levels, starting from the p of smallest worst case.
std::unique_ptr<Compressor> make_amq(const CompressorRow& row, const CompressorOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  return std::make_unique<AdaptiveLevelCodec>(
      level_codec(row, options, Norm::l2), LevelRule::multiplier,
      exponential_levels(n, optimal_p(n, options.bucket_size, Norm::l2)));
}

// A block's header and the ends of its states are few of its bits then. Blocks share no bits, so
// longer ones leave less error at low rates, where most bits are those of the largest values of a
// tensor.
constexpr std::size_t kRateBlock = 32768, kLowRateBlock = 131072;
constexpr double kLowRate = 0.5;  // above it longer blocks gain little and encode more slowly
constexpr std::size_t kMaxNormBucketSize = 512;  // in a long bucket the maximum is far above most
                                                 // values

/// Chooses buckets as long as in Alistarh et al. 2017.
void choose_short_buckets(CompressorOptions& options) { options.bucket_size = 512; }

/// Chooses what the elastiquant families have in common.
void choose_elastic(CompressorOptions& options) {
  if (options.norm == Norm::max) options.bucket_size = kMaxNormBucketSize;
  if (options.rate) {
    options.rounding = Rounding::nearest;
    options.coding = Coding::automatic;
  }
  if (options.rounding == Rounding::nearest)
    options.bucket_size = options.rate && *options.rate <= kLowRate ? kLowRateBlock : kRateBlock;
}

/// Refuses the maximum norm, for compressors that always use the L2 norm.
std::string refuse_max(const CompressorOptions& options, std::string_view name,
                       std::string_view instead) {
  if (options.norm != Norm::max) return {};
  return fmt::format(
      "expected compressor.norm \"l2\" for {}, found \"max\"; set compressor.name to \"{}\" or "
      "leave the norm out",
      name, instead);
}

}  // namespace

const CompressorRow kQsgd = {
    .name = "qsgd",
    .about = "uniform levels, stochastic rounding, L2 norm per bucket",
    .id = CodecId::qsgd,
    .make = [](const CompressorRow& row,
               const CompressorOptions& options) { return make_uniform(row, Norm::l2, options); },
    .reads = {Option::bits, Option::bucket_size, Option::coding, Option::rounding},
    .why_not =
        [](const CompressorOptions& options) { return refuse_max(options, "qsgd", "qsgd-v"); },
    .choose_defaults = choose_short_buckets,
    .title = "QSGD",
    .colour = "#d2001e"};

const CompressorRow kQsgdV = {
    .name = "qsgd-v",
    .about = "uniform levels, stochastic rounding, maximum norm per bucket",
    .id = CodecId::qsgd_v,
    .make = [](const CompressorRow& row,
               const CompressorOptions& options) { return make_uniform(row, Norm::max, options); },
    .reads = {Option::bits, Option::bucket_size, Option::coding, Option::rounding},
    .choose_defaults = choose_short_buckets,
    .title = "QSGD-V",
    .colour = "#c35a69"};

const CompressorRow kNuqsgd = {
    .name = "nuqsgd",
    .about = "exponential levels 1, 1/2, 1/4, ..., stochastic rounding",
    .id = CodecId::nuqsgd,
    .make = make_nuqsgd,
    .reads = {Option::bits, Option::bucket_size, Option::coding, Option::rounding},
    .why_not = [](const CompressorOptions& options) -> std::string {
      if (options.bits > kMaxNuqsgdBits)
        return fmt::format(
            "expected compressor.bits in [2, {}] for nuqsgd, found {}; set compressor.name to "
            "\"elastiquant\", which gains from more bits",
            kMaxNuqsgdBits, options.bits);
      return refuse_max(options, "nuqsgd", "elastiquant");
    },
    .colour = "#c31e78"};

const CompressorRow kElastiQuant = {
    .name = "elastiquant",
    .about = "levels denser near zero, stochastic rounding",
    .id = CodecId::elastiquant,
    .make =
        [](const CompressorRow& row, const CompressorOptions& options) {
          return make_elastic(row, options, [&](int n) {
            return optimal_elasticity(options.levels, n, options.bucket_size, options.norm);
          });
        },
    .reads = {Option::bits, Option::bucket_size, Option::norm, Option::coding, Option::levels,
              Option::elasticity, Option::table, Option::rate, Option::rounding},
    .gains_by_feedback = true,
    .choose_defaults = choose_elastic,
    .colour = "#872dff"};

const CompressorRow kEElastiQuant = {
    .name = "e-elastiquant",
    .about = "elastiquant with entropy coding",
    .id = CodecId::e_elastiquant,
    .make =
        [](const CompressorRow& row, const CompressorOptions& options) {
          return make_elastic(row, options, [&](int n) {
            return cheapest_elasticity(options.levels, n, options.bucket_size, options.norm,
                                       options.coding);
          });
        },
    .reads = {Option::bits, Option::bucket_size, Option::norm, Option::coding, Option::levels,
              Option::elasticity, Option::table, Option::rate, Option::rounding},
    .gains_by_feedback = true,
    .why_not = [](const CompressorOptions& options) -> std::string {
      if (options.coding != Coding::fixed) return {};
      return "expected compressor.coding \"elias\", \"huffman\", \"rans\" or \"auto\" for "
             "e-elastiquant, found \"fixed\"; set compressor.name to \"elastiquant\" or leave the "
             "coding out";
    },
    .choose_defaults =
        [](CompressorOptions& options) {
          // E-ElastiQuant is ElastiQuant with entropy coding, so the default coding cannot be
          // fixed.
          options.coding = Coding::automatic;
          choose_elastic(options);
        },
    .title = "E-ElastiQuant",
    .colour = "#d55e00"};

const CompressorRow kAlq = {
    .name = "alq",
    .about = "levels fitted to the run's gradients, each by itself",
    .id = CodecId::alq,
    .make = make_alq,
    .reads = {Option::bits, Option::bucket_size, Option::coding, Option::rounding},
    .why_not =
        [](const CompressorOptions& options) { return refuse_max(options, "alq", "elastiquant"); },
    .colour = "#a55ac3"};

const CompressorRow kAmq = {
    .name = "amq",
    .about = "exponential levels whose ratio is fitted to the run's gradients",
    .id = CodecId::amq,
    .make = make_amq,
    .reads = {Option::bits, Option::bucket_size, Option::coding, Option::rounding},
    .why_not =
        [](const CompressorOptions& options) { return refuse_max(options, "amq", "elastiquant"); },
    .colour = "#875a87"};

}  // namespace eqt::codec
