// SPDX-License-Identifier: Apache-2.0
// Ranks that were started differently find out before they train.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"
#include "config/facts.hpp"
#include "config/run_config.hpp"
#include "data/dataset.hpp"

namespace eqt::setup {

/// One number a rank if all hold the same facts; rank 0's facts only if they do not.
/// @param what "the config", `remedy` what to try: for the sentence
/// @throws Error{kind} on every rank: names the first rank that differs from rank 0 and each
/// difference. Collective.
void require_same_facts(const config::Facts& mine, std::string_view what, std::string_view remedy,
                        comm::Communicator& comm, Kind kind = Kind::usage);

/// Compares byte order and the task of this rank, its verb and options, with rank 0's, since each
/// verb has its own messages. To be called before anything else is sent.
/// @throws Error{usage} on every rank: names the first rank that differs and each difference.
/// Collective.
void require_same_command(const config::Facts& command, comm::Communicator& comm);

/// Compares program and MPI with rank 0's. The version of LibTorch and the kind of processor may
/// differ: nothing that is sent depends on them, and all start from rank 0's parameters.
/// @throws Error{usage} as require_same_command. Collective.
void require_same_program(comm::Communicator& comm);

/// A rank computes its gradients with these.
struct Arithmetic {
  std::string networks;   // "LibTorch 1.13.1"; "none" without LibTorch
  std::string processor;  // "x86-64", "arm64" ...
};
/// A sentence that names the first rank that computes with another version of LibTorch, or on
/// another kind of processor, than rank 0; empty if there is none.
std::string note_on_mixed_ranks(const std::vector<Arithmetic>& ranks);
/// Returns that sentence for the ranks of this job, the same text on all. Collective.
std::string note_on_mixed_ranks(comm::Communicator& comm);

/// Compares what this rank was told to run with rank 0's, key by key.
/// @throws Error{usage} as require_same_command. Collective.
void require_same_config(const config::RunConfig& config, comm::Communicator& comm);

/// Returns what tells a data set from others: sizes, classes, hashes of all labels and of some
/// samples, prepared for the network.
config::Facts data_facts(const data::DatasetPair& data);

/// The facts of all ranks, each under the rank's number: the same on every rank. Collective.
config::Facts facts_of_all(const config::Facts& mine, comm::Communicator& comm);

/// Compares facts of the data with rank 0's.
/// @throws Error{data} as require_same_command. Collective.
void require_same_data(const config::Facts& facts, comm::Communicator& comm);

/// Compares the hash of all ranks' shards with rank 0's: no sample is used twice only if all ranks
/// divided the same set in the same way.
/// @throws Error{data} as require_same_command. Collective.
void require_same_shards(std::uint64_t fingerprint, comm::Communicator& comm);

}  // namespace eqt::setup
