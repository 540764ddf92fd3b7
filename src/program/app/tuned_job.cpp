// SPDX-License-Identifier: Apache-2.0
#include "app/tuned_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/host_facts.hpp"
#include "comm/link_probe.hpp"
#include "comm/signals.hpp"
#include "config/document.hpp"
#include "core/clock.hpp"
#include "metrics/folder.hpp"
#include "metrics/output_file.hpp"
#include "metrics/run_files.hpp"
#include "planner/cluster_file.hpp"
#include "planner/rate_search.hpp"
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
  plain.train.tune_rates = config::RunConfig{}.train.tune_rates;
  return config::parse_document(config::short_json(plain), kOrigin);
}

/// Returns what the config's probes share: they train from the first weights on and save nothing.
config::Json short_run(const config::RunConfig& config) {
  config::Json json = untuned(config);
  json.erase("checkpoint");
  json["name"] = "probe";
  for (const char* const key : {"steps", "early_stopping"}) json["train"].erase(key);
  json["output"]["step_records"] = true;
  json["output"]["tensorboard"] = false;
  return json;
}

/// Makes the compressor auto average gradients in each step, of the keys of synchronization only
/// those of time.
void observe_noise(config::Json& json) {
  json["compressor"] = {{"name", "auto"}};
  const config::Json own = json.value("synchronization", config::Json::object());
  json["synchronization"] = config::Json::object();
  for (const char* const key : {"overlap", "timeout_seconds"})
    if (own.contains(key)) json["synchronization"][key] = own[key];
}

/// The config that observes the noise of gradients, with the rate that counts as the best.
config::RunConfig probe_of(const config::RunConfig& config, double rate) {
  config::Json json = short_run(config);
  observe_noise(json);
  json["optimizer"]["learning_rate"] = rate;
  json["train"]["epochs"] = config.train.tune_epochs;
  json["train"]["evaluate_every"] = 1;
  return config::parse_config(json.dump(), "the config of the probe", {});
}

/// The config of a trial of a rate: a fifth of the probe's epochs, with the job's own messages,
/// which bound the rate, unless they are averages of models. The weights themselves are evaluated,
/// for their moving average would still be near the first ones, and on plain samples.
config::RunConfig trial_of(const config::RunConfig& config, double rate) {
  constexpr std::uint64_t kShare = 5;
  config::Json json = short_run(config);
  if (!config.synchronization.algorithm->averages_gradients) observe_noise(json);
  json["optimizer"]["learning_rate"] = rate;
  json["train"]["epochs"] = (config.train.tune_epochs + kShare - 1) / kShare;
  json["train"]["evaluate_every"] = 0;
  json["train"].erase("ema");
  json.erase("evaluate");
  // With nothing to go back to, all ranks end in the same step, and the job goes on.
  json["train"]["on_divergence"] = "rollback";
  return config::parse_config(json.dump(), "the config of a trial of a rate", {});
}

/// The config of a few steps with a smaller batch, which tells how much of a step's computing time
/// does not depend on the batch; none: the batch cannot be halved.
std::optional<config::RunConfig> timing_of(const config::RunConfig& config, double rate) {
  constexpr std::uint64_t kSteps = 16;
  constexpr int kHalvings = 3;
  const std::size_t own = config.train.batch_size;
  std::size_t batch = own;
  for (int i = 0; i < kHalvings && batch % 2 == 0 && batch / 2 >= planner::kLeastNormalizedBatch;
       ++i)
    batch /= 2;
  if (batch == own || config.train.balances()) return {};
  config::Json json = short_run(config);
  observe_noise(json);
  json["optimizer"]["learning_rate"] = rate;
  json["train"]["batch_size"] = batch;
  json["train"]["steps"] = kSteps;
  json["train"]["evaluate_every"] = 0;
  return config::parse_config(json.dump(), "the config of the measurement of a smaller batch", {});
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

/// Trains the probe's job, in its folder, from the first weights on. Collective.
/// @return its seconds, on rank 0
double train_probe(Job& probe, const config::RunConfig& config,
                   const std::function<void(Job&)>& train) {
  const Stopwatch watch;
  probe.config = config;
  probe.comm.agree_after([&] {
    if (probe.comm.rank() == 0)
      probe.folder = std::make_unique<RunFolder>(probe.path, Results::replace);
  });
  const auto close = [&] {
    probe.folder.reset();
    comm::note_signals(comm::OnSignal::stop_at_once);
  };
  try {
    train(probe);
  } catch (const comm::AgreedError&) {
    close();
    throw;
  }
  close();
  return watch.seconds();
}

/// Trains with rates around the config's and finds the best one. Collective.
/// @return on rank 0 what was tried; on others only the rate
/// @throws Error{diverged} on all ranks if no rate trains
planner::RateSearch search_rates(const Job& job, Job& probe,
                                 const std::function<void(Job&)>& train) {
  comm::Communicator& comm = job.comm;
  const double own = job.config.optimizer.learning_rate;
  const std::uint64_t most = job.config.train.tune_rates;
  planner::RateSearch search{.tried = {}, .rate = own};
  if (most == 1) return search;
  const auto shared_rate = [&](std::optional<double> rate) {
    std::array<double, 1> sent = {rate.value_or(-1)};
    comm.broadcast(std::as_writable_bytes(std::span(sent)), 0);
    return sent[0];
  };
  const auto next = [&] { return planner::next_rate(search.tried, own, most); };
  while (true) {
    const double rate = shared_rate(comm.rank() == 0 ? next() : std::nullopt);
    if (rate < 0) break;
    const Stopwatch watch;
    bool diverged = false;
    try {
      train_probe(probe, trial_of(job.config, rate), train);
    } catch (const comm::AgreedError& error) {
      if (error.kind() != Kind::diverged) throw;
      diverged = true;
    }
    comm.agree_after([&] {
      if (comm.rank() != 0) return;
      std::uint64_t steps = 0;
      const std::optional<double> loss =
          diverged ? std::nullopt : planner::final_loss(probe.path, steps);
      search.steps = std::max(search.steps, steps);
      search.tried.push_back({.rate = rate, .loss = loss, .seconds = watch.seconds()});
    });
  }
  comm.agree_after([&] {
    if (comm.rank() == 0) search.short_rate = planner::best_rate(search.tried);
  });
  search.short_rate = shared_rate(search.short_rate);
  search.rate = search.short_rate;
  if (!job.config.schedule.kind->changes_rate) search.rate *= planner::kLongerRun;
  return search;
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
    (void)probe_of(job.config, job.config.optimizer.learning_rate);  // before minutes of trials
  });
  const Stopwatch watch;
  Choice choice{.rates = search_rates(job, probe, train)};
  const double rate = choice.rates.rate;
  if (speaks && !choice.rates.tried.empty())
    fmt::print("train.tune: {}\n", planner::sentence_of(choice.rates));
  if (speaks)
    fmt::print("train.tune: a probe of {} epochs with the rate {:.4g}, in {}\n",
               job.config.train.tune_epochs, rate, probe.path);
  std::optional<planner::MeasuredBatch> smaller;
  if (const auto timing = timing_of(job.config, rate)) {
    train_probe(probe, *timing, train);
    comm.agree_after([&] {
      if (comm.rank() != 0) return;
      smaller = {.batch_size = timing->train.batch_size,
                 .step_seconds = planner::step_seconds_of(probe.path)};
    });
  }
  train_probe(probe, probe_of(job.config, rate), train);
  comm.heartbeat("measurement of the links for train.tune", true);
  const planner::ClusterFile cluster = cluster_of(job);
  comm.heartbeat("choice of the recipe", true);
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    const std::string text = untuned(job.config).dump();
    choice.recipe = planner::tune_job(text, kOrigin, cluster, probe.path, smaller,
                                      job.config.train.tune_target);
    choice.config = config::parse_config(text, kOrigin, choice.recipe.sets);
  });
  choice.seconds = watch.seconds();
  choice.config = shared(choice.config, comm);
  if (speaks)
    fmt::print("train.tune: {} Choosing took {:.3g} s.\n", choice.recipe.sentence, choice.seconds);
  job.config = choice.config;
  job.choice = std::move(choice);
}

std::string sentence_of(const Choice& choice) {
  const std::string chosen = choice.recipe.sentence;
  const std::string took = fmt::format("Choosing took {:.3g} s of the job.", choice.seconds);
  if (choice.rates.tried.empty()) return fmt::format("{} {}", chosen, took);
  return fmt::format("{} {} {}", chosen, planner::sentence_of(choice.rates), took);
}

void write_choice(const Job& job) {
  const Choice& choice = *job.choice;
  nlohmann::ordered_json json = {
      {"sentence", sentence_of(choice)}, {"sets", choice.recipe.sets}, {"seconds", choice.seconds}};
  if (!choice.rates.tried.empty()) {
    json["rates"] = {{"learning_rate", choice.rates.rate},
                     {"of_short_runs", choice.rates.short_rate},
                     {"steps", choice.rates.steps},
                     {"tried", nlohmann::ordered_json::array()}};
    for (const planner::TriedRate& one : choice.rates.tried) {
      nlohmann::ordered_json row = {{"learning_rate", one.rate}, {"loss", nullptr}};
      if (one.loss) row["loss"] = *one.loss;
      row["seconds"] = one.seconds;
      json["rates"]["tried"].push_back(std::move(row));
    }
  }
  metrics::write_atomically(job.folder->file(metrics::run_files::kTuned), json.dump(2) + "\n");
}

}  // namespace eqt::app
