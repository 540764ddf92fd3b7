#include <cmath>
#include <span>

#include "codec/codecs.hpp"
#include "codec/levels/adaptive_codec.hpp"
#include "codec/levels/level_codec.hpp"
#include "codec/levels/level_design.hpp"
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

std::unique_ptr<Compressor> make_uniform(CodecId id, Norm norm, const QsgdOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  const LevelCodecOptions codec{.id = id,
                                .bits = options.bits,
                                .bucket_size = options.bucket_size,
                                .norm = norm,
                                .coding = options.coding,
                                .uniform = true};
  return std::make_unique<LevelCodec>(codec, uniform_levels(n));
}

void check_elasticity(LevelFamily family, double elasticity) {
  if (family == LevelFamily::exponential && !(elasticity > 0 && elasticity < 1)) {
    fail(Kind::usage,
         "compressor.elasticity: expected the exponential levels' ratio between 0 and "
         "1, found {}",
         elasticity);
  }
  if (family != LevelFamily::exponential && !(elasticity >= 0 && std::isfinite(elasticity))) {
    fail(Kind::usage, "compressor.elasticity: expected {} >= 0, found {}",
         family == LevelFamily::mulaw ? "mu of mulaw levels" : "theta of sinh levels", elasticity);
  }
}

Levels general_levels(std::span<const double> table, int n) {
  if (table.size() != static_cast<std::size_t>(n)) {
    fail(Kind::usage, "compressor.table: expected {} levels, 2^(bits - 1) - 1, found {}", n,
         table.size());
  }
  const std::size_t bad = first_bad_level(table);
  if (bad < table.size()) {
    fail(Kind::usage,
         "compressor.table: expected levels that increase from above 0 to 1, found {} "
         "at index {}",
         table[bad], bad);
  }
  Levels levels = {0};
  levels.insert(levels.end(), table.begin(), table.end());
  return levels;
}

std::unique_ptr<Compressor> make_from(const LevelCodecOptions& codec, const Levels& levels) {
  return std::make_unique<LevelCodec>(codec, levels);
}

// `elasticity_of(n)` chooses what the options leave open.
template <typename Choose>
std::unique_ptr<Compressor> make_elastic(CodecId id, const ElastiQuantOptions& options,
                                         Coding coding, Choose&& elasticity_of) {
  const int n = level_count(options.bits, options.bucket_size);
  const LevelCodecOptions codec{.id = id,
                                .bits = options.bits,
                                .bucket_size = options.bucket_size,
                                .norm = options.norm,
                                .coding = coding,
                                .uniform = false};
  if (options.levels == LevelFamily::general) {
    return make_from(codec, general_levels(options.table, n));
  }
  const double elasticity = options.elasticity ? *options.elasticity : elasticity_of(n);
  check_elasticity(options.levels, elasticity);
  const Levels levels = make_levels(options.levels, n, elasticity);
  if (options.levels != LevelFamily::adaptive) return make_from(codec, levels);
  return std::make_unique<AdaptiveLevelCodec>(codec, LevelRule::coordinates, levels);
}

LevelCodecOptions l2_codec(CodecId id, int bits, std::size_t bucket_size, Coding coding) {
  return {.id = id,
          .bits = bits,
          .bucket_size = bucket_size,
          .norm = Norm::l2,
          .coding = coding,
          .uniform = false};
}

}  // namespace

std::unique_ptr<Compressor> make_qsgd(const QsgdOptions& options) {
  return make_uniform(CodecId::qsgd, Norm::l2, options);
}

std::unique_ptr<Compressor> make_qsgd_v(const QsgdOptions& options) {
  return make_uniform(CodecId::qsgd_v, Norm::max, options);
}

std::unique_ptr<Compressor> make_elastiquant(const ElastiQuantOptions& options) {
  return make_elastic(CodecId::elastiquant, options, options.coding, [&](int n) {
    return optimal_elasticity(options.levels, n, options.bucket_size, options.norm);
  });
}

std::unique_ptr<Compressor> make_e_elastiquant(const ElastiQuantOptions& options) {
  // Fixed is the options' default and means "not chosen" here: this codec is entropy coded.
  const Coding coding = options.coding == Coding::fixed ? Coding::automatic : options.coding;
  return make_elastic(CodecId::e_elastiquant, options, coding, [&](int n) {
    return cheapest_elasticity(options.levels, n, options.bucket_size, options.norm, coding);
  });
}

std::unique_ptr<Compressor> make_nuqsgd(const NuqsgdOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  if (options.bits > kMostNuqsgdBits) {
    fail(Kind::usage,
         "compressor.bits: expected 2 to {} for nuqsgd, whose smallest level is 2^(2 - 2^(bits - "
         "1)), "
         "found {}; choose elastiquant, which gains from more bits",
         kMostNuqsgdBits, options.bits);
  }
  return make_from(l2_codec(CodecId::nuqsgd, options.bits, options.bucket_size, options.coding),
                   exponential_levels(n, 0.5));
}

std::unique_ptr<Compressor> make_alq(const AdaptiveOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  return std::make_unique<AdaptiveLevelCodec>(
      l2_codec(CodecId::alq, options.bits, options.bucket_size, options.coding),
      LevelRule::coordinates, sinh_levels(n, optimal_theta(n, options.bucket_size, Norm::l2)));
}

std::unique_ptr<Compressor> make_amq(const AdaptiveOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  return std::make_unique<AdaptiveLevelCodec>(
      l2_codec(CodecId::amq, options.bits, options.bucket_size, options.coding),
      LevelRule::multiplier, exponential_levels(n, optimal_p(n, options.bucket_size, Norm::l2)));
}

}  // namespace eqt::codec
