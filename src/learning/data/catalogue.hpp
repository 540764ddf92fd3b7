// SPDX-License-Identifier: Apache-2.0
// The catalogue of data sets, one row each. datasets.def lists the rows; each is in the file that
// reads the set.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"
#include "data/dataset.hpp"

namespace eqt::data {

/// These facts of a set are known before it is opened.
struct DatasetFacts {
  std::vector<ArraySpec> inputs;              // as Dataset::inputs()
  std::optional<ArraySpec> target;            // as Dataset::target()
  int classes = 0;                            // as Dataset::classes()
  std::vector<std::string> class_names = {};  // (classes); empty: classes are called by number
  std::size_t train = 0, test = 0;            // [samples], without limits
  std::uint64_t memory_bytes = 0;             // that opening the set takes at most
};

struct DatasetRow {
  std::string_view name;   // in configs
  std::string_view about;  // one line
  std::string_view title;  // in tables of results
  bool needs_files;
  bool is_own = false;  // what is in the files of data.path is the user's own
  std::span<const std::string_view> keys = {};  // of the config's section, read by no other set
  /// Tells what the set is like; reads as little as it can, nothing if the set is always the same.
  /// @throws Error{data} for files that are missing or malformed
  DatasetFacts (*look)(const DatasetOptions& options);
  /// Opens the set: what look() told, except that limits leave samples out.
  /// @throws Error{data} as look(); Error{usage} for a limit that exceeds the set
  DatasetPair (*open)(const DatasetOptions& options);
  /// The files that open() reads; of many pictures some, spread evenly. Null: always the same ones.
  /// @throws Error{data} as look()
  std::vector<std::filesystem::path> (*files)(const DatasetOptions& options) = nullptr;

  static const Catalogue<DatasetRow>& all();
};

namespace sets {
#define EQT_DATASET(id) extern const DatasetRow id;
#include "data/datasets.def"
}  // namespace sets

/// @throws Error{usage}: `key` ("data.limit_train") exceeds the set
void require_limit(std::size_t limit, std::size_t samples, std::string_view key);

}  // namespace eqt::data
