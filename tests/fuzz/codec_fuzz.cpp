// SPDX-License-Identifier: Apache-2.0
// libFuzzer over the decoders of support/decoder_table.hpp.
//
//   codec_fuzz --list                 the decoders' names
//   codec_fuzz --seeds NAME FOLDER    writes valid inputs for one of them: the corpus to start from
//   codec_fuzz --decoder=NAME ...     fuzzes it; everything else goes to libFuzzer
//   NAME may be "all": then a byte in front of each input chooses the decoder
//
// An input is two bytes that choose what it is, then the bytes themselves: a payload of that many
// values, a frame with a valid header, a frame as it is, or values to encode. A payload that
// decodes must give finite values, the same each time; otherwise it must be Error{wire}. Encoded
// values must decode.

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "codec/frame.hpp"
#include "support/hostile_bytes.hpp"

namespace {

using namespace eqt;
using namespace eqt::test;

constexpr std::size_t kBucket = 32;
constexpr std::size_t kMaxValues = 1024;

enum class Form { payload, body, frame, values };
constexpr std::size_t kFormBits = 2;  // of the first 16-bit word; the rest is the count of values
constexpr std::size_t kPrefix = 2;

struct Input {
  Form form;
  std::size_t count;
  std::span<const std::byte> bytes;
};

constexpr std::string_view kAll = "all";

const Decoder* chosen = nullptr;
bool choosing = false;  // by each input's first byte

const std::vector<Decoder>& table() {
  static const auto decoders = decoder_table(kBucket);
  return decoders;
}

[[noreturn]] void breach(const std::string& reason) {
  fmt::print(stderr, "{}: {}\n", chosen->name, reason);
  std::abort();
}

void expect_unbroken(const DecodeReport& report) {
  if (report.result == DecodeResult::broken) breach(report.reason);
}

/// A frame whose header fits the segments and the body's size.
std::vector<std::byte> framed(std::span<const std::byte> body) {
  std::vector<std::byte> frame(codec::kFrameHeaderBytes);
  codec::write_header({.codec = chosen->compressor->id(),
                       .format_version = chosen->compressor->format_version(),
                       .step = kHostileStep,
                       .count = kHostileValues,
                       .payload_bytes = static_cast<std::uint32_t>(body.size())},
                      frame);
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

/// The encoder accepts all finite values, and the decoder accepts its payload.
void round_trip(std::span<const std::byte> bytes, Workspace& workspace) {
  constexpr float kLargest = 65504;  // fp16 takes no more
  std::vector<float> values(std::min(bytes.size() / sizeof(float), kMaxValues));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  for (float& v : values)
    if (!(std::abs(v) <= kLargest))
      v = std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & 0x807FFFFFu);
  const auto payload = payload_of(*chosen->compressor, values, rows_for(values.size()));
  const DecodeReport report = try_payload(*chosen, payload, values.size(), workspace);
  if (report.result != DecodeResult::decoded)
    breach("expected what was encoded to decode, found: " + report.reason);
}

void run(const Input& input) {
  Workspace workspace;
  switch (input.form) {
    case Form::payload:
      return expect_unbroken(try_payload(*chosen, input.bytes, input.count, workspace));
    case Form::body:
      return expect_unbroken(try_frame(*chosen, framed(input.bytes), workspace));
    case Form::frame:
      return expect_unbroken(try_frame(*chosen, input.bytes, workspace));
    case Form::values:
      return round_trip(input.bytes, workspace);
  }
}

/// @param choice the byte in front, if there is one
struct Place {
  std::string folder;
  std::optional<std::uint8_t> choice;
};

void write_seed(const Place& place, const std::string& name, Form form, std::size_t count,
                std::span<const std::byte> bytes) {
  const auto word = static_cast<std::uint16_t>(count << kFormBits | static_cast<std::size_t>(form));
  const std::string path = fmt::format("{}/{}", place.folder, name);
  std::ofstream file(path, std::ios::binary);
  if (place.choice) file.put(static_cast<char>(*place.choice));
  file.put(static_cast<char>(word & 0xFF)).put(static_cast<char>(word >> 8));
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) {
    fmt::print(stderr, "codec_fuzz: expected to write {}\n", path);
    std::exit(1);
  }
}

void write_seeds(const Decoder& decoder, const Place& place) {
  // With "all", each decoder needs fewer seeds.
  const std::string prefix = place.choice ? decoder.name + "-" : "";
  for (const std::size_t count : {0u, 1u, 3u, 16u, 31u, 32u, 33u, 64u, 100u, 256u}) {
    if (place.choice && count != 33 && count != 256) continue;
    const auto values = portable_values(count, count);
    const auto payload = payload_of(*decoder.compressor, values, rows_for(count));
    write_seed(place, fmt::format("{}payload-{}", prefix, count), Form::payload, count, payload);
    if (count <= 33)
      write_seed(place, fmt::format("{}values-{}", prefix, count), Form::values, 0,
                 std::as_bytes(std::span(values)));
  }
  const auto frame = frame_of(decoder, portable_values(kHostileValues, 1));
  write_seed(place, prefix + "frame", Form::frame, 0, frame);
  write_seed(place, prefix + "body", Form::body, 0,
             std::span(frame).subspan(codec::kFrameHeaderBytes));
}

const Decoder& decoder_named(std::string_view name) {
  if (const Decoder* found = find_decoder(table(), std::string(name))) return *found;
  fmt::print(stderr, "codec_fuzz: there is no decoder \"{}\"; --list shows all\n", name);
  std::exit(2);
}

void write_seeds(std::string_view name, const std::string& folder) {
  if (name != kAll) return write_seeds(decoder_named(name), {folder, std::nullopt});
  for (std::size_t i = 0; i < table().size(); ++i)
    write_seeds(table()[i], {folder, static_cast<std::uint8_t>(i)});
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kDecoder = "--decoder=";
  const std::string_view first = *argc > 1 ? (*argv)[1] : "";
  if (first == "--list") {
    for (const Decoder& decoder : table()) fmt::print("{}\n", decoder.name);
    std::exit(0);
  }
  if (first == "--seeds" && *argc == 4) {
    write_seeds((*argv)[2], (*argv)[3]);
    std::exit(0);
  }
  if (!first.starts_with(kDecoder)) {
    fmt::print(stderr,
               "codec_fuzz: expected --list, --seeds NAME FOLDER or --decoder=NAME first\n");
    std::exit(2);
  }
  const std::string_view name = first.substr(kDecoder.size());
  choosing = name == kAll;
  if (!choosing) chosen = &decoder_named(name);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> input(data, size);
  if (choosing && !input.empty()) {
    chosen = &table()[input[0] % table().size()];
    input = input.subspan(1);
  }
  if (input.size() < kPrefix) return 0;
  const std::size_t word = input[0] | static_cast<std::size_t>(input[1]) << 8;
  run({.form = static_cast<Form>(word % (1u << kFormBits)),
       .count = (word >> kFormBits) % (kMaxValues + 1),
       .bytes = std::as_bytes(input).subspan(kPrefix)});
  return 0;
}
