// SPDX-License-Identifier: Apache-2.0
#include "planner/plans.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace eqt::planner {
namespace {

using nlohmann::ordered_json;

/// "0.123", "12.3", "1234".
std::string megabits_text(double rate) {
  return rate < 100 ? fmt::format("{:.3g} Mb/s", rate) : fmt::format("{:.0f} Mb/s", rate);
}

ordered_json finite_or_null(double rate) {
  return std::isfinite(rate) ? ordered_json(rate) : ordered_json(nullptr);
}

/// A rate of the table; NaN, for what is not known, leaves the place empty.
ordered_json rate_of(double rate, const char* at_zero, const char* at_infinity) {
  if (rate == 0) return at_zero;
  return std::isinf(rate) ? ordered_json(at_infinity) : finite_or_null(rate);
}

/// "on 8 ranks: 0.33 s a step, 16.2 min an epoch".
std::string speed_text(const PlannedRun& run) {
  std::string text = fmt::format("{} a step", duration(run.forecast.mean_seconds));
  if (run.epoch_seconds) text += fmt::format(", {} an epoch", duration(*run.epoch_seconds));
  return text;
}

/// In minutes, kilojoules and megabytes, as people read them.
figures::Row readable(const PlannedRun& run) {
  figures::Row row = row_of(run);
  row["mb"] = run.forecast.sent_bytes / 1e6;
  row["mib"] = run.memory_bytes / (1 << 20);
  if (run.epoch_seconds) row["epoch_minutes"] = *run.epoch_seconds / 60;
  if (run.epoch_joules) row["epoch_kj"] = *run.epoch_joules / 1e3;
  if (run.target_seconds) row["target_minutes"] = *run.target_seconds / 60;
  row["samples_per_kj"] = run.joules > 0 ? ordered_json(1e3 * run.samples / run.joules) : nullptr;
  return row;
}

PlanTable scheme_table(const Plans& plans) {
  PlanTable table = {
      .name = "schemes",
      .caption = fmt::format("{} ranks, by scheme:", plans.whole[0].ranks),
      .rows = {},
      .columns = {{"scheme", "scheme"},
                  {"collective", "collective"},
                  {"step_seconds", "s/step"},
                  {"step_seconds_p90", "90 %"},
                  {"epoch_minutes", "min/epoch", 3},
                  {"computing_seconds", "computing", 3},
                  {"waiting_seconds", "waiting", 3},
                  {"communicating_seconds", "codec", 3},
                  {"sending_seconds", "link", 3},
                  {"mb", "MB sent", 3},
                  {"mib", "MiB/rank", 4},
                  {"break_even", "faster below [Mb/s]", 3}},
      .remarks = {
          "Seconds a step of a rank: computing, waiting for the means of others, the "
          "communication",
          "thread's work, and its messages at the link's full rate. MB sent: by a rank in a "
          "step.",
          "Faster below: the rate of the slowest link below which the scheme is faster than "
          "float32."}};
  if (plans.one_board) {
    table.columns.insert(table.columns.begin() + 4, {"times_one_board", "x one board", 3});
    table.remarks.emplace_back(
        "x one board: samples a second, divided by those of one board alone, the kind that "
        "computes most,");
    table.remarks.emplace_back("with the same batch on each of its ranks and no exchange.");
    table.columns.push_back({"pays_from", "pays from [Mb/s]", 3});
    table.remarks.emplace_back(
        "Pays from: the rate of the slowest link from which on the scheme is faster than one board "
        "alone.");
  }
  bool joules = false, targets = false;
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    const PlannedRun& run = plans.whole[s];
    figures::Row row = readable(run);
    row["break_even"] = rate_of(plans.break_even[s], "never", "always");
    joules = joules || run.joules > 0;
    targets = targets || run.noise;
    if (plans.one_board) {
      row["times_one_board"] = times_one_board(plans, run);
      row["pays_from"] = rate_of(plans.pays_from[s], "always", "never");
    }
    table.rows.push_back(std::move(row));
  }
  if (plans.one_board) {
    figures::Row row = readable(*plans.one_board);
    row["times_one_board"] = 1.0;
    const bool first = one_board_is_fastest(plans);
    table.rows.insert(first ? table.rows.begin() : table.rows.end(), std::move(row));
  }
  if (joules) table.columns.push_back({"epoch_kj", "kJ/epoch", 3});
  if (targets) {
    table.columns.push_back({"compression_noise", "noise q", 3});
    table.columns.push_back({"target_steps", "steps to target", 4});
    table.columns.push_back({"target_minutes", "min to target", 3});
  }
  return table;
}

PlanTable rank_table(const Plans& plans) {
  const bool epochs = plans.whole[0].epoch_seconds.has_value();
  PlanTable table = {
      .name = "ranks",
      .caption = fmt::format("{} by ranks:", epochs ? "Minutes an epoch" : "Samples per second"),
      .rows = {},
      .columns = {{"ranks", "ranks"}}};
  for (const PlannedRun& run : plans.whole)
    table.columns.push_back({run.scheme.c_str(), run.scheme.c_str(), 4});
  for (const int ranks : plans.ranks) {
    figures::Row row = {{"ranks", ranks}};
    for (const auto& runs : plans.by_ranks)
      if (const PlannedRun* const run = find_ranks(runs, ranks))
        row[run->scheme] = epochs ? *run->epoch_seconds / 60 : 1 / seconds_a_sample(*run);
    table.rows.push_back(row);
  }
  return table;
}

/// The plans on a front, the cheapest first.
PlanTable front_table(const Plans& plans, const ClusterFile& file) {
  std::vector<const PlannedRun*> front;
  bool prices = false, joules = false;
  for (const auto& runs : plans.by_ranks) {
    for (const PlannedRun& run : runs) {
      if (!run.pareto || !(run.pareto->price || run.pareto->joules)) continue;
      front.push_back(&run);
      prices = prices || run.pareto->price;
      joules = joules || run.pareto->joules;
    }
  }
  std::ranges::sort(front, {}, [](const PlannedRun* run) {
    return std::pair(run->price, run->joules / run->samples);
  });
  PlanTable table = {.name = "fronts",
                     .caption = "What nothing else beats in time and price, or in time and energy:",
                     .rows = {},
                     .columns = {{"scheme", "scheme"}, {"ranks", "ranks"}}};
  const bool epochs = plans.whole[0].epoch_seconds.has_value();
  table.columns.push_back(epochs ? figures::RowColumn{"epoch_minutes", "min/epoch", 3}
                                 : figures::RowColumn{"images_per_second", "samples/s", 4});
  if (prices) table.columns.push_back({"price_text", "price", 4});
  if (joules)
    table.columns.push_back(epochs ? figures::RowColumn{"epoch_kj", "kJ/epoch", 3}
                                   : figures::RowColumn{"samples_per_kj", "samples/kJ", 3});
  table.columns.push_back({"front", "least time for its"});
  for (const PlannedRun* const run : front) {
    figures::Row row = readable(*run);
    row["price_text"] = fmt::format("{:.6g} {}", run->price, file.currency);
    row["front"] =
        run->pareto->price ? run->pareto->joules ? "price and energy" : "price" : "energy";
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

const PlannedRun* find_ranks(const std::vector<PlannedRun>& by_ranks, int ranks) {
  const auto found = std::ranges::find(by_ranks, ranks, &PlannedRun::ranks);
  return found == by_ranks.end() ? nullptr : &*found;
}

const forecast::BoardUse& slowest_boards(const PlannedRun& run) {
  return *std::ranges::min_element(run.forecast.boards, {}, &forecast::BoardUse::waiting);
}

std::string ties_of(const Plans& plans) {
  const double best = seconds_a_sample(plans.whole[plans.best]);
  std::string names;
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    if (s == plans.best || seconds_a_sample(plans.whole[s]) > (1 + kTie) * best) continue;
    names += (names.empty() ? "" : ", ") + plans.whole[s].scheme;
  }
  return names;
}

std::string pays_sentence(const Plans& plans) {
  const double* most = nullptr;
  std::size_t scheme = 0;
  for (std::size_t s = 0; s < plans.break_even.size(); ++s) {
    const double& rate = plans.break_even[s];
    if (!plans.compresses.at(s) || std::isnan(rate) || (most != nullptr && rate <= *most)) continue;
    most = &rate;
    scheme = s;
  }
  if (most == nullptr) return "";
  if (*most == 0) return "Compression pays on no link here: float32 is as fast on the slowest.";
  const std::string& name = plans.whole[scheme].scheme;
  if (std::isinf(*most))
    return fmt::format("Compression pays on links of every rate here ({}).", name);
  return fmt::format("Compression pays below {} of the slowest link ({}).", megabits_text(*most),
                     name);
}

std::size_t first_to_pay(const Plans& plans) {
  std::size_t first = plans.best;
  for (std::size_t s = 0; s < plans.pays_from.size(); ++s)
    if (plans.pays_from[s] < plans.pays_from[first]) first = s;
  return first;
}

std::string more_boards_sentence(const Plans& plans, const ClusterFile& file) {
  if (!plans.one_board) return "";
  const auto from = [](double rate, const char* link) {
    if (std::isinf(rate)) return std::string("on no link");
    if (rate == 0) return std::string("on links of every rate");
    return fmt::format("from {}{} on", megabits_text(rate), link);
  };
  const std::size_t first = first_to_pay(plans);
  const double least = plans.pays_from[first];
  const PlannedRun& best = plans.whole[plans.best];
  std::string text = one_board_is_fastest(plans)
                         ? fmt::format("{} is the fastest: {}; more", plans.one_board->scheme,
                                       speed_text(*plans.one_board))
                         : "More";
  text += fmt::format(" boards pay {}", from(least, " of the slowest link"));
  if (std::isfinite(least)) {
    text += fmt::format(" ({})", plans.whole[first].scheme);
    if (plans.float32 && *plans.float32 != first)
      text += fmt::format(", float32 {}", from(plans.pays_from[*plans.float32], ""));
  }
  text +=
      fmt::format("; here, at {}, {:.2f} times one board alone ({})",
                  megabits_text(slowest_megabits(file)), times_one_board(plans, best), best.scheme);
  if (plans.float32 && *plans.float32 != plans.best)
    text += fmt::format(", float32 {:.2f}", times_one_board(plans, plans.whole[*plans.float32]));
  return text + ".";
}

std::optional<int> crossover(const std::vector<PlannedRun>& by_ranks) {
  const auto fastest = std::ranges::min_element(
      by_ranks, {}, [](const PlannedRun& run) { return seconds_a_sample(run); });
  const int most = std::ranges::max_element(by_ranks, {}, &PlannedRun::ranks)->ranks;
  if (fastest->ranks == most) return {};
  return fastest->ranks;
}

void mark_fronts(Plans& plans, const ClusterFile& file) {
  const bool prices =
      std::ranges::all_of(file.facts, [](const BoardFacts& facts) { return facts.price > 0; });
  const bool watts =
      std::ranges::all_of(file.facts, [](const BoardFacts& facts) { return facts.busy_watts > 0; });
  if (!prices && !watts) return;
  std::vector<PlannedRun*> all;
  for (auto& runs : plans.by_ranks)
    for (PlannedRun& run : runs) all.push_back(&run);
  std::vector<std::optional<Tradeoff>> by_price(all.size()), by_joules(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PlannedRun& run = *all[i];
    if (!run.too_small.empty()) continue;
    const double seconds = seconds_a_sample(run);
    if (prices) by_price[i] = {.seconds = seconds, .cost = run.price};
    if (watts) by_joules[i] = {.seconds = seconds, .cost = run.joules / run.samples};
  }
  const std::vector<bool> price = pareto_front(by_price), joules = pareto_front(by_joules);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i]->pareto = {.price = price[i], .joules = joules[i]};
}

std::vector<bool> pareto_front(std::span<const std::optional<Tradeoff>> all) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i]) order.push_back(i);
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::tuple(all[i]->cost, all[i]->seconds, i); });
  std::vector<bool> front(all.size());
  double fastest = std::numeric_limits<double>::infinity();
  for (const std::size_t i : order) {
    front[i] = all[i]->seconds < fastest;
    fastest = std::min(fastest, all[i]->seconds);
  }
  return front;
}

/// "1.23 s", "16.2 min", "3.4 h", "2.1 days".
std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.3g} h", seconds / 3600);
  return fmt::format("{:.3g} days", seconds / 86400);
}

figures::Row row_of(const PlannedRun& run) {
  const forecast::BoardUse& use = slowest_boards(run);
  figures::Row row = {{"scheme", run.scheme},
                      {"ranks", run.ranks},
                      {"collective", run.collective},
                      {"step_seconds", run.forecast.mean_seconds},
                      {"step_seconds_median", run.forecast.quantile(0.5)},
                      {"step_seconds_p90", run.forecast.quantile(0.9)},
                      {"images_per_second", run.samples / run.forecast.mean_seconds},
                      {"computing_seconds", use.computing},
                      {"waiting_seconds", use.waiting},
                      {"communicating_seconds", use.communicating},
                      {"sending_seconds", use.sending},
                      {"sent_bytes_per_rank", run.forecast.sent_bytes},
                      {"memory_bytes_per_rank", run.memory_bytes},
                      {"by_rank", run.forecast.by_rank}};
  row["epoch_seconds"] = run.epoch_seconds ? ordered_json(*run.epoch_seconds) : nullptr;
  row["epoch_joules"] = run.epoch_joules ? ordered_json(*run.epoch_joules) : nullptr;
  if (run.forward_overlap) row["forward_overlap_gain"] = *run.forward_overlap;
  if (run.noise) {
    row["compression_noise"] = *run.noise;
    row["target_steps"] = *run.target_steps;
    row["target_seconds"] = *run.target_seconds;
  }
  row["price"] = run.price > 0 ? ordered_json(run.price) : nullptr;
  if (run.pareto) row["pareto"] = run.pareto->price || run.pareto->joules;
  if (!run.too_small.empty()) row["memory_too_small"] = run.too_small;
  if (const auto& failures = run.under_failures)
    row["under_failures"] = {{"failures_per_day", failures->per_day},
                             {"goodput", failures->goodput},
                             {"interval_seconds", failures->interval},
                             {"best_interval_seconds", failures->best_interval}};
  for (const auto& epoch : run.first_epochs)
    row["first_epochs"].push_back(
        {{"density", epoch.density}, {"step_seconds", epoch.step_seconds}});
  return row;
}

std::string best_sentence(const Plans& plans, const ClusterFile& file) {
  const PlannedRun& best = plans.whole[plans.best];
  std::string text = fmt::format("{} by {} on {} ranks: {}", best.scheme, best.collective,
                                 best.ranks, speed_text(best));
  if (const std::string ties = ties_of(plans); !ties.empty())
    text += fmt::format("; as fast, within {:g} %: {}", 100 * kTie, ties);
  if (plans.float32 && *plans.float32 != plans.best)
    text += fmt::format("; {}: {}", plans.whole[*plans.float32].scheme,
                        duration(plans.whole[*plans.float32].forecast.mean_seconds));
  const int more = best.ranks + file.cluster.boards.back().ranks;
  if (const PlannedRun* const next = find_ranks(plans.by_ranks[plans.best], more)) {
    const double gain = 100 * (seconds_a_sample(best) / seconds_a_sample(*next) - 1);
    text += fmt::format("; a further {} {} {:.1f} %", file.cluster.boards.back().name,
                        gain < 0 ? "costs" : "gains", std::abs(gain));
  }
  return text + ".";
}

std::vector<std::string> answer_of(const Plans& plans, const ClusterFile& file) {
  std::vector<std::string> sentences = {more_boards_sentence(plans, file), pays_sentence(plans),
                                        best_sentence(plans, file)};
  std::erase(sentences, "");
  return sentences;
}

std::vector<PlanTable> tables_of(const Plans& plans, const ClusterFile& file) {
  std::vector<PlanTable> tables = {scheme_table(plans), rank_table(plans)};
  if (PlanTable fronts = front_table(plans, file); !fronts.rows.empty())
    tables.push_back(std::move(fronts));
  return tables;
}

using nlohmann::ordered_json;

std::string note_on_codecs(const Subject& subject) {
  return "speeds of compressors: " + subject.codecs.origin();
}

std::string note_on_guesses(const Subject& subject) {
  if (subject.machine.guessed.empty()) return "";
  return fmt::format("guessed: {}", fmt::join(subject.machine.guessed, ", "));
}

std::vector<std::string> notes_of(const Plans& plans, const ClusterFile& file,
                                  const Subject& subject) {
  std::vector<std::string> notes = {note_on_codecs(subject)};
  std::vector<std::string> flops;
  for (std::size_t b = 0; b < file.facts.size(); ++b)
    if (file.facts[b].flops) flops.push_back(file.cluster.boards[b].name);
  if (!flops.empty())
    notes.push_back(
        fmt::format("computing times of {} are guessed from flops", fmt::join(flops, ", ")));
  if (const std::string guessed = note_on_guesses(subject); !guessed.empty())
    notes.push_back(guessed);
  if (!plans.whole[plans.best].forecast.by_rank && file.cluster.ranks() > 1)
    notes.push_back("equal boards were represented by one or two of them");
  if (!subject.samples)
    notes.push_back("epochs are unknown: the data set is not here and data.limit_train is not set");
  for (const PlannedRun& run : plans.whole)
    if (!run.too_small.empty())
      notes.push_back(fmt::format("{}: {} MiB a rank exceed the memory of {}", run.scheme,
                                  static_cast<std::uint64_t>(run.memory_bytes / (1 << 20)),
                                  fmt::join(run.too_small, ", ")));
  for (const PlannedRun& run : plans.whole)
    if (const auto& first = run.first_epochs; !first.empty())
      notes.push_back(fmt::format(
          "{}: steps of the first {} send more values, up to {:.3g} %, and take {} at first and {} "
          "at last; all else here is of later ones",
          run.scheme, first.size() == 1 ? "epoch" : fmt::format("{} epochs", first.size()),
          100 * first.front().density, duration(first.front().step_seconds),
          duration(first.back().step_seconds)));
  std::map<int, std::vector<std::string>> best_ranks;
  for (std::size_t s = 0; s < plans.whole.size(); ++s)
    if (const auto most = crossover(plans.by_ranks[s]))
      best_ranks[*most].push_back(plans.whole[s].scheme);
  for (const auto& [ranks, names] : best_ranks)
    notes.push_back(fmt::format("of these numbers {} {} best for {}: more make it slower", ranks,
                                ranks == 1 ? "rank is" : "ranks are", fmt::join(names, "; ")));
  const PlannedRun& best = plans.whole[plans.best];
  if (best.forward_overlap.value_or(0) >= 0.005)
    notes.push_back(fmt::format(
        "{}: a forward pass that waited for each layer's mean alone would gain at most {:.1f} %",
        best.scheme, 100 * *best.forward_overlap));
  if (const auto& failures = best.under_failures)
    notes.push_back(fmt::format(
        "{:.3g} failures a day leave {:.3g} % of the time to steps that count, with states in "
        "memory every {} (checkpoint.memory_seconds; best: every {}), whose copies are guessed to "
        "pass at 1 GB/s",
        failures->per_day, 100 * failures->goodput, duration(failures->interval),
        duration(failures->best_interval)));
  for (const std::string& reason : plans.left_out) notes.push_back("left out: " + reason);
  if (subject.noise_scale > 0) {
    const PlannedRun* soonest = nullptr;
    for (const PlannedRun& run : plans.whole)
      if (run.target_seconds &&
          (soonest == nullptr || *run.target_seconds < *soonest->target_seconds))
        soonest = &run;
    if (soonest != nullptr)
      notes.push_back(fmt::format("soonest at the target: {}, about {:.0f} steps, {}",
                                  soonest->scheme, *soonest->target_steps,
                                  duration(*soonest->target_seconds)));
    notes.emplace_back(
        "steps to the target are an estimate by S (1 + (1 + q) X / B) (McCandlish et al., 2018); "
        "the noise of compression q is that of normal values, as bench codecs measures it, for "
        "each quantisation of the collective; no estimate for error feedback, whose rounding is no "
        "noise but a delay that depends on the loss (analyze convergence error-feedback has its "
        "bound), biased compressors, local steps and gossip");
  }
  return notes;
}

void print_text(const Plans& plans, const ClusterFile& file,
                const std::vector<std::string>& notes) {
  for (const std::string& sentence : answer_of(plans, file)) fmt::print("{}\n", sentence);
  fmt::print("\n");
  for (const PlanTable& table : tables_of(plans, file)) {
    fmt::print("{}\n", table.caption);
    figures::print_rows(table.rows, table.columns, false);
    for (const std::string& remark : table.remarks) fmt::print("{}\n", remark);
    fmt::print("\n");
  }
  for (const std::string& note : notes) fmt::print("* {}\n", note);
}

void print_json(const Plans& plans, const ClusterFile& file,
                const std::vector<std::string>& notes) {
  const std::string more_boards = more_boards_sentence(plans, file);
  ordered_json document = {
      {"summary", more_boards + (more_boards.empty() ? "" : " ") + best_sentence(plans, file)},
      {"ranks", file.cluster.ranks()},
      {"best", plans.whole[plans.best].scheme},
      {"compression", pays_sentence(plans)}};
  if (plans.one_board) {
    document["one_board"] = row_of(*plans.one_board);
    document["one_board"]["fastest"] = one_board_is_fastest(plans);
    const std::size_t first = first_to_pay(plans);
    document["one_board"]["more_pay_from_megabits"] = finite_or_null(plans.pays_from[first]);
    document["one_board"]["more_pay_with"] = plans.whole[first].scheme;
  }
  document["schemes"] = ordered_json::array();
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    ordered_json row = row_of(plans.whole[s]);
    row["break_even_megabits"] = finite_or_null(plans.break_even[s]);
    row["as_fast_as_best"] =
        seconds_a_sample(plans.whole[s]) <= (1 + kTie) * seconds_a_sample(plans.whole[plans.best]);
    row["always_faster"] = std::isinf(plans.break_even[s]);
    if (plans.one_board) {
      row["times_one_board"] = times_one_board(plans, plans.whole[s]);
      row["pays_from_megabits"] = finite_or_null(plans.pays_from[s]);
    }
    row["by_ranks"] = ordered_json::array();
    for (const PlannedRun& run : plans.by_ranks[s]) row["by_ranks"].push_back(row_of(run));
    row["more_make_it_slower_from"] = nullptr;
    if (const auto most = crossover(plans.by_ranks[s])) row["more_make_it_slower_from"] = *most;
    document["schemes"].push_back(row);
  }
  document["notes"] = notes;
  fmt::print("{}\n", document.dump(2));
}

}  // namespace eqt::planner
