#include "config/checks.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string_view>

#include "codec/catalogue.hpp"
#include "config/build_topology.hpp"
#include "config/feedback_checks.hpp"
#include "config/gossip_checks.hpp"
#include "core/error.hpp"

namespace eqt::config {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_sparse(std::string_view compressor) {
  return is_one_of(compressor, {"topk", "dgc", "threshold", "randomk"});
}

void check_training(const RunConfig& config, const std::string& origin) {
  if (config.train.epochs == 0 && config.train.steps == 0)
    fail(Kind::usage,
         "{}: expected train.epochs or train.steps above 0, found both 0; set one of them", origin);
  if (config.optimizer.nesterov && config.optimizer.momentum == 0)
    fail(Kind::usage,
         "{}: expected optimizer.momentum above 0 with optimizer.nesterov, found 0; set "
         "optimizer.nesterov to false or a momentum",
         origin);
}

void check_partition(const RunConfig::Data::Partition& partition, const std::string& origin) {
  const RunConfig::Data::Partition defaults;
  if (partition.kind != "iid" && partition.reshuffle)
    fail(Kind::usage,
         "{}: expected data.partition.kind \"iid\" for data.partition.reshuffle true, found "
         "\"{}\", whose ranks keep their classes; leave one of the two out",
         origin, partition.kind);
  if (partition.kind != "skew" && partition.skew != defaults.skew)
    fail(Kind::usage,
         "{}: expected data.partition.kind \"skew\" for data.partition.skew {}, found \"{}\"; set "
         "the kind or leave the skew out",
         origin, partition.skew, partition.kind);
  if (partition.kind != "dirichlet" && partition.alpha != defaults.alpha)
    fail(
        Kind::usage,
        "{}: expected data.partition.kind \"dirichlet\" for data.partition.alpha {}, found \"{}\"; "
        "set the kind or leave the alpha out",
        origin, partition.alpha, partition.kind);
}

/// An emulated run has no data set to count epochs by, and no network.
void check_emulation(const RunConfig& config, const codec::Properties& compressor,
                     const std::string& origin) {
  if (!config.train.is_emulated()) return;
  if (config.train.steps == 0)
    fail(Kind::usage,
         "{}: expected train.steps above 0 with train.emulate_compute, which reads no data set to "
         "count epochs by, found 0; set train.steps",
         origin);
  if (!config.model.weights.empty())
    fail(Kind::usage,
         "{}: expected model.weights null with train.emulate_compute, which runs no network, found "
         "\"{}\"; leave it out",
         origin, config.model.weights);
  if (compressor.forgets_sent && config.compressor.warmup_epochs > 0)
    fail(Kind::usage,
         "{}: expected compressor.warmup_epochs 0 with train.emulate_compute, whose only epoch "
         "would be warm-up, found {}; set it to 0",
         origin, config.compressor.warmup_epochs);
}

void check_schedule(const RunConfig::Schedule& schedule, const std::string& origin) {
  const bool is_step = schedule.kind == "step";
  if (is_step && schedule.milestones.empty())
    fail(
        Kind::usage,
        "{}: expected schedule.milestones with schedule.kind \"step\", found none; list the epochs "
        "at which the rate drops",
        origin);
  if (!is_step && !schedule.milestones.empty())
    fail(Kind::usage,
         "{}: expected no schedule.milestones with schedule.kind \"{}\", found {}; set "
         "schedule.kind "
         "to \"step\" or remove them",
         origin, schedule.kind, schedule.milestones.size());
  const auto& epochs = schedule.milestones;
  if (std::adjacent_find(epochs.begin(), epochs.end(), std::greater_equal<>()) != epochs.end())
    fail(Kind::usage, "{}: expected increasing schedule.milestones, found [{}]; sort them", origin,
         fmt::join(epochs, ", "));
}

/// Why a collective that encodes partial sums anew cannot carry a compressor; empty if it can.
std::string_view why_no_partial_sums(const RunConfig& config) {
  const RunConfig::Compressor& compressor = config.compressor;
  const std::string_view name = compressor.name->name;
  if (name == "signsgd") return "whose votes are counted once, at the end";
  if (name == "terngrad") return "whose scale all ranks share";
  if (name == "dgc") return "whose memory forgets what was sent once";
  if (name == "randomk" && compressor.unbiased)
    return "which compressor.unbiased scales up once more in each round";
  const bool whole = is_sparse(name) || is_one_of(name, {"atomo", "onebit", "ef-signsgd"});
  if (config.synchronization.collective == "ring" && whole)
    return "which needs whole tensors where a ring cuts them into runs";
  return {};
}

void check_partial_sums(const RunConfig& config, const std::string& origin) {
  const std::string& collective = config.synchronization.collective;
  if (!is_one_of(collective, {"ring", "recursive-doubling"})) return;
  const std::string_view why = why_no_partial_sums(config);
  if (why.empty()) return;
  fail(Kind::usage,
       "{}: expected synchronization.collective \"auto\" or \"allgather\" for the compressor "
       "\"{}\", {}, found \"{}\"; set it to \"auto\"",
       origin, config.compressor.name->name, why, collective);
}

void check_collective(const RunConfig& config, const std::string& origin) {
  const std::string_view compressor = config.compressor.name->name;
  const std::string& collective = config.synchronization.collective;
  if (is_one_of(collective, {"dense", "mpi-allreduce"}) && compressor != "none")
    fail(Kind::usage,
         "{}: expected the compressor none for synchronization.collective \"{}\" (an allreduce "
         "of float32), found \"{}\"; set synchronization.collective to \"auto\"",
         origin, collective, compressor);
  if (collective == "scatter-reduce" && is_sparse(compressor))
    fail(Kind::usage,
         "{}: expected synchronization.collective \"auto\", \"allgather\" or \"sparse\" for the "
         "sparse compressor \"{}\", found \"scatter-reduce\"; set it to \"sparse\"",
         origin, compressor);
  if (collective == "sparse" && !is_sparse(compressor))
    fail(Kind::usage,
         "{}: expected the compressor topk, threshold, randomk or dgc for "
         "synchronization.collective \"sparse\", found \"{}\"; set synchronization.collective to "
         "\"auto\"",
         origin, compressor);
  if (collective == "scatter-reduce" &&
      is_one_of(compressor, {"atomo", "terngrad", "signsgd", "ef-signsgd", "onebit"}))
    fail(Kind::usage,
         "{}: expected synchronization.collective \"auto\" or \"allgather\" for {}, which needs "
         "whole "
         "tensors where scatter-reduce cuts them into runs, found \"scatter-reduce\"; set it to "
         "\"auto\"",
         origin, compressor);
  if (collective == "integer" && !is_one_of(compressor, {"terngrad", "qsgd-v", "int8"}))
    fail(Kind::usage,
         "{}: expected the compressor terngrad, qsgd-v or int8 for synchronization.collective "
         "\"integer\", which adds codes of equal steps, found \"{}\"; choose one of them or set "
         "synchronization.collective to \"auto\"",
         origin, compressor);
  if (collective == "integer" && compressor == "qsgd-v" &&
      config.compressor.coding != codec::Coding::fixed)
    fail(Kind::usage,
         "{}: expected compressor.coding \"fixed\" for synchronization.collective \"integer\", "
         "whose sums are packed, found \"{}\"; set compressor.coding to \"fixed\"",
         origin, name_of(config.compressor.coding));
  if (collective == "hierarchical" && is_one_of(compressor, {"dgc", "signsgd"}))
    fail(Kind::usage,
         "{}: expected synchronization.collective \"auto\" or \"allgather\" for {}, found "
         "\"hierarchical\", which encodes the sum of a host's ranks; set it to \"auto\"",
         origin,
         compressor == "dgc" ? "dgc, whose ranks each remember what they sent"
                             : "signsgd, whose ranks each have a vote");
  if (collective != "auto" && compressor == "powersgd")
    fail(Kind::usage,
         "{}: expected synchronization.collective \"auto\" for powersgd, which averages factors by "
         "a collective of its own, found \"{}\"; set it to \"auto\"",
         origin, collective);
  if (config.synchronization.algorithm == "none" && compressor != "none")
    fail(Kind::usage,
         "{}: expected the compressor none for synchronization.algorithm \"none\" (nothing is "
         "sent), "
         "found \"{}\"; set synchronization.algorithm to \"allreduce\"",
         origin, compressor);
}

void check_signum(const RunConfig& config, const codec::Properties& compressor,
                  const std::string& origin) {
  if (compressor.votes && config.optimizer.nesterov)
    fail(Kind::usage,
         "{}: expected optimizer.nesterov false for the compressor {}, whose momentum comes before "
         "the vote, found true; set it to false",
         origin, config.compressor.name->name);
}

}  // namespace

void check_combinations(const RunConfig& config, const std::string& origin) {
  const codec::CompressorRow& row = *config.compressor.name;
  if (const std::string why = codec::why_not(row, config.compressor); !why.empty())
    fail(Kind::usage, "{}: {}", origin, why);
  const auto compressor = config.compressor.make();
  const codec::Properties properties = compressor->properties();
  check_training(config, origin);
  check_partition(config.data.partition, origin);
  check_emulation(config, properties, origin);
  check_schedule(config.schedule, origin);
  check_collective(config, origin);
  check_partial_sums(config, origin);
  check_signum(config, properties, origin);
  check_topology(config.synchronization.topology, origin);
  check_gossip(config, origin);
  check_error_feedback(config, *compressor, origin);
}

}  // namespace eqt::config
