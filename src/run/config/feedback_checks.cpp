// SPDX-License-Identifier: Apache-2.0
#include "config/feedback_checks.hpp"

#include <fmt/format.h>

#include <optional>

#include "core/catalogue.hpp"
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
       "synchronization.error_feedback \"{}\", found \"{}\" with an error {}, which a residual "
       "would add up; set synchronization.error_feedback to \"auto\", or choose more "
       "compressor.bits or a smaller compressor.bucket_size where it has them",
       origin, name_of(config.synchronization.error_feedback), config.compressor.name->name, error);
}

void check_ef21(const RunConfig& config, const codec::Compressor& compressor,
                const std::string& origin) {
  const auto& s = config.synchronization;
  if (!s.algorithm->averages_gradients)
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\", \"none\" or \"ef14\" for "
         "synchronization.algorithm \"{}\", found \"ef21\", which follows gradients from step to "
         "step; set synchronization.algorithm to \"allreduce\"",
         origin, s.algorithm->name);
  // A fixed threshold is the only one of the program's own codecs that needs feedback and has no
  // bound. A plugin that needs it has none either, and promises to encode small vectors as well as
  // large ones.
  if (compressor.id() == codec::CodecId::threshold && !compressor.variance_bound(kLongest))
    fail(Kind::usage,
         "{}: expected compressor.threshold 0 for synchronization.error_feedback \"ef21\", which "
         "would never learn of differences below a threshold, found {}; set it to 0, which sends "
         "compressor.density of the values, or take \"ef14\", which adds up what is not sent",
         origin, config.compressor.threshold);
}

}  // namespace

ErrorFeedback settled_feedback(const RunConfig& config, const codec::Properties& properties) {
  const ErrorFeedback wanted = config.synchronization.error_feedback;
  if (wanted != ErrorFeedback::automatic) return wanted;
  return properties.needs_feedback ? ErrorFeedback::ef14 : ErrorFeedback::none;
}

void check_error_feedback(const RunConfig& config, const codec::Compressor& compressor,
                          const std::string& origin) {
  const ErrorFeedback wanted = config.synchronization.error_feedback;
  const double momentum = config.synchronization.ef21_momentum;
  if (wanted != ErrorFeedback::ef21 && momentum != 1)
    fail(Kind::usage,
         "{}: expected synchronization.ef21_momentum 1 for synchronization.error_feedback \"{}\", "
         "found {}; set synchronization.error_feedback to \"ef21\", or leave it out",
         origin, name_of(wanted), momentum);
  if (wanted != ErrorFeedback::ef14 && wanted != ErrorFeedback::ef21) return;
  const codec::Properties properties = compressor.properties();
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\" or \"none\" for the compressor "
         "\"{}\", {}, found \"{}\"; {}",
         origin, config.compressor.name->name, why, name_of(wanted), instead);
  };
  constexpr std::string_view kToAuto = "set it to \"auto\"";
  if (properties.lossless) refuse("which loses nothing", kToAuto);
  if (properties.forgets_sent) refuse("which keeps what it did not send by itself", kToAuto);
  if (properties.votes)
    refuse("whose votes have no magnitude to subtract", "set compressor.name to \"ef-signsgd\"");
  if (properties.scales_up)
    refuse("whose scaling by compressor.unbiased a residual would amplify", kToAuto);
  require_contraction(config, compressor, origin);
  if (wanted == ErrorFeedback::ef21) check_ef21(config, compressor, origin);
}

}  // namespace eqt::config
