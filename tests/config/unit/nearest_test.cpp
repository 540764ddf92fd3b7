// SPDX-License-Identifier: Apache-2.0
#include "config/nearest.hpp"

#include "support/catch.hpp"

using namespace eqt::config;

TEST_CASE("edit distance has its textbook values", "[nearest]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("saturday", "sunday") == 3);
  CHECK(edit_distance("ab", "ba") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // 2 if a position could be edited twice
  CHECK(edit_distance("QSGD", "qsgd") == 0);
}

TEST_CASE("edit distance is a symmetric distance", "[nearest]") {
  const std::vector<std::string> words = {"", "a", "topk", "qsgd", "qsgd-v", "terngrad", "tpok"};
  for (const auto& a : words)
    for (const auto& b : words) {
      CHECK(edit_distance(a, b) == edit_distance(b, a));
      CHECK((edit_distance(a, b) == 0) == (a == b));
    }
}

TEST_CASE("the nearest key is the intended one", "[nearest]") {
  const std::vector<std::string> keys = {"name",
                                         "model.name",
                                         "data.path",
                                         "train.batch_size",
                                         "train.epochs",
                                         "optimizer.name",
                                         "optimizer.learning_rate",
                                         "optimizer.weight_decay",
                                         "schedule.warmup_epochs",
                                         "compressor.warmup_epochs"};
  const auto meant = [&](const char* wrong) {
    const std::string* const key = close_key(wrong, keys);
    return key == nullptr ? std::string("none") : *key;
  };
  CHECK(meant("learning_rate") == "optimizer.learning_rate");
  CHECK(meant("optimizer.lr") == "optimizer.learning_rate");
  CHECK(meant("optimiser.learning_rate") == "optimizer.learning_rate");
  CHECK(meant("optimizer.weigth_decay") == "optimizer.weight_decay");
  CHECK(meant("wd") == "optimizer.weight_decay");
  CHECK(meant("data.batch") == "train.batch_size");
  CHECK(meant("epoch") == "train.epochs");
  CHECK(meant("compressor.warmup") == "compressor.warmup_epochs");
  CHECK(meant("train.warmup") == "schedule.warmup_epochs");
  CHECK(meant("models.name") == "model.name");
  // Another word is not a typing error.
  for (const char* other : {"foo", "optimizer.foo", "no-such-option", "train.images", ""})
    CHECK(meant(other) == "none");
}

TEST_CASE("a name is near if at most a third of it is mistyped", "[nearest]") {
  const std::vector<std::string> names = {"qsgd", "elastiquant", "ring"};
  CHECK(*close_name("elastiqant", names) == "elastiquant");
  CHECK(*close_name("QSDG", names) == "qsgd");
  CHECK(*close_name("rin", names) == "ring");
  for (const char* other : {"topk", "foo", "quick-silver", "", "r"})
    CHECK(close_name(other, names) == nullptr);
}

TEST_CASE("a key of any length and content is compared", "[nearest]") {
  const std::vector<std::string> keys = {"name", "train.epochs"};
  CHECK(close_key(std::string(1 << 20, 'x'), keys) == nullptr);
  CHECK(close_key("", keys) == nullptr);
  CHECK(close_key("...", keys) == nullptr);
}
