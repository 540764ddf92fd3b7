#include "support/decoder_table.hpp"

#include <fmt/format.h>

#include <utility>

#include "codec/codecs.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::test {
namespace {

using codec::Coding;
using codec::LevelFamily;
using codec::Norm;

const std::vector<std::pair<std::string, Coding>>& codings() {
  static const std::vector<std::pair<std::string, Coding>> all = {{"fixed", Coding::fixed},
                                                                  {"elias", Coding::elias},
                                                                  {"huffman", Coding::huffman},
                                                                  {"rans", Coding::rans},
                                                                  {"auto", Coding::automatic}};
  return all;
}

/// Both families of levels, both norms, and every way in which indices are packed.
void add_level_codecs(std::vector<Decoder>& table, std::size_t bucket) {
  for (const auto& [coding_name, coding] : codings()) {
    for (const int bits : {2, 3, 4, 8}) {
      const std::string suffix = fmt::format("-{}-{}", bits, coding_name);
      table.push_back({"qsgd" + suffix, codec::make_qsgd({bits, bucket, coding})});
      if (coding == Coding::fixed || bits == 3 || bits == 8) continue;
      table.push_back(
          {"e-elastiquant" + suffix,
           codec::make_e_elastiquant({bits, bucket, Norm::l2, LevelFamily::sinh, 0.25, coding})});
    }
  }
  for (const int bits : {4, 5, 8}) {
    const std::string suffix = fmt::format("-{}-fixed", bits);
    table.push_back({"qsgd-v" + suffix, codec::make_qsgd_v({bits, bucket, Coding::fixed})});
    table.push_back({"elastiquant" + suffix,
                     codec::make_elastiquant({bits, bucket, Norm::max, LevelFamily::sinh, {}})});
  }
  table.push_back({"elastiquant-4-exponential",
                   codec::make_elastiquant({4, bucket, Norm::l2, LevelFamily::exponential, 0.5})});
  table.push_back({"nuqsgd-4-fixed", codec::make_nuqsgd({4, bucket})});
  table.push_back({"nuqsgd-3-auto", codec::make_nuqsgd({3, bucket, Coding::automatic})});
  table.push_back({"alq-3-fixed", codec::make_alq({3, bucket})});
  table.push_back({"alq-4-huffman", codec::make_alq({4, bucket, Coding::huffman})});
  table.push_back({"amq-3-fixed", codec::make_amq({3, bucket})});
}

void add_sparse_codecs(std::vector<Decoder>& table) {
  table.push_back({"topk", codec::make_topk({.density = 0.1})});
  table.push_back({"topk-dense", codec::make_topk({.density = 0.8})});
  table.push_back({"topk-16", codec::make_topk({.density = 0.05, .value_bits = 16})});
  table.push_back({"dgc", codec::make_dgc({.density = 0.01})});
  table.push_back({"threshold", codec::make_threshold({.density = 0.1})});
  table.push_back({"threshold-absolute", codec::make_threshold({.threshold = 1})});
  table.push_back({"randomk", codec::make_randomk({.density = 0.1})});
  table.push_back({"randomk-unbiased-16",
                   codec::make_randomk({.density = 0.1, .value_bits = 16, .unbiased = true})});
}

void add_sign_and_low_rank_codecs(std::vector<Decoder>& table) {
  table.push_back({"signsgd", codec::make_signsgd()});
  table.push_back({"ef-signsgd", codec::make_ef_signsgd()});
  table.push_back({"onebit", codec::make_onebit()});
  table.push_back({"powersgd", codec::make_powersgd({}), false});
  table.push_back({"atomo", codec::make_atomo({}), false});
  table.push_back(
      {"atomo-entrywise", codec::make_atomo({.atoms = codec::Atoms::entrywise}), false});
}

}  // namespace

std::vector<Decoder> decoder_table(std::size_t bucket_size) {
  std::vector<Decoder> table;
  table.push_back({"none", codec::make_none()});
  table.push_back({"fp16", codec::make_fp16()});
  table.push_back({"bf16", codec::make_bf16()});
  table.push_back({"terngrad", codec::make_terngrad({})});
  table.push_back({"terngrad-unclipped", codec::make_terngrad({.clip = 0})});
  table.push_back({"int8", codec::make_int8({.bucket_size = bucket_size})});
  table.push_back({"natural", codec::make_natural()});
  add_level_codecs(table, bucket_size);
  add_sparse_codecs(table);
  add_sign_and_low_rank_codecs(table);
  return table;
}

const Decoder* find_decoder(std::span<const Decoder> table, const std::string& name) {
  for (const Decoder& decoder : table)
    if (decoder.name == name) return &decoder;
  return nullptr;
}

std::vector<float> portable_values(std::size_t count, std::uint64_t seed, float scale) {
  constexpr std::uint32_t kUniforms = 12;  // of variance 1/12 each
  const RandomStream stream({seed, 0, 0, 0});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t sum = 0;  // of 16-bit words around 0: exact in a float
    for (std::uint32_t k = 0; k < kUniforms; ++k) {
      const std::uint32_t word = stream.bits(static_cast<std::uint32_t>(i) * kUniforms + k) >> 16;
      sum += static_cast<std::int32_t>(word) - 0x8000;
    }
    values[i] = static_cast<float>(sum) * 0x1p-16f * scale;
  }
  return values;
}

std::size_t rows_for(std::size_t count) {
  for (std::size_t rows = 64; rows > 1; rows /= 2)
    if (count > rows && count % rows == 0) return rows;
  return 0;
}

std::vector<std::byte> payload_of(const codec::Compressor& compressor,
                                  std::span<const float> values, std::size_t rows, StepId step) {
  Workspace workspace;
  codec::EncodeContext context;
  context.key.step = step;
  context.rows = rows;
  std::vector<std::byte> buffer(compressor.max_payload_bytes(values.size()));
  const std::size_t bytes = compressor.encode(values, context, workspace, buffer);
  EQT_CHECK(bytes <= buffer.size(), "{} bytes in a buffer of {}", bytes, buffer.size());
  return {buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

}  // namespace eqt::test
