// SPDX-License-Identifier: Apache-2.0
// What is recommended on links that are much too slow, and on fast ones.

#include "planner/cluster_file.hpp"
#include "planner/machine_costs.hpp"
#include "planner/plan.hpp"

#include "support/catch.hpp"

namespace eqt::planner {
namespace {

// Compressors of a slow core: what is recommended must not depend on the machine of the test.
const char* const kSlowCore =
    R"({"compressor":"none","bits":null,"encode_gb_s":5,"decode_add_gb_s":5}
{"compressor":"bf16","bits":null,"encode_gb_s":4,"decode_add_gb_s":4}
{"compressor":"e-elastiquant","bits":null,"encode_gb_s":1,"decode_add_gb_s":1.5}
)";

Recommendation recommended(const ClusterFile& cluster) {
  CodecSpeeds codecs(parse_codec_lines(kSlowCore, "test"), "test");
  return recommend(cluster, codecs);
}

ClusterFile boards(double bytes_per_second) {
  ClusterFile file;
  file.cluster.links = {{.name = "lan", .bytes_per_second = bytes_per_second}};
  file.cluster.boards = {{.name = "board", .count = 4, .step_seconds = 0.5, .speed = {}}};
  file.facts.resize(1);
  return file;
}

}  // namespace

TEST_CASE("slow links: 4-bit E-ElastiQuant; fast links: float32", "[planner]") {
  const Recommendation slow = recommended(boards(1e7));
  CHECK(slow.compressor == "e-elastiquant");
  // 11.17 million float32 values, 6/4 of them sent by each of four ranks.
  CHECK(slow.float32_step_seconds > 11.17e6 * 6 / 1e7);
  CHECK(slow.step_seconds < 1);
  CHECK_THAT(slow.sentence, Catch::Matchers::ContainsSubstring("e-elastiquant by"));
  // Four boards of which each takes at least 0.5 s of at most 1 s.
  CHECK_THAT(slow.sentence, Catch::Matchers::Matches(
                                "On these links.* More boards pay from .* Mb/s of the slowest "
                                "link on \\(e-elastiquant\\), float32 from .* Mb/s on; here, "
                                "at 83\\.6 Mb/s, [234]\\.\\d\\d times one board alone.*"));
  const Recommendation fast = recommended(boards(1e11));
  CHECK(fast.compressor == "none");
  CHECK_THAT(fast.sentence, Catch::Matchers::ContainsSubstring("no compression"));
  const Recommendation none = recommended(boards(1e4));
  CHECK_THAT(none.sentence,
             Catch::Matchers::StartsWith("For ResNet-18 with batches of 64 one board alone is the "
                                         "fastest: 0.5") &&
                 Catch::Matchers::ContainsSubstring("; more boards pay from "));
}

}  // namespace eqt::planner
