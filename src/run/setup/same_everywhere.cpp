// SPDX-License-Identifier: Apache-2.0
#include "setup/same_everywhere.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "comm/session.hpp"
#include "config/facts.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "model/replica.hpp"

namespace eqt::setup {
namespace {

/// Only the difference between zero and other numbers survives a change of byte order, and no text
/// would, since lengths are sent as binary numbers.
void require_same_byte_order(comm::Communicator& comm) {
  const auto big = comm.allgather(std::endian::native == std::endian::big ? 1 : 0);
  for (std::size_t rank = 1; rank < big.size(); ++rank) {
    if ((big[rank] != 0) == (big[0] != 0)) continue;
    const auto name = [&](std::size_t r) { return big[r] != 0 ? "big" : "little"; };
    throw comm::AgreedError(
        Kind::usage,
        fmt::format("rank {}: expected the byte order of rank 0, {}-endian, found {}-endian, so "
                    "numbers would be misread; start all ranks on hosts of one byte order, which "
                    "may have different processors",
                    rank, name(0), name(rank)));
  }
}

/// Without kernels and BLAS, which may differ between boards.
std::string torch_version() {
  const std::string description = model::torch_description();
  return description.substr(0, description.find(" ("));
}

/// That this program was compiled for.
std::string processor_kind() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "arm64";
#else
  return "another kind of processor";
#endif
}

// So many samples of each set take milliseconds to read; fewer are compared where they are large.
constexpr std::size_t kSamplesCompared = 1024;
constexpr std::size_t kBytesCompared = 16 << 20;

std::string hash_of(const void* bytes, std::size_t count) {
  return fmt::format("hash {:016x}", XXH3_64bits(bytes, count));
}

std::string hash_of(const data::Array& array) {
  return std::visit(
      [](const auto& values) { return hash_of(values.data(), values.size() * sizeof(values[0])); },
      array.values);
}

/// Spread evenly over the set, the first and the last among them.
data::Batch some_of(const data::Dataset& set) {
  std::size_t bytes = 1;
  for (const data::ArraySpec& input : set.inputs()) bytes += input.bytes();
  const std::size_t count =
      std::min({kSamplesCompared, set.size(), std::max<std::size_t>(1, kBytesCompared / bytes)});
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < count; ++i)
    chosen.push_back(count == 1 ? 0 : i * (set.size() - 1) / (count - 1));
  data::Batch batch;
  set.read(chosen, std::nullopt, batch);
  return batch;
}

void describe_set(const std::string& name, const data::Dataset& set, config::Facts& facts) {
  const data::Batch batch = some_of(set);
  facts.push_back({name + " samples", fmt::format("{}", set.size())});
  facts.push_back({name + " classes", fmt::format("{}", set.classes())});
  if (set.classes() > 0) {
    const std::vector<int> labels = data::labels_of(set);
    facts.push_back({name + " labels", hash_of(labels.data(), labels.size() * sizeof(int))});
  } else if (!batch.targets.empty()) {
    facts.push_back({name + " targets", hash_of(batch.targets)});
  }
  for (const data::Array& array : batch.inputs)
    facts.push_back({name + " " + array.spec.name, hash_of(array)});
}

}  // namespace

void require_same_facts(const config::Facts& mine, std::string_view what, std::string_view remedy,
                        comm::Communicator& comm, Kind kind) {
  const std::string text = config::packed(mine);
  const auto hashes = comm.allgather(XXH3_64bits(text.data(), text.size()));
  if (std::ranges::count(hashes, hashes[0]) == std::ssize(hashes)) return;
  const std::string first = comm.broadcast(text, 0);
  comm.agree_after([&] {
    const std::string found = config::differences(config::unpacked(first), mine);
    if (!found.empty()) fail(kind, "expected {} of rank 0, found {}; {}", what, found, remedy);
  });
}

config::Facts data_facts(const data::DatasetPair& data) {
  config::Facts facts;
  describe_set("training", *data.train, facts);
  describe_set("test", *data.test, facts);
  return facts;
}

config::Facts facts_of_all(const config::Facts& mine, comm::Communicator& comm) {
  config::Facts all;
  const std::vector<std::string> texts = comm.allgather(config::packed(mine));
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    for (const config::Fact& fact : config::unpacked(texts[rank], "the data of another rank"))
      all.push_back({fmt::format("rank {}: {}", rank, fact.name), fact.value});
  return all;
}

void require_same_data(const config::Facts& facts, comm::Communicator& comm) {
  require_same_facts(facts, "the data set",
                     "give every host the same files of the data set (data.path), or set "
                     "data.partition.kind to \"local\" if each is to learn from files of its own",
                     comm, Kind::data);
}

void require_same_command(const config::Facts& command, comm::Communicator& comm) {
  require_same_byte_order(comm);
  require_same_facts(command, "the command line", "start every rank in the same way", comm);
}

void require_same_program(comm::Communicator& comm) {
  const bool has_torch = model::torch_description() != "none";
  require_same_facts({{"equant-train", version()},
                      {"networks", has_torch ? "by LibTorch" : "by kernels of its own"},
                      {"MPI", comm::mpi_description()}},
                     "the program and libraries", "install the same build on every host", comm);
}

std::string note_on_mixed_ranks(const std::vector<Arithmetic>& ranks) {
  const Arithmetic& first = ranks.at(0);
  const auto other = std::ranges::find_if(ranks, [&](const Arithmetic& rank) {
    return rank.networks != first.networks || rank.processor != first.processor;
  });
  if (other == ranks.end()) return {};
  const bool names_processor = other->processor != first.processor;
  const auto words = [&](const Arithmetic& rank) {
    const std::string networks = rank.networks == "none" ? "kernels of its own" : rank.networks;
    return names_processor ? fmt::format("{} on {}", networks, rank.processor) : networks;
  };
  return fmt::format(
      "rank {} computes with {}, rank 0 with {}: their gradients are rounded otherwise, and "
      "nothing else depends on it",
      other - ranks.begin(), words(*other), words(first));
}

std::string note_on_mixed_ranks(comm::Communicator& comm) {
  const std::vector<std::string> networks = comm.allgather(torch_version());
  const std::vector<std::string> processors = comm.allgather(processor_kind());
  std::vector<Arithmetic> ranks;
  for (std::size_t rank = 0; rank < networks.size(); ++rank)
    ranks.push_back({networks[rank], processors[rank]});
  return note_on_mixed_ranks(ranks);
}

void require_same_config(const config::RunConfig& config, comm::Communicator& comm) {
  require_same_facts(config::config_facts(config), "the config",
                     "give every rank the same --config and --set", comm);
}

void require_same_shards(std::uint64_t fingerprint, comm::Communicator& comm) {
  const auto all = comm.allgather(fingerprint);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw comm::AgreedError(
        Kind::data,
        fmt::format("rank {}: expected the shards that rank 0 computed, found others; give every "
                    "host the same files of the data set (data.path) and the same C library",
                    rank));
  }
}

}  // namespace eqt::setup
