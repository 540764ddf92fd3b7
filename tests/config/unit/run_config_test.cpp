// SPDX-License-Identifier: Apache-2.0
// Valid configs: defaults, values, --set, resolution.

#include "config/run_config.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "config_support.hpp"

using namespace eqt::config;
using nlohmann::json;
using test::parse;

TEST_CASE("an empty document resolves to the documented defaults", "[config]") {
  const json expected = json::parse(R"({
    "name": "run", "seed": 1, "device": "cpu", "threads_per_rank": 0,
    "model": {"name": "resnet20", "normalization": "batchnorm", "norm_groups": 0,
              "precision": "fp32",
              "int8": {"ranges": "sample", "error_rounding": "stochastic",
                       "weight_gradient": "int8"}, "shortcut": "projection", "width": 1,
              "path": null, "weights": null,
              "layers": 4, "hidden": 256, "heads": 4, "intermediate": 0, "dropout": 0.1,
              "new_head": "auto", "freeze": [],
              "frozen_norms": "batch"},
    "data": {"name": "fashion-mnist", "path": null, "augment": true, "resize": 0,
             "shift": 4, "border": "black", "flips": "random",
             "partition": {"kind": "iid", "skew": 0, "alpha": 1, "reshuffle": true,
                           "epoch": "smallest", "test": "local"},
             "target": null, "integers": false, "standardize": "off",
             "limit_train": 0, "limit_test": 0, "loader_threads": 1, "image_size": 224,
             "channels": 3, "crop": "auto", "mean": [], "deviation": [], "test_fraction": 0.1,
             "skip_limit": 10, "memory_budget_mib": 256,
             "vocabulary": null, "max_length": 128, "lowercase": true, "bucket_by_length": true},
    "task": {"kind": "classification", "label_smoothing": 0, "class_weights": null},
    "train": {"epochs": 1, "steps": 0, "batch_size": 64, "accumulate": 1, "evaluate_every": 1,
              "emulate_compute": null, "batch_sizes": null, "batch_least": 8,
              "balance_every": 50, "replay": null, "emulate_changes": [],
              "emulate_jitter": {"cv": null, "stall_every": null, "stall_seconds": 0},
              "on_divergence": "stop", "rollback_factor": 0.5,
              "early_stopping": 0, "ema": 0, "mixup": 0,
              "tune": "off", "tune_target": 0, "tune_epochs": 5, "tune_rates": 6,
              "paranoid": false},
    "evaluate": {"augment": "none"},
    "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "nesterov": false,
                  "iterations": 5, "fixed_norm": false,
                  "weight_decay": 0.0001, "momentum_kind": "local", "clip_norm": 0,
                  "decay_norms": true, "groups": [],
                  "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    "schedule": {"kind": "constant", "milestones": [], "factor": 0.1, "warmup_epochs": 0},
    "synchronization": {"algorithm": "allreduce", "collective": "auto", "overlap": true,
                        "bucket_mib": 4, "error_feedback": "auto", "feedback_decay": 1,
                        "momentum_correction": "auto", "ef21_momentum": 1,
                        "local_steps": 1, "local_steps_base": 2, "local_steps_most": 1000,
                        "local_steps_alpha": "auto", "delay": 0, "fragments": 1,
                        "quorum": 0, "grace_seconds": "auto",
                        "outer": {"learning_rate": 1, "momentum": 0, "nesterov": false,
                                  "by_rate": false, "mixing": null},
                        "post_local_epochs": 0, "laq_bits": 4, "laq_history": 10, "laq_weight": 0.8,
                        "laq_silence": 100, "consensus_step": "auto",
                        "order": "adapt-then-combine", "adaptive_step": false,
                        "network_weights": false, "resync_every": 0,
                        "event_threshold": 0, "event_silence": 100,
                        "final_rounds": 0,
                        "timeout_seconds": 300,
                        "topology": {"kind": "ring", "directed": false, "weights": "auto", "rows": 0,
                                     "file": null}},
    "compressor": {"name": "none", "bits": 4, "bucket_size": 8192, "norm": "l2", "coding": "fixed",
                   "levels": "sinh", "elasticity": "auto", "table": [], "adapt_every": 0,
                   "density": 0.01,
                   "value_bits": 32, "threshold": 0, "unbiased": false, "rank": 2,
                   "atoms": "spectral", "clip": 2.5,
                   "warmup_epochs": 4, "clip_norm": 0, "momentum_masking": true, "rate": null, "rounding": "independent",
                   "skip_below": 1024, "small_tensors": "float32", "granularity": "layer",
                   "menu": ["e-elastiquant:3@1", "e-elastiquant:4@0.75", "e-elastiquant:4@1",
                            "e-elastiquant:5@1", "e-elastiquant:6@1", "e-elastiquant:8@1",
                            "bf16:lossless", "bf16", "none"],
                   "noise_share": 0.1, "noise_cap": 0.5, "error_share": 0.25,
                   "observe_every": 50, "decide_every": 4,
                   "link": "measured", "replay": null},
    "checkpoint": {"every_epochs": 0, "every_steps": 0, "memory_seconds": 0.0, "keep": 2, "best": false},
    "output": {"progress": "auto", "step_records": true, "tensorboard": true,
               "timeline": 0, "dump_gradients": 0}})");
  CHECK(json::parse(resolved_json(parse("{}"))) == expected);
  CHECK(parse("{}") == RunConfig{});
}

TEST_CASE("every value reaches its member", "[config]") {
  const RunConfig c = parse(R"({
    "name": "a b", "seed": 18446744073709551615, "device": "cpu", "threads_per_rank": 3,
    "model": {"name": "resnet56", "normalization": "evonorm-s0", "norm_groups": 4,
              "shortcut": "padding", "weights": "w.pt"},
    "data": {"name": "cifar10", "path": "/d", "augment": false, "limit_train": 10, "limit_test": 20},
    "train": {"epochs": 5, "steps": 7, "batch_size": 8, "evaluate_every": 0},
    "optimizer": {"learning_rate": 1, "momentum": 0.5, "nesterov": true, "weight_decay": 0},
    "schedule": {"kind": "step", "milestones": [1, 2.5], "factor": 0.2, "warmup_epochs": 0.5},
    "synchronization": {"collective": "allgather", "overlap": false, "bucket_mib": 0.25,
                        "error_feedback": "ef14", "timeout_seconds": 2,
                        "topology": {"kind": "graph", "weights": "given", "rows": 2, "file": "g"}},
    "compressor": {"name": "elastiquant", "bits": 8, "bucket_size": 512, "norm": "max",
                   "coding": "huffman", "levels": "exponential", "elasticity": 0.9, "adapt_every": 9, "density": 1,
                   "clip": 0, "warmup_epochs": 1, "clip_norm": 2, "momentum_masking": false, "skip_below": 0,
                   "granularity": "model"},
    "output": {"progress": "off", "step_records": false, "tensorboard": false,
               "dump_gradients": 120}})");
  CHECK(c.name == "a b");
  CHECK(c.seed == std::numeric_limits<std::uint64_t>::max());
  CHECK(c.threads_per_rank == 3);
  CHECK(c.model.name == eqt::model::models::resnet56);
  CHECK(c.model.normalization == eqt::model::normalizations::evonorm_s0);
  CHECK(c.model.norm_groups == 4);
  CHECK(c.model.shortcut == eqt::model::Shortcut::padding);
  CHECK(c.model.weights == "w.pt");
  CHECK(c.data.name == eqt::data::sets::cifar10);
  CHECK(c.data.path == "/d");
  CHECK_FALSE(c.data.augment);
  CHECK(c.data.limit_train == 10);
  CHECK(c.data.limit_test == 20);
  CHECK(c.train.epochs == 5);
  CHECK(c.train.steps == 7);
  CHECK(c.train.batch_size == 8);
  CHECK(c.train.evaluate_every == 0);
  CHECK(c.optimizer.learning_rate == 1.0);
  CHECK(c.optimizer.momentum == 0.5);
  CHECK(c.optimizer.nesterov);
  CHECK(c.optimizer.weight_decay == 0);
  CHECK(c.schedule.kind->name == "step");
  CHECK(c.schedule.milestones == std::vector<double>{1, 2.5});
  CHECK(c.schedule.factor == 0.2);
  CHECK(c.schedule.warmup_epochs == 0.5);
  CHECK(c.synchronization.collective->name == "allgather");
  CHECK_FALSE(c.synchronization.overlap);
  CHECK(c.synchronization.bucket_mib == 0.25);
  CHECK(eqt::name_of(c.synchronization.error_feedback) == "ef14");
  CHECK(c.synchronization.timeout_seconds == 2);
  CHECK(eqt::name_of(c.synchronization.topology.kind) == "graph");
  CHECK_FALSE(c.synchronization.topology.directed);
  CHECK(parse("{}", {"synchronization.topology.directed=true"}).synchronization.topology.directed);
  CHECK(eqt::name_of(c.synchronization.topology.weights) == "given");
  CHECK(c.synchronization.topology.rows == 2);
  CHECK(c.synchronization.topology.file == "g");
  CHECK(c.compressor.name == eqt::codec::kElastiQuant);
  CHECK(c.compressor.bits == 8);
  CHECK(c.compressor.bucket_size == 512);
  CHECK(eqt::name_of(c.compressor.norm) == "max");
  CHECK(eqt::name_of(c.compressor.coding) == "huffman");
  CHECK(eqt::name_of(c.compressor.levels) == "exponential");
  CHECK(c.compressor.elasticity == 0.9);
  CHECK(c.compressor.adapt_every == 9);
  CHECK(c.compressor.density == 1);
  CHECK(c.compressor.clip == 0);
  CHECK(c.compressor.warmup_epochs == 1);
  CHECK(c.compressor.clip_norm == 2);
  CHECK_FALSE(c.compressor.momentum_masking);
  CHECK(c.compressor.skip_below == 0);
  CHECK(eqt::name_of(c.compressor.granularity) == "model");
  CHECK(c.output.progress == eqt::metrics::ProgressStyle::off);
  CHECK_FALSE(c.output.step_records);
  CHECK_FALSE(c.output.tensorboard);
  CHECK(c.output.dump_gradients == 120);
  CHECK(parse(resolved_json(c)) == c);
}

TEST_CASE("feeding the resolved config back gives an equal config", "[config]") {
  const std::vector<std::vector<std::string>> runs = {
      {},
      {"seed=9007199254740993"},  // 2^53 + 1: no double holds it
      {"optimizer.learning_rate=0.30000000000000004", "optimizer.weight_decay=1e-300"},
      {"compressor.name=e-elastiquant"},
      {"compressor.name=elastiquant", "compressor.elasticity=0.1"},
      {"compressor.name=qsgd", "compressor.coding=elias"},
      {"compressor.name=elastiquant", "compressor.norm=max"},
      {"data.partition.kind=skew"},
      {"compressor.name=topk", "compressor.density=0.001"},
      {"compressor.name=dgc"},
      {"data.path=/a \"b\"\\c", "name=\xC3\xA4"},
      {"schedule.kind=step", "schedule.milestones=[0.1,0.2,30]"},
      {"synchronization.algorithm=none"},
      {"train.steps=5", "train.emulate_compute=0.25"},
      {"train.steps=5", "train.emulate_compute=[0.1, 0.30000000000000004]"},
      {"train.steps=5", "train.emulate_compute=[1]"},
  };
  for (const auto& sets : runs) {
    const RunConfig config = parse("{}", sets);
    CHECK(parse(resolved_json(config)) == config);
    CHECK(resolved_json(parse(resolved_json(config))) == resolved_json(config));
  }
}

TEST_CASE("the coding of e-elastiquant is auto unless it is given", "[config]") {
  CHECK(parse("{}", {"compressor.name=e-elastiquant"}).compressor.coding ==
        eqt::codec::Coding::automatic);
  CHECK(parse("{}", {"compressor.name=elastiquant"}).compressor.coding ==
        eqt::codec::Coding::fixed);
  CHECK(
      parse("{}", {"compressor.name=e-elastiquant", "compressor.coding=elias"}).compressor.coding ==
      eqt::codec::Coding::elias);
}

TEST_CASE("bucket sizes have the compressor's default unless they are given", "[config]") {
  const auto bucket = [](const std::string& name, std::vector<std::string> sets = {}) {
    sets.insert(sets.begin(), "compressor.name=" + name);
    return parse("{}", sets).compressor.bucket_size;
  };
  // QSGD: Alistarh et al. 2017, section 5 (4 and 8 bits). NUQSGD: JMLR 22, 2021; ALQ and AMQ:
  // Faghri et al. 2020. ElastiQuant: 8192 under the L2 norm, 512 under the maximum.
  for (const std::string name : {"qsgd", "qsgd-v"}) CHECK(bucket(name) == 512);
  for (const std::string name : {"nuqsgd", "alq", "amq", "elastiquant", "e-elastiquant", "int8"})
    CHECK(bucket(name) == 8192);
  for (const std::string name : {"elastiquant", "e-elastiquant"})
    CHECK(bucket(name, {"compressor.norm=max"}) == 512);
  CHECK(bucket("qsgd", {"compressor.bucket_size=8192"}) == 8192);
  CHECK(bucket("elastiquant", {"compressor.norm=max", "compressor.bucket_size=8192"}) == 8192);
}

TEST_CASE("ranks that share a model reshuffle the whole set unless told otherwise", "[config]") {
  const auto reshuffles = [](const std::vector<std::string>& sets) {
    return parse("{}", sets).data.partition.reshuffle;
  };
  const std::string algorithm = "synchronization.algorithm=", key = "data.partition.reshuffle=";
  CHECK(reshuffles({}));
  CHECK(reshuffles({algorithm + "local-sgd", "synchronization.local_steps=4"}));
  for (const std::string name : {"none", "d-psgd", "choco-sgd", "ad-psgd"}) {
    CHECK_FALSE(reshuffles({algorithm + name}));
    CHECK(reshuffles({algorithm + name, key + "true"}));
  }
  for (const std::string kind : {"skew", "dirichlet"})
    CHECK_FALSE(reshuffles({"data.partition.kind=" + kind}));
  CHECK_FALSE(reshuffles({key + "false"}));
}

TEST_CASE("elasticity is a number or auto", "[config]") {
  const std::string start = R"({"compressor": {"name": "elastiquant", "elasticity": )";
  CHECK_FALSE(parse(start + R"("auto"}})").compressor.elasticity.has_value());
  CHECK(parse(start + "2}}").compressor.elasticity == 2.0);
}

TEST_CASE("emulated compute is nothing, a number or a list of one for each rank", "[config]") {
  const auto emulated = [](const std::string& value) {
    return parse(R"({"train": {"steps": 5, "emulate_compute": )" + value + "}}").train;
  };
  CHECK_FALSE(emulated("null").is_emulated());
  CHECK_FALSE(parse("{}").train.is_emulated());
  CHECK(emulated("0").is_emulated());  // a board that computes in no time is emulated, too
  CHECK(std::get<double>(emulated("0.5").emulate_compute) == 0.5);
  // A list of one is a list: for two ranks one number is missing.
  CHECK(std::get<std::vector<double>>(emulated("[3]").emulate_compute) == std::vector<double>{3});
  CHECK(std::get<std::vector<double>>(emulated("[0.5, 0, 2]").emulate_compute) ==
        std::vector<double>{0.5, 0, 2});
  CHECK_FALSE(
      parse(R"({"train": {"steps": 5, "emulate_compute": 1}})", {"train.emulate_compute=null"})
          .train.is_emulated());
}

TEST_CASE("--set takes JSON or a bare word; later ones replace earlier ones and the file",
          "[config]") {
  const std::string file = R"({"seed": 3, "optimizer": {"learning_rate": 0.5}})";
  CHECK(parse(file).seed == 3);
  CHECK(parse(file, {"seed=4"}).seed == 4);
  CHECK(parse(file, {"seed=4", "seed=5"}).seed == 5);
  CHECK(parse(file, {"seed=4"}).optimizer.learning_rate == 0.5);
  CHECK(parse(file, {"optimizer.learning_rate=1e-2"}).optimizer.learning_rate == 0.01);
  CHECK(parse("{}", {"model.name=resnet18"}).model.name == eqt::model::models::resnet18);
  CHECK(parse("{}", {"model.name=\"resnet18\""}).model.name == eqt::model::models::resnet18);
  CHECK_FALSE(parse("{}", {"data.augment=false"}).data.augment);
  CHECK(parse("{}", {"data.path=/a/b=c"}).data.path == "/a/b=c");
  CHECK(parse(R"({"data": {"path": "/a"}})", {"data.path=null"}).data.path.empty());
  CHECK(parse("{}", {"schedule.kind=step", "schedule.milestones=[1, 2]"}).schedule.milestones ==
        std::vector<double>{1, 2});
}

TEST_CASE("--set gives a text key the unchanged text", "[config]") {
  CHECK(parse("{}", {"name=123"}).name == "123");
  CHECK(parse("{}", {"name=1e3"}).name == "1e3");
  CHECK(parse("{}", {"name=true"}).name == "true");
  CHECK(parse("{}", {"name=null"}).name == "null");
  CHECK(parse("{}", {"name=\"123\""}).name == "123");
}

TEST_CASE("--set replaces a wrong value of the file", "[config]") {
  CHECK(parse(R"({"train": {"batch_size": 0}})", {"train.batch_size=2"}).train.batch_size == 2);
}

TEST_CASE("the names of a key can be listed", "[config]") {
  const auto names = config_choices("compressor.name");
  REQUIRE(names.size() == eqt::codec::CompressorRow::all().size());
  CHECK(names.front().name == "none");
  for (const Choice& choice : names) CHECK_FALSE(choice.about.empty());
  CHECK_THROWS_AS(config_choices("train.epochs"), eqt::Error);
}
