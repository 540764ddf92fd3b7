// Progress and result for a person who watches.

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string_view>
#include <utility>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "metrics/console.hpp"
#include "metrics/console_text.hpp"
#include "metrics/partition_text.hpp"

namespace eqt::metrics {
namespace {

constexpr double kLineSeconds = 10;
constexpr double kLineShare = 0.1;    // of all steps
constexpr double kBarSeconds = 0.1;   // faster than eyes read
constexpr double kPaceWeight = 0.05;  // of the latest step: the pace of about the last 20

constexpr const char* kClearLine = "\r\x1b[K";

/// Sums step records into what the progress shows.
class Tracker {
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
    // The first step warms caches and allocators up, so the second replaces it.
    ++seen_;
    pace_ =
        seen_ <= 2 ? record.seconds.total : pace_ + kPaceWeight * (record.seconds.total - pace_);
    if (!(pace_ > 0)) return;
    progress_.images_per_second = static_cast<double>(images_per_step_) / pace_;
    const StepId left = std::max(progress_.total_steps, record.step) - record.step;
    if (progress_.total_steps > 0) progress_.remaining_seconds = pace_ * static_cast<double>(left);
  }

  const Progress& progress() const { return progress_; }
  bool first() const { return seen_ == 1; }

 private:
  Progress progress_;
  std::uint64_t images_per_step_ = 0;
  std::uint64_t ranks_ = 1;
  std::uint64_t seen_ = 0;
  double pace_ = 0;  // [seconds per step]
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
    console_.table << summary_table(run_, summary) << std::flush;
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
    console_.progress << console_.time() << "  " << label_ << plain(text) << '\n' << std::flush;
  }

  /// @param text_of called with the columns that there are, one less than the terminal has: some
  ///        wrap when the last one is written
  template <typename TextOf>
  void draw(const TextOf& text_of) {
    const std::size_t columns = std::max<std::size_t>(console_.columns(), 2) - 1;
    const std::size_t left = columns - std::min(columns, label_.size());
    console_.progress << kClearLine << fitted(label_, columns) << text_of(left) << std::flush;
    bar_shown_ = true;
  }

  void clear_bar() {
    if (bar_shown_) console_.progress << kClearLine << std::flush;
    bar_shown_ = false;
  }

  Console console_;
  ProgressStyle style_;
  RunRecord run_;
  std::string label_;  // in front of whatever is said
  Tracker tracker_;
  StepId marked_step_ = 0;
  double marked_seconds_ = 0;
  bool bar_shown_ = false;
  double evaluation_begin_ = 0;  // by the console's clock
};

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

/// A terminal that understands the codes which clear a line.
bool stderr_is_terminal() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
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
  const bool is_terminal = stderr_is_terminal();
  // Whoever watches knows the day; a log may be read after many.
  Console console{std::cerr,
                  std::cout,
                  is_terminal,
                  terminal_columns,
                  [clock = Stopwatch()] { return clock.seconds(); },
                  [with_day = !is_terminal] { return local_time(with_day); }};
  return make_console_sink(style, std::move(console));
}

}  // namespace eqt::metrics
