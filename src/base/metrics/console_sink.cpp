// SPDX-License-Identifier: Apache-2.0
// Progress and result, for people.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <utility>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "metrics/console.hpp"
#include "metrics/console_text.hpp"
#include "metrics/terminal.hpp"

namespace eqt::metrics {
namespace {

constexpr double kLineSeconds = 10;
constexpr double kLineShare = 0.1;   // of all steps
constexpr double kBarSeconds = 0.1;  // faster changes are not visible
constexpr double kStepSecondsWeight =
    0.05;  // weight of the latest step: averages about the last 20

// The cursor is left at the beginning of the bar. If a narrower terminal breaks the bar into
// several lines, the cursor stays at its first character, so clearing from there removes all of
// them.
constexpr const char* kClear = "\r\x1b[J";
constexpr const char* kToBegin = "\r";

/// Computes the progress figures from step records.
class ProgressTracker {
 public:
  void start(const RunRecord& run) {
    images_per_step_ = run.images_per_step;
    ranks_ = static_cast<std::uint64_t>(std::max(run.ranks, 1));
    progress_ = {};
    progress_.total_steps = run.total_steps;
    if (run.steps_per_epoch > 0)
      progress_.epochs = (run.total_steps + run.steps_per_epoch - 1) / run.steps_per_epoch;
    seen_ = 0;
  }

  void add(const StepRecord& record) {
    progress_.step = record.step;
    progress_.epoch = record.epoch;
    progress_.loss = record.loss;
    progress_.sent_bytes = record.total_sent_bytes / ranks_;
    if (record.total_sent_bytes > 0)
      progress_.compression_ratio = static_cast<double>(record.total_dense_bytes) /
                                    static_cast<double>(record.total_sent_bytes);
    // The first step warms up caches and allocators, so the second one replaces it.
    ++seen_;
    step_seconds_ =
        seen_ <= 2 ? record.seconds.total
                   : step_seconds_ + kStepSecondsWeight * (record.seconds.total - step_seconds_);
    if (!(step_seconds_ > 0)) return;
    progress_.images_per_second = static_cast<double>(images_per_step_) / step_seconds_;
    const StepId left = std::max(progress_.total_steps, record.step) - record.step;
    if (progress_.total_steps > 0)
      progress_.remaining_seconds = step_seconds_ * static_cast<double>(left);
  }

  const Progress& progress() const { return progress_; }
  bool first() const { return seen_ == 1; }

 private:
  Progress progress_;
  std::uint64_t images_per_step_ = 0;
  std::uint64_t ranks_ = 1;
  std::uint64_t seen_ = 0;
  double step_seconds_ = 0;  // [seconds per step]
};

class ConsoleSink : public Sink {
 public:
  ConsoleSink(ProgressStyle style, Console console)
      : console_(std::move(console)), style_(settled(style, console_.is_terminal)) {}

  ~ConsoleSink() override {
    if (bar_shown_) console_.progress << '\n' << std::flush;
  }

  void write(const RunRecord& record) override {
    run_ = record;
    tracker_.start(record);
    label_ = record.emulated ? "EMULATED  " : record.simulated ? "SIMULATED  " : "";
    say(fmt::format(
        "{}: {} on {}, {} parameters, {} ranks, compressor {}, collective {}, {} steps; "
        "sent: per rank, since the first step",
        record.name, record.model, record.dataset, record.parameters, record.ranks,
        record.compressor, record.collective, record.total_steps));
    for (const std::string& line : partition_lines(record.partition)) say(line);
  }

  void write(const StepRecord& record) override {
    tracker_.add(record);
    if (style_ == ProgressStyle::lines && line_due(record.step)) {
      mark(record.step);
      say(progress_text(tracker_.progress()));
    }
    if (style_ == ProgressStyle::bar && bar_due()) {
      mark(record.step);
      draw([this](std::size_t columns) { return bar_text(tracker_.progress(), columns); });
    }
  }

  void write(const EvaluationProgress& record) override {
    if (record.done == 0) evaluation_begin_ = console_.seconds();
    const double taken = console_.seconds() - evaluation_begin_;
    const std::uint64_t epochs = tracker_.progress().epochs;
    if (style_ == ProgressStyle::lines && seconds_since_mark() >= kLineSeconds) {
      mark(marked_step_);
      say(evaluation_text(record, epochs, taken));
    }
    if (style_ == ProgressStyle::bar && (record.done == 0 || seconds_since_mark() >= kBarSeconds)) {
      mark(marked_step_);
      draw(
          [&](std::size_t columns) { return evaluation_bar_text(record, epochs, taken, columns); });
    }
  }

  void write(const NoteRecord& record) override {
    say(fmt::format("step {}: {}", record.step, record.text));
  }

  void write(const EpochRecord& record) override {
    say(epoch_text(record, tracker_.progress().epochs, run_.ranks));
  }

  void write(const Summary& summary) override {
    clear_bar();
    console_.table << summary_table(run_, summary, console_.table_columns) << std::flush;
    if (!console_.table)
      fail(Kind::output,
           "cannot write the result table to standard output; check what it is redirected to");
  }

 private:
  static ProgressStyle settled(ProgressStyle style, bool is_terminal) {
    if (style == ProgressStyle::off || style == ProgressStyle::lines) return style;
    return is_terminal ? ProgressStyle::bar : ProgressStyle::lines;
  }

  bool line_due(StepId step) const {
    const auto share = kLineShare * static_cast<double>(run_.total_steps);
    const bool far = share > 0 && static_cast<double>(step - marked_step_) >= share;
    return tracker_.first() || far || seconds_since_mark() >= kLineSeconds;
  }

  bool bar_due() const {
    return tracker_.first() || tracker_.progress().step == run_.total_steps ||
           seconds_since_mark() >= kBarSeconds;
  }

  double seconds_since_mark() const { return console_.seconds() - marked_seconds_; }

  void mark(StepId step) {
    marked_step_ = step;
    marked_seconds_ = console_.seconds();
  }

  void say(const std::string& text) {
    if (style_ == ProgressStyle::off) return;
    clear_bar();
    const std::string time = console_.time() + "  ";
    if (!console_.is_terminal) {
      console_.progress << time << label_ << plain(text) << '\n' << std::flush;
      return;
    }
    // Further lines are indented to the text after the label.
    std::string shown;
    const std::size_t begin = time.size(), room = columns() - std::min(columns(), label_.size());
    for (const std::string& part : wrapped(time + plain(text), room, begin))
      shown += part.substr(0, begin) + label_ + part.substr(begin) + '\n';
    console_.progress << shown << std::flush;
  }

  /// One less than the terminal has, because some terminals wrap when the last column is written.
  std::size_t columns() const { return std::max<std::size_t>(console_.columns(), 2) - 1; }

  /// @param text_of called with the number of columns for its text
  template <typename TextOf>
  void draw(const TextOf& text_of) {
    const std::size_t all = columns();
    const std::size_t left = all - std::min(all, label_.size());
    // In one write, so that no other text comes between.
    console_.progress << kClear + fitted(label_, all) + text_of(left) + kToBegin << std::flush;
    bar_shown_ = true;
  }

  void clear_bar() {
    if (bar_shown_) console_.progress << kClear << std::flush;
    bar_shown_ = false;
  }

  Console console_;
  ProgressStyle style_;
  RunRecord run_;
  std::string label_;  // before every message
  ProgressTracker tracker_;
  StepId marked_step_ = 0;
  double marked_seconds_ = 0;
  bool bar_shown_ = false;
  double evaluation_begin_ = 0;  // on the console's clock
};

/// Columns of the terminal that the table is written to, at the start; for a file the usual number.
std::size_t table_columns() {
  std::size_t columns = columns_of(STDOUT_FILENO);
  if (columns == 0)
    if (const auto terminal = find_terminal(STDOUT_FILENO, false)) columns = terminal->columns();
  return columns == 0 ? kUsualColumns : columns;
}

/// "12:34:56" or, with the day, "2026-01-31 12:34:56".
std::string local_time(bool with_day) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::string text;
  if (with_day)
    text = fmt::format("{}-{:02}-{:02} ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
  return text + fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

std::unique_ptr<Sink> make_console_sink(ProgressStyle style, Console console) {
  return std::make_unique<ConsoleSink>(style, std::move(console));
}

std::unique_ptr<Sink> make_console_sink(ProgressStyle style) {
  const bool own = is_terminal(STDERR_FILENO);
  const bool may_draw = style == ProgressStyle::bar || style == ProgressStyle::automatic;
  std::shared_ptr<Terminal> terminal;
  if (!own && may_draw) terminal = find_terminal(STDERR_FILENO, style == ProgressStyle::bar);
  const bool shown = own || terminal != nullptr;
  // Only logs show the date, because they may be read much later.
  Console console{.progress = terminal ? terminal->stream() : std::cerr,
                  .table = std::cout,
                  .is_terminal = shown,
                  .columns =
                      [terminal] {
                        if (terminal) return terminal->columns();
                        const std::size_t columns = columns_of(STDERR_FILENO);
                        return columns == 0 ? kUsualColumns : columns;
                      },
                  .seconds = [clock = Stopwatch()] { return clock.seconds(); },
                  .time = [with_day = !shown] { return local_time(with_day); },
                  .table_columns = table_columns()};
  return make_console_sink(style, std::move(console));
}

}  // namespace eqt::metrics
