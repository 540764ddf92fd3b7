// SPDX-License-Identifier: Apache-2.0
#include "report/group.hpp"

#include <cmath>

#include "core/error.hpp"
#include "report/comparison.hpp"
#include "report/planned.hpp"
#include "report/read_run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::figures;
using namespace eqt::report;

namespace {

Run run_with(const std::string& seed, std::map<std::string, std::string> settings,
             bool finished = true) {
  Run run;
  run.folder = "runs/" + seed;
  run.seed = seed;
  run.dataset = "cifar10";
  run.settings = std::move(settings);
  run.settings["seed"] = seed;
  run.compressor = run.setting("compressor.name");
  run.finished = finished;
  return run;
}

std::vector<std::string> labels_of(const std::vector<Group>& groups) {
  std::vector<std::string> labels;
  for (const Group& group : groups) labels.push_back(group.label);
  return labels;
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("runs that differ only in seed, name and places are one group", "[report]") {
  const std::vector<Run> runs = {
      run_with("1", {{"compressor.name", "qsgd"}, {"name", "a"}, {"data.path", "/x"}}),
      run_with("2", {{"compressor.name", "qsgd"}, {"name", "b"}, {"output.progress", "off"}}),
      run_with("1", {{"compressor.name", "none"}, {"name", "b"}, {"data.path", "/y"}})};
  const std::vector<Group> groups = groups_of(runs);
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].runs.size() == 2);
  CHECK(labels_of(groups) == Labels{"float32", "qsgd"});
}

TEST_CASE("data of the user's own are told apart by their folder, all data by their samples",
          "[report]") {
  const auto of = [](const std::string& seed, const std::string& path, std::uint64_t samples) {
    Run run = run_with(seed, {{"data.path", path}});
    run.dataset = "folder";
    run.train_samples = samples;
    return run;
  };
  const std::vector<Run> runs = {of("1", "/data/cats", 100), of("2", "/mnt/cats/", 100),
                                 of("1", "/data/dogs", 100), of("3", "/data/cats", 90)};
  CHECK(groups_of(runs).size() == 3);
  CHECK(groups_of(std::vector<Run>(runs.begin(), runs.begin() + 2)).size() == 1);
}

TEST_CASE("labels name a key only if it distinguishes groups", "[report]") {
  const std::vector<Run> runs = {
      run_with("1", {{"compressor.name", "elastiquant"}, {"compressor.bits", "4"}}),
      run_with("1", {{"compressor.name", "elastiquant"}, {"compressor.bits", "8"}}),
      run_with("1", {{"compressor.name", "none"}, {"compressor.bits", "8"}})};
  CHECK(labels_of(groups_of(runs)) ==
        Labels{"elastiquant, bits 4", "elastiquant, bits 8", "float32"});
}

TEST_CASE("labels have the ends of paths that tell groups apart, and no folders above",
          "[report]") {
  const auto labels = [](const std::string& a, const std::string& b) {
    return labels_of(
        groups_of({run_with("1", {{"model.path", a}}), run_with("1", {{"model.path", b}})}));
  };
  CHECK(labels("/home/me/long/a.pt", "/home/me/long/b.pt") == Labels{"path a.pt", "path b.pt"});
  CHECK(labels("/home/me/a/net.pt", "/home/me/b/net.pt") ==
        Labels{"path a/net.pt", "path b/net.pt"});
  CHECK(labels("net.pt", "/net.pt") == Labels{"path /net.pt", "path net.pt"});
  // A compressor's name is a name, whatever is in it.
  CHECK(labels_of(groups_of({run_with("1", {{"compressor.name", "a/b"}}),
                             run_with("1", {{"compressor.name", "c/b"}})})) ==
        Labels{"a/b", "c/b"});
}

TEST_CASE("one run is called one run", "[report]") {
  const std::vector<Run> runs = {run_with("1", {{"compressor.name", "qsgd"}}),
                                 run_with("2", {{"compressor.name", "qsgd"}})};
  CHECK(comparison_table(groups_of(runs)).caption.starts_with("Runs compared"));
  const std::vector<Run> one = {runs[0]};
  const Table table = comparison_table(groups_of(one));
  CHECK(table.caption == "The run");
  CHECK(table.columns[0].head == "run");
  CHECK(details_table(groups_of(one)).caption == "More of the same run");
  CHECK(conditions_table(one).caption == "How the run was made");
}

TEST_CASE("ranks and link rates distinguish groups", "[report]") {
  const std::vector<Run> runs = {run_with("1", {{"ranks", "2"}, {"link.rate", "1gbit"}}),
                                 run_with("1", {{"ranks", "4"}, {"link.rate", "1gbit"}}),
                                 run_with("1", {{"ranks", "4"}, {"link.rate", "100mbit"}})};
  CHECK(labels_of(groups_of(runs)) == Labels{"ranks 2", "ranks 4, 100mbit", "ranks 4, 1gbit"});
}

TEST_CASE("a key that an older program does not write does not separate runs", "[report]") {
  const std::vector<Run> same = {run_with("1", {{"ranks", "2"}}),
                                 run_with("2", {{"ranks", "2"}, {"train.new", "0"}})};
  CHECK(groups_of(same).size() == 1);
  // If runs with the key differ, those without it are a third group.
  std::vector<Run> differ = same;
  differ.push_back(run_with("3", {{"ranks", "2"}, {"train.new", "1"}}));
  CHECK(groups_of(differ).size() == 3);
}

TEST_CASE("a key that an older program does not write has its default", "[report]") {
  const std::string defaults = R"({"compressor": {"name": "none", "new": true, "newer": 1}})";
  const auto dgc = [](const std::string& seed, std::map<std::string, std::string> more) {
    more["compressor.name"] = "dgc";
    return run_with(seed, std::move(more));
  };
  std::vector<Run> runs = {dgc("1", {}), dgc("2", {{"compressor.new", "true"}}),
                           dgc("1", {{"compressor.new", "false"}}), run_with("1", {})};
  add_defaults(defaults, runs);
  CHECK(runs[0].setting("compressor.new") == "true");
  CHECK_FALSE(runs[0].settings.contains("compressor.newer"));  // nobody has another value
  CHECK_FALSE(runs[3].settings.contains("compressor.new"));    // it has no config
  runs.pop_back();
  const std::vector<Group> groups = groups_of(runs);
  CHECK(labels_of(groups) == Labels{"new false", "new true"});
  CHECK(groups[1].runs.size() == 2);
  std::vector<Run> without = {dgc("1", {}), dgc("1", {{"compressor.new", "false"}})};
  add_defaults("", without);
  CHECK(groups_of(without).size() == 1);
}

TEST_CASE("unfinished runs are not in the mean of a finished group", "[report]") {
  std::vector<Run> runs = {run_with("1", {{"compressor.name", "qsgd"}}),
                           run_with("2", {{"compressor.name", "qsgd"}}, false)};
  runs[1].planned_epochs = 5;
  runs[1].outcome.epochs = 3;
  const std::vector<Group> groups = groups_of(runs);
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].label == "unfinished, epoch 3 of 5");
  CHECK(warnings_of(groups).at(0).find("unfinished") != std::string::npos);
}

TEST_CASE("rows say which of their seeds were lost", "[report]") {
  std::vector<Run> runs = {run_with("1", {{"compressor.name", "qsgd"}}),
                           run_with("2", {{"compressor.name", "qsgd"}}),
                           run_with("3", {{"compressor.name", "qsgd"}}, false),
                           run_with("1", {{"compressor.name", "topk"}})};
  runs[2].planned_epochs = 5;
  runs[2].outcome.epochs = 3;
  runs[2].end = "diverged";
  for (Run& run : runs) run.outcome.test_accuracy = 0.5;
  const std::vector<Group> groups = groups_of(runs);
  CHECK(labels_of(groups) == Labels{"qsgd, diverged, epoch 3 of 5", "qsgd, finished", "topk"});
  CHECK(lost_runs(groups[1], groups) == std::vector<const Run*>{&runs[2]});
  CHECK(lost_runs(groups[0], groups).empty());
  CHECK(lost_runs(groups[2], groups).empty());
  const Table table = comparison_table(groups);
  CHECK(table.columns.at(3).key == "seeds");
  CHECK(table.rows.at(1).at(3).text == "2 of 3");
  CHECK(table.rows.at(1).at(3).value == 2);
  // What did not come to its end is neither on the front nor tested.
  runs[2].outcome.test_accuracy = 0.9;
  const Standing absent{false, true};
  CHECK(pareto_front(groups_of(runs)).at(0) == absent);
  std::string all;
  for (const std::string& warning : warnings_of(groups)) all += warning + "\n";
  CHECK(all.find("runs/3 is diverged (no summary.json): its last epoch, 3, is used.") !=
        std::string::npos);
  CHECK(all.find("qsgd, finished: 2 of 3 runs came to the end, and its figures are theirs alone; "
                 "seed 3 is diverged in epoch 4.") != std::string::npos);
  CHECK(all.find("Rows of fewer seeds than the 2 of others: topk (1).") != std::string::npos);
}

TEST_CASE("a repeated seed gives a warning", "[report]") {
  const std::vector<Run> runs = {run_with("1", {}), run_with("1", {})};
  const std::vector<std::string> warnings = warnings_of(groups_of(runs));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("2 runs have 1 different seeds") != std::string::npos);
}

TEST_CASE("a plugin whose file changed between runs gives a warning", "[report]") {
  std::vector<Run> runs = {
      run_with("1", {{"compressor.name", "mine"}}), run_with("2", {{"compressor.name", "mine"}}),
      run_with("1", {{"compressor.name", "qsgd"}}), run_with("2", {{"compressor.name", "qsgd"}})};
  const auto remarks = [&] {
    std::string all;
    for (const std::string& warning : warnings_of(groups_of(runs))) all += warning + "\n";
    return all;
  };
  for (Run& run : runs) run.plugins["mine"] = "00000000000000aa";
  CHECK(remarks().find("plugin") == std::string::npos);
  runs[3].plugins["mine"] = "00000000000000bb";  // loaded, but not used
  CHECK(remarks().find("plugin") == std::string::npos);
  runs[1].plugins["mine"] = "00000000000000cc";
  CHECK(remarks().find("The runs have 2 different files of the plugin mine") != std::string::npos);
}

TEST_CASE("the notes of a comparison are of the columns that it has", "[report]") {
  std::vector<Run> runs = {run_with("1", {{"compressor.name", "qsgd"}})};
  const auto notes = [&] {
    std::string all;
    for (const std::string& note : comparison_table(groups_of(runs)).notes) all += note + "\n";
    return all;
  };
  CHECK(notes().find("Seconds per step") == std::string::npos);
  CHECK(notes().find("Variance") == std::string::npos);
  runs[0].outcome.step_seconds.total = 0.5;
  runs[0].outcome.quantization_variance = 0.25;
  CHECK(notes().find("Seconds per step") != std::string::npos);
  CHECK(notes().find("Variance: |decoded - exact|^2") != std::string::npos);
  CHECK(notes().find("Mean's variance") == std::string::npos);
}

TEST_CASE("different data sets are not mixed", "[report]") {
  std::vector<Run> runs = {run_with("1", {}), run_with("2", {})};
  CHECK_NOTHROW(check_one_data_set(runs));
  runs[1].dataset = "fashion-mnist";
  const std::string words = test::refusal(Kind::usage, [&] { check_one_data_set(runs); });
  test::says(words, "cifar10 in runs/1");
  test::says(words, "fashion-mnist in runs/2");
}

TEST_CASE("the Pareto front has the groups that no other beats in both", "[report]") {
  // (bytes, accuracy): the second is beaten by the first, the fourth has equal bytes and less.
  const std::vector<std::pair<std::uint64_t, Figure>> points = {{100, 0.7},  {200, 0.6}, {300, 0.8},
                                                                {300, 0.75}, {50, 0.1},  {10, {}}};
  std::vector<Run> runs;
  for (const auto& [bytes, accuracy] : points) {
    Run run = run_with("1", {{"compressor.name", std::to_string(runs.size())}});
    run.outcome.sent_bytes = bytes;
    run.outcome.test_accuracy = accuracy;
    runs.push_back(run);
  }
  // Groups are in the order of their labels, here "0" to "5".
  const Standing on{true, true}, beaten{false, true};
  CHECK(pareto_front(groups_of(runs)) == std::vector<Standing>{on, beaten, on, beaten, on, beaten});
}

TEST_CASE("tables and the Pareto front know which way a metric is better", "[report]") {
  // (bytes, error): the third sends more than the first and errs more.
  const std::vector<std::pair<std::uint64_t, double>> points = {{100, 0.3}, {200, 0.2}, {300, 0.4}};
  std::vector<Run> runs;
  for (const auto& [bytes, error] : points) {
    Run run = run_with("1", {{"compressor.name", std::to_string(runs.size())}});
    run.metrics = {{.name = "mse", .title = "MSE", .higher_is_better = false},
                   {.name = "r2", .title = "R2"}};
    run.outcome.sent_bytes = bytes;
    run.outcome.metrics = {{"mse", error}, {"r2", 1 - error}};
    runs.push_back(run);
  }
  const Standing on{true, true}, beaten{false, true};
  const std::vector<Group> groups = groups_of(runs);
  CHECK(pareto_front(groups) == std::vector<Standing>{on, on, beaten});
  const Table table = comparison_table(groups);
  CHECK(table.columns.at(1).key == "test_mse");
  CHECK(table.columns.at(1).head == "test MSE, lower is better");
  CHECK(table.rows.at(1).at(1).value == 0.2);
  CHECK(std::ranges::find(table.columns, "test_accuracy", &Column::key) == table.columns.end());
  const Table details = details_table(groups);
  CHECK(std::ranges::find(details.columns, "test_r2", &Column::key) != details.columns.end());
}

TEST_CASE("the Pareto front is uncertain where deviations overlap", "[report]") {
  // Accuracies of two seeds at equal bytes: 0.70 and 0.80 (mean 0.75, deviation 0.071), 0.74 and
  // 0.78 (0.76, 0.028), 0.10 and 0.12; and with twice the bytes 0.95 and 0.96, far above all.
  const std::vector<std::pair<std::uint64_t, std::pair<double, double>>> points = {
      {100, {0.70, 0.80}}, {100, {0.74, 0.78}}, {100, {0.10, 0.12}}, {200, {0.95, 0.96}}};
  std::vector<Run> runs;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const int seed : {1, 2}) {
      Run run = run_with(std::to_string(seed), {{"compressor.name", std::to_string(i)}});
      run.outcome.sent_bytes = points[i].first;
      run.outcome.test_accuracy = seed == 1 ? points[i].second.first : points[i].second.second;
      runs.push_back(run);
    }
  }
  const std::vector<Group> groups = groups_of(runs);
  CHECK(pareto_front(groups) ==
        std::vector<Standing>{{false, false}, {true, false}, {false, true}, {true, true}});
  const std::string csv = as_csv(comparison_table(groups));
  CHECK(csv.find(",uncertain\n1,") != std::string::npos);
  CHECK(csv.find(",-\n3,") != std::string::npos);
}

TEST_CASE("plans and targets: bytes and seconds until a share of the plateau", "[report]") {
  // Float32 ends at 0.80 and 0.90, mean 0.85: targets are 0.7225 and 0.765.
  const auto made = [&](const char* seed, const char* compressor, std::vector<double> tests,
                        std::uint64_t bytes, double seconds) {
    Run run = run_with(seed, {{"compressor.name", compressor}});
    run.algorithm = "allreduce";
    run.ranks = 2;
    for (std::size_t i = 0; i < tests.size(); ++i) {
      Epoch epoch;
      epoch.epoch = i + 1;
      epoch.step = 10 * (i + 1);
      if (tests[i] > 0) epoch.test_accuracy = tests[i];  // else not tested
      epoch.sent_bytes = bytes;
      run.epochs.push_back(epoch);
    }
    run.outcome.steps = run.epochs.back().step;
    run.outcome.sent_bytes = bytes * tests.size();
    run.outcome.test_accuracy = tests.back();
    run.planned_seconds = {{10, 10 * seconds}, {100, seconds}, {1000, Figure()}};
    return run;
  };
  std::vector<Run> runs = {made("1", "none", {0.5, 0.75, 0.80}, 2000000, 30),
                           made("2", "none", {0.6, 0.80, 0.90}, 2000000, 30),
                           made("1", "qsgd", {0.5, 0, 0.74}, 200000, 6),
                           made("2", "qsgd", {0.5, 0.6, 0.70}, 200000, 6)};
  for (std::size_t i : {0u, 1u, 2u, 3u}) runs[i].collective = i < 2 ? "dense" : "allgather";
  const std::vector<Group> groups = groups_of(runs);
  CHECK(own_collectives(groups) ==
        "Bytes and seconds are of each run's own collective: allgather of qsgd; dense of float32.");
  CHECK(plateau_of(groups) == Approx(0.85));
  CHECK(planned_rates(groups) == std::set<double>{10, 100});
  const Table plans = planned_table(groups);
  REQUIRE(plans.rows.size() == 2);
  CHECK(plans.columns.back().head == "at 100 Mb/s [s]");
  CHECK(plans.rows[1].back().value == 6);
  CHECK(plans.rows[1][3].text == "0.3 ± 0");
  std::vector<Run> with_one = runs;
  for (Run& run : with_one) run.planned_one_board = 12;
  const Table beside = planned_table(groups_of(with_one));
  CHECK(beside.columns.back().head == "one board alone [s]");
  CHECK(beside.rows[1].back().value == 12);

  const Table table = targets_table(groups);
  REQUIRE(table.rows.size() == 4);
  const auto row = [&](std::size_t i) { return table.rows[i]; };
  CHECK(row(0)[2].value == Approx(0.7225));
  // From 0.5 to 0.75 in epoch 2, 0.2225 of 0.25 of the way; of the second seed 0.1225 of 0.2.
  const double epochs = (1.89 + 1.6125) / 2;
  CHECK(*row(0)[3].value == Approx(epochs));
  CHECK(*row(0)[3].deviation == Approx((1.89 - 1.6125) / std::sqrt(2.0)));
  CHECK(*row(0)[4].value == Approx(epochs));           // a MB of each of two ranks an epoch
  CHECK(*row(0).back().value == Approx(10 * epochs));  // 30 s for three epochs
  const double tested_twice = 1 + 2 * 0.2225 / 0.24;   // epoch 2 was not tested
  CHECK(*row(1)[3].value == Approx(tested_twice));
  CHECK(row(1)[3].text == "2.9 (1 of 2)");  // the second seed never comes there
  CHECK(*row(1).back().value == Approx(2 * tested_twice));
  CHECK(*row(2)[3].value == Approx((2.3 + 1.825) / 2));  // 90 %
  CHECK(row(3)[3].text == "-");

  // Where epochs differ, those until then count.
  std::vector<Run> uneven = runs;
  for (Run& run : uneven) run.planned_epoch_seconds = {{100, {20, 7, 3}}};
  const Table sooner = targets_table(groups_of(uneven));
  CHECK(*sooner.rows[0].back().value == Approx(20 + 7 * (0.89 + 0.6125) / 2));
  CHECK(*sooner.rows[1].back().value == Approx(20 + 10 * 0.2225 / 0.24));

  // A first test that is as good is the earliest that is known. Seconds that were measured count.
  std::vector<Run> real = runs;
  for (Run& run : real) {
    run.epochs.front().test_accuracy = 0.75;
    for (Epoch& epoch : run.epochs) epoch.seconds.total = 4;
  }
  const Table measured = targets_table(groups_of(real));
  const auto seconds = std::ranges::find(measured.columns, "seconds", &Column::key);
  REQUIRE(seconds != measured.columns.end());
  CHECK(measured.rows[0][static_cast<std::size_t>(seconds - measured.columns.begin())].text ==
        "4.0 ± 0");
}

TEST_CASE("rows of a sweep name groups if they tell them apart", "[report]") {
  std::vector<Run> runs = {run_with("1", {{"compressor.name", "topk"}}),
                           run_with("2", {{"compressor.name", "topk"}}),
                           run_with("1", {{"compressor.name", "qsgd"}})};
  const auto labels = [&] {
    std::vector<std::string> found;
    for (const Group& group : groups_of(runs)) found.push_back(group.label);
    return found;
  };
  using Labels = std::vector<std::string>;
  CHECK(labels() == Labels{"qsgd", "topk"});
  runs[0].row = runs[1].row = "sparse";
  CHECK(labels() == Labels{"qsgd", "topk"});
  runs[2].row = "sparse";
  CHECK(labels() == Labels{"qsgd", "topk"});
  runs[2].row = "coarse";
  CHECK(labels() == Labels{"coarse", "sparse"});
  runs[1].finished = false;
  CHECK(labels() == Labels{"coarse", "sparse", "sparse (unfinished, epoch 0)"});
  runs[1].finished = true;
  runs[1].row = "sparser";
  CHECK(labels() == Labels{"qsgd", "topk"});
}

TEST_CASE("speeds are compared with one board alone", "[report]") {
  // 100 samples a second on four ranks that take 32 samples in 0.8 s, of which 0.4 s are their own
  // work: one that only worked would reach 80, so four are at most 1.25 times as fast.
  const auto of = [](const char* compressor, int ranks, double samples) {
    Run run = run_with("1", {{"compressor.name", compressor},
                             {"ranks", std::to_string(ranks)},
                             {"train.batch_size", "32"}});
    run.ranks = ranks;
    run.outcome.images_per_second = samples;
    run.outcome.step_seconds = {.data = 0.1, .compute = 0.25, .update = 0.05, .total = 0.8};
    return run;
  };
  const auto column_of = [](const std::vector<Run>& runs, const char* key) {
    const Table table = comparison_table(groups_of(runs));
    const auto column = std::ranges::find(table.columns, key, &Column::key);
    std::vector<std::string> texts;
    if (column == table.columns.end()) return texts;
    for (const auto& row : table.rows)
      texts.push_back(row.at(static_cast<std::size_t>(column - table.columns.begin())).text);
    return texts;
  };
  std::vector<Run> runs = {of("qsgd", 4, 100), of("topk", 4, 60)};
  CHECK(column_of(runs, "times_one_board").empty());
  CHECK(column_of(runs, "times_one_board_at_most") == Labels{"1.25", "0.75"});
  // Of one process that plays the ranks, and of batches that differ, it is not known.
  runs[0].simulated = true;
  runs[1].settings["train.batch_sizes"] = "\"auto\"";
  CHECK(column_of(runs, "times_one_board_at_most").empty());
  // A run of one rank is what it is; the fastest counts, and another network's does not.
  runs = {of("none", 1, 90), of("qsgd", 1, 80), of("qsgd", 4, 100), of("topk", 4, 60)};
  CHECK(column_of(runs, "times_one_board") == Labels{"-", "-", "1.11", "0.67"});
  CHECK(column_of(runs, "times_one_board_at_most").empty());
  for (Run& run : runs) run.settings["model.name"] = run.ranks == 1 ? "resnet18" : "resnet20";
  CHECK(column_of(runs, "times_one_board").empty());
  CHECK(column_of(runs, "times_one_board_at_most") == Labels{"-", "-", "1.25", "0.75"});
}

TEST_CASE("the comparison has mean and deviation of each figure, in both units", "[report]") {
  std::vector<Run> runs = {run_with("1", {}), run_with("2", {})};
  runs[0].outcome.test_accuracy = 0.5;
  runs[1].outcome.test_accuracy = 0.75;
  runs[0].ranks = runs[1].ranks = 4;
  runs[0].outcome.sent_bytes = runs[1].outcome.sent_bytes = 8000000;
  const Table table = comparison_table(groups_of(runs));
  const std::string text = as_text(table), csv = as_csv(table);
  CHECK(text.find("62 ± 18") != std::string::npos);
  CHECK(text.find("2 ± 0\n") != std::string::npos);  // MB of each of four ranks
  CHECK(csv.starts_with("run,test_accuracy,test_accuracy_deviation,"));
  CHECK(csv.find("0.625,0.1767766952966369,0.125,2,") != std::string::npos);
  CHECK(csv.find("2000000,0,0,2\n") != std::string::npos);
}
