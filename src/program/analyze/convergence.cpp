// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "analyze/analyze.hpp"
#include "analyze/subjects.hpp"
#include "config/build_topology.hpp"
#include "core/error.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "theory/code_length.hpp"
#include "theory/convergence.hpp"
#include "theory/sampling.hpp"
#include "topology/spectrum.hpp"

namespace eqt::analyze {
using figures::Curve;
using figures::curves_drawing;
using figures::draw_if_asked;
using figures::print_rows;

namespace {

constexpr std::array<std::string_view, 6> kUsualForConvergence = {
    "none", "qsgd", "qsgd-v", "nuqsgd", "elastiquant", "e-elastiquant"};
constexpr std::array<std::string_view, 6> kUsualWithMemory = {
    "none", "qsgd", "elastiquant", "e-elastiquant", "topk", "int8"};

template <typename... Args>
[[noreturn]] void outside(const AnalyzeConvergenceCommand& command,
                          fmt::format_string<Args...> condition, Args&&... args) {
  fail(Kind::usage, "analyze convergence {}: the theorem's condition is {}", command.setting,
       fmt::format(condition, std::forward<Args>(args)...));
}

void require_positive(const AnalyzeConvergenceCommand& command, double value, const char* option,
                      const char* what) {
  if (!(value > 0 && std::isfinite(value)))
    outside(command, "{} above 0, found {}; give {}", what, value, option);
}

using Command = AnalyzeConvergenceCommand;

/// Holds what is known of the loss, and the theorem about it.
struct Setting {
  std::string_view name;
  theory::Guarantee (*after)(const Command& command, const theory::Mixing& mixing, double variance,
                             double steps);
  bool convex = false;  // its bound is one of f - minimum, and it wants --radius
  bool momentum = false;
  bool decentralised = false;
  bool memory = false;  // its compressors are contractions
  bool wants_smoothness = true;
  bool wants_excess = true;
  bool wants_gradient_bound = false;
};

constexpr Setting kSettings[] = {
    {.name = "convex",
     .after = [](const Command& c, const theory::Mixing&, double variance,
                 double steps) { return theory::convex_guarantee(c.problem, variance, steps); },
     .convex = true,
     .wants_excess = false},
    {.name = "nonconvex",
     .after = [](const Command& c, const theory::Mixing&, double variance,
                 double steps) { return theory::nonconvex_guarantee(c.problem, variance, steps); }},
    {.name = "error-feedback",
     .after =
         [](const Command& c, const theory::Mixing&, double error, double steps) {
           return theory::error_feedback_guarantee(c.problem, error, steps);
         },
     .memory = true},
    {.name = "momentum",
     .after =
         [](const Command& c, const theory::Mixing&, double variance, double steps) {
           return theory::heavy_ball_guarantee(c.problem, variance, c.momentum, steps);
         },
     .momentum = true},
    {.name = "convex-momentum",
     .after =
         [](const Command& c, const theory::Mixing&, double variance, double steps) {
           return theory::convex_momentum_guarantee(c.problem, variance, c.momentum, c.nesterov,
                                                    steps);
         },
     .convex = true,
     .momentum = true,
     .wants_smoothness = false,
     .wants_gradient_bound = true},
    {.name = "decentralised",
     .after =
         [](const Command& c, const theory::Mixing& mixing, double variance, double steps) {
           return theory::gossip_guarantee(c.problem, mixing, c.heterogeneity, variance, steps);
         },
     .decentralised = true}};

const Setting& setting_of(const Command& command) {
  const auto* const found = std::ranges::find(kSettings, command.setting, &Setting::name);
  EQT_CHECK(found != std::end(kSettings), "no setting is called {}", command.setting);
  return *found;
}

/// Checks that the problem has what the setting's theorem needs.
void check_problem(const AnalyzeConvergenceCommand& command) {
  const theory::Problem& p = command.problem;
  const Setting& setting = setting_of(command);
  require_positive(command, command.target, "--target", "a target");
  if (setting.wants_smoothness)
    require_positive(command, p.smoothness, "--smoothness", "L-smoothness, L");
  if (setting.convex) require_positive(command, p.radius, "--radius", "a radius R");
  if (setting.wants_excess) require_positive(command, p.excess, "--excess", "f(start) - minimum");
  if (setting.wants_gradient_bound)
    require_positive(command, p.gradient, "--gradient-bound", "a bound G of gradients");
  if (!(p.noise >= 0 && std::isfinite(p.noise)))
    outside(command, "a noise sigma^2 of at least 0, found {}", p.noise);
  if (!(p.second_moment >= 0 && std::isfinite(p.second_moment)))
    outside(command, "a second moment B of at least 0, found {}", p.second_moment);
  if (p.second_moment > 0 && p.second_moment < p.noise)
    outside(command,
            "B >= sigma^2, for E|g|^2 = |gradient|^2 + noise, found B = {} and sigma^2 = {}",
            p.second_moment, p.noise);
  if (setting.momentum && !(command.momentum >= 0 && command.momentum < 1))
    outside(command, "0 <= momentum < 1, found {}; change --momentum", command.momentum);
  if (!(command.heterogeneity >= 0 && std::isfinite(command.heterogeneity)))
    outside(command, "a heterogeneity of at least 0, found {}", command.heterogeneity);
}

/// The mixing matrix's numbers, if the theorem covers it.
theory::Mixing mixing_of(const AnalyzeConvergenceCommand& command) {
  if (command.problem.ranks < 2)
    outside(command, "at least 2 ranks, found {}; give --ranks", command.problem.ranks);
  const config::TopologyConfig config{.kind =
                                          find_named<topology::GraphKind>(command.topology)->value};
  config::check_topology(config, "analyze convergence");
  const auto topology = config::build_topology(config, command.problem.ranks, {});
  const topology::MixingMatrix& matrix = topology->at(0);
  if (topology->period() != 1 || !matrix.is_symmetric() || !matrix.is_doubly_stochastic())
    outside(
        command,
        "a mixing matrix that is symmetric, doubly stochastic and the same in every step, found "
        "{} with {}; choose another --topology",
        command.topology,
        topology->period() != 1 ? "one that changes from step to step"
                                : "one that is not symmetric and doubly stochastic");
  const theory::Mixing mixing{.contraction = topology::contraction(matrix),
                              .distance = topology::distance_from_identity(matrix)};
  if (!(mixing.contraction < 1 - 1e-12))
    outside(command, "a connected graph without a second eigenvalue of modulus 1, found {}",
            mixing.contraction);
  return mixing;
}

/// The variance bound of a compressor that the theorems cover.
double covered_variance(const AnalyzeConvergenceCommand& command, const Subject& subject) {
  const codec::Properties properties = subject.compressor->properties();
  const std::string_view name = subject.config.compressor.name->name;
  if (properties.lossless) return 0;
  if (!properties.unbiased)
    outside(command, "an unbiased compressor, found {}, which is biased; try elastiquant", name);
  const auto bound = subject.compressor->variance_bound(command.values);
  if (!bound)
    outside(command, "a bound of the compressor's variance, found none for {}; try elastiquant",
            name);
  if (!(command.problem.second_moment > 0))
    outside(command,
            "a second moment B above 0 for {}, whose variance is in proportion to |g|^2, "
            "found none; give --second-moment",
            name);
  return *bound;
}

/// The error w of a contraction, E|C(x) - x|^2 <= w |x|^2. What would be none is damped.
double covered_error(const AnalyzeConvergenceCommand& command, const Subject& subject) {
  const codec::Properties properties = subject.compressor->properties();
  const std::string_view name = subject.config.compressor.name->name;
  if (properties.lossless) return 0;
  if (!(command.problem.second_moment > 0))
    outside(command,
            "a second moment B above 0 for {}, whose error is in proportion to |g|^2, found none; "
            "give --second-moment",
            name);
  if (command.error) return *command.error;
  const auto bound = subject.compressor->variance_bound(command.values);
  const double error = !bound                               ? 1
                       : *bound >= 1 && properties.unbiased ? *bound / (1 + *bound)
                                                            : *bound;
  if (error < 1) return error;
  outside(command,
          "a compressor whose error is below |g|^2, found none that is guaranteed for {}; give the "
          "one that was measured with --error (analyze rates prints it), or try topk",
          name);
}

/// Bits of a message of all parameters: a bound where there is one, else measured on normal values.
struct MessageBits {
  double bits = 0;
  const char* origin = "exact";
};

MessageBits message_bits(const Subject& subject, std::size_t values) {
  const auto count = static_cast<double>(values);
  if (subject.compressor->properties().is_float32()) return {32 * count, "exact"};
  if (subject.scheme) {
    const std::size_t d = std::min(subject.scheme->bucket_size, values), rest = values % d;
    const codec::Coding coding = subject.config.compressor.coding;
    if (const auto bucket = theory::bucket_bound(*subject.scheme, d, coding)) {
      const double last = rest > 0 ? *theory::bucket_bound(*subject.scheme, rest, coding) : 0;
      return {static_cast<double>(values / d) * *bucket + last,
              coding == codec::Coding::fixed ? "exact" : "bound"};
    }
  }
  const std::size_t sampled = std::min<std::size_t>(values, std::size_t{1} << 18);
  const auto normal = theory::draw("normal", sampled, 1);
  const theory::Sample sample =
      theory::sample_codec(*subject.compressor, theory::one_segment(sampled), normal, 2, 1);
  return {sample.payload_bits.mean * count / static_cast<double>(sampled), "measured"};
}

/// The theorem of the setting as a function of steps.
class Theorem {
 public:
  Theorem(const AnalyzeConvergenceCommand& command, const theory::Mixing& mixing, double variance)
      : command_(command), mixing_(mixing), variance_(variance) {}

  theory::Guarantee after(double steps) const {
    return setting_of(command_).after(command_, mixing_, variance_, steps);
  }
  double steps() const {
    return theory::steps_to([&](double t) { return after(t).bound; }, command_.target);
  }

 private:
  const AnalyzeConvergenceCommand& command_;
  theory::Mixing mixing_;
  double variance_;
};

/// Gossip's own condition on the compressor, which the usual ones may be left out by.
bool gossip_admits(const AnalyzeConvergenceCommand& command, const theory::Mixing& mixing,
                   const Subject& subject, double variance) {
  const double most = theory::largest_gossip_variance(mixing);
  if (!setting_of(command).decentralised || variance <= most) return true;
  if (command.compressors.names.empty()) return false;
  outside(command,
          "a compressor's variance of at most (1 - rho) / (8 mu^2) = {:.4g} on a {} of {} ranks "
          "(DCD-PSGD "
          "prints {:.4g}), found {:.4g} for {}; raise --bits, shorten --bucket or choose another "
          "--topology",
          most, command.topology, command.problem.ranks, theory::published_gossip_variance(mixing),
          variance, subject.label());
}

Row row_of(const AnalyzeConvergenceCommand& command, const theory::Mixing& mixing,
           const Subject& subject, double variance) {
  const MessageBits message = message_bits(subject, command.values);
  const Theorem theorem(command, mixing, variance);
  const double steps = theorem.steps();
  Row row = subject.row();
  row["setting"] = command.setting;
  row["variance_bound"] = variance;
  const bool memory = setting_of(command).memory;
  row["mean_variance"] = theory::mean_variance(command.problem, memory ? 0 : variance);
  row["bits_per_value"] = message.bits / static_cast<double>(command.values);
  row["bits_are"] = message.origin;
  // With a memory the noise of the mean is that of the gradients.
  row["cost_against_float32"] =
      (1 + (memory ? 0 : variance)) * message.bits / (32 * static_cast<double>(command.values));
  row["steps"] = nullptr;
  row["step_size"] = nullptr;
  row["gigabytes_per_rank"] = nullptr;
  row["bits_per_rank"] = nullptr;
  if (steps < theory::kMaxSteps) {
    row["steps"] = steps;
    row["step_size"] = theorem.after(steps).step_size;
    row["gigabytes_per_rank"] = steps * message.bits / 8e9;
    row["bits_per_rank"] = steps * message.bits;
  }
  if (!setting_of(command).decentralised) return row;
  const theory::ChocoRate choco = theory::choco_rate(mixing, 1 / (1 + variance));
  row["rho"] = mixing.contraction;
  row["mu"] = mixing.distance;
  row["variance_admitted"] = theory::largest_gossip_variance(mixing);
  row["variance_admitted_dcd_psgd"] = theory::published_gossip_variance(mixing);
  row["choco_gamma"] = choco.gamma;
  row["choco_factor"] = choco.factor;
  if (variance == 0 && steps < theory::kMaxSteps)
    row["d_psgd_published_estimate"] = theory::steps_to(
        [&](double t) { return theory::published_d_psgd(command.problem, t); }, command.target);
  return row;
}

figures::Drawing plot_of(const AnalyzeConvergenceCommand& command, const theory::Mixing& mixing,
                         const std::vector<Row>& rows) {
  std::vector<Curve> curves;
  for (const Row& row : rows) {
    const Theorem theorem(command, mixing, row["variance_bound"]);
    const double bits = row["bits_per_value"].get<double>() * static_cast<double>(command.values);
    Curve curve{.title = row["compressor"], .points = {}};
    const double last = row["steps"].is_number() ? 4 * row["steps"].get<double>() : 1e6;
    for (double steps = 1; steps < last; steps *= 2)
      curve.points.emplace_back(steps * bits / 8e9, theorem.after(steps).bound);
    curves.push_back(std::move(curve));
  }
  return curves_drawing(
      {.title = fmt::format("Guarantee against traffic: {}", command.setting),
       .x = "GB that a rank encodes",
       .y = setting_of(command).convex ? "f - minimum, at most" : "mean of |gradient|^2, at most",
       .log_x = true,
       .log_y = true},
      curves);
}

void print_head(const AnalyzeConvergenceCommand& command, const theory::Mixing& mixing) {
  fmt::print(
      "Steps until {} is at most {}, by the theorem for the {} case\n"
      "with {} rank{}, and what a rank encodes in them, {} values a message.\n"
      "cost: {} against float32.\n",
      setting_of(command).convex ? "E f - minimum" : "the mean of E|gradient|^2", command.target,
      command.setting, command.problem.ranks, command.problem.ranks == 1 ? "" : "s", command.values,
      setting_of(command).memory ? "bits" : "(1 + variance) bits");
  if (setting_of(command).decentralised)
    fmt::print(
        "{}: rho {:.5g}, mu {:.5g}; covered are compressors of variance up to {:.4g} (DCD-PSGD\n"
        "prints {:.4g}). CHOCO's consensus step is in --json.\n",
        command.topology, mixing.contraction, mixing.distance,
        theory::largest_gossip_variance(mixing), theory::published_gossip_variance(mixing));
  fmt::print("\n");
}

}  // namespace

void run_analyze_convergence(const AnalyzeConvergenceCommand& command) {
  check_problem(command);
  const theory::Mixing mixing =
      setting_of(command).decentralised ? mixing_of(command) : theory::Mixing{};
  std::vector<Row> rows;
  std::string left_out;
  const bool memory = setting_of(command).memory;
  const std::vector<Subject> subjects =
      analyzed_compressors(command.compressors, memory ? kUsualWithMemory : kUsualForConvergence,
                           command.values, "analyze convergence");
  for (const Subject& subject : subjects) {
    const double variance =
        memory ? covered_error(command, subject) : covered_variance(command, subject);
    if (gossip_admits(command, mixing, subject, variance)) {
      rows.push_back(row_of(command, mixing, subject, variance));
    } else {
      left_out += fmt::format("{}{} ({:.4g})", left_out.empty() ? "" : ", ",
                              subject.config.compressor.name->name, variance);
    }
  }
  if (!command.output.json) print_head(command, mixing);
  std::vector<RowColumn> columns = subject_columns();
  columns.insert(columns.end(), {{"variance_bound", "variance"},
                                 {"bits_per_value", "bits"},
                                 {"bits_are", "are"},
                                 {"cost_against_float32", "cost"},
                                 {"steps", "steps", 6},
                                 {"step_size", "step size"},
                                 {"gigabytes_per_rank", "GB"}});
  print_rows(rows, columns, command.output.json);
  if (!command.output.json) print_notes(subjects);
  if (!command.output.json && !left_out.empty())
    fmt::print("\nNot covered, for their variance: {}\n", left_out);
  draw_if_asked(command.output.plot, [&] { return plot_of(command, mixing, rows); });
}

}  // namespace eqt::analyze
