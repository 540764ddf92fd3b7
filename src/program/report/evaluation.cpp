// SPDX-License-Identifier: Apache-2.0
#include "report/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.hpp"
#include "figures/gnuplot.hpp"
#include "figures/script.hpp"
#include "figures/text.hpp"
#include "report/values.hpp"

namespace eqt::report {
using figures::Cell;
using figures::colour_of;
using figures::Column;
using figures::Digits;
using figures::frame;
using figures::Key;
using figures::kNothing;
using figures::kPercent;
using figures::number_cell;
using figures::tail_of;
using figures::text_cell;

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::uintmax_t kMaxBytes = std::uintmax_t{64} << 20;  // of an evaluation's file
constexpr std::size_t kMaxLabels = 12;     // classes whose squares have numbers in them
constexpr std::size_t kLongestTitle = 40;  // of a set

std::uint64_t row_sum(const Evaluated& e, std::size_t row) {
  return std::accumulate(e.confusion[row].begin(), e.confusion[row].end(), std::uint64_t{0});
}

std::uint64_t column_sum(const Evaluated& e, std::size_t column) {
  std::uint64_t sum = 0;
  for (const auto& row : e.confusion) sum += row[column];
  return sum;
}

Figure share(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return {};
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// The class that samples of `row` are taken for most often by mistake.
std::string worst_mistake(const Evaluated& e, std::size_t row) {
  std::size_t worst = row;
  std::uint64_t most = 0;
  for (std::size_t c = 0; c < e.classes.size(); ++c) {
    if (c == row || e.confusion[row][c] <= most) continue;
    worst = c;
    most = e.confusion[row][c];
  }
  return most == 0 ? std::string(kNothing)
                   : fmt::format("{} ({})", visible(e.classes[worst]), most);
}

/// Mixes the colour of a part from 0, white, to 1, blue.
std::uint32_t colour_of(double part) {
  const auto mix = [&](double from, double to) {
    return static_cast<std::uint32_t>(from + (to - from) * part + 0.5);
  };
  return mix(247, 0) << 16 | mix(251, 82) << 8 | mix(255, 150);
}

std::string tics(const Evaluated& e) {
  std::string text;
  for (std::size_t c = 0; c < e.classes.size(); ++c)
    text += fmt::format("{}{} {}", c == 0 ? "" : ", ",
                        figures::gnuplot_quoted(tail_of(visible(e.classes[c]), 20)), c);
  return "(" + text + ")";
}

[[noreturn]] void malformed(const std::string& path, std::string_view what) {
  fail(Kind::data, "{}: expected an evaluation as equant-train writes it, found {}; evaluate again",
       path, what);
}

}  // namespace

std::string Evaluated::set_text() const {
  return fmt::format("{}{}{}, {}", visible(dataset), path.empty() ? "" : " in ", visible(path),
                     split);
}

std::vector<std::string> evaluation_folders(const std::string& run_folder) {
  namespace fs = std::filesystem;
  const fs::path base = fs::path(run_folder) / kEvaluationFolder;
  const auto is_folder = [](const fs::path& path) {
    std::error_code error;
    return fs::symlink_status(path, error).type() == fs::file_type::directory;
  };
  std::vector<fs::path> below;
  std::error_code error;
  if (is_folder(base))
    for (fs::directory_iterator entry(base, error), end; !error && entry != end;
         entry.increment(error))
      if (is_folder(entry->path())) below.push_back(entry->path());
  std::ranges::sort(below);
  below.insert(below.begin(), base);
  std::vector<std::string> folders;
  for (const fs::path& folder : below)
    if (is_folder(folder) && fs::is_regular_file(folder / kEvaluationFile, error))
      folders.push_back(folder.string());
  return folders;
}

Table class_table(const Evaluated& e) {
  Table table{.name = "classes",
              .caption =
                  "Classes: share of their samples that are recognised, and of the samples "
                  "taken for them that are theirs.",
              .columns = {{"class", "class"},
                          {"samples", "samples", Column::Type::number},
                          {"accuracy", "accuracy [%]", Column::Type::number},
                          {"precision", "precision [%]", Column::Type::number},
                          {"mistaken_for", "mostly mistaken for"}},
              .rows = {},
              .notes = {}};
  for (std::size_t c = 0; c < e.classes.size(); ++c) {
    const std::uint64_t samples = row_sum(e, c), right = e.confusion[c][c];
    table.rows.push_back({text_cell(visible(e.classes[c])),
                          number_cell(static_cast<double>(samples), {0}),
                          number_cell(share(right, samples), kPercent, 100),
                          number_cell(share(right, column_sum(e, c)), kPercent, 100),
                          text_cell(worst_mistake(e, c))});
  }
  return table;
}

Table confusion_table(const Evaluated& e) {
  Table table{.name = "confusion",
              .caption =
                  "Confusion matrix: samples of the row's class that were taken for the "
                  "column's.",
              .columns = {{"class", "class"}},
              .rows = {},
              .notes = {}};
  for (const std::string& name : e.classes)
    table.columns.push_back({visible(name), visible(name), Column::Type::number});
  for (std::size_t c = 0; c < e.classes.size(); ++c) {
    std::vector<Cell> row = {text_cell(visible(e.classes[c]))};
    for (const std::uint64_t n : e.confusion[c])
      row.push_back(number_cell(static_cast<double>(n), {0}));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Drawing confusion_drawing(const Evaluated& e, const std::string& name) {
  const std::size_t n = e.classes.size();
  EQT_CHECK(n > 0 && n <= kMaxDrawnClasses, "{} classes", n);
  std::string squares, numbers;
  std::uint64_t right = 0, all = 0;
  for (std::size_t row = 0; row < n; ++row) {
    const std::uint64_t samples = row_sum(e, row);
    right += e.confusion[row][row];
    all += samples;
    for (std::size_t column = 0; column < n; ++column) {
      const double part = share(e.confusion[row][column], samples).value_or(0);
      squares += fmt::format("{} {} {}\n", column, row, colour_of(part));
      if (n <= kMaxLabels && part >= 0.005)
        numbers += fmt::format("{} {} {:.0f} {}\n", column, row, 100 * part,
                               part > 0.5 ? 0xFFFFFF : 0x000000);
    }
  }
  const std::string title =
      fmt::format("Confusion matrix: {}", tail_of(e.set_text(), kLongestTitle));
  std::string script =
      frame(title, "predicted class; numbers are % of the row", "class", Key::none) +
      fmt::format(
          "set xrange [-0.5:{0}]\nset yrange [{0}:-0.5]\nunset grid\n"
          "set xtics {1} rotate by -45\nset ytics {1}\n$d << end\n{2}end\n",
          static_cast<double>(n) - 0.5, tics(e), squares);
  std::string plot =
      "plot $d using 1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5):3 with boxxyerror fs solid noborder "
      "lc rgb variable";
  if (!numbers.empty()) {
    script += "$n << end\n" + numbers + "end\n";
    plot += ", $n using 1:2:3:4 with labels font ',10' tc rgb variable";
  }
  return {name, title, fmt::format("{} of {} samples of {} classes are recognised.", right, all, n),
          script + plot + "\n", 480};
}

std::string evaluation_json(const Evaluated& e) {
  OrderedJson json = {{"network", e.network},
                      {"dataset", e.dataset},
                      {"path", e.path},
                      {"split", e.split},
                      {"samples", e.samples}};
  if (e.ranks > 1) json["rank"] = 0, json["ranks"] = e.ranks;
  json["metrics"] = OrderedJson::object();
  for (const auto& [name, value] : e.metrics) json["metrics"][name] = value;
  if (!e.classes.empty()) {
    json["classes"] = OrderedJson::array();
    for (std::size_t c = 0; c < e.classes.size(); ++c) {
      const std::uint64_t samples = row_sum(e, c), right = e.confusion[c][c];
      const Figure accuracy = share(right, samples), precision = share(right, column_sum(e, c));
      json["classes"].push_back(
          {{"name", e.classes[c]},
           {"samples", samples},
           {"correct", right},
           {"accuracy", accuracy ? OrderedJson(*accuracy) : OrderedJson(nullptr)},
           {"precision", precision ? OrderedJson(*precision) : OrderedJson(nullptr)}});
    }
    json["confusion"] = e.confusion;
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::optional<Evaluated> read_evaluation(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / kEvaluationFile;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return {};
  if (size > kMaxBytes) malformed(path.string(), "more bytes than any has");
  std::ifstream file(path);
  const OrderedJson json = OrderedJson::parse(file, nullptr, false);
  try {
    Evaluated e;
    e.network = json.at("network");
    e.dataset = json.at("dataset");
    e.path = json.value("path", "");
    e.ranks = json.value("ranks", 1);
    e.split = json.at("split");
    e.samples = json.at("samples");
    for (const auto& [name, value] : json.at("metrics").items())
      e.metrics.emplace_back(name, value.get<double>());
    if (!json.contains("classes")) return e;
    for (const OrderedJson& one : json.at("classes")) e.classes.push_back(one.at("name"));
    e.confusion = json.at("confusion").get<decltype(e.confusion)>();
    const auto fits = [&](const auto& row) { return row.size() == e.classes.size(); };
    if (!fits(e.confusion) || !std::ranges::all_of(e.confusion, fits))
      malformed(path.string(), "a matrix of another size than its classes");
    return e;
  } catch (const OrderedJson::exception&) {
    malformed(path.string(), "no such JSON");
  }
}

namespace {

/// Those of the first run of a group that was evaluated.
std::vector<Evaluated> evaluations_of(const Group& group) {
  std::vector<Evaluated> all;
  for (const Run* run : group.runs) {
    for (const std::string& folder : evaluation_folders(run->path))
      if (std::optional<Evaluated> found = read_evaluation(folder)) all.push_back(*found);
    if (!all.empty()) break;
  }
  return all;
}

}  // namespace

Table evaluations_table(const std::vector<Group>& groups) {
  Table table{.name = "evaluations",
              .caption = "Evaluations of the first run of each row: the set, and what was found.",
              .columns = {{"run", "runs"},
                          {"set", "set"},
                          {"weights", "weights"},
                          {"samples", "samples", Column::Type::number}},
              .rows = {},
              .notes = {}};
  const std::size_t first = table.columns.size();
  bool of_rank_0 = false;
  for (const Group& group : groups) {
    for (const Evaluated& e : evaluations_of(group)) {
      std::vector<Cell> row = {text_cell(group.label), text_cell(e.set_text()),
                               text_cell(visible(last_name(e.network))),
                               number_cell(static_cast<double>(e.samples), {0})};
      if (e.ranks > 1) row[1].text += " (rank 0's own)";
      of_rank_0 = of_rank_0 || e.ranks > 1;
      for (const auto& [name, value] : e.metrics) {
        const std::string key = visible(name);
        auto column = std::ranges::find(table.columns, key, &Column::key);
        if (column == table.columns.end())
          column = table.columns.insert(
              column, {key, key == "accuracy" ? key + " [%]" : key, Column::Type::number});
        const auto place = static_cast<std::size_t>(column - table.columns.begin());
        if (row.size() <= place) row.resize(place + 1, text_cell(std::string(kNothing)));
        row[place] = key == "accuracy" ? number_cell(value, kPercent, 100)
                                       : number_cell(value, Digits{-1, 4});
      }
      table.rows.push_back(std::move(row));
    }
  }
  for (auto& row : table.rows)
    row.resize(std::max(first, table.columns.size()), text_cell(std::string(kNothing)));
  if (of_rank_0)
    table.notes.emplace_back(
        "Rank 0's own: the samples of one rank, where each has a set of its own; the results above "
        "are of all ranks' samples.");
  return table;
}

void draw_confusions(const std::vector<Group>& groups, Drawings& drawings) {
  std::size_t number = 0;
  for (const Group& group : groups) {
    for (const Evaluated& found : evaluations_of(group)) {
      if (found.classes.empty()) continue;
      if (found.classes.size() > kMaxDrawnClasses) {
        drawings.left_out.push_back(
            fmt::format("The confusion matrix of {} is not drawn: more than {} classes.",
                        group.label, kMaxDrawnClasses));
        continue;
      }
      drawings.all.push_back(confusion_drawing(found, fmt::format("confusion-{}", ++number)));
      drawings.all.back().title += ", " + group.label;
    }
  }
}

}  // namespace eqt::report
