// SPDX-License-Identifier: Apache-2.0
// The compressor auto: each slice has a grade of the menu, and payloads say which.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/message.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "codec/parallel.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

constexpr std::size_t kBucket = 512;

CompressorOptions options_with(std::vector<std::string> menu) {
  CompressorOptions options{.bucket_size = kBucket};
  if (!menu.empty()) options.menu = std::move(menu);
  return options;
}

std::vector<std::byte> encoded(const Compressor& compressor, std::span<const float> values,
                               const EncodeContext& context) {
  Workspace workspace;
  std::vector<std::byte> payload(compressor.max_payload_bytes(values.size()));
  payload.resize(compressor.encode(values, context, workspace, payload));
  return payload;
}

std::vector<float> decoded(const Compressor& compressor, std::span<const std::byte> payload,
                           std::size_t count) {
  Workspace workspace;
  std::vector<float> values(count);
  compressor.decode_add(payload, 1, workspace, values);
  return values;
}

/// The kind of the error that `call` throws; empty: none.
template <typename Call>
std::optional<Kind> kind_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return {};
}

}  // namespace

TEST_CASE("every slice is encoded with its grade, whatever the cut", "[mixed]") {
  MixedGrades mixed(options_with({}));
  CHECK(mixed.properties().granule == kLosslessBlock);  // a multiple of the buckets
  CHECK(mixed.name_of(mixed.start()) == "e-elastiquant:4@1");
  const auto values = test::gaussian(3 * kBucket + 17, {.run_seed = 5});
  std::vector<std::uint32_t> slices;
  std::vector<GradeIndex> grades;
  for (std::size_t k = 0; k < mixed.grades(); ++k) {
    slices.push_back(static_cast<std::uint32_t>(3 * k + 1));
    grades.push_back(static_cast<GradeIndex>(k));
  }
  mixed.set_table(slices, grades);
  for (std::size_t k = 0; k < mixed.grades(); ++k) {
    INFO(mixed.name_of(grades[k]));
    EncodeContext context;
    context.key = {.run_seed = 1, .step = 2, .rank = 3, .slice = slices[k]};
    const Compressor& member = mixed.grade(grades[k]);
    const auto payload = encoded(mixed, values, context);
    CHECK(payload.front() == std::byte{grades[k]});
    CHECK(std::ranges::equal(std::span(payload).subspan(1), encoded(member, values, context)));
    const auto whole = decoded(mixed, payload, values.size());
    CHECK(whole == decoded(member, std::span(payload).subspan(1), values.size()));
    for (const std::size_t cut : {kBucket, 2 * kBucket, 3 * kBucket}) {
      const auto first = encoded(mixed, std::span(values).first(cut), context);
      EncodeContext rest = context;
      rest.first_index = cut;
      const auto second = encoded(mixed, std::span(values).subspan(cut), rest);
      auto both = decoded(mixed, first, cut);
      const auto end = decoded(mixed, second, values.size() - cut);
      both.insert(both.end(), end.begin(), end.end());
      CHECK(both == whole);
    }
  }
  CHECK(encoded(mixed, {}, {}).empty());
}

TEST_CASE("a slice without a grade of its own has the start grade", "[mixed]") {
  MixedGrades mixed(options_with({"e-elastiquant:3@1", "bf16", "none"}));
  CHECK(mixed.start() == 1);  // the menu's middle
  mixed.set_table(std::array{4u, 9u}, std::array<GradeIndex, 2>{0, 2});
  CHECK(mixed.grade_of(4) == 0);
  CHECK(mixed.grade_of(9) == 2);
  CHECK(mixed.grade_of(5) == 1);
}

TEST_CASE("floats coded without loss are grades, but not float32 as it is", "[mixed]") {
  MixedGrades mixed(options_with({"bf16:lossless", "none:lossless", "bf16", "none"}));
  CHECK(mixed.properties().granule == kLosslessBlock);
  const auto values = test::gaussian(2 * kLosslessBlock + 5, {.run_seed = 11});
  const auto bytes = [&](std::size_t k) {
    return encoded(mixed.grade(static_cast<GradeIndex>(k)), values, {}).size();
  };
  CHECK(bytes(0) < bytes(2));
  CHECK(bytes(1) < bytes(3));
  for (const std::size_t k : {0u, 1u}) {
    const auto decoded_by = [&](std::size_t grade) {
      const Compressor& member = mixed.grade(static_cast<GradeIndex>(grade));
      return decoded(member, encoded(member, values, {}), values.size());
    };
    CHECK(decoded_by(k) == decoded_by(k + 2));
  }
  const std::array slices = {0u};
  mixed.set_table(slices, std::array<GradeIndex, 1>{1});
  CHECK_FALSE(mixed.all_float32());
  mixed.set_table(slices, std::array<GradeIndex, 1>{3});
  CHECK(mixed.all_float32());
}

TEST_CASE("a grade that the table does not have is refused", "[mixed]") {
  MixedGrades mixed(options_with({}));
  const auto values = test::gaussian(kBucket, {.run_seed = 6});
  auto payload = encoded(mixed, values, {});
  std::vector<float> sum(values.size());
  Workspace workspace;
  const auto decode = [&] { mixed.decode_add(payload, 1, workspace, sum); };
  CHECK_FALSE(kind_of(decode));
  for (const unsigned other : {0u, 7u, 8u, 255u}) {
    payload.front() = static_cast<std::byte>(other);
    CHECK(kind_of(decode) == Kind::wire);
    CHECK(kind_of([&] { mixed.require_payload_of(0, payload); }) == Kind::wire);
  }
  CHECK(kind_of([&] { mixed.decode_add({}, 1, workspace, sum); }) == Kind::wire);
}

TEST_CASE("a message is refused if a slice has another slice's grade", "[mixed]") {
  MixedGrades sender(options_with({})), receiver(options_with({}));
  sender.set_table(std::array{0u, 1u}, std::array<GradeIndex, 2>{2, 6});
  receiver.set_table(std::array{0u, 1u}, std::array<GradeIndex, 2>{6, 2});
  const auto values = test::gaussian(2 * kBucket, {.run_seed = 7});
  const std::array<Segment, 2> segments = {
      {{.slice = 0, .first_index = 0, .begin = 0, .count = kBucket},
       {.slice = 1, .first_index = 0, .begin = kBucket, .count = kBucket}}};
  Workspace workspace;
  std::vector<std::byte> frame(max_message_bytes(sender, segments));
  const MessageCodec sends(sender, segments, workspace), receives(receiver, segments, workspace);
  frame.resize(sends.encode(values, MessageContext(), frame));
  std::vector<float> sum(values.size());
  CHECK_FALSE(kind_of([&] { sends.decode_add(frame, {}, 1, sum); }));
  CHECK(kind_of([&] { receives.decode_add(frame, {}, 1, sum); }) == Kind::wire);
  const std::array<std::span<const std::byte>, 2> frames = {frame, frame};
  CHECK(kind_of([&] { receives.decode_add_all(frames, {}, 1, sum); }) == Kind::wire);
}

TEST_CASE("several threads encode the same bytes", "[mixed]") {
  const auto values = test::gaussian(40 * kBucket, {.run_seed = 8});
  const MixedGrades alone(options_with({}));
  const auto together = make_parallel(std::make_unique<MixedGrades>(options_with({})), 3, 1);
  const auto payload = encoded(*together, values, {});
  CHECK(payload == encoded(alone, values, {}));
  CHECK(decoded(*together, payload, values.size()) == decoded(alone, payload, values.size()));
}

TEST_CASE("a factor changes the elasticity", "[mixed]") {
  const MixedGrades mixed(options_with({"e-elastiquant:4@0.5", "e-elastiquant:4@1"}));
  const auto values = test::gaussian(kBucket, {.run_seed = 9});
  CHECK(encoded(mixed.grade(0), values, {}) != encoded(mixed.grade(1), values, {}));
  CompressorOptions usual{.bits = 4, .bucket_size = kBucket};
  kEElastiQuant.choose_defaults(usual);
  CHECK(encoded(mixed.grade(1), values, {}) ==
        encoded(*make_compressor(kEElastiQuant, usual), values, {}));
}

TEST_CASE("menus are refused with a sentence", "[mixed]") {
  const auto why = [](std::vector<std::string> menu) { return why_no_menu(options_with(menu)); };
  using Catch::Matchers::ContainsSubstring, Catch::Matchers::StartsWith;
  CHECK(why({"none", "bf16"}).empty());
  CHECK(why({"none", "natural", "qsgd:4", "elastiquant:5@1.5", "fp16"}).empty());
  CHECK_THAT(why({"none"}), ContainsSubstring("from 2 to 16 grades"));
  CHECK_THAT(why(std::vector<std::string>(17, "none")), ContainsSubstring("found 17"));
  CHECK_THAT(why({"none", "bf16", "none"}), ContainsSubstring("each grade once"));
  CHECK_THAT(why({"e-elastiquant:4", "e-elastiquant:4@1"}), ContainsSubstring("each grade once"));
  CHECK_THAT(why({"none", "topk"}), ContainsSubstring("unbiased") && ContainsSubstring("\"topk\""));
  CHECK_THAT(why({"none", "signsgd"}), ContainsSubstring("\"signsgd\""));
  CHECK_THAT(why({"none", "terngrad"}), ContainsSubstring("\"terngrad\""));
  CHECK_THAT(why({"none", "powersgd"}), ContainsSubstring("\"powersgd\""));
  CHECK_THAT(why({"none", "auto"}), ContainsSubstring("a compressor's name"));
  CHECK_THAT(why({"none", "e-elastiquan:4"}), ContainsSubstring("a compressor's name"));
  CHECK_THAT(why({"none", "qsgd:9"}), ContainsSubstring("bits from 2 to 8"));
  CHECK_THAT(why({"none", "bf16:4"}), ContainsSubstring("bits from 2 to 8"));
  CHECK_THAT(why({"none", "e-elastiquant:4@0"}), ContainsSubstring("a factor from 0.1 to 10"));
  CHECK_THAT(why({"none", "qsgd:4@1"}), ContainsSubstring("a factor from 0.1 to 10"));
  CHECK_THAT(why({"elastiquant:8@10", "none"}),
             StartsWith("compressor.menu, \"elastiquant:8@10\": ") &&
                 ContainsSubstring("expected a smallest level of at least 2^-60"));
  CHECK_THAT(why({"none", "qsgd:lossless"}), ContainsSubstring("bits from 2 to 8"));
  CHECK_THAT(why({"none", "bf16:lossless", "bf16:lossless"}), ContainsSubstring("each grade once"));
  CHECK(why({"bf16:lossless", "none:lossless", "bf16"}).empty());
  CHECK(why({"e-elastiquant:rate=1", "bf16:lossless", "none:lossless"}).empty());
  CHECK(why(menu_of_rates()).empty());
  CHECK(why({"elastiquant:rate=0.02", "fp16"}).empty());
  CHECK_THAT(why({"none", "qsgd:rate=1"}), ContainsSubstring("of an elastiquant family"));
  CHECK_THAT(why({"none", "e-elastiquant:rate=1@2"}),
             ContainsSubstring("of an elastiquant family"));
  CHECK_THAT(why({"none", "e-elastiquant:rate=x"}), ContainsSubstring("of an elastiquant family"));
  CHECK_THAT(why({"none", "e-elastiquant:rate=9"}), ContainsSubstring("[0.02, 8]"));
  CHECK_THAT(why({"none", "e-elastiquant:rate=1", "qsgd:4"}),
             ContainsSubstring("\"qsgd:4\"") && ContainsSubstring("\"e-elastiquant:rate=1\""));
}

TEST_CASE("grades of rates keep what they do not send, each as its compressor does", "[mixed]") {
  CompressorOptions options;
  options.menu = {"e-elastiquant:rate=0.25", "e-elastiquant:rate=1", "none"};
  const MixedGrades mixed(options);
  CHECK(mixed.properties().needs_feedback);
  CHECK_FALSE(mixed.properties().unbiased);
  CHECK(mixed.name_of(mixed.start()) == "e-elastiquant:rate=1");
  const auto gradient = test::gaussian(3000, {.run_seed = 4});
  const auto before = test::gaussian(3000, {.run_seed = 5});
  const Compressor& start = mixed.grade(mixed.start());
  std::vector<float> residual = before, expected = before;
  std::vector<std::byte> payload(mixed.max_payload_bytes(3000)), own(payload.size());
  Workspace workspace;
  const std::size_t bytes = mixed.encode_with_feedback(gradient, {}, workspace, residual, payload);
  CHECK(bytes == 1 + start.encode_with_feedback(gradient, {}, workspace, expected, own));
  CHECK(std::equal(payload.begin() + 1, payload.begin() + static_cast<std::ptrdiff_t>(bytes),
                   own.begin()));
  CHECK(residual == expected);
  CHECK(residual != before);
}
