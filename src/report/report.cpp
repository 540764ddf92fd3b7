#include "report/report.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "core/error.hpp"
#include "metrics/output_file.hpp"
#include "report/comparison.hpp"
#include "report/group.hpp"
#include "report/read_run.hpp"
#include "report/report_json.hpp"
#include "report/text.hpp"

namespace eqt::report {
namespace {

namespace fs = std::filesystem;

/// Reads all runs; those that recorded nothing are left out and named.
std::vector<Run> read_runs(const std::vector<std::string>& folders,
                           std::vector<std::string>& warnings) {
  std::vector<Run> runs;
  for (const std::string& folder : run_folders(folders)) {
    Run run = read_run(folder);
    if (is_empty(run)) {
      warnings.push_back(fmt::format("{} holds no record of a run and is left out.", run.folder));
    } else {
      runs.push_back(std::move(run));
    }
  }
  if (runs.empty())
    fail(Kind::data,
         "report: expected a run with records, found {} in which none had begun; wait for a first "
         "epoch",
         visible(folders.front()));
  return runs;
}

void write_table(const fs::path& out, const Table& table) {
  metrics::write_atomically((out / (table.name + ".txt")).string(), as_text(table));
  metrics::write_atomically((out / (table.name + ".csv")).string(), as_csv(table));
  metrics::write_atomically((out / (table.name + ".md")).string(), as_markdown(table));
}

fs::path prepare_folder(const Request& request) {
  const fs::path out =
      request.out.empty() ? fs::path(request.folders.front()) / "report" : fs::path(request.out);
  std::error_code error;
  fs::create_directories(out, error);
  if (error)
    fail(Kind::output, "report: cannot make the folder {}: {}; choose another with --out",
         visible(out.string()), error.message());
  return out;
}

}  // namespace

std::vector<std::string> table_names() { return {"scalability", "accuracy", "decentralised"}; }

std::string make_report(const Request& request) {
  std::vector<std::string> warnings;
  const std::vector<Run> runs = read_runs(request.folders, warnings);
  check_one_data_set(runs);
  const std::vector<Group> groups = groups_of(runs);
  for (const std::string& warning : warnings_of(groups)) warnings.push_back(warning);
  const fs::path out = prepare_folder(request);
  const Table comparison = comparison_table(groups);
  write_table(out, comparison);
  write_table(out, runs_table(groups));
  if (request.json) return as_json(groups, {}, {}, warnings);
  std::string text = as_text(comparison);
  for (const std::string& warning : warnings) text += warning + "\n";
  return text + fmt::format("\n{}\n", visible(out.string()));
}

}  // namespace eqt::report
