// SPDX-License-Identifier: Apache-2.0
// Runs one compressor twice on the same values, each time between two calls of codec_once_mark(),
// so that a simulator can tell the instructions of the second time. See scripts/count_neon.sh.
//
//   codec_once encode|feedback|decode COMPRESSOR VALUES
//
// COMPRESSOR: a name of the catalogue, with 4 bits, density 0.01 and default options otherwise, or
// "rans": rANS alone, on the codes of e-elastiquant.

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/compressor.hpp"
#include "codec/entropy/rans.hpp"
#include "codec/levels/bucket_scale.hpp"
#include "codec/levels/level_codec.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/simd.hpp"
#include "core/error.hpp"

extern "C" void codec_once_mark();
extern "C" [[gnu::noinline]] void codec_once_mark() { asm volatile("" ::: "memory"); }

namespace {

using namespace eqt;

// Sums of four uniform values; few instructions, because all are logged.
std::vector<float> gradient(std::size_t count) {
  std::vector<float> values(count);
  std::uint64_t state = 1;
  for (float& value : values) {
    state = state * 0x5851F42D4C957F2Du + 0x14057B7EF767814Fu;
    std::int32_t sum = 0;
    for (int k = 0; k < 4; ++k)
      sum += static_cast<std::int32_t>(state >> (16 + 12 * k) & 0xFFF) - 2048;
    value = static_cast<float>(sum) * 0x1p-22f;
  }
  return values;
}

void run_twice(const std::function<void()>& work) {
  for (int time = 0; time < 2; ++time) {
    codec_once_mark();
    work();
    codec_once_mark();
  }
}

void run_compressor(std::string_view operation, std::string_view name,
                    std::span<const float> values) {
  const auto coding = name == "e-elastiquant" ? codec::Coding::automatic : codec::Coding::fixed;
  const auto compressor = codec::make_compressor(name, {.coding = coding});
  Workspace workspace;
  std::vector<std::byte> payload(compressor->max_payload_bytes(values.size()));
  std::vector<float> sum(values.size());
  const std::size_t bytes = compressor->encode(values, {}, workspace, payload);
  if (operation == "encode") {
    run_twice([&] { static_cast<void>(compressor->encode(values, {}, workspace, payload)); });
  } else if (operation == "feedback") {
    run_twice([&] {
      static_cast<void>(compressor->encode_with_feedback(values, {}, workspace, sum, payload));
    });
  } else {
    const auto sent = std::span(payload).first(bytes);
    run_twice([&] { compressor->decode_add(sent, 0.125f, workspace, sum); });
  }
}

// One bucket of all values.
void run_rans(std::string_view operation, std::span<const float> values) {
  const auto compressor =
      codec::make_compressor("e-elastiquant", {.coding = codec::Coding::automatic});
  const codec::Levels levels = compressor->level_rounding()->levels();
  const codec::LevelTable table(levels, false);
  const float norm = codec::norm_of_squares(codec::sum_of_squares(values));
  std::vector<codec::LevelCode> codes(values.size());
  codec::quantize(values, codec::inverse_of(table, norm), table, RandomStream(RandomKey{}), 0,
                  codes);
  const auto counts = codec::count_indices(codes, levels.size());
  std::vector<std::byte> bytes(codec::rans_max_bytes(codes.size(), levels.size()));
  const std::size_t used = codec::rans_write(codec::rans_model(counts), codes, bytes);
  if (operation == "encode") {
    run_twice(
        [&] { static_cast<void>(codec::rans_write(codec::rans_model(counts), codes, bytes)); });
  } else {
    const auto sent = std::span(bytes).first(used);
    run_twice([&] { static_cast<void>(codec::rans_read(sent, levels.size(), codes)); });
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view operation = argc == 4 ? argv[1] : "";
  const std::string_view count_text = argc == 4 ? argv[3] : "";
  std::size_t count = 0;
  std::from_chars(count_text.data(), count_text.data() + count_text.size(), count);
  const bool known = operation == "encode" || operation == "feedback" || operation == "decode";
  if (!known || count < 1 || count > std::size_t{1} << 24) {
    fmt::print(stderr, "codec_once: expected encode|feedback|decode COMPRESSOR VALUES\n");
    return 2;
  }
  codec::restrict_simd();
  const std::vector<float> values = gradient(count);
  const std::string_view name = argv[2];
  if (name == "rans") {
    run_rans(operation, values);
  } else {
    run_compressor(operation, name, values);
  }
  return 0;
} catch (const eqt::Error& error) {
  fmt::print(stderr, "codec_once: {}\n", error.what());
  return error.exit_code();
}
