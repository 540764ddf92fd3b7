#include "config/gossip_checks.hpp"

#include "core/error.hpp"

namespace eqt::config {
namespace {

void check_keys_of_gossip(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  const GossipTraits traits = gossip_traits(s.algorithm);
  const auto refuse = [&](std::string_view key, std::string_view found) {
    fail(Kind::usage,
         "{}: expected synchronization.{} only with an algorithm that gossips, found {} with "
         "\"{}\"; "
         "leave it out",
         origin, key, found, s.algorithm);
  };
  if (!traits.mixes) {
    if (s.consensus_step) refuse("consensus_step", "a number");
    if (s.order != "adapt-then-combine") refuse("order", s.order);
    if (s.final_rounds > 0) refuse("final_rounds", std::to_string(s.final_rounds));
  }
  const bool local = s.algorithm == "local-sgd";
  const bool takes_local_steps =
      local || (traits.mixes && !traits.own_direction && !traits.asynchronous);
  if (!takes_local_steps && s.local_steps != 1)
    fail(Kind::usage,
         "{}: expected synchronization.local_steps only with local-sgd, d-psgd, sgp, choco-sgd, "
         "quant-sgp, deep-squeeze or sparse-push, found it with \"{}\"; leave it out",
         origin, s.algorithm);
  if (!local && s.post_local_epochs != 0)
    fail(Kind::usage,
         "{}: expected synchronization.post_local_epochs only with local-sgd, found it with "
         "\"{}\"; leave it out",
         origin, s.algorithm);
  if (local && s.local_steps == 1 && s.post_local_epochs != 0)
    fail(Kind::usage,
         "{}: expected synchronization.local_steps above 1 with synchronization.post_local_epochs, "
         "found 1, which averages in every step; try 8",
         origin);
  if (!traits.public_copies && s.adaptive_step)
    fail(Kind::usage,
         "{}: expected synchronization.adaptive_step only with choco-sgd or quant-sgp, which keep "
         "public copies, found it with \"{}\"; leave it out",
         origin, s.algorithm);
}

void check_momentum(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  const GossipTraits traits = gossip_traits(s.algorithm);
  const bool quasi_global = config.optimizer.momentum_kind == "quasi-global";
  const bool in_step = traits.mixes && !traits.own_direction && !traits.asynchronous;
  if (quasi_global && s.algorithm != "local-sgd" && !in_step)
    fail(Kind::usage,
         "{}: expected optimizer.momentum_kind \"local\" for synchronization.algorithm \"{}\", "
         "found "
         "\"quasi-global\", which learns from what mixing does to d-psgd, sgp, choco-sgd, "
         "quant-sgp, deep-squeeze, sparse-push or local-sgd",
         origin, s.algorithm);
  if (quasi_global && config.optimizer.momentum == 0)
    fail(Kind::usage,
         "{}: expected optimizer.momentum above 0 with optimizer.momentum_kind \"quasi-global\", "
         "found 0; try 0.9",
         origin);
  if (traits.own_direction && config.optimizer.momentum != 0)
    fail(Kind::usage,
         "{}: expected optimizer.momentum 0 for synchronization.algorithm \"{}\", which corrects "
         "plain gradients, found {}; set it to 0 (and optimizer.nesterov to false)",
         origin, s.algorithm, config.optimizer.momentum);
  if (traits.own_direction && s.order != "adapt-then-combine")
    fail(Kind::usage,
         "{}: expected synchronization.order \"adapt-then-combine\" for synchronization.algorithm "
         "\"{}\", found \"{}\"; leave it out",
         origin, s.algorithm, s.order);
}

void check_compressor(const RunConfig& config, const std::string& origin) {
  const std::string_view compressor = config.compressor.name->name;
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    fail(Kind::usage,
         "{}: expected another compressor than \"{}\" for synchronization.algorithm \"{}\": {}; "
         "take "
         "{}",
         origin, compressor, config.synchronization.algorithm, why, instead);
  };
  if (config.synchronization.collective != "auto")
    fail(Kind::usage,
         "{}: expected synchronization.collective \"auto\" for synchronization.algorithm \"{}\", "
         "which talks to neighbours only, found \"{}\"; leave it out",
         origin, config.synchronization.algorithm, config.synchronization.collective);
  if (compressor == "signsgd")
    refuse("its signs carry no size, and no majority votes here", "\"ef-signsgd\"");
  if (compressor == "dgc") refuse("its memory is one of gradients", "\"topk\"");
  if (config.synchronization.error_feedback == "ef14")
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\" for synchronization.algorithm "
         "\"{}\", "
         "found \"ef14\", which is for gradients; for models take choco-sgd or deep-squeeze",
         origin, config.synchronization.algorithm);
}

/// Compressors that need gradients; the others suit any difference of models.
void check_compressor_of_models(const RunConfig& config, const std::string& origin) {
  const std::string_view compressor = config.compressor.name->name;
  if (compressor != "signsgd" && compressor != "dgc") return;
  fail(Kind::usage,
       "{}: expected another compressor than \"{}\" for synchronization.algorithm \"local-sgd\", "
       "which averages differences of models: {}; take {}",
       origin, compressor,
       compressor == "dgc" ? "its memory is one of gradients" : "its votes carry no size",
       compressor == "dgc" ? "\"topk\"" : "\"ef-signsgd\"");
}

void check_asynchronous(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  if (!gossip_traits(s.algorithm).asynchronous) return;
  const auto refuse = [&](std::string_view key, std::string_view expected, std::string_view why) {
    fail(
        Kind::usage,
        "{}: expected synchronization.{} {} for synchronization.algorithm \"{}\", {}; leave it out",
        origin, key, expected, s.algorithm, why);
  };
  if (config.train.on_divergence == "rollback")
    fail(Kind::usage,
         "{}: expected train.on_divergence \"stop\" for synchronization.algorithm \"{}\", whose "
         "ranks have no step in common to go back to, found \"rollback\"",
         origin, s.algorithm);
  if (!s.overlap) refuse("overlap", "true", "whose pairs average beside the steps, found false");
  if (s.order != "adapt-then-combine")
    refuse("order", "\"adapt-then-combine\"",
           "whose updates and averages wait for no one, found another");
  if (s.topology.weights != "auto")
    refuse("topology.weights", "\"auto\"", "which always takes the mean of two, found others");
  if (s.final_rounds > 0)
    refuse("final_rounds", "0",
           "whose ranks share no rounds, found " + std::to_string(s.final_rounds));
}

}  // namespace

GossipTraits gossip_traits(std::string_view algorithm) {
  if (algorithm == "d-psgd" || algorithm == "deep-squeeze") return {.mixes = true};
  if (algorithm == "sgp" || algorithm == "sparse-push") return {.mixes = true, .push_sum = true};
  if (algorithm == "choco-sgd") return {.mixes = true, .public_copies = true};
  if (algorithm == "quant-sgp") return {.mixes = true, .push_sum = true, .public_copies = true};
  if (algorithm == "ad-psgd") return {.mixes = true, .asynchronous = true};
  if (algorithm == "d2" || algorithm == "gradient-tracking")
    return {.mixes = true, .own_direction = true};
  return {};
}

void check_gossip(const RunConfig& config, const std::string& origin) {
  check_keys_of_gossip(config, origin);
  check_momentum(config, origin);
  check_asynchronous(config, origin);
  if (gossip_traits(config.synchronization.algorithm).mixes) check_compressor(config, origin);
  if (config.synchronization.algorithm == "local-sgd") check_compressor_of_models(config, origin);
}

}  // namespace eqt::config
