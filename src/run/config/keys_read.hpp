// SPDX-License-Identifier: Apache-2.0
// Keys that only some of a family's things read, such as data.partition.skew.

#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/options.hpp"
#include "config/run_config.hpp"
#include "core/catalogue.hpp"

namespace eqt::config {

/// Returns true if the row lists `key`, named within its section, among those that not all rows
/// read.
template <typename Row>
bool reads_key(const Row& row, std::string_view key) {
  return std::ranges::find(row.keys, key) != row.keys.end();
}

template <typename Row>
const Row& row_in(const Entry<Row>& entry) {
  return *entry;
}
template <typename Row>
const Row& row_in(const Row& row) {
  return row;
}

/// Returns which option of a compressor a key of its section sets; empty if it sets none that only
/// some compressors read.
std::optional<codec::Option> compressor_option(std::string_view name);

/// A row's name and whether it reads a key.
struct KeyReader {
  std::string_view name;
  bool reads = false;
};

/// Refuses another value than the default of `key`, which stands in the section of `chosen_by`.
/// @throws Error{usage} that says which of the `readers` read it
void require_default(const RunConfig& config, std::string_view chosen_by, std::string_view key,
                     std::string_view chosen, const std::vector<KeyReader>& readers,
                     const std::string& origin);

/// Refuses keys that would do nothing: other rows of the family read them, the chosen one does not.
/// @param chosen_by the key that names the row: "data.partition.kind"
/// @throws Error{usage}; `origin` says where the keys stand
template <typename Row, typename Rows>
void check_keys_read(const RunConfig& config, std::string_view chosen_by, const Row& chosen,
                     const Rows& rows, const std::string& origin) {
  for (const auto& reader : rows) {
    for (const std::string_view key : row_in(reader).keys) {
      if (reads_key(chosen, key)) continue;
      std::vector<KeyReader> readers;
      for (const auto& row : rows)
        readers.push_back({row_in(row).name, reads_key(row_in(row), key)});
      require_default(config, chosen_by, key, chosen.name, readers, origin);
    }
  }
}

/// The keys with other values than their defaults that this run does not read: those of compressors
/// and of some algorithms are no error, since sweeps set them for all.
std::vector<std::string> keys_without_effect(const RunConfig& config);

}  // namespace eqt::config
