// SPDX-License-Identifier: Apache-2.0
// Runs one compressor, or one pass of a convolution with 8-bit operands, twice on the same values,
// each time between two calls of pass_once_mark(), so that a simulator can tell the instructions of
// the second time. See scripts/count_neon.sh.
//
//   pass_once encode|feedback|decode COMPRESSOR VALUES
//
// COMPRESSOR: a name of the catalogue, with 4 bits, density 0.01 and default options otherwise, or
// "rans": rANS alone, on the codes of e-elastiquant.
//
//   pass_once forward|dX|dW SIDE:IN:OUT:KERNEL:STRIDE MULTIPLY_ADDS
//
// The sample has SIDE x SIDE pixels; with OUT "depthwise" each of the IN channels has a filter of
// its own. MULTIPLY_ADDS, which the counts are divided by, must be those of the pass.

#include <fmt/core.h>

#include <algorithm>
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
#include "core/flat_buffer.hpp"
#include "int8/convolution.hpp"

extern "C" void pass_once_mark();
extern "C" [[gnu::noinline]] void pass_once_mark() { asm volatile("" ::: "memory"); }

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
    pass_once_mark();
    work();
    pass_once_mark();
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

/// Reads whole numbers between colons; "depthwise" is 0.
std::vector<int> numbers_of(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(':'));
    int number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    numbers.push_back(number);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return numbers;
}

// Takes few instructions, because all are logged.
std::vector<std::int8_t> operands(std::size_t count) {
  std::vector<std::int8_t> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<std::int8_t>(static_cast<int>(i * 97 % 255) - 127);
  return values;
}

/// @return the multiply-adds of the pass
std::size_t run_convolution(std::string_view pass, std::string_view layer) {
  const std::vector<int> n = numbers_of(layer);
  if (n.size() != 5 || std::ranges::min(n) < 0 || n[0] == 0) return 0;
  int8::ConvolutionShape shape{.height = n[0],
                               .width = n[0],
                               .in_channels = n[1],
                               .out_channels = n[2] == 0 ? n[1] : n[2],
                               .kernel = n[3],
                               .stride = n[4],
                               .depthwise = n[2] == 0};
  int8::Convolution convolution(shape);
  const std::vector<std::int8_t> x = operands(shape.in_count()),
                                 error = operands(shape.out_count());
  convolution.set_rounded(operands(shape.weight_count()), 1);
  std::vector<float> out(shape.out_count()), dx(shape.in_count()), dw(shape.weight_count());
  LongArray<std::byte> room = make_long_array<std::byte>(convolution.scratch_bytes());
  const std::span scratch(room.get(), convolution.scratch_bytes());
  if (pass == "forward")
    run_twice([&] { convolution.forward(x, -128, 1, out, scratch); });
  else if (pass == "dX")
    run_twice([&] { convolution.backward_input(error, 1, dx, scratch); });
  else
    run_twice([&] { convolution.add_weight_gradient(x, -128, 1, error, 1, dw, scratch); });
  return shape.macs();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view operation = argc == 4 ? argv[1] : "";
  const std::string_view count_text = argc == 4 ? argv[3] : "";
  std::size_t count = 0;
  std::from_chars(count_text.data(), count_text.data() + count_text.size(), count);
  const bool is_pass = operation == "forward" || operation == "dX" || operation == "dW";
  const bool known = operation == "encode" || operation == "feedback" || operation == "decode";
  if (!(known || is_pass) || count < 1 || count > std::size_t{1} << 28) {
    fmt::print(stderr,
               "pass_once: expected encode|feedback|decode COMPRESSOR VALUES, or forward|dX|dW "
               "SIDE:IN:OUT:KERNEL:STRIDE MULTIPLY_ADDS\n");
    return 2;
  }
  if (is_pass) {
    const std::size_t found = run_convolution(operation, argv[2]);
    if (found == count) return 0;
    fmt::print(stderr, "pass_once: expected the {} multiply-adds of {}, found {}\n", found, argv[2],
               count);
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
  fmt::print(stderr, "pass_once: {}\n", error.what());
  return error.exit_code();
}
