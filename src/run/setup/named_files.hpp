// SPDX-License-Identifier: Apache-2.0
// The files that a config names: what a run that is resumed must find as it left them.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/facts.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"

namespace eqt::setup {

/// A file by the key that names it and, of a folder, its place there: "data.path/train.csv".
struct NamedFile {
  std::string name;
  std::filesystem::path path;
};

/// Those of network, weights, vocabulary and graph, at this rank's place; they need not be there.
/// @throws Error{usage} as text_options()
std::vector<NamedFile> network_files(const config::RunConfig& config, Rank rank = 0);

/// Those of the user's own data set; none of a set that is always the same. Of many pictures some,
/// spread evenly.
/// @throws Error{data} as DatasetRow::look
std::vector<NamedFile> data_files(const config::RunConfig& config, Rank rank = 0);

/// Length and hash of each file. All are hashed whole if they have at most 256 MiB together;
/// otherwise each has an equal share of that, and a longer one is hashed in pieces that are spread
/// evenly.
/// @throws Error{data} for a file that cannot be read
config::Facts file_facts(const std::vector<NamedFile>& files);

/// The facts of network_files(), of plugins and of data_files(): rank 0's, and where ranks have
/// data of their own those of all, each under its rank's number. The same on every rank.
/// @throws Error{usage}, Error{data} on all ranks. Collective.
config::Facts facts_of_named_files(const config::RunConfig& config, int simulate,
                                   comm::Communicator& comm);

/// Returns true if the fact is of a file that was hashed in pieces.
bool is_of_pieces(const config::Fact& fact);

}  // namespace eqt::setup
