#include <cmath>

#include "codec/codecs.hpp"
#include "codec/level_codec.hpp"
#include "codec/level_design.hpp"
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
  if (family == LevelFamily::sinh && !(elasticity >= 0 && std::isfinite(elasticity))) {
    fail(Kind::usage, "compressor.elasticity: expected theta >= 0 of sinh levels, found {}",
         elasticity);
  }
}

std::unique_ptr<Compressor> make_elastic(CodecId id, const ElastiQuantOptions& options,
                                         double elasticity, Coding coding) {
  const int n = level_count(options.bits, options.bucket_size);
  check_elasticity(options.levels, elasticity);
  const LevelCodecOptions codec{.id = id,
                                .bits = options.bits,
                                .bucket_size = options.bucket_size,
                                .norm = options.norm,
                                .coding = coding,
                                .uniform = false};
  return std::make_unique<LevelCodec>(codec, make_levels(options.levels, n, elasticity));
}

}  // namespace

std::unique_ptr<Compressor> make_qsgd(const QsgdOptions& options) {
  return make_uniform(CodecId::qsgd, Norm::l2, options);
}

std::unique_ptr<Compressor> make_qsgd_v(const QsgdOptions& options) {
  return make_uniform(CodecId::qsgd_v, Norm::max, options);
}

std::unique_ptr<Compressor> make_elastiquant(const ElastiQuantOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  double elasticity = 0;
  if (options.elasticity) {
    elasticity = *options.elasticity;
  } else if (options.levels == LevelFamily::sinh) {
    elasticity = optimal_theta(n, options.bucket_size, options.norm);
  } else {
    elasticity = optimal_p(n, options.bucket_size, options.norm);
  }
  return make_elastic(CodecId::elastiquant, options, elasticity, options.coding);
}

std::unique_ptr<Compressor> make_e_elastiquant(const ElastiQuantOptions& options) {
  const int n = level_count(options.bits, options.bucket_size);
  // Fixed is the options' default and means "not chosen" here: this codec is entropy coded.
  const Coding coding = options.coding == Coding::fixed ? Coding::automatic : options.coding;
  const double elasticity =
      options.elasticity
          ? *options.elasticity
          : cheapest_elasticity(options.levels, n, options.bucket_size, options.norm, coding);
  return make_elastic(CodecId::e_elastiquant, options, elasticity, coding);
}

}  // namespace eqt::codec
