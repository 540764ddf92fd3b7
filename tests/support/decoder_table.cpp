// SPDX-License-Identifier: Apache-2.0
#include "support/decoder_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codec/catalogue.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::test {
namespace {

using codec::Coding;
using codec::LevelFamily;
using codec::Norm;

/// Both families of levels, both norms, and every way in which indices are packed.
void add_level_codecs(std::vector<Decoder>& table, std::size_t bucket) {
  for (const auto& [coding, coding_name, about] : codec::level_codings()) {
    for (const int bits : {2, 3, 4, 8}) {
      const std::string suffix = fmt::format("-{}-{}", bits, coding_name);
      table.push_back(
          {"qsgd" + suffix, codec::make_compressor(
                                "qsgd", {.bits = bits, .bucket_size = bucket, .coding = coding})});
      if (coding == Coding::fixed || bits == 3 || bits == 8) continue;
      table.push_back({"e-elastiquant" + suffix,
                       codec::make_compressor("e-elastiquant", {.bits = bits,
                                                                .bucket_size = bucket,
                                                                .norm = Norm::l2,
                                                                .levels = LevelFamily::sinh,
                                                                .elasticity = 0.25,
                                                                .coding = coding})});
    }
  }
  for (const int bits : {4, 5, 8}) {
    const std::string suffix = fmt::format("-{}-fixed", bits);
    table.push_back(
        {"qsgd-v" + suffix,
         codec::make_compressor("qsgd-v",
                                {.bits = bits, .bucket_size = bucket, .coding = Coding::fixed})});
    table.push_back({"elastiquant" + suffix,
                     codec::make_compressor("elastiquant", {.bits = bits,
                                                            .bucket_size = bucket,
                                                            .norm = Norm::max,
                                                            .levels = LevelFamily::sinh})});
  }
  table.push_back({"elastiquant-4-exponential",
                   codec::make_compressor("elastiquant", {.bits = 4,
                                                          .bucket_size = bucket,
                                                          .norm = Norm::l2,
                                                          .levels = LevelFamily::exponential,
                                                          .elasticity = 0.5})});
  table.push_back(
      {"nuqsgd-4-fixed", codec::make_compressor("nuqsgd", {.bits = 4, .bucket_size = bucket})});
  table.push_back({"nuqsgd-3-auto",
                   codec::make_compressor(
                       "nuqsgd", {.bits = 3, .bucket_size = bucket, .coding = Coding::automatic})});
  table.push_back(
      {"alq-3-fixed", codec::make_compressor("alq", {.bits = 3, .bucket_size = bucket})});
  table.push_back(
      {"alq-4-huffman", codec::make_compressor(
                            "alq", {.bits = 4, .bucket_size = bucket, .coding = Coding::huffman})});
  table.push_back(
      {"amq-3-fixed", codec::make_compressor("amq", {.bits = 3, .bucket_size = bucket})});
}

/// Values to the nearest level, by rates and by whole bits.
void add_nearest_codecs(std::vector<Decoder>& table, std::size_t bucket) {
  for (const double rate : {0.05, 0.3, 1.1, 3.0, 4.5, 8.0})
    table.push_back(
        {fmt::format("e-elastiquant-rate-{}", rate),
         codec::make_compressor("e-elastiquant", {.bucket_size = bucket,
                                                  .coding = Coding::automatic,
                                                  .rate = rate,
                                                  .rounding = codec::Rounding::nearest})});
  for (const int bits : {2, 3, 4, 8})
    table.push_back(
        {fmt::format("elastiquant-{}-nearest", bits),
         codec::make_compressor(
             "elastiquant",
             {.bits = bits, .bucket_size = bucket, .rounding = codec::Rounding::nearest})});
}

void add_sparse_codecs(std::vector<Decoder>& table) {
  table.push_back({"topk", codec::make_compressor("topk", {.density = 0.1})});
  table.push_back({"topk-dense", codec::make_compressor("topk", {.density = 0.8})});
  table.push_back({"topk-16", codec::make_compressor("topk", {.density = 0.05, .value_bits = 16})});
  for (const int bits : {1, 2, 4, 8}) {
    table.push_back({fmt::format("topk-{}", bits),
                     codec::make_compressor("topk", {.density = 0.6, .value_bits = bits})});
    table.push_back({fmt::format("randomk-{}", bits),
                     codec::make_compressor("randomk", {.density = 0.4, .value_bits = bits})});
  }
  table.push_back({"dgc-2", codec::make_compressor("dgc", {.density = 0.2, .value_bits = 2})});
  table.push_back(
      {"threshold-3", codec::make_compressor("threshold", {.density = 0.3, .value_bits = 3})});
  table.push_back({"dgc", codec::make_compressor("dgc", {.density = 0.01})});
  table.push_back({"threshold", codec::make_compressor("threshold", {.density = 0.1})});
  table.push_back({"threshold-absolute", codec::make_compressor("threshold", {.threshold = 1})});
  table.push_back({"randomk", codec::make_compressor("randomk", {.density = 0.1})});
  table.push_back(
      {"randomk-unbiased-16",
       codec::make_compressor("randomk", {.density = 0.1, .value_bits = 16, .unbiased = true})});
}

void add_low_rank_codecs(std::vector<Decoder>& table) {
  table.push_back({"powersgd", codec::make_compressor("powersgd"), false});
  table.push_back({"atomo", codec::make_compressor("atomo"), false});
  table.push_back({"atomo-entrywise",
                   codec::make_compressor("atomo", {.atoms = codec::Atoms::entrywise}), false});
}

}  // namespace

std::vector<Decoder> decoder_table(std::size_t bucket_size) {
  std::vector<Decoder> table;
  add_level_codecs(table, bucket_size);
  add_nearest_codecs(table, bucket_size);
  add_sparse_codecs(table);
  add_low_rank_codecs(table);
  table.push_back({"terngrad", codec::make_compressor("terngrad")});
  table.push_back({"terngrad-unclipped", codec::make_compressor("terngrad", {.clip = 0})});
  for (const Entry<codec::CompressorRow> row : codec::CompressorRow::all()) {
    const bool present = std::ranges::any_of(
        table, [&](const Decoder& decoder) { return decoder.compressor->id() == row->id; });
    if (!present)
      table.push_back(
          {std::string(row->name), codec::make_compressor(*row, {.bucket_size = bucket_size})});
    if (row->codes_floats)
      table.push_back({fmt::format("{}-lossless", row->name),
                       codec::make_compressor(*row, {.coding = Coding::lossless})});
  }
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
