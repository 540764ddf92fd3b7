// SPDX-License-Identifier: Apache-2.0
// The config's table and the rooms that build the parts have the same names.

#include <algorithm>
#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "data/dataset.hpp"
#include "model/replica.hpp"
#include "support/catch.hpp"

using namespace eqt;

namespace {

template <typename Named>
std::vector<std::string> sorted_names(const std::vector<Named>& list) {
  std::vector<std::string> names;
  for (const Named& entry : list) names.push_back(entry.name);
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("configs accept exactly the models that can be made", "[names]") {
  CHECK(sorted_names(config::config_choices("model.name")) == sorted_names(model::list_models()));
}

TEST_CASE("configs accept exactly the data sets that can be opened", "[names]") {
  CHECK(sorted_names(config::config_choices("data.name")) == sorted_names(data::list_datasets()));
}
