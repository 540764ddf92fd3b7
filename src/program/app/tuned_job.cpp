// SPDX-License-Identifier: Apache-2.0
#include "app/tuned_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "comm/host_facts.hpp"
#include "comm/link_probe.hpp"
#include "comm/signals.hpp"
#include "config/document.hpp"
#include "metrics/folder.hpp"
#include "metrics/output_file.hpp"
#include "metrics/run_files.hpp"
#include "planner/cluster_file.hpp"
#include "setup/build_messages.hpp"

namespace eqt::app {
namespace {

constexpr const char* kOrigin = "the config that train.tune chose";
constexpr double kProbeSeconds = 2;  // for measuring links

/// The config's deciding keys as JSON, without train.tune: what the recipe is put into.
config::Json untuned(const config::RunConfig& config) {
  config::RunConfig plain = config;
  plain.train.tune = config::Tune::off;
  plain.train.tune_target = 0;
  plain.train.tune_epochs = config::RunConfig{}.train.tune_epochs;
  return config::parse_document(config::short_json(plain), kOrigin);
}

/// The config that observes the noise of gradients: the compressor auto averages them in each step.
config::RunConfig probe_of(const config::RunConfig& config) {
  config::Json json = untuned(config);
  json.erase("checkpoint");
  json["name"] = "probe";
  json["compressor"] = {{"name", "auto"}};
  const config::Json own = json.value("synchronization", config::Json::object());
  json["synchronization"] = config::Json::object();
  for (const char* const key : {"overlap", "timeout_seconds"})
    if (own.contains(key)) json["synchronization"][key] = own[key];
  json["train"]["epochs"] = config.train.tune_epochs;
  for (const char* const key : {"steps", "early_stopping"}) json["train"].erase(key);
  json["train"]["evaluate_every"] = 1;
  json["output"]["step_records"] = true;
  json["output"]["tensorboard"] = false;
  return config::parse_config(json.dump(), "the config of the probe", {});
}

/// Rank 0's config on all ranks. Collective.
config::RunConfig shared(const config::RunConfig& own, comm::Communicator& comm) {
  const std::string text = comm.broadcast(config::resolved_json(own), 0);
  config::RunConfig config;
  comm.agree_after([&] { config = config::parse_config(text, kOrigin, {}); });
  return config;
}

/// The job's hosts as boards, whose computing times the probe knows, with the rate of each one's
/// slowest link while both directions are busy. Collective.
planner::ClusterFile cluster_of(const Job& job) {
  comm::Communicator& comm = job.comm;
  const std::vector<Rank> first = comm::first_ranks_on_hosts(comm);
  const std::vector<std::string> names = comm.allgather(comm::host_name());
  const std::vector<std::uint64_t> cores =
      comm.allgather(static_cast<std::uint64_t>(comm::online_cores()));
  const std::vector<comm::Link> links =
      comm::probe_links(comm, {.budget_seconds = kProbeSeconds,
                               .timeout_seconds = job.config.synchronization.timeout_seconds});
  const int threads = setup::threads_for(job.config, comm, 0);
  std::map<Rank, int> ranks;
  for (const Rank rank : first) ++ranks[rank];
  planner::ClusterFile file;
  const bool laboratory = !job.laboratory.shaped.empty();
  if (laboratory) file.cluster.cores_of_all = static_cast<double>(cores[0]);
  for (const auto& [host, count] : ranks) {
    const std::string& name = names[static_cast<std::size_t>(host)];
    forecast::Link own = {.name = name, .bytes_per_second = 0, .latency_seconds = 0};
    for (const comm::Link& link : links) {
      if (link.same_host || (link.first != host && link.second != host)) continue;
      for (const comm::LinkSpeed& way : {link.forward, link.backward}) {
        const double found = way.duplex_bytes_per_second;
        own.bytes_per_second =
            own.bytes_per_second == 0 ? found : std::min(own.bytes_per_second, found);
        own.latency_seconds = std::max(own.latency_seconds, way.latency_seconds);
      }
    }
    // A host alone needs no link, but a number above 0.
    if (own.bytes_per_second == 0) own.bytes_per_second = 1e9;
    forecast::Boards board = {.name = name,
                              .ranks = count,
                              .update_seconds = -1,
                              .speed = {},
                              .link = file.cluster.links.size()};
    board.cores_of_rank = threads;
    if (!laboratory) board.cores = static_cast<double>(cores[static_cast<std::size_t>(host)]);
    file.cluster.links.push_back(std::move(own));
    file.cluster.boards.push_back(std::move(board));
    file.facts.emplace_back();
  }
  return file;
}

}  // namespace

void take_earlier_choice(Job& job) {
  std::string sets;
  config::RunConfig config = job.config;
  bool found = false;
  const std::string folder = job.command.out.empty() ? "runs/" + job.config.name : job.command.out;
  job.comm.agree_after([&] {
    const std::string path = folder + "/" + metrics::run_files::kTuned;
    if (job.comm.rank() != 0 || !metrics::is_there(path)) return;
    const config::Json json = config::parse_document(
        config::read_document(path, "--resume", "what train.tune chose"), path);
    if (!json.contains("sets") || !json["sets"].is_array())
      fail(Kind::data, "{}: expected what train.tune chose, with a list of \"sets\", found none",
           path);
    std::vector<std::string> chosen;
    for (const config::Json& one : json["sets"])
      chosen.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    config = config::parse_config(untuned(job.config).dump(), path, chosen);
    found = true;
  });
  if (job.comm.allgather(std::uint64_t{found ? 1U : 0U})[0] == 0) return;
  job.config = shared(config, job.comm);
}

void choose_by_probe(Job& job, const std::function<void(Job&)>& train) {
  comm::Communicator& comm = job.comm;
  const bool speaks = comm.rank() == 0 && !job.command.quiet &&
                      job.config.output.progress != metrics::ProgressStyle::off;
  TrainCommand command = job.command;
  command.quiet = true;
  Job probe{.command = command,
            .program = job.program,
            .session = job.session,
            .comm = comm,
            .config = job.config,
            .fault = {},
            .path = job.path + "/probe",
            .folder = {},
            .resume = {},
            .laboratory = job.laboratory,
            .note_on_mixed_ranks = job.note_on_mixed_ranks,
            .device = {},
            .choice = {}};
  comm.agree_after([&] {
    planner::require_tunable(job.config);
    if (comm.size() < 2 || job.command.simulate > 0)
      fail(Kind::usage,
           "train.tune: expected at least 2 ranks of MPI, whose gradients tell their noise and "
           "whose links are measured, found {}; start more, or leave train.tune out",
           job.command.simulate > 0 ? std::string("--simulate") : fmt::format("{}", comm.size()));
    probe.config = probe_of(job.config);
    if (comm.rank() == 0) probe.folder = std::make_unique<RunFolder>(probe.path, Results::replace);
  });
  if (speaks)
    fmt::print("train.tune: a probe of {} epochs, in {}\n", job.config.train.tune_epochs,
               probe.path);
  train(probe);
  comm::note_signals(comm::OnSignal::stop_at_once);
  probe.folder.reset();
  comm.heartbeat("measurement of the links for train.tune", true);
  const planner::ClusterFile cluster = cluster_of(job);
  comm.heartbeat("choice of the recipe", true);
  Choice choice;
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    const std::string text = untuned(job.config).dump();
    choice.recipe =
        planner::tune_job(text, kOrigin, cluster, probe.path, job.config.train.tune_target);
    choice.config = config::parse_config(text, kOrigin, choice.recipe.sets);
  });
  choice.config = shared(choice.config, comm);
  if (speaks) fmt::print("train.tune: {}\n", choice.recipe.sentence);
  job.config = choice.config;
  job.choice = std::move(choice);
}

void write_choice(const Job& job) {
  const planner::TunedRecipe& recipe = job.choice->recipe;
  const nlohmann::ordered_json json = {{"sentence", recipe.sentence}, {"sets", recipe.sets}};
  metrics::write_atomically(job.folder->file(metrics::run_files::kTuned), json.dump(2) + "\n");
}

}  // namespace eqt::app
