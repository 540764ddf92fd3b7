// SPDX-License-Identifier: Apache-2.0
#include "report/paper_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "codec/catalogue.hpp"
#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "model/catalogue.hpp"
#include "report/published_data.hpp"
#include "report/values.hpp"

namespace eqt::report {

using figures::kNothing;
using figures::text_cell;

namespace {

/// The value in our runs of a condition that a paper states.
std::string our_condition(const std::string& what, const std::vector<const Run*>& runs) {
  if (what == "data")
    return values_of(runs, [](const Run& run) {
      return run.emulated ? samples_of(run)
                          : fmt::format("{}{}, {}", paper_data(run.dataset), pixels_of(run),
                                        samples_of(run));
    });
  if (what == "hardware")
    return values_of(runs, [](const Run& run) {
      const std::string rate = run.setting("link.rate");
      return fmt::format("{}{} with {} threads a rank, {}{}",
                         run.emulated ? "boards emulated on host " : "all ranks on host ", run.host,
                         run.threads_per_rank, run.torch, rate.empty() ? "" : ", links of " + rate);
    });
  if (what == "batch")
    return values_of(runs, setting("train.batch_size")) + " per rank, ranks " +
           values_of(runs, [](const Run& run) { return fmt::format("{}", run.ranks); });
  if (what == "epochs")
    return values_of(runs, [](const Run& run) {
      if (!run.emulated) return run.setting("train.epochs");
      return fmt::format("seconds are of one step, {} steps measured", run.outcome.steps);
    });
  if (what == "normalization") return values_of(runs, normalization_of);
  if (what == "optimizer")
    return values_of(runs, [](const Run& run) {
      return fmt::format("{}, momentum {} ({}), weight decay {}, rate {}, schedule {}",
                         run.setting("optimizer.name"), run.setting("optimizer.momentum"),
                         run.setting("optimizer.momentum_kind"),
                         run.setting("optimizer.weight_decay"),
                         run.setting("optimizer.learning_rate"), run.setting("schedule.kind"));
    });
  if (what == "precision") return values_of(runs, setting("model.precision"));
  return kNothing;
}

Table conditions_of(const std::string& name, const std::vector<Group>& groups) {
  const PublishedTable& published = published_table(name);
  std::vector<const Run*> runs;
  for (const Group& group : groups) runs.insert(runs.end(), group.runs.begin(), group.runs.end());
  Table table{name + "-conditions",
              "Conditions of the table above: they differ, and so may its figures",
              {{"condition", "condition"}, {"published", "published"}, {"ours", "ours"}},
              {},
              {}};
  for (const auto& [what, how] : published.conditions)
    table.rows.push_back({text_cell(what), text_cell(how), text_cell(our_condition(what, runs))});
  return table;
}

Table table_of(const std::string& name, const std::vector<Group>& groups) {
  if (name == "scalability") return scalability_table(groups);
  if (name == "accuracy") return accuracy_table(groups);
  EQT_CHECK(name == "decentralised", "no table {}", name);
  return decentralised_table(groups);
}

/// The title of the row of this name; the name itself if there is none.
template <typename Row>
std::string title_of(std::string_view name) {
  const Row* const row = Row::all().find(name);
  return std::string(row == nullptr ? name : row->title);
}

bool is_sparse(const Run& run) {
  constexpr std::array<std::string_view, 3> kSparse = {"topk", "randomk", "dgc"};
  return std::ranges::find(kSparse, run.compressor) != kSparse.end();
}

double number_setting(const Run& run, const char* key) {
  return std::strtod(run.setting(key, "0").c_str(), nullptr);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = text.find(separator)) != std::string_view::npos;
       text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

/// "# what: how".
void take_comment(std::string_view line, PublishedTable& table) {
  line.remove_prefix(2);
  const std::size_t colon = line.find(": ");
  EQT_CHECK(colon != std::string_view::npos, "published table: \"{}\"", line);
  const std::string what(line.substr(0, colon)), how(line.substr(colon + 2));
  if (what == "source") {
    table.source = how;
  } else {
    table.conditions.emplace_back(what, how);
  }
}

}  // namespace

std::vector<std::string> table_names() { return {"scalability", "accuracy", "decentralised"}; }

std::vector<Table> published_tables(const std::vector<std::string>& names,
                                    const std::vector<Group>& all) {
  std::vector<Group> groups;
  for (const Group& group : all)
    if (is_comparable(group, all)) groups.push_back(group);
  std::vector<Table> tables;
  for (const std::string& name : table_names()) {
    if (std::ranges::find(names, name) == names.end()) continue;
    tables.push_back(table_of(name, groups));
    tables.back().notes.push_back("Published: " + published_table(name).source + ".");
    tables.push_back(conditions_of(name, groups));
  }
  return tables;
}

std::string paper_network(std::string_view model) { return title_of<model::ModelRow>(model); }

std::string paper_data(std::string_view dataset) { return title_of<data::DatasetRow>(dataset); }

std::string paper_data_of(const Run& run) {
  if (!has_own_data(run)) return paper_data(run.dataset);
  const std::string folder = last_name(run.setting("data.path"));
  if (folder.starts_with("imagenette")) return "Imagenette";
  if (folder == "ag-news") return "AG News";
  if (folder == "sentlen") return "Sentlen";
  return folder.empty() ? run.dataset : folder;
}

std::string paper_network_of(const Run& run) {
  const bool distilled =
      run.model == "bert" && last_name(run.setting("model.path")).starts_with("distilbert");
  return distilled ? "DistilBERT" : paper_network(run.model);
}

std::string paper_scheme(const Run& run, std::string_view baseline) {
  if (run.compressor == "none") return std::string(baseline);
  if (run.compressor == "elastiquant")
    return run.setting("compressor.bits", "4") + "-bit-ElastiQuant";
  const codec::CompressorRow* const row = codec::CompressorRow::all().find(run.compressor);
  return row == nullptr || row->title.empty() ? run.compressor : std::string(row->title);
}

std::string paper_tuning(const Run& run) {
  if (run.compressor == "dgc") return run.setting("compressor.density") + " CR";
  if (is_sparse(run)) return "density " + run.setting("compressor.density");
  if (run.compressor == "qsgd" || run.compressor == "qsgd-v" || run.compressor == "nuqsgd")
    return run.setting("compressor.bits") + " bits";
  return "default";
}

std::string paper_graph(const Run& run) {
  if (run.algorithm == "allreduce" || run.algorithm == "local-sgd" || run.algorithm == "laq")
    return "all to all";
  const std::string kind = run.setting("synchronization.topology.kind");
  const bool directed = run.setting("synchronization.topology.directed") == "true";
  if (kind == "ring") return directed ? "directed ring" : "undirected ring";
  if (kind == "torus" && run.ranks == 16) return "undirected torus 4x4";
  return kind.empty() ? "-" : kind;
}

double paper_left_out(const Run& run) {
  if (run.compressor == "none") return 0;
  if (is_sparse(run)) return 100 * (1 - number_setting(run, "compressor.density"));
  constexpr double kFullBits = 32;
  return std::max(0.0, 100 * (1 - run.outcome.bits_per_value.value_or(kFullBits) / kFullBits));
}

PublishedTable parse_published(std::string_view text) {
  PublishedTable table;
  std::vector<std::string_view> header;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line.starts_with("# ")) {
      take_comment(line, table);
      continue;
    }
    const std::vector<std::string_view> fields = split(line, ',');
    if (header.empty()) {
      header = fields;
      continue;
    }
    EQT_CHECK(fields.size() == header.size(), "published table: {} columns, \"{}\"", header.size(),
              line);
    PublishedRow& row = table.rows.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i)
      row[std::string(header[i])] = std::string(fields[i]);
  }
  return table;
}

const PublishedTable& published_table(std::string_view name) {
  static const std::map<std::string, PublishedTable, std::less<>> tables = {
      {"scalability", parse_published(kPublishedScalability)},
      {"accuracy", parse_published(kPublishedAccuracy)},
      {"decentralised", parse_published(kPublishedDecentralised)}};
  const auto found = tables.find(name);
  EQT_CHECK(found != tables.end(), "no published table {}", name);
  return found->second;
}

Figure published_number(const PublishedRow& row, std::string_view column) {
  const auto found = row.find(column);
  EQT_CHECK(found != row.end(), "published table: no column {}", column);
  const std::string& field = found->second;
  if (field.empty()) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  EQT_CHECK(error == std::errc() && end == field.data() + field.size(), "not a number: {}", field);
  return value;
}

}  // namespace eqt::report
