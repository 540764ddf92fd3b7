// SPDX-License-Identifier: Apache-2.0
// The whole configuration: plain structs with defaults. One table in field_table.cpp binds each
// member to its JSON key, range, unit and one-line meaning; the schema, the checks, the
// documentation and `check` are all derived from that table.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "collective/catalogue.hpp"
#include "config/compressor_keys.hpp"
#include "config/key_types.hpp"
#include "core/catalogue.hpp"
#include "data/catalogue.hpp"
#include "data/partition_plan.hpp"
#include "data/views.hpp"
#include "metrics/sink.hpp"
#include "model/catalogue.hpp"
#include "model/task.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "sync/algorithm.hpp"
#include "topology/topology.hpp"

namespace eqt::config {

/// Networks are trained on the processor, on NVIDIA devices, or there if all ranks have one.
enum class Device { cpu, cuda, automatic };
std::span<const Named<Device>> names_of(Device);

/// The run stops or rolls back when a loss, a gradient or a parameter is not finite.
enum class OnDivergence { stop, rollback };
std::span<const Named<OnDivergence>> names_of(OnDivergence);

/// A run chooses its batch, local steps and learning rate itself, by a probe, or has those of its
/// config.
enum class Tune { off, automatic };
std::span<const Named<Tune>> names_of(Tune);

/// Memory of what compression left out, where ranks average.
enum class ErrorFeedback { automatic, none, ef14, ef21 };
std::span<const Named<ErrorFeedback>> names_of(ErrorFeedback);

/// Says whether ranks accumulate momentum before they compress, with ef14.
enum class MomentumCorrection { automatic, on, off };
std::span<const Named<MomentumCorrection>> names_of(MomentumCorrection);

struct RunConfig {
  std::string name = "run";
  std::uint64_t seed = 1;
  Device device = Device::cpu;
  int threads_per_rank = 0;  // 0 = cores / ranks on this host

  struct Model {
    Entry<eqt::model::ModelRow> name = eqt::model::models::resnet20;
    Entry<eqt::model::NormalizationRow> normalization = eqt::model::normalizations::batchnorm;
    int norm_groups = 0;  // 0 = the published number
    eqt::model::Precision precision = eqt::model::Precision::fp32;
    eqt::model::Int8Options int8;
    eqt::model::Shortcut shortcut = eqt::model::Shortcut::projection;
    double width = 1;     // MobileNets
    std::string path;     // of a network of the user's own, or the folder of bert; "" = none
    std::string weights;  // "" = none
    eqt::model::NewHead new_head = eqt::model::NewHead::automatic;
    std::size_t layers = 4, hidden = 256, heads = 4;  // bert, mlp
    std::size_t intermediate = 0;                     // bert; 0 = four times as wide as hidden
    double dropout = 0.1;                             // bert
    std::vector<std::string> freeze;                  // patterns of names
    eqt::model::FrozenNorms frozen_norms = eqt::model::FrozenNorms::batch;

    bool operator==(const Model&) const = default;
  } model;

  struct Data {
    Entry<eqt::data::DatasetRow> name = eqt::data::sets::fashion_mnist;
    std::string path;  // "" = the set's default place
    bool augment = true;
    std::string target;     // arrays: columns of the targets in tables; "" = the last
    bool integers = false;  // arrays: inputs stay whole numbers
    eqt::data::Standardize standardize = eqt::data::Standardize::off;  // arrays
    struct Partition {
      Entry<eqt::data::PartitionRow> kind = eqt::data::kIidPartition;
      double skew = 0;        // degree, 0 ... 1
      double alpha = 1;       // dirichlet
      bool reshuffle = true;  // iid: each epoch divides the whole set again; see parse_config
      eqt::data::LocalEpoch epoch = eqt::data::LocalEpoch::smallest;  // local
      eqt::data::LocalTest test = eqt::data::LocalTest::own;          // local

      bool operator==(const Partition&) const = default;
    } partition;
    std::size_t limit_train = 0, limit_test = 0;  // [samples], 0 = all
    int loader_threads = 1;
    int resize = 0;                       // [pixels] of a side of known pictures; 0 = as they are
    int shift = eqt::data::kCropPadding;  // [pixels] of known pictures, as the next two
    eqt::data::Border border = eqt::data::Border::black;
    eqt::data::Flips flips = eqt::data::Flips::random;
    int image_size = 224, channels = 3;  // folder, shards
    eqt::data::CropKind crop = eqt::data::CropKind::automatic;
    std::vector<double> mean, deviation;    // empty = measured
    double test_fraction = 0.1;             // of a set without test samples
    std::size_t skip_limit = 10;            // broken pictures
    std::uint64_t memory_budget_mib = 256;  // for decoded pictures
    std::string vocabulary;                 // text; "" = that of the model's or data's folder
    std::size_t max_length = 128;           // text [tokens]
    bool lowercase = true;                  // text
    bool bucket_by_length = true;           // text

    bool operator==(const Data&) const = default;
  } data;

  struct Task {
    Entry<eqt::model::TaskRow> kind = eqt::model::tasks::classification;
    double label_smoothing = 0;  // share of the target spread over all classes
    ClassWeights class_weights;  // of the loss of a sample; nothing = all alike

    bool operator==(const Task&) const = default;
  } task;

  struct Train {
    std::uint64_t epochs = 1;
    std::uint64_t steps = 0;           // 0 = by epochs
    std::size_t batch_size = 64;       // per rank
    BatchSizes batch_sizes;            // by rank; nothing: batch_size each
    std::size_t batch_least = 8;       // auto [samples]
    std::uint64_t balance_every = 50;  // auto [steps]
    std::string replay;                // decisions.jsonl of another run; "" = decide
    std::size_t accumulate = 1;        // batches per step
    std::uint64_t evaluate_every = 1;  // [epochs], 0 = only at the end
    PerRank emulate_compute;           // [seconds per step]; nothing = the network is run
    struct EmulateJitter {
      PerRank cv;                // coefficient of variation of a step's time; nothing = 0
      PerRank stall_every;       // [steps]; nothing = 0 = no stalls
      double stall_seconds = 0;  // of a stall

      bool operator==(const EmulateJitter&) const = default;
    } emulate_jitter;
    BoardChanges emulate_changes;
    OnDivergence on_divergence = OnDivergence::stop;
    double rollback_factor = 0.5;      // of the learning rate
    std::uint64_t early_stopping = 0;  // [epochs] without a better evaluation; 0 = never
    double ema = 0;                    // decay of the weights' moving average; 0 = none
    double mixup = 0;                  // alpha; 0 = off
    bool paranoid = false;
    Tune tune = Tune::off;
    double tune_target = 0;         // auto: test accuracy; 0 = none
    std::uint64_t tune_epochs = 5;  // auto: of the probe
    std::uint64_t tune_rates = 6;   // auto: learning rates that are tried at most

    bool tunes() const { return tune == Tune::automatic; }
    bool has_batches_by_rank() const {
      return !std::holds_alternative<std::monostate>(batch_sizes);
    }
    bool balances() const { return std::holds_alternative<BatchRule>(batch_sizes); }
    /// Returns the samples of a rank, if all have the same.
    std::size_t samples_per_step() const { return batch_size * accumulate; }
    bool is_emulated() const { return !std::holds_alternative<std::monostate>(emulate_compute); }

    bool operator==(const Train&) const = default;
  } train;

  struct Evaluate {
    eqt::data::TestViews augment = eqt::data::TestViews::plain;

    bool operator==(const Evaluate&) const = default;
  } evaluate;

  struct Optimizer {
    Entry<optim::OptimizerRow> name = optim::kSgd;
    double learning_rate = 0.1;
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 1e-4;
    bool decay_norms = true;  // also parameters of one dimension
    ParameterGroups groups;
    double clip_norm = 0;                               // 0 = off
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adamw
    int iterations = 5;                                 // muon
    bool fixed_norm = false;                            // muon
    sync::MomentumKind momentum_kind = sync::MomentumKind::local;

    bool operator==(const Optimizer&) const = default;
  } optimizer;

  struct Schedule {
    Entry<optim::ScheduleRow> kind = optim::kConstant;
    std::vector<double> milestones;  // [epochs]
    double factor = 0.1;
    double warmup_epochs = 0;

    bool operator==(const Schedule&) const = default;
  } schedule;

  struct Synchronization {
    Entry<sync::AlgorithmRow> algorithm = sync::kAllreduce;
    Entry<eqt::collective::CollectiveRow> collective = eqt::collective::kAutomatic;
    bool overlap = true;
    double bucket_mib = 4;
    ErrorFeedback error_feedback = ErrorFeedback::automatic;
    double feedback_decay = 1;  // ef14: factor of the residual before it is added
    MomentumCorrection momentum_correction = MomentumCorrection::automatic;
    double ef21_momentum = 1;                 // weight of a new gradient; 1 = plain EF21
    StepsOrQsr local_steps = {1};             // local-sgd, gossip
    std::uint64_t local_steps_base = 2;       // qsr: the least
    std::uint64_t local_steps_most = 1000;    // qsr
    std::optional<double> local_steps_alpha;  // qsr; "auto" = unset
    StepsOrAuto delay = {0};                  // local-sgd, gossip: steps until a round is applied
    std::uint64_t fragments = 1;              // local-sgd: parts of the model with own rounds
    std::uint64_t quorum = 0;                 // local-sgd: ranks that close a round; 0 = in step
    std::optional<double> grace_seconds;      // quorum; "auto" = unset
    struct Outer {
      double learning_rate = 1, momentum = 0;
      bool nesterov = false;
      bool by_rate = false;          // momentum of differences divided by the learning rate
      std::optional<double> mixing;  // null: ranks keep all progress

      bool operator==(const Outer&) const = default;
    } outer;                               // local-sgd: what is done with the mean difference
    std::uint64_t post_local_epochs = 0;   // local-sgd, 0 = local from the start
    std::uint64_t laq_bits = 4;            // 0 = float32
    std::uint64_t laq_history = 10;        // [steps]
    double laq_weight = 0.8;               // sum over the history
    std::uint64_t laq_silence = 100;       // [steps]
    std::optional<double> consensus_step;  // "auto" = unset
    sync::Order order = sync::Order::adapt_then_combine;
    bool adaptive_step = false;      // AdaGossip
    bool network_weights = false;    // deep-squeeze: messages are the network's own 8-bit weights
    std::uint64_t resync_every = 0;  // [steps], 0 = never
    double event_threshold = 0;      // [typical movements], 0 = off
    std::uint64_t event_silence = 100;  // [rounds]
    std::uint64_t final_rounds = 0;     // of gossip alone after the last step
    double timeout_seconds = 300;       // 0 = never
    struct Topology {
      eqt::topology::GraphKind kind = eqt::topology::GraphKind::ring;
      bool directed = false;
      eqt::topology::Weights weights = eqt::topology::Weights::automatic;
      int rows = 0;           // 0 = as square as possible
      std::string file = {};  // "" = none

      bool operator==(const Topology&) const = default;
    } topology;

    /// Ranks take different numbers of steps.
    bool is_asynchronous() const { return algorithm->asynchronous || quorum > 0; }

    bool operator==(const Synchronization&) const = default;
  } synchronization;

  using Compressor = CompressorConfig;
  Compressor compressor;

  struct Checkpoint {
    std::uint64_t every_epochs = 0;  // 0 = off
    std::uint64_t every_steps = 0;   // 0 = off
    double memory_seconds = 0;       // between states in the hosts' memory; 0 = off
    std::size_t keep = 2;            // complete ones
    bool best = false;               // also the weights of the best evaluation

    bool operator==(const Checkpoint&) const = default;
  } checkpoint;

  struct Output {
    metrics::ProgressStyle progress = metrics::ProgressStyle::automatic;
    bool step_records = true;
    bool tensorboard = true;
    std::uint64_t dump_gradients = 0;  // steps; 0 = off
    std::uint64_t timeline = 0;        // steps; 0 = off

    bool operator==(const Output&) const = default;
  } output;

  bool operator==(const RunConfig&) const = default;
};

/// alpha of the quadratic synchronization rule: the key's value, or that for which rounds become
/// longer than local_steps_base when the learning rate has fallen to a fifth.
double quadratic_rule_alpha(const RunConfig& config);

/// Parses a JSON document, applies `sets` ("key=JSON", a bare word is a string; a key of type
/// string takes the text as it stands unless it is a JSON string) in order, leaves out what the
/// document says for another compressor than the one that `sets` name, validates and resolves
/// keys that nobody gave: those of the section compressor become the compressor's own,
/// data.partition.reshuffle is true where ranks share one model and data is iid. `origin` names the
/// document in messages.
/// @throws Error{usage}: malformed JSON (with line and column), a key that occurs twice, unknown
/// key or name (with the nearest), wrong type, out of range, impossible combination.
RunConfig parse_config(const std::string& json_text, const std::string& origin,
                       const std::vector<std::string>& sets);

/// The resolved config: every key with its value, pretty-printed JSON that ends with a newline.
/// parse_config(resolved_json(c), ...) == c for every c that parse_config returned.
std::string resolved_json(const RunConfig& config);

/// Returns a shorter config: a run's chief keys, and those that a config without them would not
/// have at these values. parse_config(short_json(c), ...) == c, too.
std::string short_json(const RunConfig& config);

/// The keys whose values decide all others: what parse_config() makes of them alone is `config`.
std::set<std::string, std::less<>> deciding_keys(const RunConfig& config);

/// JSON Schema (draft 2020-12) of the config, pretty-printed.
std::string config_schema();

/// Markdown: a list of every key (type, range, unit, default, meaning) with the names that it
/// accepts, a heading for each section; lines of at most 120 columns. docs/keys.md holds it.
std::string config_reference();

/// The names that `key` accepts ("compressor.name"), in the order of the documentation.
/// @pre `key` is a key with names
std::vector<Choice> config_choices(std::string_view key);

}  // namespace eqt::config
