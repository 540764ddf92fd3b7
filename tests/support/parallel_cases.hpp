// SPDX-License-Identifier: Apache-2.0
// Codecs and values for the tests of several threads.

#pragma once

#include <algorithm>

#include "codec/catalogue.hpp"
#include "support/decoder_table.hpp"

namespace eqt::test {

/// Makes another instance, so that it can be wrapped.
using MakeCodec = std::unique_ptr<codec::Compressor> (*)(std::size_t bucket);

struct ParallelCase {
  const char* name;
  MakeCodec make;
  bool knows_prefix;  // also decodes in parallel
};

/// Every codec whose payloads concatenate, and every way in which levels are packed.
inline const std::vector<ParallelCase>& parallel_cases() {
  using namespace codec;
  static const std::vector<ParallelCase> cases = {
      {"none", [](std::size_t) { return make_compressor("none"); }, true},
      {"fp16", [](std::size_t) { return make_compressor("fp16"); }, true},
      {"bf16", [](std::size_t) { return make_compressor("bf16"); }, true},
      {"int8", [](std::size_t b) { return make_compressor("int8", {.bucket_size = b}); }, true},
      {"signsgd", [](std::size_t) { return make_compressor("signsgd"); }, true},
      {"qsgd-2",
       [](std::size_t b) {
         return make_compressor("qsgd", {.bits = 2, .bucket_size = b, .coding = Coding::fixed});
       },
       true},
      {"qsgd-3",
       [](std::size_t b) {
         return make_compressor("qsgd", {.bits = 3, .bucket_size = b, .coding = Coding::fixed});
       },
       true},
      {"qsgd-v-5",
       [](std::size_t b) {
         return make_compressor("qsgd-v", {.bits = 5, .bucket_size = b, .coding = Coding::fixed});
       },
       true},
      {"qsgd-v-8",
       [](std::size_t b) {
         return make_compressor("qsgd-v", {.bits = 8, .bucket_size = b, .coding = Coding::fixed});
       },
       true},
      {"elastiquant-4",
       [](std::size_t b) { return make_compressor("elastiquant", {.bits = 4, .bucket_size = b}); },
       true},
      {"nuqsgd-4",
       [](std::size_t b) {
         return make_compressor("nuqsgd", {.bits = 4, .bucket_size = b, .coding = Coding::fixed});
       },
       true},
      {"elias",
       [](std::size_t b) {
         return make_compressor("qsgd", {.bits = 2, .bucket_size = b, .coding = Coding::elias});
       },
       false},
      {"huffman",
       [](std::size_t b) {
         return make_compressor("qsgd", {.bits = 4, .bucket_size = b, .coding = Coding::huffman});
       },
       false},
      {"rans",
       [](std::size_t b) {
         return make_compressor("qsgd", {.bits = 4, .bucket_size = b, .coding = Coding::rans});
       },
       false},
      {"auto",
       [](std::size_t b) {
         return make_compressor("qsgd", {.bits = 8, .bucket_size = b, .coding = Coding::automatic});
       },
       false},
      {"none-lossless",
       [](std::size_t) { return make_compressor("none", {.coding = Coding::lossless}); }, true},
      {"bf16-lossless",
       [](std::size_t) { return make_compressor("bf16", {.coding = Coding::lossless}); }, true}};
  return cases;
}

/// Buckets of every kind in sequence: usual values, zeros, values whose L2 norm is infinite (raw),
/// subnormal ones; only usual ones and zeros for fp16, whose range is small.
inline std::vector<float> values_for(const ParallelCase& parallel, std::size_t count,
                                     std::size_t bucket, std::uint64_t seed = 1) {
  std::vector<float> values = portable_values(count, seed);
  const bool small_range = std::string(parallel.name) == "fp16";
  constexpr float kFactors[] = {1, 0, 1, 0x1p125f, 1, 0x1p-135f, 1};
  for (std::size_t i = 0; i < count; ++i) {
    const float factor = kFactors[i / bucket % std::size(kFactors)];
    values[i] *= small_range && factor != 0 ? 1 : factor;
  }
  return values;
}

}  // namespace eqt::test
