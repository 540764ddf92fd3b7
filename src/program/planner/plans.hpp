// SPDX-License-Identifier: Apache-2.0
// The plans of all schemes, and how they are shown: as rows, which are the same in the text, in
// JSON and on the page, and as drawings. Private to the room.

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "planner/plan.hpp"
#include "planner/planned_run.hpp"

namespace eqt::planner {

/// Plans of each scheme for the whole cluster, and for other numbers of ranks.
struct Plans {
  std::vector<PlannedRun> whole;  // by scheme, as in the file
  std::vector<int> ranks;         // numbers that some scheme has a plan for
  // These are by scheme, without the numbers of ranks that the scheme cannot run on.
  std::vector<std::vector<PlannedRun>> by_ranks;
  std::vector<double> break_even{};      // by scheme, below which it beats float32
  std::vector<bool> compresses{};        // by scheme; as float32 in all other settings
  std::optional<std::size_t> float32{};  // the scheme that compresses nothing
  std::size_t best = 0;
  std::optional<PlannedRun> one_board{};  // plan_one_board(); none: the cluster has only one
  std::vector<double> pays_from{};        // by scheme, paying_megabits(); empty without one_board
  std::vector<std::string> left_out{};    // schemes and numbers of ranks without a plan, and why
};

/// A plan is faster than another if its time for a sample is below this part of the other's.
inline constexpr double kFaster = 0.995;

/// Returns a scheme's plan for so many ranks; null: there is none.
const PlannedRun* find_ranks(const std::vector<PlannedRun>& by_ranks, int ranks);

/// Samples a second relative to those of one board alone. @pre there is such a plan
inline double times_one_board(const Plans& plans, const PlannedRun& run) {
  return seconds_a_sample(*plans.one_board) / seconds_a_sample(run);
}

/// Returns true if no scheme on the whole cluster is at least 1 % faster than one board alone.
inline bool one_board_is_fastest(const Plans& plans) {
  return plans.one_board && times_one_board(plans, plans.whole[plans.best]) < kGain;
}

/// Returns the scheme with which more boards pay on the slowest links, the best one among equals.
/// @pre pays_from is not empty
std::size_t first_to_pay(const Plans& plans);

/// Says from which link on more boards pay, beginning with one board alone where that is the
/// fastest; "" if the cluster has only one.
std::string more_boards_sentence(const Plans& plans, const ClusterFile& file);

/// Schemes that differ by less are equally fast: forecasts are no better.
inline constexpr double kTie = 0.02;

/// The other schemes that are as fast as the best one; "" if there are none: "qsgd, terngrad".
std::string ties_of(const Plans& plans);

/// Says on which links compression pays; "" where no scheme compresses or none is compared with
/// float32.
std::string pays_sentence(const Plans& plans);

/// Returns the times of the kind of boards whose ranks wait least, which determines the step.
const forecast::BoardUse& slowest_boards(const PlannedRun& run);

/// The number of ranks beyond which more make it slower; none: the largest number is the fastest.
std::optional<int> crossover(const std::vector<PlannedRun>& by_ranks);

/// Marks the plans by ranks that nothing beats in time and price, and in time and energy, where all
/// boards' prices or watts are known.
void mark_fronts(Plans& plans, const ClusterFile& file);

/// Says where the speeds of compressors come from.
std::string note_on_codecs(const Subject& subject);

/// Says what nothing measured; "" if all was.
std::string note_on_guesses(const Subject& subject);

/// Returns what a reader has to know beside the figures: what was guessed, what does not fit.
std::vector<std::string> notes_of(const Plans& plans, const ClusterFile& file,
                                  const Subject& subject);

/// A sentence, tables and the notes.
void print_text(const Plans& plans, const ClusterFile& file, const std::vector<std::string>& notes);
void print_json(const Plans& plans, const ClusterFile& file, const std::vector<std::string>& notes);

/// Time of an epoch by number of ranks, a curve for each scheme, with the numbers beyond which more
/// make it slower.
figures::Drawing drawing_of(const Plans& plans);

/// Returns drawing_of(), a step's parts and break-even rates by scheme, and fronts: with names.
std::vector<figures::Drawing> drawings_of(const Plans& plans, const ClusterFile& file);

/// Sentence, tables, drawings and notes as one HTML page that needs no other file. Without gnuplot
/// it has no drawings and says so.
/// @throws Error{output}
void write_page(const std::string& path, const Plans& plans, const ClusterFile& file,
                const std::vector<std::string>& notes);

/// Two figures of which less is better.
struct Tradeoff {
  double seconds = 0, cost = 0;
};

/// Returns for each whether no other has at most its seconds and at most its cost, and one of them
/// less. Of equal ones at most the first is on the front. Those without figures are not on it.
std::vector<bool> pareto_front(std::span<const std::optional<Tradeoff>> all);

struct PlanTable {
  std::string name;     // letters and hyphens
  std::string caption;  // one sentence
  std::vector<figures::Row> rows;
  std::vector<figures::RowColumn> columns;  // the first one names the row
  std::vector<std::string> remarks{};       // on columns
};

/// Returns the tables of schemes on the whole cluster, of epochs by ranks, and, where prices or
/// watts are known, of the plans that nothing beats. Keeps pointers into `plans`.
std::vector<PlanTable> tables_of(const Plans& plans, const ClusterFile& file);

/// All figures of a plan.
figures::Row row_of(const PlannedRun& run);

/// "1.23 s", "16.2 min", "3.4 h", "2.1 days".
std::string duration(double seconds);

/// Names the best scheme and its times, in one sentence.
std::string best_sentence(const Plans& plans, const ClusterFile& file);

/// Returns what a reader is told first: from which link on more boards pay, below which compression
/// does, and best_sentence().
std::vector<std::string> answer_of(const Plans& plans, const ClusterFile& file);

}  // namespace eqt::planner
