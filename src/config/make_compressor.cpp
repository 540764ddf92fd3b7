#include "config/make_compressor.hpp"

#include "codec/codecs.hpp"
#include "core/error.hpp"

namespace eqt::config {
namespace {

codec::Coding coding_of(const RunConfig::Compressor& config) {
  if (config.coding == "elias") return codec::Coding::elias;
  if (config.coding == "huffman") return codec::Coding::huffman;
  if (config.coding == "rans") return codec::Coding::rans;
  if (config.coding == "auto") return codec::Coding::automatic;
  return codec::Coding::fixed;
}

codec::LevelFamily family_of(const RunConfig::Compressor& config) {
  if (config.levels == "exponential") return codec::LevelFamily::exponential;
  if (config.levels == "mulaw") return codec::LevelFamily::mulaw;
  if (config.levels == "general") return codec::LevelFamily::general;
  if (config.levels == "adaptive") return codec::LevelFamily::adaptive;
  return codec::LevelFamily::sinh;
}

codec::ElastiQuantOptions elastiquant_options(const RunConfig::Compressor& config) {
  return {.bits = config.bits,
          .bucket_size = config.bucket_size,
          .norm = config.norm == "max" ? codec::Norm::max : codec::Norm::l2,
          .levels = family_of(config),
          .elasticity = config.elasticity,
          .coding = coding_of(config),
          .table = config.table};
}

}  // namespace

std::unique_ptr<codec::Compressor> make_compressor(const RunConfig::Compressor& config) {
  const codec::QsgdOptions qsgd = {
      .bits = config.bits, .bucket_size = config.bucket_size, .coding = coding_of(config)};
  const codec::AdaptiveOptions adaptive = {
      .bits = config.bits, .bucket_size = config.bucket_size, .coding = coding_of(config)};
  if (config.name == "none") return codec::make_none();
  if (config.name == "fp16") return codec::make_fp16();
  if (config.name == "bf16") return codec::make_bf16();
  if (config.name == "int8") return codec::make_int8({.bucket_size = config.bucket_size});
  if (config.name == "natural") return codec::make_natural();
  if (config.name == "signsgd") return codec::make_signsgd();
  if (config.name == "ef-signsgd") return codec::make_ef_signsgd();
  if (config.name == "onebit") return codec::make_onebit();
  if (config.name == "qsgd") return codec::make_qsgd(qsgd);
  if (config.name == "qsgd-v") return codec::make_qsgd_v(qsgd);
  if (config.name == "nuqsgd")
    return codec::make_nuqsgd(
        {.bits = config.bits, .bucket_size = config.bucket_size, .coding = coding_of(config)});
  if (config.name == "alq") return codec::make_alq(adaptive);
  if (config.name == "amq") return codec::make_amq(adaptive);
  if (config.name == "elastiquant") return codec::make_elastiquant(elastiquant_options(config));
  if (config.name == "e-elastiquant") return codec::make_e_elastiquant(elastiquant_options(config));
  if (config.name == "terngrad") return codec::make_terngrad({.clip = config.clip});
  const codec::TopKOptions topk = {.density = config.density, .value_bits = config.value_bits};
  if (config.name == "topk") return codec::make_topk(topk);
  if (config.name == "dgc") return codec::make_dgc(topk);
  if (config.name == "threshold") {
    return codec::make_threshold({.threshold = config.threshold,
                                  .density = config.density,
                                  .value_bits = config.value_bits});
  }
  if (config.name == "randomk") {
    return codec::make_randomk(
        {.density = config.density, .value_bits = config.value_bits, .unbiased = config.unbiased});
  }
  if (config.name == "powersgd") return codec::make_powersgd({.rank = config.rank});
  if (config.name == "atomo") {
    return codec::make_atomo(
        {.atoms = config.atoms == "entrywise" ? codec::Atoms::entrywise : codec::Atoms::spectral,
         .rank = config.rank,
         .density = config.density});
  }
  fail(Kind::bug, "a compressor named {} passed the config's checks", config.name);
}

}  // namespace eqt::config
