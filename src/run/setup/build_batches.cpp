// SPDX-License-Identifier: Apache-2.0
#include "setup/build_batches.hpp"

#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include "core/error.hpp"
#include "metrics/decisions.hpp"
#include "setup/look_at_data.hpp"

namespace eqt::setup {

std::vector<std::size_t> first_batches(const config::RunConfig& config, int ranks) {
  const config::RunConfig::Train& train = config.train;
  if (const auto* const list = std::get_if<std::vector<std::uint64_t>>(&train.batch_sizes)) {
    if (std::ssize(*list) != ranks)
      fail(Kind::usage,
           "train.batch_sizes: expected {} numbers, one for each rank, found {}; start as many "
           "ranks as it has numbers",
           ranks, list->size());
    return {list->begin(), list->end()};
  }
  return std::vector<std::size_t>(static_cast<std::size_t>(ranks), train.batch_size);
}

std::size_t samples_of_all_ranks(const config::RunConfig& config, int ranks) {
  if (!config.train.has_batches_by_rank())
    return config.train.batch_size * static_cast<std::size_t>(ranks);
  const std::vector<std::size_t> batches = first_batches(config, ranks);
  return std::accumulate(batches.begin(), batches.end(), std::size_t{0});
}

std::vector<double> batch_weights(const std::vector<std::size_t>& batches) {
  std::vector<double> weights;
  for (Rank rank = 0; rank < std::ssize(batches); ++rank)
    weights.push_back(train::weight_of(batches, rank));
  return weights;
}

std::unique_ptr<train::BatchBalancer> build_balancer(const config::RunConfig& config,
                                                     comm::Communicator& comm) {
  if (!config.train.has_batches_by_rank()) return nullptr;
  train::BalanceOptions options = {
      .batches = first_batches(config, comm.size()),
      .least = config.train.batch_least,
      .every = config.train.balances() ? config.train.balance_every : 0,
      .own_samples = has_local_data(config),
      .weighs = config.data.partition.epoch != data::LocalEpoch::weighted};
  if (!config.train.replay.empty())
    options.replay.emplace(metrics::read_decisions(config.train.replay, train::kBatchDecisions));
  return std::make_unique<train::BatchBalancer>(comm, std::move(options));
}

}  // namespace eqt::setup
