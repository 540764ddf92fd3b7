// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "metrics/console.hpp"
#include "metrics/console_text.hpp"
#include "records_support.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::metrics;
using namespace eqt::metrics::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// A console in memory with a clock that the test sets.
struct Fake {
  std::ostringstream progress, table;
  double now = 0;

  std::unique_ptr<Sink> sink(ProgressStyle style, bool is_terminal, std::size_t columns = 100) {
    return make_console_sink(style, Console{.progress = progress,
                                            .table = table,
                                            .is_terminal = is_terminal,
                                            .columns = [=] { return columns; },
                                            .seconds = [this] { return now; },
                                            .time = [] { return std::string("12:34:56"); },
                                            .table_columns = columns});
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool is_plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || c >= ' '; });
}

/// Runs all 250 steps, each `seconds` apart on the fake clock.
void run_all(Fake& fake, Sink& sink, double seconds) {
  sink.write(run_record());
  for (StepId step = 1; step <= 250; ++step) {
    fake.now += seconds;
    sink.write(step_record(step));
    if (step % 100 == 0) sink.write(epoch_record());
  }
  sink.write(summary());
}

/// A bar's figures after step `done` of `all`.
Progress progress_at(StepId done, StepId all) {
  Progress p;
  p.step = done;
  p.total_steps = all;
  p.epoch = 1;
  p.epochs = 3;
  p.loss = 2.5;
  p.images_per_second = 812;
  p.sent_bytes = 1500;
  p.compression_ratio = 8;
  p.remaining_seconds = 42;
  return p;
}

}  // namespace

TEST_CASE("without a terminal no control character is written", "[console]") {
  for (const auto style : {ProgressStyle::automatic, ProgressStyle::bar, ProgressStyle::lines}) {
    Fake fake;
    const auto sink = fake.sink(style, false);
    run_all(fake, *sink, 0.1);
    CHECK_FALSE(fake.progress.str().empty());
    CHECK(is_plain(fake.progress.str()));
    CHECK(is_plain(fake.table.str()));
  }
}

TEST_CASE("a fast run has a line for every tenth of the steps, the first step and each epoch",
          "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::lines, false);
  run_all(fake, *sink, 0.001);
  std::vector<std::string> steps;
  int epochs = 0;
  for (const std::string& line : lines_of(fake.progress.str())) {
    CHECK_THAT(line, StartsWith("12:34:56  "));
    if (line.find("epoch 1/3 done") != std::string::npos) ++epochs;
    if (line.find("step ") == 10) steps.push_back(line.substr(10, line.find("  ", 10) - 10));
  }
  CHECK(epochs == 2);
  CHECK(steps == std::vector<std::string>{"step 1/250", "step 26/250", "step 51/250", "step 76/250",
                                          "step 101/250", "step 126/250", "step 151/250",
                                          "step 176/250", "step 201/250", "step 226/250"});
}

TEST_CASE("a slow run has a line about every ten seconds", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::lines, false);
  sink->write(run_record());
  for (StepId step = 1; step <= 20; ++step) {
    fake.now += 4;
    sink->write(step_record(step));
  }
  // One for the run, one for the first step at 4 s, then at 16, 28, 40, 52, 64 and 76 s.
  CHECK(lines_of(fake.progress.str()).size() == 1 + 1 + 6);
}

TEST_CASE("a line has the run's progress, speed and bytes", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::lines, false);
  sink->write(run_record());
  sink->write(step_record(1));
  const std::string line = lines_of(fake.progress.str()).back();
  // 128 images in 0.25 s; 249 steps of 0.25 s to go.
  CHECK_THAT(line, ContainsSubstring("epoch 1/3") && ContainsSubstring("step 1/250") &&
                       ContainsSubstring("loss 2.5000") && ContainsSubstring("512 samples/s") &&
                       ContainsSubstring("sent 500 B") && ContainsSubstring("ratio 8.00") &&
                       ContainsSubstring("ETA 1:03"));
}

TEST_CASE("sent bytes are the mean over ranks since the first step, everywhere", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::lines, false);
  sink->write(run_record());
  for (StepId step = 1; step <= 26; ++step) sink->write(step_record(step));
  // Two ranks, 1 kB of both a step.
  CHECK_THAT(lines_of(fake.progress.str()).front(),
             ContainsSubstring("; sent: per rank, since the first step"));
  CHECK_THAT(lines_of(fake.progress.str()).back(),
             ContainsSubstring("sent 13 kB") && ContainsSubstring("ratio 8.00"));
  // Also in the line of an epoch, whose record has 100 kB of the epoch and 300 kB of the run.
  CHECK_THAT(epoch_text(epoch_record(), 3, 2), ContainsSubstring("  sent 150 kB"));
  CHECK_THAT(summary_table(run_record(), summary()),
             ContainsSubstring("sent per rank      6.15 MB (float32 would send 49.2 MB)\n"));
}

TEST_CASE("a run that continues also shows what it sent before", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::lines, false);
  sink->write(run_record());
  sink->write(step_record(101));
  CHECK_THAT(lines_of(fake.progress.str()).back(),
             ContainsSubstring("sent 50.5 kB") && ContainsSubstring("ratio 8.00"));
}

TEST_CASE("unknown figures are left out", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::lines, false);
  sink->write(RunRecord{});
  StepRecord step;
  step.step = 1;
  sink->write(step);
  const std::string line = lines_of(fake.progress.str()).back();
  CHECK_THAT(line, ContainsSubstring("step 1 "));
  for (const char* absent : {"samples/s", "sent", "ratio", "ETA", "nan", "inf"})
    CHECK_THAT(line, !ContainsSubstring(absent));
}

TEST_CASE("off shows only the table", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::off, true);
  run_all(fake, *sink, 1);
  CHECK(fake.progress.str().empty());
  CHECK_FALSE(fake.table.str().empty());
}

TEST_CASE("the bar stays on its line, in the terminal's width, and not too often", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::automatic, true, 60);
  sink->write(run_record());
  const std::size_t before = fake.progress.str().size();
  for (StepId step = 1; step <= 100; ++step) {
    fake.now += 0.01;
    sink->write(step_record(step));
  }
  const std::string text = fake.progress.str().substr(before);
  CHECK(text.find('\n') == std::string::npos);
  const std::string clear = "\r\x1b[J";
  int drawn = 0;
  for (std::size_t at = text.find(clear); at != std::string::npos;) {
    const std::size_t next = text.find(clear, at + 1);
    const std::string shown = text.substr(at + clear.size(), next - at - clear.size());
    CHECK(shown.size() <= 60);
    CHECK_THAT(shown, Catch::Matchers::EndsWith("\r"));  // the cursor is where clearing begins
    CHECK_THAT(shown, StartsWith("["));
    at = next;
    ++drawn;
  }
  CHECK(drawn >= 9);
  CHECK(drawn <= 11);
  sink->write(summary());
  CHECK_THAT(fake.progress.str(), Catch::Matchers::EndsWith(clear));
}

TEST_CASE("a bar shows its share", "[console]") {
  Progress p;
  p.total_steps = 200;
  p.step = 100;
  CHECK_THAT(bar_text(p, 90), StartsWith("[##########----------]  50 %"));
  p.step = 199;
  CHECK_THAT(bar_text(p, 90), StartsWith("[###################-]  99 %"));
  p.step = 200;
  CHECK_THAT(bar_text(p, 90), StartsWith("[####################] 100 %"));
  CHECK_THAT(bar_text(p, 89), StartsWith("[########] 100 %"));
  p.total_steps = 0;
  CHECK_THAT(bar_text(p, 90), StartsWith("[--------------------]   0 %"));
}

TEST_CASE("a bar drops whole parts that do not fit, the speed and ETA last", "[console]") {
  const Progress p = progress_at(60, 200);
  const std::string start = "[##------]  30 %  epoch 1/3  loss 2.5000  812 samples/s";
  CHECK(bar_text(p, 79) == start + "  ETA 0:42  sent 1.5 kB");
  CHECK(bar_text(p, 77) == start + "  ETA 0:42");
  CHECK(bar_text(p, start.size() + 9) == start);
  CHECK(
      bar_text(p, 200) ==
      "[######--------------]  30 %  epoch 1/3  loss 2.5000  812 samples/s  ETA 0:42  sent 1.5 kB  "
      "ratio 8.00  step 60/200");
  CHECK(bar_text(p, 10) == "[##----...");
}

TEST_CASE("on 50 to 200 columns a bar is whole parts, more on wider ones", "[console]") {
  Progress p = progress_at(1234567, 12345678);
  p.epoch = 123;
  p.epochs = 456;
  p.loss = 1234.5;
  p.images_per_second = 81234;
  p.sent_bytes = 999'000'000'000;
  p.compression_ratio = 123.45;
  p.remaining_seconds = 123456;
  const EvaluationProgress evaluation{.epoch = 123, .done = 400, .samples = 10000};
  for (const bool evaluating : {false, true}) {
    const auto text_of = [&](std::size_t columns) {
      return evaluating ? evaluation_bar_text(evaluation, 456, 0.01, columns)
                        : bar_text(p, columns);
    };
    const std::string all = text_of(500).substr(text_of(500).find(']'));
    std::size_t before = 0;
    for (std::size_t columns = 50; columns <= 200; ++columns) {
      const std::string bar = text_of(columns);
      CHECK(bar.size() <= columns);
      const std::string parts = bar.substr(bar.find(']'));
      CHECK_THAT(all + "  ", StartsWith(parts + "  "));
      CHECK(parts.find("epoch 123/456") != std::string::npos);
      if (columns != 90) CHECK(parts.size() >= before);  // where the bar itself becomes longer
      before = parts.size();
    }
  }
}

TEST_CASE("lines break between words", "[console]") {
  using Lines = std::vector<std::string>;
  CHECK(wrapped("one two", 7, 2) == Lines{"one two"});
  CHECK(wrapped("one two", 6, 2) == Lines{"one", "  two"});
  CHECK(wrapped("one  two  three", 9, 2) == Lines{"one  two", "  three"});
  CHECK(wrapped("one two three", 7, 4) == Lines{"one two", "    three"});
  CHECK(wrapped("a longer-than-that b", 6, 0) == Lines{"a", "longer-than-that", "b"});
  CHECK(wrapped("longer-than-that", 6, 0) == Lines{"longer-than-that"});
  CHECK(wrapped("\xC3\xA4\xC3\xB6 \xC3\xBC", 4, 0) == Lines{"\xC3\xA4\xC3\xB6 \xC3\xBC"});
  CHECK(wrapped("", 6, 2) == Lines{""});
}

TEST_CASE("on a narrow terminal words of lines and table are not split", "[console]") {
  const auto words_of = [](const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  };
  Fake wide;
  run_all(wide, *wide.sink(ProgressStyle::lines, true, 1000), 0.001);
  auto words = words_of(summary_table(run_record(), summary()));
  std::ranges::sort(words);  // phases of an epoch break into several lines
  for (const std::size_t columns : {50U, 60U, 80U}) {
    Fake fake;
    run_all(fake, *fake.sink(ProgressStyle::lines, true, columns), 0.001);
    for (const std::string& line : lines_of(fake.progress.str() + fake.table.str()))
      CHECK(line.size() <= columns);
    CHECK(words_of(fake.progress.str()) == words_of(wide.progress.str()));
    auto found = words_of(fake.table.str());
    std::ranges::sort(found);
    if (columns == 80) CHECK(found == words);
    for (const std::string& word : words) CHECK(std::ranges::count(found, word) > 0);
  }
}

TEST_CASE("the table holds every result within 80 columns", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::off, false);
  sink->write(run_record());
  Summary s = summary();
  s.name = std::string(128, 'n');
  s.epoch_seconds = phase_seconds(12345);
  sink->write(s);
  const std::string table = fake.table.str();
  for (const std::string& line : lines_of(table)) CHECK(line.size() <= 80);
  for (const char* shown :
       {"87.50 %", "90.00 %", "812", "6.15 MB", "49.2 MB", "8.00", "4.50", "0.25",
        "identical on all ranks", "0123456789abcdef", "512 MiB", "1:02", "compute", "transfer",
        "12345", "24690", "259245", "resnet20", "fashion-mnist"})
    CHECK_THAT(table, ContainsSubstring(shown));
  CHECK_THAT(table, ContainsSubstring("error of the mean  0.0625 ("));
}

TEST_CASE("the table's values are aligned and absent ones are dashes", "[console]") {
  Summary s;
  s.replicas_identical = false;
  const auto lines = lines_of(summary_table({}, s));
  for (const std::string& line : lines) {
    REQUIRE(line.size() > 19);
    CHECK(line[18] == ' ');
  }
  const auto value = [&](const std::string& label) {
    for (const std::string& line : lines)
      if (line.starts_with(label)) return line.substr(19);
    return std::string("no such line");
  };
  CHECK(value("test accuracy") == "-");
  CHECK(value("best test accuracy") == "-");
  CHECK(value("compression ratio") == "-");
  CHECK(value("quantization error") == "-");
  CHECK(value("error of the mean") == "-");
  CHECK_THAT(value("replicas"), StartsWith("DIFFERENT"));
}

TEST_CASE("the table has additional rows only for replicas that differ", "[console]") {
  Summary s = summary();
  const std::string plain = summary_table(run_record(), s);
  for (const char* absent : {"node", "consensus", "averaged"})
    CHECK_THAT(plain, !ContainsSubstring(absent));
  make_replicas_differ(s);
  s.consensus_distance = s.consensus_distance_relative = 1.23456789e-30;
  constexpr std::uint64_t kMuch = 123456789012345678;
  s.sent_bytes_by_edge = {{0, 1, kMuch}, {1, 0, 1000}};
  s.paper_sent_bytes_per_node = kMuch;
  const std::string table = summary_table(run_record(), s);
  CHECK(lines_of(table).size() == lines_of(plain).size() + 3);
  for (const std::string& line : lines_of(table)) {
    CHECK(line.size() <= 80);
    CHECK_THAT(line, !ContainsSubstring("..."));
  }
  CHECK_THAT(table,
             ContainsSubstring("test accuracy      87.50 %, averaged model") &&
                 ContainsSubstring("node test accuracy mean 50.00 %, from 25.00 % to 75.00 %") &&
                 ContainsSubstring("consensus distance 1.23e-30, 1.23e-30 of the mean") &&
                 ContainsSubstring("range over ranks   1 kB to 123 PB (123 PB by published"));
  s.sent_bytes_by_edge[1].bytes = kMuch + 1;
  CHECK_THAT(summary_table(run_record(), s),
             ContainsSubstring("range over ranks   123 PB (123 PB"));
}

TEST_CASE("the table and an epoch's line have the metrics of the task", "[console]") {
  Summary s = summary();
  s.metrics = regression_metrics();
  s.best_metric = 0.125;
  s.replicas.node_test_metric = {0.5, 0.25};
  const std::string table = summary_table(run_record(), s);
  CHECK_THAT(table, ContainsSubstring("test MSE           0.25, lower is better\n") &&
                        ContainsSubstring("best test MSE      0.125\n") &&
                        ContainsSubstring("test R2            0.5\n") &&
                        ContainsSubstring("node test MSE      from 0.25 to 0.5\n") &&
                        !ContainsSubstring("accuracy"));
  EpochRecord epoch = epoch_record();
  epoch.test_accuracy.reset();
  epoch.metrics = s.metrics;
  CHECK_THAT(epoch_text(epoch, 3, 2),
             ContainsSubstring("  test MSE 0.25  test R2 0.5  test loss ") &&
                 !ContainsSubstring("accuracy"));
  s.metrics = {{.name = "accuracy", .title = "accuracy", .fraction = true, .value = 0.875},
               {.name = "top5", .title = "top-5", .fraction = true, .value = 0.99}};
  CHECK_THAT(summary_table(run_record(), s), ContainsSubstring("test accuracy      87.50 %\n") &&
                                                 ContainsSubstring("test top-5         99.00 %\n"));
}

TEST_CASE("an epoch's line has nodes only if there are any", "[console]") {
  EpochRecord epoch = epoch_record();
  CHECK_THAT(epoch_text(epoch, 3, 2),
             !ContainsSubstring("nodes") && !ContainsSubstring("consensus"));
  make_replicas_differ(epoch);
  CHECK_THAT(epoch_text(epoch, 3, 2), ContainsSubstring("  nodes 50.00 %  consensus 1.5  "));
}

TEST_CASE("a table that cannot be written is an output error", "[console]") {
  Fake fake;
  fake.table.setstate(std::ios::badbit);
  const auto sink = fake.sink(ProgressStyle::off, false);
  eqt::test::refusal(Kind::output, [&] { sink->write(summary()); });
}

TEST_CASE("durations, sizes and cut texts", "[console]") {
  CHECK(duration_text(0) == "0:00");
  CHECK(duration_text(59.2) == "1:00");
  CHECK(duration_text(754) == "12:34");
  CHECK(duration_text(3723) == "1:02:03");
  CHECK(duration_text(-1) == "-");
  CHECK(duration_text(1e300) == "-");
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(1500) == "1.5 kB");
  CHECK(bytes_text(12345678) == "12.3 MB");
  CHECK(bytes_text(999600) == "1 MB");
  CHECK(bytes_text(18446744073709551615u) == "18.4 EB");
  CHECK(fitted("short", 5) == "short");
  CHECK(fitted("longer", 5) == "lo...");
  CHECK(fitted("\xC3\xA4\xC3\xB6\xC3\xBC\xC3\xA4\xC3\xB6", 4) == "\xC3\xA4...");
  CHECK(fitted("abc", 2) == "..");
  CHECK(fitted("abc", 0).empty());
}

TEST_CASE("everything that is shown of an emulated run says so, and has no loss", "[console]") {
  for (const auto style : {ProgressStyle::lines, ProgressStyle::bar}) {
    Fake fake;
    const auto sink = fake.sink(style, true, 60);
    RunRecord run = run_record();
    run.emulated = true;
    StepRecord step = step_record(1);
    EpochRecord epoch = epoch_record();
    Summary end = summary();
    step.loss = std::nan("");
    epoch.train_loss = end.train_loss = std::nan("");
    sink->write(run);
    sink->write(step);
    sink->write(NoteRecord{.step = 1, .text = "a"});
    sink->write(epoch);
    sink->write(end);
    std::string text = fake.progress.str();
    std::replace(text.begin(), text.end(), '\r', '\n');
    int lines = 0;
    for (const std::string& line : lines_of(text)) {
      if (line.empty() || line == "\x1b[J") continue;
      ++lines;
      INFO(line);
      CHECK(line.find("EMULATED") != std::string::npos);
      CHECK(line.find("train loss") == std::string::npos);
      CHECK(line.find("nan") == std::string::npos);
      if (style == ProgressStyle::bar && line.find('[', 3) != std::string::npos)
        CHECK(line.size() <= 3 + 59);
    }
    CHECK(lines >= 4);  // the longer ones break into several
    CHECK_THAT(fake.table.str(), StartsWith("EMULATED"));
    CHECK(fake.table.str().find("nan") == std::string::npos);
  }
}

TEST_CASE("an evaluation has its own bar, with speed and remaining time", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::bar, true, 100);
  sink->write(run_record());
  fake.now = 5;
  sink->write(EvaluationProgress{.epoch = 2, .done = 0, .samples = 1000});
  const std::size_t before = fake.progress.str().size();
  fake.now = 7;
  sink->write(EvaluationProgress{.epoch = 2, .done = 400, .samples = 1000});
  CHECK(fake.progress.str().substr(before) ==
        "\r\x1b[J[########------------]  40 %  evaluating  epoch 2/3  200 samples/s  ETA 0:03\r");
}

TEST_CASE("a long evaluation has a line every ten seconds, a short one none", "[console]") {
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::lines, false);
  sink->write(run_record());
  sink->write(step_record(1));
  const std::size_t before = fake.progress.str().size();
  for (std::uint64_t done = 0; done <= 900; done += 100) {
    sink->write(EvaluationProgress{.epoch = 1, .done = done, .samples = 1000});
    fake.now += 2;
  }
  CHECK(fake.progress.str().substr(before) ==
        "12:34:56  evaluating  epoch 1/3  50 %  50 samples/s  ETA 0:10\n");
}

TEST_CASE("texts from outside have no control characters", "[console]") {
  CHECK(plain("a\tb\nc\x1b[31m\x7f") == "a?b?c?[31m?");
  CHECK(plain("\xC3\xA4 \xE2\x82\xAC") == "\xC3\xA4 \xE2\x82\xAC");
  CHECK(plain("\xC2\x9B"
              "1m\xC2\xA0") == "?1m\xC2\xA0");
  Fake fake;
  const auto sink = fake.sink(ProgressStyle::lines, false);
  RunRecord run = run_record();
  run.name = run.dataset = "\x1b[2J\r";
  Summary end = summary();
  end.name = run.name;
  sink->write(run);
  sink->write(NoteRecord{.step = 1, .text = "two\nlines"});
  sink->write(end);
  CHECK(is_plain(fake.progress.str()));
  CHECK(is_plain(fake.table.str()));
  CHECK_THAT(fake.progress.str(), ContainsSubstring("step 1: two?lines\n"));
}
