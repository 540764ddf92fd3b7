// SPDX-License-Identifier: Apache-2.0
// Keys of decentralised training that cannot be combined, and similar ones that can.

#include "config_support.hpp"

using namespace eqt::config;
using Catch::Matchers::Matches;
using test::parse;
using test::rejection;

namespace {

using Sets = std::vector<std::string>;

std::string algorithm(const std::string& name) { return "synchronization.algorithm=" + name; }

const std::string kPlain = "optimizer.momentum=0";  // what d2 and gradient-tracking need
const std::string kQuasiGlobal = "optimizer.momentum_kind=quasi-global";

/// Checks that the sentence has these parts, in this order.
void refuse(const Sets& sets, const std::string& pattern) {
  CHECK_THAT(rejection("{}", sets), Matches(".*" + pattern + ".*"));
}

}  // namespace

TEST_CASE("keys of gossip that would have no effect are refused", "[config]") {
  const std::string s = "synchronization\\.";
  refuse({"synchronization.consensus_step=0.5"}, s + "consensus_step .*allreduce");
  refuse({algorithm("local-sgd"), "synchronization.order=combine-then-adapt"},
         s + "order .*combine-then-adapt.*local-sgd");
  refuse({algorithm("d-psgd"), "synchronization.adaptive_step=true"},
         s + "adaptive_step .*choco-sgd");
  refuse({algorithm("d-psgd"), "synchronization.resync_every=4"},
         s + "resync_every 4 only with.*choco-sgd.*quant-sgp.*d-psgd");
  refuse({algorithm("ad-psgd"), "synchronization.local_steps=4"}, s + "local_steps .*local-sgd");
  refuse({algorithm("choco-sgd"), "synchronization.local_steps=qsr"},
         s + "local_steps .*choco-sgd.*qsr.*local-sgd alone");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=fast"},
         s + "local_steps .*\"qsr\" or an integer.*fast");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=4",
          "synchronization.local_steps_base=4"},
         s + "local_steps_base.*only with.*qsr.*found 4");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=qsr",
          "synchronization.local_steps_base=8", "synchronization.local_steps_most=4"},
         s + "local_steps_most.*at least local_steps_base, which is 8, found 4");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=4", "synchronization.delay=5"},
         s + "delay of at most.*which are 4, found 5.*auto");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=qsr", "synchronization.delay=3"},
         s + "delay of at most.*which are 2, found 3.*auto");
  refuse({"synchronization.delay=1"}, s + "delay 1 only with.*local-sgd.*allreduce");
  refuse({"synchronization.outer.momentum=0.5"},
         s + "outer.momentum 0.5 only with.*local-sgd.*allreduce");
  refuse({"synchronization.quorum=2"}, s + "quorum 2 only with.*local-sgd.*allreduce");
  const auto quorum = [&](const std::vector<std::string>& more, const std::string& pattern) {
    Sets sets = {algorithm("local-sgd"), "synchronization.local_steps=4",
                 "synchronization.delay=auto", "synchronization.quorum=2"};
    sets.insert(sets.end(), more.begin(), more.end());
    refuse(sets, pattern);
  };
  quorum({"synchronization.local_steps=qsr"}, s + "local_steps as an integer with.*quorum.*qsr");
  quorum({"synchronization.delay=0"}, s + "delay of at least 1 with.*quorum.*found 0.*auto");
  quorum({"synchronization.fragments=2"}, s + "fragments 1 with.*quorum.*found 2");
  quorum({"synchronization.outer.by_rate=true", "synchronization.outer.momentum=0.5"},
         s + "outer.by_rate false with.*quorum.*found true");
  quorum({"synchronization.outer.mixing=0.5"}, s + "outer.mixing null with.*quorum.*found 0.5");
  quorum({"synchronization.overlap=false"}, s + "overlap true with.*quorum");
  quorum({"synchronization.collective=ring"}, s + "collective .*allgather.*quorum.*ring");
  quorum({"compressor.name=terngrad"}, "another compressor.name.*quorum.*terngrad");
  quorum({"compressor.name=powersgd"}, "another compressor.name.*quorum.*powersgd");
  quorum({"train.on_divergence=rollback"}, "on_divergence \"stop\" with.*quorum");
  quorum({"train.early_stopping=2"}, "early_stopping 0 with.*quorum.*found 2");
  quorum({"train.ema=0.9"}, "train.ema 0 with");
  quorum({"optimizer.momentum_kind=quasi-global"}, "momentum_kind \"local\"");
  refuse({algorithm("local-sgd"), "synchronization.grace_seconds=1"},
         s + "quorum above 0 with synchronization.grace_seconds, found 0");
  refuse({"synchronization.fragments=2"}, s + "fragments 2 only with.*local-sgd.*allreduce");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=4", "synchronization.fragments=5"},
         s + "fragments of at most local_steps, which is 4, found 5");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=qsr", "synchronization.fragments=2"},
         "integer synchronization.local_steps with synchronization.fragments.*found \"qsr\"");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=4", "synchronization.fragments=2",
          "synchronization.post_local_epochs=1"},
         s + "post_local_epochs 0 with synchronization.fragments");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=4", "synchronization.fragments=2",
          "optimizer.momentum_kind=quasi-global"},
         "momentum_kind \"local\" with synchronization.fragments");
  refuse({algorithm("local-sgd"), "synchronization.outer.mixing=1"}, s + "outer.mixing .*found 1");
  refuse({"synchronization.outer.mixing=0.5"}, s + "outer.mixing 0.5 only with.*local-sgd");
  refuse({algorithm("local-sgd"), "synchronization.outer.nesterov=true"},
         s + "outer.momentum above 0 with .*nesterov");
  refuse({algorithm("local-sgd"), "synchronization.outer.by_rate=true"},
         s + "outer.momentum above 0 with .*by_rate");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=4", "synchronization.delay=auto",
          "optimizer.momentum_kind=quasi-global"},
         "momentum_kind \"local\" with synchronization.delay");
  refuse({algorithm("local-sgd"), "synchronization.local_steps=4",
          "synchronization.outer.momentum=0.5", "synchronization.post_local_epochs=1"},
         s + "post_local_epochs 0 with synchronization.outer");
  refuse({algorithm("d2"), kPlain, "synchronization.local_steps=4"}, s + "local_steps .*d2");
  refuse({"synchronization.post_local_epochs=4"}, s + "post_local_epochs .*local-sgd");
  refuse({algorithm("local-sgd"), "synchronization.post_local_epochs=4"},
         s + "local_steps above 1");
  refuse({algorithm("d-psgd"), "synchronization.collective=ring"}, s + "collective .*neighbours");
}

TEST_CASE("momentum needs an algorithm that keeps it", "[config]") {
  refuse({algorithm("d2")}, "momentum 0 .*d2.*found 0\\.9");
  refuse({algorithm("gradient-tracking")}, "momentum 0 .*gradient-tracking");
  refuse({algorithm("d2"), kQuasiGlobal}, "momentum_kind .*d2.*quasi-global");
  refuse({kQuasiGlobal}, "momentum_kind .*allreduce.*d-psgd");
  refuse({algorithm("d-psgd"), kPlain, kQuasiGlobal}, "momentum above 0 .*0\\.9");
  refuse({algorithm("d2"), kPlain, "synchronization.order=combine-then-adapt"},
         "order \"combine-then-adapt\" only .*d2");
  for (const std::string name :
       {"d-psgd", "sgp", "choco-sgd", "quant-sgp", "deep-squeeze", "sparse-push", "local-sgd"})
    CHECK_NOTHROW(parse("{}", {algorithm(name), kQuasiGlobal}));
}

TEST_CASE("slices are left out of differences from public copies only", "[config]") {
  for (const std::string name : {"choco-sgd", "quant-sgp"}) {
    CHECK_NOTHROW(parse("{}", {algorithm(name), "synchronization.event_threshold=2",
                               "synchronization.event_silence=10"}));
    refuse({algorithm(name), "synchronization.event_silence=10"},
           "event_threshold above 0 .*event_silence.*found 0");
    refuse({algorithm(name), "synchronization.event_threshold=1001"}, "event_threshold .*1001");
    refuse({algorithm(name), "synchronization.event_threshold=-1"}, "event_threshold .*-1");
    refuse(
        {algorithm(name), "synchronization.event_threshold=2", "synchronization.event_silence=0"},
        "event_silence .*0");
  }
  for (const std::string name :
       {"allreduce", "d-psgd", "sgp", "deep-squeeze", "sparse-push", "ad-psgd", "local-sgd"})
    refuse({algorithm(name), "synchronization.event_threshold=2"},
           "event_threshold 2\\.0 only .*\"choco-sgd\", \"quant-sgp\", found it with \"" + name);
}

TEST_CASE("gossip that is applied late needs plain rounds", "[config]") {
  const std::string late = "synchronization.delay=2", steps = "synchronization.local_steps=4";
  for (const std::string name : {"d-psgd", "choco-sgd"}) {
    CHECK_NOTHROW(parse("{}", {algorithm(name), late, steps}));
    CHECK_NOTHROW(parse("{}", {algorithm(name), "synchronization.delay=auto"}));
    refuse({algorithm(name), late}, "delay of at most the steps per round.* 1, found 2");
    refuse({algorithm(name), late, steps, kQuasiGlobal}, "momentum_kind \"local\" .*delay");
    refuse({algorithm(name), late, steps, "synchronization.order=combine-then-adapt"},
           "order \"adapt-then-combine\" with synchronization\\.delay.*combine-then-adapt");
  }
  refuse({algorithm("choco-sgd"), late, steps, "synchronization.adaptive_step=true"},
         "adaptive_step false .*delay");
  for (const std::string name :
       {"allreduce", "sgp", "quant-sgp", "deep-squeeze", "sparse-push", "ad-psgd"})
    refuse({algorithm(name), "synchronization.delay=1"},
           "delay 1 only .*\"local-sgd\".*\"choco-sgd\".*found it with \"" + name);
}

TEST_CASE("lazy gradients need plain descent on a rank's own samples", "[config]") {
  const std::string laq = algorithm("laq");
  CHECK_NOTHROW(parse("{}", {laq, kPlain}));
  CHECK_FALSE(parse("{}", {laq, kPlain}).data.partition.reshuffle);
  refuse({laq}, "momentum 0 .*laq.*found 0\\.9");
  refuse({laq, "optimizer.nesterov=true"}, "momentum 0 .*laq");
  refuse({laq, "optimizer.name=adamw", "optimizer.momentum=0.9"}, "optimizer\\.name \"sgd\" .*laq");
  refuse({laq, kPlain, "compressor.name=qsgd"}, "compressor\\.name \"none\" .*laq_bits.*qsgd");
  refuse({laq, kPlain, "compressor.coding=lossless"}, "coding \"fixed\" .*laq.*lossless");
  refuse({laq, kPlain, "synchronization.collective=ring"}, "collective \"auto\" .*laq.*ring");
  refuse({laq, kPlain, "synchronization.error_feedback=ef14"}, "error_feedback \"auto\" .*ef14");
  refuse({laq, kPlain, "data.partition.reshuffle=true"}, "reshuffle false .*laq");
  refuse({laq, kPlain, "optimizer.decay_norms=false"}, "same rate and weight decay .*laq");
  refuse({"synchronization.laq_bits=2"}, "laq_bits .*laq");
  refuse({laq, kPlain, "synchronization.laq_bits=17"}, "laq_bits .*17");
}

TEST_CASE("compressors that need gradients do not send models", "[config]") {
  for (const std::string name : {"d-psgd", "choco-sgd", "local-sgd"}) {
    refuse({algorithm(name), "compressor.name=signsgd"}, "signsgd.*" + name + ".*ef-signsgd");
    refuse({algorithm(name), "compressor.name=dgc"}, "dgc.*" + name + ".*topk");
  }
  refuse({algorithm("d-psgd"), "compressor.name=topk", "synchronization.error_feedback=ef14"},
         "error_feedback .*ef14.*choco-sgd");
  refuse({algorithm("choco-sgd"), "compressor.name=topk", "synchronization.error_feedback=ef21"},
         "error_feedback .*ef21.*choco-sgd");
}
