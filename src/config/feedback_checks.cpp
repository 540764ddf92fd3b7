// SPDX-License-Identifier: Apache-2.0
#include "config/feedback_checks.hpp"

#include <fmt/format.h>

#include <optional>

#include "core/error.hpp"

namespace eqt::config {
namespace {

/// The largest tensor that a bound is asked for; buckets are shorter.
constexpr std::size_t kLongest = std::size_t{1} << 24;

void require_contraction(const RunConfig& config, const codec::Compressor& compressor,
                         const std::string& origin) {
  // What needs feedback and what rounds to nearest never leaves more than there was.
  const codec::Properties properties = compressor.properties();
  if (!properties.random || properties.needs_feedback) return;
  const std::optional<double> bound = compressor.variance_bound(kLongest);
  if (bound && *bound < 1) return;
  const std::string error = bound ? fmt::format("up to {:.3g} times the gradient's square", *bound)
                                  : std::string("without a bound");
  fail(Kind::usage,
       "{}: expected a compressor whose error is smaller than the gradient for "
       "synchronization.error_feedback \"ef14\", found \"{}\" with an error {}, which a residual "
       "would add up; set synchronization.error_feedback to \"auto\", or choose more "
       "compressor.bits or a smaller compressor.bucket_size where it has them",
       origin, config.compressor.name->name, error);
}

}  // namespace

bool has_error_feedback(const RunConfig& config, const codec::Properties& properties) {
  const ErrorFeedback wanted = config.synchronization.error_feedback;
  return wanted == ErrorFeedback::ef14 ||
         (wanted == ErrorFeedback::automatic && properties.needs_feedback);
}

void check_error_feedback(const RunConfig& config, const codec::Compressor& compressor,
                          const std::string& origin) {
  if (config.synchronization.error_feedback != ErrorFeedback::ef14) return;
  const codec::Properties properties = compressor.properties();
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\" or \"none\" for the compressor "
         "\"{}\", {}, found \"ef14\"; {}",
         origin, config.compressor.name->name, why, instead);
  };
  constexpr std::string_view kToAuto = "set it to \"auto\"";
  if (properties.lossless) refuse("which loses nothing", kToAuto);
  if (properties.forgets_sent) refuse("which keeps what it did not send by itself", kToAuto);
  if (properties.votes)
    refuse("whose votes have no magnitude to subtract", "set compressor.name to \"ef-signsgd\"");
  if (properties.scales_up)
    refuse("whose scaling by compressor.unbiased a residual would amplify", kToAuto);
  require_contraction(config, compressor, origin);
}

}  // namespace eqt::config
