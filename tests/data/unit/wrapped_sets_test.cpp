// SPDX-License-Identifier: Apache-2.0
// Sets made of sets: other labels, several as one, and a set that another rank sent.

#include "data/wrapped_sets.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/images.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace {

using namespace eqt;
using namespace eqt::data;

/// Sample i has the numbers (first + i, -(first + i)) and the class i modulo `classes`.
class CountingSet final : public Dataset {
 public:
  CountingSet(std::size_t size, float first, int classes)
      : size_(size), first_(first), classes_(classes) {}
  std::size_t size() const override { return size_; }
  std::vector<ArraySpec> inputs() const override { return {{.name = "x", .shape = {2}}}; }
  std::optional<ArraySpec> target() const override { return class_spec(classes_); }
  int classes() const override { return classes_; }
  int label(std::size_t sample) const override {
    return static_cast<int>(sample % static_cast<std::size_t>(classes_));
  }
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override {
    out.inputs.resize(1);
    auto x = out.inputs[0].prepare<float>(inputs()[0], indices.size());
    auto y = out.targets.prepare<std::int64_t>(*target(), indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const float value = first_ + static_cast<float>(indices[i]) + (augment ? 1000.0f : 0.0f);
      x[2 * i] = value;
      x[2 * i + 1] = -value;
      y[i] = label(indices[i]);
    }
  }

 private:
  std::size_t size_;
  float first_;
  int classes_;
};

/// Sample i has the tokens (i, 1) of 4, and the targets (i, kIgnored).
class TokenSet final : public Dataset {
 public:
  std::size_t size() const override { return 3; }
  std::vector<ArraySpec> inputs() const override { return {spec("tokens")}; }
  std::optional<ArraySpec> target() const override { return spec("next"); }
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>&,
            Batch& out) const override {
    out.inputs.resize(1);
    auto x = out.inputs[0].prepare<std::int64_t>(spec("tokens"), indices.size());
    auto y = out.targets.prepare<std::int64_t>(spec("next"), indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      x[2 * i] = y[2 * i] = static_cast<std::int64_t>(indices[i]);
      x[2 * i + 1] = 1;
      y[2 * i + 1] = kIgnored;
    }
  }

 private:
  static ArraySpec spec(const std::string& name) {
    return {.name = name, .type = ElementType::int64, .shape = {2}, .bound = 4};
  }
};

struct Values {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  bool operator==(const Values&) const = default;
};

Values values_of(const Dataset& set, const std::vector<std::size_t>& indices,
                 const std::optional<AugmentKey>& augment = {}) {
  Batch batch;
  set.read(indices, augment, batch);
  const auto x = batch.inputs.at(0).get<float>();
  const auto y = batch.targets.get<std::int64_t>();
  CHECK(batch.size() == indices.size());
  CHECK(batch.inputs[0].shape ==
        std::vector<std::int64_t>{static_cast<std::int64_t>(indices.size()), 2});
  return {{x.begin(), x.end()}, {y.begin(), y.end()}};
}

}  // namespace

TEST_CASE("relabelled: classes have other numbers, samples stay") {
  const auto set = relabelled(std::make_unique<CountingSet>(5, 0.0f, 2), {3, 1}, 4);
  CHECK(set->size() == 5);
  CHECK(set->classes() == 4);
  CHECK(set->target() == class_spec(4));
  CHECK(labels_of(*set) == std::vector<int>{3, 1, 3, 1, 3});
  CHECK(values_of(*set, {4, 1}) == Values{{4, -4, 1, -1}, {3, 1}});
}

TEST_CASE("joined: batches may cross from one set to the next") {
  const CountingSet one(3, 0, 3), two(1, 100, 3), three(2, 200, 3);
  const auto set = joined({&one, &two, &three});
  CHECK(set->size() == 6);
  CHECK(labels_of(*set) == std::vector<int>{0, 1, 2, 0, 0, 1});
  CHECK(values_of(*set, {5, 0, 2, 3, 4}) ==
        Values{{201, -201, 0, 0, 2, -2, 100, -100, 200, -200}, {1, 0, 2, 0, 0}});
  CHECK(values_of(*set, {3}, AugmentKey{}) == Values{{1100, -1100}, {0}});
}

TEST_CASE("packed samples are the same samples on another rank") {
  const CountingSet set(4, 7, 3);
  REQUIRE(has_fixed_shapes(set));
  std::vector<std::byte> bytes = packed_samples(set);
  CHECK(bytes.size() == packed_bytes(set));
  CHECK(bytes.size() == 4 * (2 * sizeof(float) + sizeof(std::int64_t)));
  const auto copy = unpacked_samples(bytes, 4, set);
  CHECK(copy->size() == 4);
  CHECK(labels_of(*copy) == labels_of(set));
  CHECK(values_of(*copy, {3, 0, 2}) == values_of(set, {3, 0, 2}));
  test::says(test::refusal(Kind::wire, [&] { unpacked_samples(bytes, 5, set); }), "5 samples");
  bytes.back() = std::byte{1};  // the last class becomes large
  test::says(test::refusal(Kind::wire, [&] { unpacked_samples(bytes, 4, set); }), "[0, 3)");
}

TEST_CASE("packed tokens are looked at before they are looked up") {
  const TokenSet set;
  const std::vector<std::byte> bytes = packed_samples(set);
  const auto copy = unpacked_samples(bytes, 3, set);
  Batch batch;
  const std::vector<std::size_t> last = {2};
  copy->read(last, std::nullopt, batch);
  const auto next = batch.targets.get<std::int64_t>();
  CHECK(std::vector<std::int64_t>(next.begin(), next.end()) ==
        std::vector<std::int64_t>{2, kIgnored});
  // A sample has four numbers: two tokens, two targets.
  for (const std::size_t number : {0u, 3u, 4u, 10u}) {
    std::vector<std::byte> wrong = bytes;
    wrong[number * sizeof(std::int64_t)] = std::byte{4};
    INFO(number);
    test::says(test::refusal(Kind::wire, [&] { unpacked_samples(wrong, 3, set); }), "[0, 4)");
  }
  std::vector<std::byte> wrong = bytes;
  std::copy_n(bytes.end() - sizeof(std::int64_t), sizeof(std::int64_t), wrong.begin());
  test::says(test::refusal(Kind::wire, [&] { unpacked_samples(wrong, 3, set); }), "found -100");
}
