// SPDX-License-Identifier: Apache-2.0
// Laws of lossless coding for every input: those of all codecs, and those of payloads in blocks.

#include "codec/catalogue.hpp"
#include "codec/parallel.hpp"
#include "codec/unit/codec_laws.hpp"
#include "codec/unit/float_cases.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr std::size_t kBlock = 8192;

Codecs all_codecs() {
  Codecs codecs;
  codecs.push_back(make_compressor("none", {.coding = Coding::lossless}));
  codecs.push_back(make_compressor("bf16", {.coding = Coding::lossless}));
  return codecs;
}

EncodeContext context_of(std::size_t, std::uint32_t rank) {
  EncodeContext context;
  context.key = {11, 3, rank, 5};
  return context;
}

}  // namespace

TEST_CASE("lossless coding draws no random numbers", "[law]") {
  check_draws_of_ranks(all_codecs(), context_of);
}

TEST_CASE("decoding what was coded adds scale times the value", "[law]") {
  auto counts = kCounts;
  counts.insert(counts.end(), {kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 5});
  check_scaled_addition(all_codecs(), counts, context_of);
}

TEST_CASE("coded payloads may stand at any address", "[law]") {
  check_addresses(all_codecs(), context_of);
}

TEST_CASE("values that are not finite are not coded", "[law]") {
  check_values_not_finite(all_codecs(), kCounts, context_of);
}

TEST_CASE("ten thousand malformed coded payloads: a wire error or finite values", "[fuzz]") {
  check_malformed(all_codecs(), 79, context_of);
}

TEST_CASE("malformed payloads of blocks with zeros and escapes", "[fuzz]") {
  const RandomStream stream({83, 0, 0, 0});
  std::uint32_t next = 0;
  const auto draw = [&](std::size_t bound) {
    return static_cast<std::size_t>(stream.bounded(next++, bound));
  };
  for (const auto& codec : all_codecs()) {
    for (const std::size_t count : {std::size_t{300}, kBlock + 40}) {
      for (const auto& [name, values] : float_cases(count)) {
        INFO(codec_name(codec->id()) << ", " << name << ", " << count);
        const Bytes intact = encode(*codec, values);
        for (int round = 0; round < 60; ++round) {
          Bytes payload = intact;
          damage(payload, draw);
          const Bytes exact(payload);
          std::vector<float> sum(count, 0.0f);
          Workspace workspace;
          try {
            codec->decode_add(exact, 1.0f, workspace, sum);
            REQUIRE(std::ranges::all_of(sum, [](float v) { return std::isfinite(v); }));
          } catch (const Error& error) {
            REQUIRE(error.kind() == Kind::wire);
          }
        }
      }
    }
  }
}

TEST_CASE("a payload is the payloads of its blocks, and their ends are found", "[law]") {
  constexpr std::size_t kCount = 5 * kBlock + 77;
  for (const auto& codec : all_codecs()) {
    REQUIRE(codec->properties().granule == kBlock);
    for (const auto& [name, values] : float_cases(kCount)) {
      INFO(codec_name(codec->id()) << ", " << name);
      const Bytes whole = encode(*codec, values);
      for (const std::size_t at : {kBlock, 2 * kBlock, 5 * kBlock}) {
        Bytes both = encode(*codec, std::span(values).first(at));
        REQUIRE(codec->prefix_bytes(whole, at) == both.size());
        REQUIRE(codec->prefix_bytes(std::span(whole).first(both.size() - 1), at) == 0);
        const Bytes second = encode(*codec, std::span(values).subspan(at));
        both.insert(both.end(), second.begin(), second.end());
        REQUIRE(both == whole);
      }
    }
  }
}

TEST_CASE("several threads give the bytes and bits of one", "[law]") {
  constexpr std::size_t kCount = 40 * kBlock + 11;
  for (const std::string name : {"none", "bf16"}) {
    const CompressorOptions options{.coding = Coding::lossless};
    const auto one = make_compressor(name, options);
    const auto several = make_parallel(make_compressor(name, options), 3, 0);
    REQUIRE(several.get() != nullptr);
    for (const auto& [kind, values] : float_cases(kCount)) {
      INFO(name << ", " << kind);
      const Bytes payload = encode(*one, values);
      REQUIRE(encode(*several, values) == payload);
      REQUIRE(same_bits(decode(*several, payload, kCount), decode(*one, payload, kCount)));
    }
  }
}
