#include "app/config/nearest.hpp"

#include "support/catch.hpp"

using namespace eqt::app;

TEST_CASE("edit distance has its textbook values", "[nearest]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("saturday", "sunday") == 3);
  CHECK(edit_distance("ab", "ba") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // 2 without the rule that a place is edited once
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

TEST_CASE("the nearest key is the one that was meant", "[nearest]") {
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
  CHECK(nearest_key("learning_rate", keys) == "optimizer.learning_rate");
  CHECK(nearest_key("optimizer.lr", keys) == "optimizer.learning_rate");
  CHECK(nearest_key("optimiser.learning_rate", keys) == "optimizer.learning_rate");
  CHECK(nearest_key("optimizer.weigth_decay", keys) == "optimizer.weight_decay");
  CHECK(nearest_key("wd", keys) == "optimizer.weight_decay");
  CHECK(nearest_key("data.batch", keys) == "train.batch_size");
  CHECK(nearest_key("epoch", keys) == "train.epochs");
  CHECK(nearest_key("compressor.warmup", keys) == "compressor.warmup_epochs");
  CHECK(nearest_key("train.warmup", keys) == "schedule.warmup_epochs");
  CHECK(nearest_key("models.name", keys) == "model.name");
}

TEST_CASE("a key of any length and content is compared", "[nearest]") {
  const std::vector<std::string> keys = {"name", "train.epochs"};
  CHECK(nearest_key(std::string(1 << 20, 'x'), keys).size() > 0);
  CHECK(nearest_key("", keys) == "name");
  CHECK(nearest_key("...", keys).size() > 0);
}
