// SPDX-License-Identifier: Apache-2.0
// The messages of a mean among some ranks in one process: a compressed segment and a raw one.

#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/integer/integer_message.hpp"

namespace eqt::test {

inline std::unique_ptr<codec::Compressor> make_summable(const std::string& name, int bits,
                                                        std::size_t bucket_size) {
  if (name == "terngrad") return codec::make_compressor("terngrad", {.clip = 0});
  if (name == "int8") return codec::make_compressor("int8", {.bucket_size = bucket_size});
  return codec::make_compressor("qsgd-v", {.bits = bits, .bucket_size = bucket_size});
}

class IntegerCase {
 public:
  static constexpr StepId kStep = 7;
  static constexpr std::uint32_t kIndex = 5, kSlice = 9;
  static constexpr codec::MessageId kId = {.step = kStep, .index = kIndex};

  /// `of_ranks`: values of each rank, the compressed ones first.
  IntegerCase(const codec::Compressor& compressor, std::vector<std::vector<float>> of_ranks,
              std::size_t compressed_count, std::uint64_t first_index)
      : messages(compressor.integer_codec(), static_cast<std::uint32_t>(of_ranks.size())),
        values(std::move(of_ranks)) {
    const codec::Segment compressed = {
        .slice = kSlice, .first_index = first_index, .begin = 0, .count = compressed_count};
    const codec::Segment raw = {.slice = kSlice + 1,
                                .begin = compressed_count,
                                .count = values[0].size() - compressed_count,
                                .compressed = false};
    segments = {{.segment = compressed}, {.segment = raw}};
    shared.resize(messages.scale_count(compressed));
  }

  std::vector<float> own_scales(std::size_t rank) const {
    std::vector<float> scales(shared.size());
    messages.find_scales(segments, values[rank], scales);
    return scales;
  }

  std::vector<std::byte> scales_message(std::size_t rank) const {
    std::vector<std::byte> frame(messages.scales_bytes(shared.size()));
    messages.write_scales(own_scales(rank), kId, frame);
    return frame;
  }

  void agree() {
    for (std::size_t r = 0; r < values.size(); ++r) {
      messages.raise_scales(scales_message(r), kId, shared);
    }
  }

  std::vector<std::byte> codes_message(std::size_t rank) const {
    std::vector<std::byte> frame(messages.codes_bytes(segments));
    messages.write_codes(segments, values[rank], {own_scales(rank), shared},
                         {.run_seed = 42, .id = kId, .rank = static_cast<std::uint32_t>(rank)},
                         frame);
    return frame;
  }

  std::vector<std::byte> sums_message(std::span<const std::vector<std::byte>> codes) const {
    std::vector<std::byte> frame(messages.sums_bytes(segments));
    const std::vector<std::span<const std::byte>> frames(codes.begin(), codes.end());
    messages.add_codes(frames, segments, kId, frame);
    return frame;
  }

  codec::IntegerMessages messages;
  std::vector<std::vector<float>> values;
  std::vector<codec::ScaledSegment> segments;
  std::vector<float> shared;
};

}  // namespace eqt::test
