// SPDX-License-Identifier: Apache-2.0
#include "analyze/frames.hpp"

#include <vector>

#include "bench/measure_codec.hpp"
#include "codec/frame.hpp"
#include "codec/message.hpp"
#include "setup/build_messages.hpp"

namespace eqt::analyze {

Frames frames_of(const Layout& layout, const config::RunConfig& config) {
  const auto compressor = config.compressor.make();
  const FlatBuffer values = bench::bench_gradient(total_count(layout));
  Workspace workspace;
  std::vector<std::byte> frame;
  Frames frames;
  for (const auto& bucket : setup::make_plan(config, layout, *compressor)) {
    frame.resize(codec::max_message_bytes(*compressor, bucket.segments));
    const std::size_t bytes = codec::MessageCodec(*compressor, bucket.segments, workspace)
                                  .encode(values.span(), {.id = {.index = bucket.index}}, frame);
    std::size_t headers = codec::kFrameHeaderBytes;
    for (const codec::Segment& segment : bucket.segments) {
      if (segment.compressed) headers += sizeof(std::uint32_t);
    }
    ++frames.count;
    frames.payload_bytes += bytes - headers;
    frames.header_bytes += headers;
  }
  return frames;
}

}  // namespace eqt::analyze
