// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/measure_collective.hpp"
#include "comm/session.hpp"
#include "config/compressor_settings.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "setup/build_collective.hpp"
#include "setup/build_messages.hpp"
#include "setup/same_everywhere.hpp"

namespace eqt::bench {
namespace {

constexpr double kStartTimeoutSeconds = 300;  // until the config says otherwise

void check_sets(const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    if (!set.starts_with("compressor.") && !set.starts_with("synchronization."))
      fail(Kind::usage,
           "--set \"{}\": expected a key of the section compressor or synchronization, as in --set "
           "compressor.name=qsgd",
           set);
    if (set.starts_with("synchronization.collective="))
      fail(Kind::usage, "--set \"{}\": expected --collective for the name", set);
    if (set.starts_with("synchronization.algorithm="))
      fail(Kind::usage, "--set \"{}\": expected no algorithm, what is measured is its mean", set);
  }
}

config::RunConfig configure(std::string_view collective, const std::vector<std::string>& sets) {
  const nlohmann::json document = {{"synchronization", {{"collective", collective}}}};
  return config::parse_config(document.dump(), "bench collectives", sets);
}

/// One config for each row; with every collective asked for, those that refuse the compressor are
/// left out, and if all do, `auto` says which is its own.
std::vector<config::RunConfig> bench_cases(const BenchCollectivesCommand& command) {
  check_sets(command.sets);
  std::vector<config::RunConfig> found;
  for (const std::string& name : command.collectives)
    found.push_back(configure(name, command.sets));
  if (!found.empty()) return found;
  const config::RunConfig automatic = configure("auto", command.sets);  // what all would refuse
  for (const Entry<collective::CollectiveRow> row : collective::CollectiveRow::all()) {
    if (row == collective::kAutomatic) continue;
    try {
      found.push_back(configure(row->name, command.sets));
    } catch (const Error& error) {
      if (error.kind() != Kind::usage) throw;
    }
  }
  if (found.empty()) found.push_back(automatic);
  return found;
}

/// A row: who, and how many.
struct Row {
  const config::RunConfig& config;
  std::string ran;  // the collective that `auto` stood for
  std::size_t values;
  int ranks;
};

void print_json(const Row& row, const CollectiveFigures& figures) {
  nlohmann::ordered_json line = {{"collective", row.config.synchronization.collective->name},
                                 {"compressor", row.config.compressor.name->name},
                                 {"values", row.values},
                                 {"ranks", row.ranks},
                                 {"median_ms", figures.median_ms},
                                 {"p95_ms", figures.p95_ms},
                                 {"wire_bytes", figures.wire_bytes},
                                 {"formula_bytes", nullptr},
                                 {"mpi_allreduce_ms", figures.mpi_median_ms},
                                 {"ratio_vs_mpi", figures.mpi_median_ms / figures.median_ms},
                                 {"ran", row.ran},
                                 {"mpi_allreduce_p95_ms", figures.mpi_p95_ms},
                                 {"estimated_bytes", figures.estimated_bytes},
                                 {"on_host_bytes", figures.on_host_bytes},
                                 {"interface_bytes", nullptr},
                                 {"relative_error", nullptr},
                                 {"repetitions", figures.repetitions}};
  if (figures.formula_bytes) line["formula_bytes"] = *figures.formula_bytes;
  if (figures.interface_bytes) line["interface_bytes"] = *figures.interface_bytes;
  if (figures.relative_error) line["relative_error"] = *figures.relative_error;
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

void print_head(const config::RunConfig& config, const comm::Communicator& comm) {
  fmt::print(
      "{} ranks, compressor {}; milliseconds of the slowest rank, bytes that a rank sends (mean),\n"
      "counted (~ estimated: MPI sends them itself) and by formula; MPI: blocking MPI_Allreduce\n"
      "of float32, alternating with ours; ratio: MPI's median / ours, above 1 is faster.\n"
      "\n"
      "{:<18} {:>9}  {:>9} {:>9}  {:>11} {:>11}  {:>9} {:>6}\n",
      comm.size(), config.compressor.name->name, "collective", "values", "median", "p95", "sent",
      "formula", "MPI", "ratio");
}

void print_row(const Row& row, const CollectiveFigures& figures) {
  const std::string_view name = row.config.synchronization.collective->name;
  fmt::print("{:<18} {:>9}  {:>9.3f} {:>9.3f}  {:>11} {:>11}  {:>9.3f} {:>6.2f}\n",
             name == row.ran ? row.ran : fmt::format("{}: {}", name, row.ran), row.values,
             figures.median_ms, figures.p95_ms,
             fmt::format("{}{}", figures.estimated_bytes > 0 ? "~" : "", figures.wire_bytes),
             figures.formula_bytes ? fmt::format("{}", *figures.formula_bytes) : std::string("-"),
             figures.mpi_median_ms, figures.mpi_median_ms / figures.median_ms);
  std::fflush(stdout);
}

/// A collective, and what it encodes with, as a training run with this config would have them.
struct BenchCase {
  setup::MessageParts messages;
  std::unique_ptr<collective::Collective> collective;
};

/// @return nothing if the collective refuses the compressor, which is an error only where it was
/// named
std::optional<BenchCase> make_bench_case(const config::RunConfig& config, std::size_t values,
                                         bool named, comm::Communicator& comm) {
  try {
    BenchCase made;
    setup::MessageParts& messages = made.messages;
    messages = setup::build_messages(config, bench_layout(values), setup::threads_for(config, comm),
                                     false, comm);
    comm.agree_after([&] {
      made.collective = setup::make_collective(setup::settled_config(config, messages.choice), comm,
                                               *messages.compressor, messages.memory != nullptr,
                                               messages.buckets);
    });
    return made;
  } catch (const comm::AgreedError& error) {
    if (named || error.kind() != Kind::usage) throw;
    return std::nullopt;
  }
}

void measure_row(const config::RunConfig& config, const RankGradients& gradients,
                 std::size_t values, const BenchCollectivesCommand& command,
                 comm::Communicator& comm) {
  const auto made = make_bench_case(config, values, !command.collectives.empty(), comm);
  if (!made) return;
  const setup::MessageParts& messages = made->messages;
  CollectiveBench bench(comm, *messages.compressor, *made->collective, messages.buckets, gradients,
                        values);
  const bool shares = made->collective->row().shares_memory;
  comm.share_memory(shares ? &bench.memory() : nullptr);
  bench.verify();
  const CollectiveFigures figures = bench.measure(command.seconds);
  if (comm.rank() != 0) return;
  const Row row{config, std::string(made->collective->name()), values, comm.size()};
  if (command.json)
    print_json(row, figures);
  else
    print_row(row, figures);
}

int bench_rank(const BenchCollectivesCommand& command, const comm::Session& session) {
  comm::Communicator comm(session, kStartTimeoutSeconds);
  setup::require_same_command({{"verb", "bench collectives"}}, comm);
  std::vector<config::RunConfig> configs;
  comm.agree_after([&] {
    if (comm.size() < 2)
      fail(Kind::usage,
           "bench collectives: expected at least 2 ranks, found 1; start it by mpirun -np N");
    configs = bench_cases(command);
  });
  comm.set_timeout(configs.front().synchronization.timeout_seconds);
  std::vector<std::size_t> sizes = command.values;
  if (sizes.empty()) sizes.assign(kBenchSizes.begin(), kBenchSizes.end());
  if (comm.rank() == 0 && !command.json) print_head(configs.front(), comm);
  for (const std::size_t values : sizes) {
    const RankGradients gradients(values, comm.size());
    for (const config::RunConfig& config : configs)
      measure_row(config, gradients, values, command, comm);
  }
  const std::string note = config::note_on_grades(configs.front().compressor);
  if (comm.rank() == 0 && !command.json && !note.empty()) fmt::print("{}\n", note);
  return 0;
}

}  // namespace

int run_bench_collectives(const BenchCollectivesCommand& command, int argc, char** argv) {
  const comm::Session session(&argc, &argv);
  return comm::run_guarded(session, [&] { return bench_rank(command, session); });
}

}  // namespace eqt::bench
