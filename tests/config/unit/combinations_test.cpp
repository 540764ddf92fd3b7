// SPDX-License-Identifier: Apache-2.0
// Invalid combinations of valid values, and similar valid ones.

#include <algorithm>

#include "codec/integer/integer_codec.hpp"
#include "config/checks.hpp"
#include "config_support.hpp"
#include "support/compressors.hpp"

using namespace eqt::config;
using Catch::Matchers::ContainsSubstring;
using test::parse;
using test::rejection;

namespace {

using Sets = std::vector<std::string>;

std::string compressor(const std::string& name) { return "compressor.name=" + name; }

const Sets kAll = [] {
  Sets names;
  for (const Choice& choice : config_choices("compressor.name")) names.push_back(choice.name);
  return names;
}();

/// Of a compressor from a config with only its name.
std::unique_ptr<eqt::codec::Compressor> made(const std::string& name) {
  return eqt::test::made_by_default(*eqt::codec::CompressorRow::all().at(name));
}
eqt::codec::Properties properties_of(const std::string& name) { return made(name)->properties(); }

/// A plugin as far as these checks know it: a number of a plugin, and no bound.
class Unbounded final : public eqt::codec::Compressor {
 public:
  explicit Unbounded(eqt::codec::Properties properties) : properties_(properties) {}

  eqt::codec::CodecId id() const noexcept override { return eqt::codec::CodecId{0x8001}; }
  std::uint8_t format_version() const noexcept override { return 1; }
  eqt::codec::Properties properties() const noexcept override { return properties_; }
  std::size_t max_payload_bytes(std::size_t count) const override { return count; }
  std::size_t encode(std::span<const float>, const eqt::codec::EncodeContext&, eqt::Workspace&,
                     std::span<std::byte>) const override {
    return 0;
  }
  void decode_add(std::span<const std::byte>, float, eqt::Workspace&,
                  std::span<float>) const override {}

 private:
  eqt::codec::Properties properties_;
};

}  // namespace

TEST_CASE("every compressor works with every default", "[config]") {
  for (const auto& name : kAll)
    CHECK(parse("{}", {compressor(name)}).compressor.name->name == name);
}

TEST_CASE("keys of a task need its kind, and some tasks a network of one's own", "[config]") {
  CHECK(parse("{}", {"task.label_smoothing=0.1"}).task.label_smoothing == 0.1);
  CHECK(std::get<WeightRule>(parse("{}", {"task.class_weights=balanced"}).task.class_weights) ==
        WeightRule::balanced);
  CHECK(std::get<std::vector<double>>(
            parse("{}", {"task.class_weights=[1, 2.5]"}).task.class_weights) ==
        std::vector<double>{1, 2.5});
  for (const std::string other : {"multi-label", "regression", "language-model"})
    CHECK_THAT(
        rejection("{}", {"task.kind=" + other, "task.label_smoothing=0.1"}),
        ContainsSubstring("task.label_smoothing 0.1") && ContainsSubstring("\"" + other + "\""));
  CHECK_THAT(rejection("{}", {"task.kind=module"}),
             ContainsSubstring("model.name \"torchscript\""));
  CHECK_NOTHROW(parse("{}", {"task.kind=module", "model.name=torchscript", "model.path=net.pt"}));
  CHECK_THAT(rejection("{}", {"task.kind=regression", "train.emulate_compute=1", "train.steps=1"}),
             ContainsSubstring("task.kind \"classification\""));
  for (const std::string wrong :
       {"task.label_smoothing=1", "task.label_smoothing=-0.1", "task.class_weights=[0, 1]",
        "task.class_weights=[]", "task.class_weights=fair", "task.class_weights=1"})
    CHECK_THAT(rejection("{}", {wrong}), ContainsSubstring(wrong.substr(0, wrong.find('='))));
}

TEST_CASE("keys of a partition need its kind", "[config]") {
  const std::string skew = "data.partition.skew=0.8", alpha = "data.partition.alpha=0.1";
  const auto kind = [](const std::string& name) { return "data.partition.kind=" + name; };
  CHECK(parse("{}", {kind("skew"), skew}).data.partition.skew == 0.8);
  CHECK(parse("{}", {kind("skew")}).data.partition.skew == 0);
  CHECK(parse("{}", {kind("dirichlet"), alpha}).data.partition.alpha == 0.1);
  for (const std::string other : {"iid", "dirichlet"})
    CHECK_THAT(rejection("{}", {kind(other), skew}),
               ContainsSubstring("data.partition.skew 0.8") &&
                   ContainsSubstring("data.partition.kind \"skew\"") &&
                   ContainsSubstring("\"" + other + "\""));
  for (const std::string other : {"iid", "skew"})
    CHECK_THAT(
        rejection("{}", {kind(other), alpha}),
        ContainsSubstring("data.partition.alpha 0.1") && ContainsSubstring("\"" + other + "\""));
  for (const std::string other : {"skew", "dirichlet"})
    CHECK_THAT(
        rejection("{}", {kind(other), "data.partition.reshuffle=true"}),
        ContainsSubstring("data.partition.reshuffle") && ContainsSubstring("\"" + other + "\""));
  CHECK_NOTHROW(parse("{}", {"data.partition.skew=0.0", "data.partition.alpha=1"}));
  for (const std::string wrong : {"data.partition.skew=1.1", "data.partition.skew=-0.1",
                                  "data.partition.alpha=0", "data.partition.alpha=-1"})
    CHECK_THAT(rejection("{}", {wrong}), ContainsSubstring(wrong.substr(0, wrong.find('='))));
}

TEST_CASE("the dense collective is for the compressor none", "[config]") {
  for (const auto& name : kAll) {
    const Sets sets = {compressor(name), "synchronization.collective=dense"};
    if (name == "none")
      CHECK_NOTHROW(parse("{}", sets));
    else
      CHECK_THAT(rejection("{}", sets),
                 ContainsSubstring("synchronization.collective") && ContainsSubstring(name));
  }
}

TEST_CASE("sparse compressors and those of whole tensors do not scatter-reduce", "[config]") {
  for (const auto& name : kAll) {
    const Sets sets = {compressor(name), "synchronization.collective=scatter-reduce"};
    const auto properties = properties_of(name);
    if (properties.averages_itself) continue;  // has its own collective, see below
    if (properties.granule == 0 || properties.shared_scale || properties.votes)
      CHECK_THAT(rejection("{}", sets), ContainsSubstring("allgather") && ContainsSubstring(name));
    else
      CHECK_NOTHROW(parse("{}", sets));
    CHECK_NOTHROW(parse("{}", {compressor(name), "synchronization.collective=allgather"}));
  }
}

TEST_CASE("collectives that encode partial sums take what can be encoded again", "[config]") {
  for (const std::string collective : {"ring", "recursive-doubling"}) {
    const std::string set = "synchronization.collective=" + collective;
    for (const auto& name : kAll) {
      const auto p = properties_of(name);
      const bool never = p.shared_scale || p.forgets_sent || p.votes || p.averages_itself;
      const bool refused = never || (collective == "ring" && p.granule == 0);
      if (refused)
        CHECK_THAT(rejection("{}", {compressor(name), set}),
                   ContainsSubstring("synchronization.collective") && ContainsSubstring(name) &&
                       ContainsSubstring("auto"));
      else
        CHECK_NOTHROW(parse("{}", {compressor(name), set}));
    }
    CHECK_THAT(rejection("{}", {compressor("randomk"), "compressor.unbiased=true", set}),
               ContainsSubstring("randomk") && ContainsSubstring(collective));
  }
}

TEST_CASE("the sparse collective is for sparse compressors", "[config]") {
  for (const auto& name : kAll) {
    const Sets sets = {compressor(name), "synchronization.collective=sparse"};
    if (properties_of(name).sparse)
      CHECK_NOTHROW(parse("{}", sets));
    else
      CHECK_THAT(rejection("{}", sets),
                 ContainsSubstring("synchronization.collective") && ContainsSubstring(name));
  }
}

TEST_CASE("only codes of equal steps are summed as integers", "[config]") {
  for (const auto& name : kAll) {
    const Sets sets = {compressor(name), "synchronization.collective=integer"};
    if (made(name)->integer_codec() != nullptr) {
      CHECK_NOTHROW(parse("{}", sets));
    } else if (!properties_of(name).averages_itself) {
      CHECK_THAT(rejection("{}", sets), ContainsSubstring("qsgd-v") && ContainsSubstring(name));
    }
  }
  CHECK_THAT(rejection("{}", {compressor("qsgd-v"), "synchronization.collective=integer",
                              "compressor.coding=elias"}),
             ContainsSubstring("compressor.coding"));
}

TEST_CASE("hierarchical takes what can encode the sum of a host", "[config]") {
  for (const auto& name : kAll) {
    const Sets sets = {compressor(name), "synchronization.collective=hierarchical"};
    const auto p = properties_of(name);
    if (p.forgets_sent || p.votes || p.averages_itself)
      CHECK_THAT(rejection("{}", sets),
                 ContainsSubstring("synchronization.collective") && ContainsSubstring(name));
    else
      CHECK_NOTHROW(parse("{}", sets));
  }
}

TEST_CASE("low-rank compressors need whole matrices and their own collective", "[config]") {
  CHECK_NOTHROW(parse("{}", {compressor("powersgd"), "compressor.rank=32"}));
  for (const std::string collective : {"dense", "allgather", "scatter-reduce"})
    CHECK_THAT(
        rejection("{}", {compressor("powersgd"), "synchronization.collective=" + collective}),
        ContainsSubstring("powersgd") && ContainsSubstring("auto"));
  CHECK_THAT(rejection("{}", {compressor("powersgd"), "compressor.granularity=model"}),
             ContainsSubstring("compressor.granularity"));
  for (const std::string atoms : {"spectral", "entrywise"}) {
    const Sets sets = {compressor("atomo"), "compressor.atoms=" + atoms};
    CHECK(eqt::name_of(parse("{}", sets).compressor.atoms) == atoms);
    CHECK_NOTHROW(parse("{}", {sets[0], sets[1], "synchronization.collective=allgather"}));
    CHECK_THAT(rejection("{}", {sets[0], sets[1], "synchronization.collective=scatter-reduce"}),
               ContainsSubstring("atomo") && ContainsSubstring("allgather"));
  }
  for (const std::string rank : {"0", "33", "1.5"})
    CHECK_THAT(rejection("{}", {compressor("atomo"), "compressor.rank=" + rank}),
               ContainsSubstring("compressor.rank"));
}

TEST_CASE("without synchronization nothing is compressed", "[config]") {
  CHECK_NOTHROW(parse("{}", {"synchronization.algorithm=none"}));
  CHECK_THAT(rejection("{}", {"synchronization.algorithm=none", compressor("fp16")}),
             ContainsSubstring("synchronization.algorithm"));
}

TEST_CASE("final rounds need an algorithm that gossips in step", "[config]") {
  for (const std::string algorithm : {"d-psgd", "sgp", "choco-sgd", "quant-sgp", "deep-squeeze",
                                      "sparse-push", "d2", "gradient-tracking"}) {
    const bool plain = algorithm == "d2" || algorithm == "gradient-tracking";
    const Sets sets = {"synchronization.algorithm=" + algorithm, "synchronization.final_rounds=51",
                       plain ? "optimizer.momentum=0" : "optimizer.momentum=0.9"};
    CHECK(parse("{}", sets).synchronization.final_rounds == 51);
  }
  for (const std::string algorithm : {"allreduce", "none", "local-sgd", "ad-psgd"}) {
    CHECK_THAT(rejection("{}", {"synchronization.algorithm=" + algorithm,
                                "synchronization.final_rounds=1"}),
               ContainsSubstring("synchronization.final_rounds") && ContainsSubstring(algorithm));
  }
}

TEST_CASE("error feedback needs one memory", "[config]") {
  for (const auto& name : kAll) {
    const Sets sets = {compressor(name), "synchronization.error_feedback=ef14"};
    const Sets refused = {"dgc", "signsgd"};
    if (std::count(refused.begin(), refused.end(), name) > 0)
      CHECK_THAT(rejection("{}", sets), ContainsSubstring("synchronization.error_feedback"));
    else
      CHECK_NOTHROW(parse("{}", sets));
    CHECK_NOTHROW(parse("{}", {compressor(name), "synchronization.error_feedback=none"}));
  }
}

TEST_CASE("auto with a memory chooses among rates", "[config]") {
  const std::string ef14 = "synchronization.error_feedback=ef14";
  const std::string menu = "compressor.menu=";
  const std::string rates = R"(["e-elastiquant:rate=0.25", "e-elastiquant:rate=1", "none"])";
  const RunConfig config = parse("{}", {compressor("auto"), ef14});
  CHECK(config.compressor.menu == eqt::codec::menu_of_rates());
  CHECK(config.compressor.make()->properties().needs_feedback);
  CHECK_FALSE(config.compressor.damped);
  CHECK(parse(resolved_json(config), {}).compressor == config.compressor);
  const RunConfig given = parse("{}", {compressor("auto"), menu + rates});
  CHECK(settled_feedback(given, given.compressor.make()->properties()) == ErrorFeedback::ef14);
  CHECK_NOTHROW(parse("{}", {compressor("auto"), menu + rates, ef14}));
  for (const std::string feedback : {"none", "ef21"})
    CHECK_THAT(rejection("{}", {compressor("auto"), menu + rates,
                                "synchronization.error_feedback=" + feedback}),
               ContainsSubstring("needs a memory") && ContainsSubstring(feedback));
  CHECK_THAT(rejection("{}", {compressor("auto"), ef14, menu + R"(["qsgd:4", "none"])"}),
             ContainsSubstring("unbiased") && ContainsSubstring("compressor.menu"));
  CHECK_THAT(rejection("{}", {compressor("auto"), "synchronization.error_feedback=ef21"}),
             ContainsSubstring("unbiased"));
  CHECK_THAT(rejection("{}", {compressor("e-elastiquant"), "compressor.bits=auto", ef14}),
             ContainsSubstring("unbiased"));
  for (const std::string share : {"0", "1"})
    CHECK_THAT(rejection("{}", {compressor("auto"), "compressor.error_share=" + share}),
               ContainsSubstring("compressor.error_share"));
}

TEST_CASE("auto means error feedback where SGD gains by it", "[config]") {
  const std::string optimizer = "optimizer.name=", algorithm = "synchronization.algorithm=";
  const auto chosen = [](const Sets& sets) {
    const RunConfig config = parse("{}", sets);
    return settled_feedback(config, config.compressor.make()->properties());
  };
  for (const std::string name : {"elastiquant", "e-elastiquant"}) {
    const std::string set = compressor(name);
    CHECK(chosen({set}) == ErrorFeedback::ef14);
    CHECK(gains_by_feedback(parse("{}", {set})));
    CHECK(chosen({set, "synchronization.collective=scatter-reduce"}) == ErrorFeedback::ef14);
    CHECK(chosen({set, "synchronization.error_feedback=none"}) == ErrorFeedback::none);
    CHECK(chosen({set, optimizer + "adamw"}) == ErrorFeedback::none);
    CHECK(chosen({set, algorithm + "local-sgd", "synchronization.local_steps=4"}) ==
          ErrorFeedback::none);
    // A bound above 1: a residual would need damping, which has to be asked for.
    CHECK(chosen({set, "compressor.bits=3"}) == ErrorFeedback::none);
    // Grades that are chosen for their noise keep the mean unbiased.
    CHECK(chosen({set, "compressor.bits=auto"}) == ErrorFeedback::none);
    CHECK_FALSE(gains_by_feedback(parse("{}", {set, "compressor.rate=1"})));  // needs it
  }
  CHECK(chosen({compressor("elastiquant"), "compressor.bits=3", "compressor.bucket_size=512"}) ==
        ErrorFeedback::ef14);
  for (const std::string name : {"none", "bf16", "qsgd", "alq", "auto"})
    CHECK(chosen({compressor(name)}) == ErrorFeedback::none);
  CHECK(parse("{}", {compressor("elastiquant"), "synchronization.feedback_decay=0.5"})
            .synchronization.feedback_decay == 0.5);
}

TEST_CASE("error feedback damps what has a relative variance of 1 or more", "[config]") {
  // Bounds: docs/compressors.md; qsgd's is A - 1, or A^2 / 4 up to A = 2, for A = sqrt(B) / n.
  const auto is_damped = [](const std::string& name, Sets sets = {}) {
    sets.insert(sets.end(), {compressor(name), "synchronization.error_feedback=ef14"});
    return parse("{}", sets).compressor.damped;
  };
  CHECK(is_damped("qsgd"));                                // 2.23
  CHECK(is_damped("qsgd-v"));                              // 1.19
  CHECK(is_damped("elastiquant", {"compressor.bits=3"}));  // 1.64
  CHECK(is_damped("terngrad", {"compressor.clip=0"}));
  CHECK(is_damped("terngrad"));
  CHECK(is_damped("atomo"));
  CHECK(is_damped("atomo", {"compressor.atoms=entrywise"}));
  CHECK_FALSE(is_damped("qsgd", {"compressor.bits=8"}));
  CHECK_FALSE(is_damped("qsgd", {"compressor.bucket_size=64"}));  // 0.33
  CHECK_FALSE(is_damped("elastiquant", {"compressor.bits=3", "compressor.bucket_size=512"}));
  for (const std::string name : {"none", "bf16", "int8", "topk", "e-elastiquant", "natural"})
    CHECK_FALSE(is_damped(name));

  // The other ways to have no bias, where nothing is remembered of gradients.
  for (const std::string feedback : {"auto", "none"})
    CHECK_FALSE(parse("{}", {compressor("qsgd"), "synchronization.error_feedback=" + feedback})
                    .compressor.damped);
  CHECK(parse("{}", {compressor("qsgd"), "synchronization.error_feedback=ef21"}).compressor.damped);
  CHECK_FALSE(
      parse("{}", {compressor("qsgd"), "synchronization.algorithm=choco-sgd"}).compressor.damped);
  const RunConfig again = parse(
      resolved_json(parse("{}", {compressor("qsgd"), "synchronization.error_feedback=ef14"})), {});
  CHECK(again.compressor.damped);
  CHECK_THAT(rejection("{}", {compressor("qsgd-v"), "synchronization.error_feedback=ef14",
                              "synchronization.collective=integer"}),
             ContainsSubstring("integer") && ContainsSubstring("error feedback"));
  CHECK_NOTHROW(parse("{}", {compressor("qsgd-v"), "synchronization.collective=integer"}));
}

TEST_CASE("a residual decays where ef14 keeps one", "[config]") {
  const std::string key = "synchronization.feedback_decay";
  const std::string decay = key + "=0.95", feedback = "synchronization.error_feedback=";
  const std::string algorithm = "synchronization.algorithm=";
  CHECK(parse("{}", {}).synchronization.feedback_decay == 1);
  CHECK(parse("{}", {compressor("topk"), decay}).synchronization.feedback_decay == 0.95);
  CHECK_NOTHROW(parse("{}", {compressor("qsgd"), feedback + "ef14", decay}));
  CHECK_NOTHROW(parse("{}", {compressor("none"), feedback + "ef14", decay}));
  CHECK_NOTHROW(parse(
      "{}", {compressor("topk"), algorithm + "local-sgd", "synchronization.local_steps=4", decay}));
  for (const std::string value : {"0", "-0.5", "1.01"})
    CHECK_THAT(rejection("{}", {compressor("topk"), key + "=" + value}), ContainsSubstring(key));
  const auto refused = [&](const Sets& others, const std::string& word) {
    Sets sets = others;
    sets.push_back(decay);
    CHECK_THAT(rejection("{}", sets),
               ContainsSubstring(key) && ContainsSubstring("0.95") && ContainsSubstring(word));
    sets.back() = key + "=1";
    CHECK_NOTHROW(parse("{}", sets));
  };
  refused({compressor("topk"), feedback + "none"}, "\"none\"");
  refused({compressor("topk"), feedback + "ef21"}, "\"ef21\"");
  refused({compressor("qsgd")}, "\"qsgd\"");
  refused({compressor("none")}, "\"none\"");
  refused({compressor("dgc")}, "by itself");
  refused({compressor("signsgd")}, "\"signsgd\"");
  refused({algorithm + "none"}, "\"none\"");
  refused({algorithm + "laq", "optimizer.momentum=0"}, "\"laq\"");
  refused({compressor("topk"), algorithm + "choco-sgd"}, "choco-sgd");
  refused({compressor("topk"), algorithm + "deep-squeeze"}, "deep-squeeze");
}

TEST_CASE("momentum before compression is SGD's, with a residual of ef14", "[config]") {
  const std::string key = "synchronization.momentum_correction", on = key + "=on";
  const std::string feedback = "synchronization.error_feedback=";
  const auto corrects = [](const Sets& sets) {
    const RunConfig config = parse("{}", sets);
    return corrects_momentum(config, config.compressor.make()->properties());
  };
  CHECK_FALSE(corrects({compressor("topk")}));
  CHECK(corrects({compressor("topk"), on}));
  const Sets rate = {compressor("e-elastiquant"), "compressor.rate=1"};
  const auto with = [&](const std::string& set) {
    Sets sets = rate;
    sets.push_back(set);
    return sets;
  };
  CHECK(corrects(rate));
  CHECK(corrects(with(on)));
  CHECK_FALSE(corrects(with(key + "=off")));
  CHECK_FALSE(corrects(with("optimizer.momentum=0")));
  CHECK_FALSE(corrects(with("optimizer.name=adamw")));
  // Ranks accumulate one momentum for all parameters.
  const std::string apart = R"(optimizer.groups=[{"names":["fc.*"],"momentum":0}])";
  CHECK_FALSE(corrects(with(apart)));
  CHECK_FALSE(corrects(with("synchronization.algorithm=local-sgd")));
  CHECK(corrects({compressor("qsgd"), feedback + "ef14", on, "optimizer.nesterov=true"}));
  const auto refused = [&](const Sets& others, const std::string& word) {
    Sets sets = others;
    sets.push_back(on);
    CHECK_THAT(rejection("{}", sets),
               ContainsSubstring(key) && ContainsSubstring("\"on\"") && ContainsSubstring(word));
    sets.back() = key + "=off";
    CHECK_NOTHROW(parse("{}", sets));
  };
  refused({compressor("none"), feedback + "ef14"}, "\"none\"");
  refused({compressor("qsgd")}, "\"qsgd\"");
  refused({compressor("dgc")}, "by itself");
  refused({compressor("topk"), feedback + "ef21"}, "\"ef21\"");
  refused({compressor("topk"), "optimizer.momentum=0"}, "optimizer.momentum");
  refused({compressor("topk"), "optimizer.name=adamw"}, "\"adamw\"");
  refused({compressor("topk"), apart}, "optimizer.groups with momentum");
  refused({compressor("topk"), "synchronization.algorithm=local-sgd"}, "\"local-sgd\"");
  refused({compressor("topk"), "synchronization.algorithm=choco-sgd"}, "\"choco-sgd\"");
}

TEST_CASE("small tensors in 8 bits need a residual and a collective that sends them", "[config]") {
  const std::string key = "compressor.small_tensors";
  const Sets small = {key + "=int8"};
  const auto with = [&](const Sets& others) {
    Sets sets = small;
    sets.insert(sets.end(), others.begin(), others.end());
    return sets;
  };
  const std::string feedback = "synchronization.error_feedback=";
  const std::string collective = "synchronization.collective=";
  CHECK(parse("{}", {}).compressor.small_tensors == eqt::codec::SmallTensors::float32);
  CHECK(parse("{}", with({compressor("topk")})).compressor.small_tensors ==
        eqt::codec::SmallTensors::int8);
  for (const std::string name : {"int8", "qsgd", "terngrad", "atomo", "bf16", "natural"})
    CHECK_NOTHROW(parse("{}", with({compressor(name), feedback + "ef14"})));
  CHECK_NOTHROW(parse("{}", with({compressor("dgc")})));
  for (const std::string name : {"auto", "allgather", "scatter-reduce"})
    CHECK_NOTHROW(parse("{}", with({compressor("int8"), collective + name})));
  CHECK_NOTHROW(parse("{}", with({compressor("topk"), "synchronization.algorithm=local-sgd",
                                  "synchronization.local_steps=4"})));
  const auto refused = [&](const Sets& others, const std::string& word) {
    CHECK_THAT(rejection("{}", with(others)),
               ContainsSubstring(key) && ContainsSubstring("float32") && ContainsSubstring(word));
  };
  refused({}, "residual");
  refused({compressor("none"), feedback + "ef14"}, "\"none\"");
  refused({compressor("qsgd")}, "\"qsgd\"");
  refused({compressor("topk"), feedback + "ef21"}, "\"ef21\"");
  refused({compressor("signsgd")}, "\"signsgd\"");
  refused({compressor("powersgd")}, "\"powersgd\"");
  refused({compressor("topk"), "synchronization.algorithm=choco-sgd"}, "choco-sgd");
  for (const std::string name : {"sparse", "recursive-doubling", "hierarchical"})
    refused({compressor("topk"), collective + name}, name);
  for (const std::string name : {"ring", "integer"})
    refused({compressor("int8"), collective + name}, name);
}

TEST_CASE("A compressor without a bound has error feedback if it needs it or does not draw",
          "[config]") {
  for (const std::string feedback : {"ef14", "ef21"}) {
    INFO(feedback);
    const RunConfig config =
        parse("{}", {compressor("topk"), "synchronization.error_feedback=" + feedback});
    const auto check = [&](eqt::codec::Properties properties) {
      check_error_feedback(config, Unbounded(properties), "a.json");
    };
    CHECK_NOTHROW(check({.needs_feedback = true}));
    CHECK_NOTHROW((check({.random = true, .needs_feedback = true})));
    CHECK_NOTHROW(check({}));
    CHECK_THAT(eqt::test::refusal(eqt::Kind::usage, [&] { check({.random = true}); }),
               ContainsSubstring("without a bound") && !ContainsSubstring("threshold"));
  }
}

TEST_CASE("EF21 needs a contraction, gradients, and a weight in (0, 1]", "[config]") {
  const std::string ef21 = "synchronization.error_feedback=ef21";
  for (const auto& name : kAll) {
    INFO(name);
    const Sets refused = {"auto", "none", "dgc", "signsgd"};
    if (std::count(refused.begin(), refused.end(), name) > 0)
      CHECK_THAT(
          rejection("{}", {compressor(name), ef21}),
          ContainsSubstring("synchronization.error_feedback") && ContainsSubstring("\"ef21\""));
    else
      CHECK_NOTHROW(parse("{}", {compressor(name), ef21}));
  }
  CHECK_THAT(rejection("{}", {compressor("randomk"), "compressor.unbiased=true", ef21}),
             ContainsSubstring("compressor.unbiased"));
  CHECK_THAT(rejection("{}", {compressor("threshold"), "compressor.threshold=0.5", ef21}),
             ContainsSubstring("compressor.threshold 0") && ContainsSubstring("found 0.5") &&
                 ContainsSubstring("ef14"));
  CHECK_THAT(rejection("{}", {compressor("topk"), ef21, "synchronization.algorithm=local-sgd",
                              "synchronization.local_steps=4"}),
             ContainsSubstring("local-sgd") && ContainsSubstring("allreduce"));

  const std::string key = "synchronization.ef21_momentum";
  CHECK(parse("{}", {compressor("topk"), ef21}).synchronization.ef21_momentum == 1);
  CHECK(parse("{}", {compressor("topk"), ef21, key + "=0.1"}).synchronization.ef21_momentum == 0.1);
  for (const std::string value : {"0", "-0.5", "1.5"})
    CHECK_THAT(rejection("{}", {compressor("topk"), ef21, key + "=" + value}),
               ContainsSubstring(key));
  for (const std::string other : {"auto", "none", "ef14"}) {
    const std::string feedback = "synchronization.error_feedback=" + other;
    CHECK_THAT(rejection("{}", {compressor("topk"), feedback, key + "=0.5"}),
               ContainsSubstring(key) && ContainsSubstring("ef21") && ContainsSubstring(other));
    CHECK_NOTHROW(parse("{}", {compressor("topk"), feedback, key + "=1"}));
  }
}

TEST_CASE("votes have no residual, scaled signs do; Signum is not Nesterov's", "[config]") {
  CHECK_THAT(rejection("{}", {compressor("signsgd"), "synchronization.error_feedback=ef14"}),
             ContainsSubstring("ef-signsgd"));
  CHECK_THAT(rejection("{}", {compressor("signsgd"), "optimizer.nesterov=true"}),
             ContainsSubstring("optimizer.nesterov"));
  CHECK_NOTHROW(parse("{}", {compressor("ef-signsgd"), "optimizer.nesterov=true"}));
}

TEST_CASE("entropy coding needs levels", "[config]") {
  const Sets with_levels = {"qsgd",          "qsgd-v", "nuqsgd", "elastiquant",
                            "e-elastiquant", "alq",    "amq"};
  for (const auto& name : kAll)
    for (const std::string coding : {"elias", "huffman", "rans", "auto"}) {
      const Sets sets = {compressor(name), "compressor.coding=" + coding};
      if (std::find(with_levels.begin(), with_levels.end(), name) != with_levels.end())
        CHECK(eqt::name_of(parse("{}", sets).compressor.coding) == coding);
      else
        CHECK_THAT(rejection("{}", sets),
                   ContainsSubstring("compressor.coding") && ContainsSubstring(name));
    }
}

TEST_CASE("lossless coding is for none and bf16", "[config]") {
  const std::string lossless = "compressor.coding=lossless";
  for (const auto& name : kAll) {
    const Sets sets = {compressor(name), lossless};
    if (name == "none" || name == "bf16")
      CHECK(eqt::name_of(parse("{}", sets).compressor.coding) == "lossless");
    else
      CHECK_THAT(rejection("{}", sets),
                 ContainsSubstring("expected the compressor bf16 or none for compressor.coding "
                                   "\"lossless\", found \"" +
                                   name + "\"; set compressor.name to \"bf16\""));
  }
  CHECK_THAT(rejection("{}", {compressor("bf16"), "compressor.coding=rans"}),
             ContainsSubstring("found \"rans\"; set it to \"lossless\""));
  CHECK_THAT(rejection("{}", {compressor("none"), lossless, "synchronization.collective=dense"}),
             ContainsSubstring("\"allgather\"") && ContainsSubstring("found \"dense\"") &&
                 ContainsSubstring("without compressor.coding \"lossless\""));
  for (const std::string collective :
       {"auto", "allgather", "scatter-reduce", "ring", "recursive-doubling", "hierarchical"})
    for (const std::string name : {"none", "bf16"})
      CHECK_NOTHROW(
          parse("{}", {compressor(name), lossless, "synchronization.collective=" + collective}));
}

TEST_CASE("e-elastiquant is not coded in fixed width", "[config]") {
  CHECK_THAT(rejection("{}", {compressor("e-elastiquant"), "compressor.coding=fixed"}),
             ContainsSubstring("compressor.coding") && ContainsSubstring("e-elastiquant"));
  CHECK_THAT(rejection(R"({"compressor": {"name": "e-elastiquant", "coding": "fixed"}})"),
             ContainsSubstring("compressor.coding"));
}

TEST_CASE("levels and elasticity are for the elastic compressors", "[config]") {
  for (const auto& name : kAll) {
    const bool elastic = name == "elastiquant" || name == "e-elastiquant";
    for (const std::string set : {"compressor.levels=exponential", "compressor.elasticity=0.5"}) {
      if (elastic)
        CHECK_NOTHROW(parse("{}", {compressor(name), set}));
      else
        CHECK_THAT(rejection("{}", {compressor(name), set}),
                   ContainsSubstring(set.substr(0, set.find('='))));
    }
  }
}

TEST_CASE("the range of elasticity depends on the family", "[config]") {
  const Sets sinh = {compressor("elastiquant"), "compressor.elasticity=20", "compressor.bits=2"};
  CHECK(parse("{}", sinh).compressor.elasticity == 20.0);
  // With this theta more levels would be equal to 0 in float32.
  CHECK_THAT(rejection("{}", {sinh[0], sinh[1]}), ContainsSubstring("compressor.elasticity"));
  Sets exponential = {compressor("elastiquant"), "compressor.levels=exponential", ""};
  exponential[2] = "compressor.elasticity=0.999";
  CHECK(parse("{}", exponential).compressor.elasticity == 0.999);
  exponential[2] = "compressor.elasticity=1";
  CHECK_THAT(rejection("{}", exponential), ContainsSubstring("(0, 1)"));
}

TEST_CASE("theta has a limit, mu has none", "[config]") {
  for (const std::string levels : {"sinh", "adaptive"})
    CHECK_THAT(rejection("{}", {compressor("elastiquant"), "compressor.levels=" + levels,
                                "compressor.elasticity=20.5"}),
               ContainsSubstring("(0, 20]") && ContainsSubstring(levels));
  const Sets mulaw = {compressor("elastiquant"), "compressor.levels=mulaw",
                      "compressor.elasticity=255"};
  CHECK(parse("{}", mulaw).compressor.elasticity == 255.0);
}

TEST_CASE("a table is for general levels, has their number and increases to 1", "[config]") {
  const auto sets = [](const std::string& table, const std::string& levels = "general") {
    return Sets{compressor("elastiquant"), "compressor.bits=3", "compressor.levels=" + levels,
                "compressor.table=" + table};
  };
  CHECK(parse("{}", sets("[0.1,0.4,1]")).compressor.table == std::vector<double>{0.1, 0.4, 1});
  CHECK_THAT(rejection("{}", sets("[0.1,0.4,1]", "sinh")), ContainsSubstring("compressor.table"));
  CHECK_THAT(rejection("{}", sets("[]")),
             ContainsSubstring("expected 3 levels") && ContainsSubstring("found 0"));
  CHECK_THAT(rejection("{}", sets("[0.1,1]")), ContainsSubstring("expected 3 levels"));
  CHECK_THAT(rejection("{}", sets("[0.4,0.1,1]")), ContainsSubstring("at index 1"));
  CHECK_THAT(rejection("{}", sets("[0.1,0.4,0.9]")), ContainsSubstring("at index 2"));
  CHECK_THAT(rejection("{}", sets("[0,0.4,1]")), ContainsSubstring("compressor.table"));
  auto elastic = sets("[0.1,0.4,1]");
  elastic.push_back("compressor.elasticity=0.5");
  CHECK_THAT(rejection("{}", elastic), ContainsSubstring("compressor.elasticity"));
}

TEST_CASE("nuqsgd has no more bits than fp32 has powers of two", "[config]") {
  CHECK_NOTHROW(parse("{}", {compressor("nuqsgd"), "compressor.bits=6"}));
  CHECK_THAT(rejection("{}", {compressor("nuqsgd"), "compressor.bits=7"}),
             ContainsSubstring("compressor.bits") && ContainsSubstring("elastiquant"));
}

TEST_CASE("qsgd and qsgd-v have fixed norms", "[config]") {
  CHECK_THAT(rejection("{}", {compressor("qsgd"), "compressor.norm=max"}),
             ContainsSubstring("qsgd-v"));
  for (const std::string name : {"nuqsgd", "alq", "amq"})
    CHECK_THAT(rejection("{}", {compressor(name), "compressor.norm=max"}),
               ContainsSubstring(name) && ContainsSubstring("elastiquant"));
  for (const std::string name : {"qsgd-v", "elastiquant", "e-elastiquant"})
    CHECK_NOTHROW(parse("{}", {compressor(name), "compressor.norm=max"}));
}

TEST_CASE("keys of other compressors are ignored, so that sweeps can set them", "[config]") {
  for (const auto& name : kAll) {
    Sets sets = {compressor(name),
                 "compressor.bits=6",
                 "compressor.adapt_every=10",
                 "compressor.bucket_size=512",
                 "compressor.density=0.1",
                 "compressor.clip=1",
                 "compressor.warmup_epochs=0",
                 "compressor.rank=3",
                 "compressor.skip_below=0"};
    if (name != "powersgd") sets.push_back("compressor.granularity=model");  // needs matrices
    CHECK_NOTHROW(parse("{}", sets));
  }
}

TEST_CASE("milestones are for the step schedule, in order", "[config]") {
  const std::string milestones = "schedule.milestones=[1,2]";
  CHECK_NOTHROW(parse("{}", {"schedule.kind=step", milestones}));
  CHECK_THAT(rejection("{}", {"schedule.kind=step"}), ContainsSubstring("schedule.milestones"));
  for (const std::string kind : {"constant", "cosine"})
    CHECK_THAT(rejection("{}", {"schedule.kind=" + kind, milestones}),
               ContainsSubstring("schedule.milestones"));
  for (const std::string wrong : {"[2,1]", "[1,1]"})
    CHECK_THAT(rejection("{}", {"schedule.kind=step", "schedule.milestones=" + wrong}),
               ContainsSubstring("increasing"));
}

TEST_CASE("a run needs a length", "[config]") {
  CHECK_THAT(rejection("{}", {"train.epochs=0"}), ContainsSubstring("train.steps"));
  CHECK(parse("{}", {"train.epochs=0", "train.steps=5"}).train.steps == 5);
}

TEST_CASE("Nesterov's momentum needs momentum", "[config]") {
  CHECK_THAT(rejection("{}", {"optimizer.nesterov=true", "optimizer.momentum=0"}),
             ContainsSubstring("optimizer.momentum"));
  CHECK_NOTHROW(parse("{}", {"optimizer.nesterov=true"}));
  CHECK_NOTHROW(parse("{}", {"optimizer.momentum=0"}));
}

TEST_CASE("a value that is sent has 1 to 8, 16 or 32 bits", "[config]") {
  for (const std::string name : {"topk", "dgc", "threshold", "randomk"}) {
    for (const int bits : {1, 2, 7, 8, 16, 32}) {
      const Sets keys = {compressor(name), "compressor.value_bits=" + std::to_string(bits)};
      CHECK(parse("{}", keys).compressor.value_bits == bits);
    }
    for (const int bits : {0, 9, 15, 24, 31, 33})
      CHECK_THAT(
          rejection("{}", {compressor(name), "compressor.value_bits=" + std::to_string(bits)}),
          ContainsSubstring("compressor.value_bits"));
  }
  CHECK_THAT(rejection("{}", {compressor("qsgd"), "compressor.value_bits=4"}),
             ContainsSubstring("compressor.value_bits") && ContainsSubstring("topk"));
  CHECK_THAT(rejection("{}", {compressor("randomk"), "compressor.unbiased=true",
                              "compressor.value_bits=4"}),
             ContainsSubstring("compressor.unbiased"));
}

TEST_CASE("a density of 10^-5 is one", "[config]") {
  CHECK(parse("{}", {compressor("topk"), "compressor.density=1e-5"}).compressor.density == 1e-5);
}

TEST_CASE("unbiased is for randomk, without error feedback", "[config]") {
  const std::string unbiased = "compressor.unbiased=true";
  for (const auto& name : kAll) {
    if (name == "randomk")
      CHECK(parse("{}", {compressor(name), unbiased}).compressor.unbiased);
    else
      CHECK_THAT(rejection("{}", {compressor(name), unbiased}),
                 ContainsSubstring("compressor.unbiased") && ContainsSubstring(name));
  }
  CHECK_THAT(
      rejection("{}", {compressor("randomk"), unbiased, "synchronization.error_feedback=ef14"}),
      ContainsSubstring("synchronization.error_feedback"));
}

TEST_CASE("a rate chooses nearest rounding, and needs error feedback", "[config]") {
  const std::string rate = "compressor.rate=1.2";
  for (const std::string name : {"elastiquant", "e-elastiquant"}) {
    const RunConfig config = parse("{}", {compressor(name), rate});
    CHECK(config.compressor.rounding == eqt::codec::Rounding::nearest);
    CHECK(config.compressor.coding == eqt::codec::Coding::automatic);
    CHECK(config.compressor.bucket_size == 32768);
    CHECK(parse("{}", {compressor(name), "compressor.rate=0.5"}).compressor.bucket_size == 131072);
    const std::string half = "compressor.rate=0.5", bucket = "compressor.bucket_size=";
    CHECK_THAT(rejection("{}", {compressor(name), half, bucket + "64"}),
               ContainsSubstring("compressor.bucket_size of at least 128 values"));
    CHECK_NOTHROW(parse("{}", {compressor(name), half, bucket + "128"}));
    CHECK(settled_feedback(config, config.compressor.make()->properties()) == ErrorFeedback::ef14);
    // It is a contraction as it is; its residual may decay, and small tensors may have 8 bits.
    for (const std::string feedback : {"auto", "ef14"})
      CHECK_FALSE(
          parse("{}", {compressor(name), rate, "synchronization.error_feedback=" + feedback,
                       "synchronization.feedback_decay=0.9", "compressor.small_tensors=int8"})
              .compressor.damped);
    CHECK_THAT(rejection("{}", {compressor(name), rate, "synchronization.error_feedback=none"}),
               ContainsSubstring("synchronization.error_feedback") && ContainsSubstring("1.2"));
  }
  CHECK_THAT(rejection("{}", {compressor("e-elastiquant"), "compressor.rounding=nearest"}),
             ContainsSubstring("compressor.rate") && ContainsSubstring("\"elastiquant\""));
  CHECK_THAT(rejection("{}", {compressor("qsgd"), rate}), ContainsSubstring("elastiquant"));
  CHECK_THAT(rejection("{}", {compressor("e-elastiquant"), "compressor.rate=9"}),
             ContainsSubstring("compressor.rate"));
  CHECK_THAT(rejection("{}", {compressor("e-elastiquant"), rate, "compressor.bits=auto"}),
             ContainsSubstring("compressor.rate 1.2"));
  CHECK(parse("{}", {compressor("e-elastiquant"), "compressor.rate=null"}).compressor ==
        parse("{}", {compressor("e-elastiquant")}).compressor);
}

TEST_CASE("a file's number of bits is left out where --set names another compressor", "[config]") {
  const std::string file = R"({"compressor": {"name": "e-elastiquant", "rate": 2.5}})";
  for (const std::string name : {"none", "qsgd", "topk", "auto"}) {
    CHECK(parse(file, {compressor(name)}) == parse("{}", {compressor(name)}));
    CHECK_THAT(rejection(file, {compressor(name), "compressor.rate=2"}),
               ContainsSubstring("compressor.rate 2,"));
  }
  CHECK(parse(file, {compressor("elastiquant")}).compressor.rate == 2.5);
  CHECK(parse(file, {"train.epochs=3"}).compressor.rate == 2.5);
  CHECK_THAT(rejection(R"({"compressor": {"name": "topk", "rate": 2.5}})", {"train.epochs=3"}),
             ContainsSubstring("compressor.rate 2.5"));
  CHECK_THAT(rejection(R"({"compressor": {"rate": "few"}})", {compressor("none")}),
             ContainsSubstring("compressor.rate") && ContainsSubstring("few"));
  CHECK_THAT(rejection(file, {compressor("elastiqant")}), ContainsSubstring("elastiquant"));
}

TEST_CASE("whole bits are rounded to nearest with error feedback", "[config]") {
  const Sets nearest = {compressor("elastiquant"), "compressor.rounding=nearest"};
  const auto with = [&](const std::string& more) {
    Sets sets = nearest;
    sets.push_back(more);
    return sets;
  };
  const RunConfig config = parse("{}", with("compressor.bits=3"));
  CHECK(config.compressor.coding == eqt::codec::Coding::fixed);
  CHECK(config.compressor.bucket_size == 32768);
  CHECK(settled_feedback(config, config.compressor.make()->properties()) == ErrorFeedback::ef14);
  CHECK_FALSE(parse("{}", with("synchronization.error_feedback=ef14")).compressor.damped);
  CHECK_THAT(rejection("{}", with("synchronization.error_feedback=none")),
             ContainsSubstring("synchronization.error_feedback") && ContainsSubstring("nearest"));
  CHECK_THAT(rejection("{}", with("compressor.bits=auto")),
             ContainsSubstring("compressor.bits") && ContainsSubstring("nearest"));
  CHECK_THAT(rejection("{}", with("compressor.coding=huffman")),
             ContainsSubstring("compressor.rate") && ContainsSubstring("huffman"));
}

TEST_CASE("an emulated run counts steps and has no network", "[config]") {
  const Sets emulated = {"train.emulate_compute=0.1"};
  const auto with = [&](Sets more) {
    more.insert(more.end(), emulated.begin(), emulated.end());
    return more;
  };
  CHECK_THAT(rejection("{}", emulated),
             ContainsSubstring("train.steps") && ContainsSubstring("train.emulate_compute"));
  CHECK_THAT(rejection("{}", with({"train.epochs=5"})), ContainsSubstring("train.steps"));
  CHECK_NOTHROW(parse("{}", with({"train.steps=5"})));
  CHECK_THAT(rejection("{}", with({"train.steps=5", "model.weights=w.pt"})),
             ContainsSubstring("model.weights") && ContainsSubstring("\"w.pt\""));
  CHECK_THAT(
      rejection("{}", with({"train.steps=5", "model.name=torchscript", "model.path=net.pt"})),
      ContainsSubstring("train.emulate_compute") && ContainsSubstring("\"torchscript\""));
  CHECK_THAT(rejection("{}", with({"train.steps=5", compressor("dgc")})),
             ContainsSubstring("compressor.warmup_epochs"));
  for (const auto& name : kAll)
    CHECK_NOTHROW(
        parse("{}", with({"train.steps=5", compressor(name), "compressor.warmup_epochs=0"})));
}
