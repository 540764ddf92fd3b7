// SPDX-License-Identifier: Apache-2.0
// The table of config keys: range, unit and description of each; those of the section compressor
// are in compressor_keys.cpp. The defaults are RunConfig's.

#include <algorithm>

#include "config/compressor_keys.hpp"
#include "config/fields.hpp"

namespace eqt::config {
namespace {

// The key is the member's own path, so the two cannot disagree. Every key says what it means for a
// run that resumes from a checkpoint.
#define EQT_FIELD(path, on_resume)            \
  bind<RunConfig>(#path, OnResume::on_resume, \
                  [](RunConfig& config) { return member_at(config.path); })

constexpr Named<Device> kDevices[] = {
    {Device::cpu, "cpu", "on the processor"},
    {Device::cuda, "cuda",
     "on NVIDIA devices, which the ranks of a host take in turn; fp32, no layers by range "
     "(docs/devices.md); tested without a device, never run on one"},
    {Device::automatic, "auto",
     "cuda if every rank has a device and the run can use it, else cpu"}};

constexpr Named<Tune> kTune[] = {
    {Tune::off, "off", "the config"},
    {Tune::automatic, "auto",
     "the run: a probe of tune_epochs observes the gradients' noise, and what is soonest at "
     "tune_target by plan is trained from the start"},
};

constexpr Named<OnDivergence> kOnDivergence[] = {
    {OnDivergence::stop, "stop", "end with exit 4, and say where the value is"},
    {OnDivergence::rollback, "rollback",
     "all ranks go back to the newest checkpoint, at most five times"}};

constexpr Named<ErrorFeedback> kErrorFeedback[] = {
    {ErrorFeedback::automatic, "auto",
     "ef14 for biased compressors whose error is not small (docs/compressors.md, column error "
     "feedback), and for elastiquant and e-elastiquant with SGD and allreduce if their error is "
     "bounded by the gradient; none for other unbiased ones, for casts, and for those with a "
     "memory of their own"},
    {ErrorFeedback::none, "none",
     "what is not sent is lost, but for compressors and algorithms with a memory of their own"},
    {ErrorFeedback::ef14, "ef14",
     "what is not sent is added to the next gradient (Seide et al. 2014)"},
    {ErrorFeedback::ef21, "ef21",
     "ranks send how their gradients differ from what all know of them, and apply the mean of what "
     "is known (Richtarik et al. 2021); allreduce"}};
constexpr Named<MomentumCorrection> kMomentumCorrection[] = {
    {MomentumCorrection::automatic, "auto", "on with compressor.rate, SGD and allreduce, else off"},
    {MomentumCorrection::on, "on", "the ranks accumulate it (Lin et al. 2018, section 3.2)"},
    {MomentumCorrection::off, "off", "the optimizer accumulates it, of what was sent"}};

std::vector<Field> general_fields() {
  return {
      EQT_FIELD(name, may_change)
          .text_is(TextRule::folder_name)
          .says("name of the run and of its folder under runs/"),
      EQT_FIELD(seed, must_stay)
          .within({})
          .says("seed of every random number: initial weights, shards, "
                "augmentation, rounding"),
      EQT_FIELD(device, may_change)
          .says("where the network is trained; evaluate, predict and export use the processor"),
      EQT_FIELD(threads_per_rank, may_change)
          .from(0, 1024)
          .in("threads")
          .says("computing threads of a rank; 0 = cores / ranks on this host"),
  };
}

std::vector<Field> model_fields() {
  return {
      EQT_FIELD(model.name, must_stay).says("the network"),
      EQT_FIELD(model.normalization, must_stay).says("normalization layers"),
      EQT_FIELD(model.norm_groups, must_stay)
          .from(0, 1024)
          .in("groups")
          .says("number of channel groups of groupnorm and the EvoNorms; 0 = as published, 2 for "
                "groupnorm and 8 for the EvoNorms"),
      EQT_FIELD(model.precision, may_change)
          .says("arithmetic of the network; parameters and gradients are float32"),
      EQT_FIELD(model.int8.ranges, may_change)
          .says("values of activations and errors that share a scale"),
      EQT_FIELD(model.int8.error_rounding, may_change).says("how errors are rounded"),
      EQT_FIELD(model.int8.weight_gradient, may_change)
          .says("the errors that weight gradients are computed from"),
      EQT_FIELD(model.shortcut, must_stay)
          .says("shortcuts of the CIFAR ResNets where the shape changes"),
      EQT_FIELD(model.width, must_stay)
          .from(0.1, 8)
          .says(
              "mobilenet_v2, mobilenet_v3_small: factor of all numbers of channels, which are then "
              "rounded to multiples of 8"),
      EQT_FIELD(model.path, may_change)
          .text_is(TextRule::path)
          .or_null()
          .says("torchscript: the module's file, as torch.jit.script or trace saves it, the same "
                "on every host; bert: a folder of Hugging Face's with config.json, vocab.txt and "
                "model.safetensors, null = from scratch by the keys below; {rank} "
                "and {host} stand for a rank's number and its host's name"),
      EQT_FIELD(model.layers, must_stay)
          .from(1, 1024)
          .in("layers")
          .says("bert: number of layers; mlp: of hidden layers"),
      EQT_FIELD(model.hidden, must_stay)
          .from(1, 65536)
          .in("values")
          .says("bert: width of what a layer passes on, a multiple of model.heads; mlp: width of a "
                "hidden layer"),
      EQT_FIELD(model.heads, must_stay)
          .from(1, 4096)
          .in("heads")
          .says("bert: heads of the attention in each layer"),
      EQT_FIELD(model.intermediate, must_stay)
          .from(0, 1048576)
          .in("values")
          .says("bert: width inside the second half of a layer; 0 = four times model.hidden"),
      EQT_FIELD(model.dropout, must_stay)
          .within({0, 1, false, true})
          .says("bert: share of values that training drops"),
      EQT_FIELD(model.weights, may_change)
          .text_is(TextRule::path)
          .or_null()
          .says(
              "file with initial weights in torchvision's names, or timm's for efficientnet_lite0 "
              "and the vits: a state dict, or a dict with one, as torch.save writes it, or "
              "safetensors; null = random"),
      EQT_FIELD(model.new_head, may_change)
          .says(
              "with model.weights, or a folder of bert's: a last layer that the file lacks, or has "
              "with another number of outputs"),
      EQT_FIELD(model.freeze, must_stay)
          .says(
              "parameters that are not trained: patterns of their names, as in \"layer1.*\"; they "
              "are neither computed nor sent"),
      EQT_FIELD(model.frozen_norms, must_stay)
          .says("what training normalizes by in batch normalizations of which all parameters are "
                "frozen"),
  };
}

std::vector<Field> data_fields() {
  return {
      EQT_FIELD(data.name, must_stay).says("the data set"),
      EQT_FIELD(data.path, may_change)
          .text_is(TextRule::path)
          .or_null()
          .says("folder with the data set's own files, of arrays and text also a single table; "
                "{rank} and {host} stand for a rank's number "
                "and its host's name; null = its default place (fashion-mnist: Debian's "
                "dataset-fashion-mnist)"),
      EQT_FIELD(data.augment, must_stay)
          .says("random shifts and horizontal flips of training pictures: see data.shift, "
                "data.border and data.flips, of folder and shards data.crop"),
      EQT_FIELD(data.target, must_stay)
          .or_null()
          .says("arrays: the columns of train.csv and test.csv that are the targets, by name or by "
                "number from 1 on, separated by commas; null = the last one"),
      EQT_FIELD(data.integers, must_stay)
          .says("arrays: inputs reach the network as int64, as embeddings want them, instead of "
                "float32"),
      EQT_FIELD(data.standardize, must_stay)
          .says("arrays: subtract the mean and divide by the deviation, both of the training set; "
                "numbers that never change become 0"),
      EQT_FIELD(data.partition.kind, must_stay).says("how the training set is divided among ranks"),
      EQT_FIELD(data.partition.skew, must_stay)
          .from(0, 1)
          .says(
              "skew: fraction of each class that is assigned to ranks by class; 0 = all at random"),
      EQT_FIELD(data.partition.alpha, must_stay)
          .within({0, 1e9, true, false})
          .says("dirichlet: concentration of a class's shares; 10 is mild skew, 0.1 strong"),
      EQT_FIELD(data.partition.reshuffle, must_stay)
          .says("iid: permute the whole set in each epoch and divide it among the ranks again; by "
                "default true with allreduce and local-sgd, false with other algorithms and kinds, "
                "where a rank keeps its shard"),
      EQT_FIELD(data.partition.epoch, must_stay)
          .says("local: the length of an epoch where ranks have sets of different sizes"),
      EQT_FIELD(data.partition.test, must_stay).says("local: what the network is tested on"),
      EQT_FIELD(data.limit_train, must_stay)
          .from(0, kMany)
          .in("samples")
          .says("number of training samples to use, from the first on; 0 = all"),
      EQT_FIELD(data.limit_test, must_stay)
          .from(0, kMany)
          .in("samples")
          .says("number of test samples to use, from the first on; 0 = all"),
      EQT_FIELD(data.loader_threads, may_change)
          .from(1, 64)
          .in("threads")
          .says(
              "threads of a rank that prepare batches ahead of the step; any number gives the same "
              "batches"),
      EQT_FIELD(data.resize, must_stay)
          .from(0, 32)
          .in("pixels")
          .says("cifar10, cifar100, fashion-mnist, synthetic: side of the square to which pictures "
                "are made "
                "smaller by area averaging; networks then compute less; 0 = as they are"),
      EQT_FIELD(data.shift, must_stay)
          .from(0, eqt::data::Augmentation::kMostShift)
          .in("pixels")
          .says(
              "cifar10, cifar100, fashion-mnist, synthetic: the farthest that a training picture "
              "is shifted in each direction; of resized pictures in proportion, at least 1 pixel; "
              "0 = not at all"),
      EQT_FIELD(data.border, must_stay)
          .says("cifar10, cifar100, fashion-mnist, synthetic: what is around a picture that is "
                "shifted"),
      EQT_FIELD(data.flips, must_stay)
          .says(
              "cifar10, cifar100, fashion-mnist, synthetic: which training pictures are mirrored"),
      EQT_FIELD(data.image_size, must_stay)
          .from(8, 2048)
          .in("pixels")
          .says("folder, shards: side of the square that the network sees"),
      EQT_FIELD(data.channels, must_stay)
          .from(1, 3)
          .says("folder, shards: 3 = red, green and blue, 1 = grey; pictures are converted"),
      EQT_FIELD(data.crop, must_stay)
          .says("folder, shards: crop of a training picture, beside random horizontal flips"),
      EQT_FIELD(data.mean, must_stay)
          .from(0, 1)
          .says("folder, shards: mean of the pixels by channel, as fractions of 255; empty = "
                "measured, as data.deviation is then, on 512 training pictures"),
      EQT_FIELD(data.deviation, must_stay)
          .within({0, 1, true, false})
          .says("folder, shards: standard deviation of the pixels by channel, likewise"),
      EQT_FIELD(data.test_fraction, must_stay)
          .within({0, 1, true, true})
          .says("folder, shards, and arrays or text with a table itself in data.path: fraction of "
                "each "
                "class that is the test set where the files have none, drawn by seed"),
      EQT_FIELD(data.skip_limit, may_change)
          .from(0, kMany)
          .in("pictures")
          .says("folder, shards: broken pictures that a rank replaces by others of their class "
                "before it ends with exit 3"),
      EQT_FIELD(data.memory_budget_mib, may_change)
          .from(0, 1e6)
          .in("MiB")
          .says(
              "folder, shards: memory of a rank for decoded pictures that it keeps, as far as they "
              "fit; results do not depend on it"),
      EQT_FIELD(data.vocabulary, may_change)
          .text_is(TextRule::path)
          .or_null()
          .says(
              "text: file vocab.txt with the tokens; null = that of model.path, else of data.path"),
      EQT_FIELD(data.max_length, must_stay)
          .from(3, 65536)
          .in("tokens")
          .says("text: longer texts are cut; [CLS] and [SEP] count"),
      EQT_FIELD(data.lowercase, must_stay)
          .says("text: read capitals as small letters and leave accents out, as uncased BERTs do"),
      EQT_FIELD(data.bucket_by_length, must_stay)
          .says("text: make batches of texts of about the same length"),
  };
}

std::vector<Field> task_fields() {
  return {
      EQT_FIELD(task.kind, must_stay).says("what the network learns"),
      EQT_FIELD(task.label_smoothing, may_change)
          .within({0, 1, false, true})
          .says("classification: share of each target that is spread evenly over all classes"),
      EQT_FIELD(task.class_weights, may_change)
          .within({0, kHuge, true, false})
          .says("classification: factor of the loss of a sample, by its class; \"balanced\" = "
                "samples / (classes * samples of the class), over the training set; null = 1"),
  };
}

std::vector<Field> train_fields() {
  return {
      EQT_FIELD(train.epochs, may_change)
          .from(0, 1e6)
          .in("epochs")
          .says("passes over the training set; 0 only with train.steps"),
      EQT_FIELD(train.steps, may_change)
          .from(0, kMany)
          .in("steps")
          .says("stop after this many optimizer steps; 0 = by epochs"),
      EQT_FIELD(train.batch_size, may_change)
          .from(1, 65536)
          .in("samples")
          .says("samples per rank and batch"),
      EQT_FIELD(train.batch_sizes, may_change_with_ranks)
          .from(1, 65536)
          .in("samples")
          .says(
              "allreduce: samples per batch of each rank, for ranks of different speed; \"auto\" = "
              "found by measuring, so that all ranks end at the same time, with train.batch_size "
              "as their mean; null = train.batch_size each"),
      EQT_FIELD(train.batch_least, must_stay)
          .from(1, 65536)
          .in("samples")
          .says("batch_sizes \"auto\": the smallest batch of a rank"),
      EQT_FIELD(train.balance_every, must_stay)
          .from(1, kMany)
          .in("steps")
          .says("batch_sizes \"auto\": steps between decisions; the first ones come sooner"),
      EQT_FIELD(train.replay, may_change)
          .text_is(TextRule::path)
          .or_null()
          .says(
              "a run's decisions.jsonl: what it decided by measured times is decided again in the "
              "same steps, so that both end with the same parameters; null = decide"),
      EQT_FIELD(train.accumulate, may_change)
          .from(1, 65536)
          .in("batches")
          .says("batches whose mean gradient makes a step"),
      EQT_FIELD(train.evaluate_every, may_change)
          .from(0, 1e6)
          .in("epochs")
          .says("epochs between evaluations of the test set; 0 = only at the end"),
      EQT_FIELD(train.on_divergence, may_change)
          .says("when a loss, a gradient or a parameter is not finite"),
      EQT_FIELD(train.rollback_factor, may_change)
          .from(0.001, 1)
          .says("rollback: the learning rate is multiplied by this each time"),
      EQT_FIELD(train.paranoid, may_change)
          .says(
              "compare the replicas that must be equal after each step, not only after each epoch"),
      EQT_FIELD(train.tune, must_stay)
          .says("who chooses train.batch_size, synchronization.algorithm and .local_steps, "
                "optimizer.learning_rate and train.steps"),
      EQT_FIELD(train.tune_target, must_stay)
          .within({0, 1, false, true})
          .says("tune \"auto\": the test accuracy that is to be reached soonest; 0 = none"),
      EQT_FIELD(train.tune_epochs, must_stay)
          .from(1, 1e6)
          .in("epochs")
          .says("tune \"auto\": length of the probe"),
      EQT_FIELD(train.tune_rates, must_stay)
          .from(1, 64)
          .says("tune \"auto\": at most so many learning rates, a factor of two apart, are tried "
                "before the probe, each for a fifth of its epochs; 1 = the config's counts as the "
                "best"),
      EQT_FIELD(train.early_stopping, must_stay)
          .from(0, 1e6)
          .in("epochs")
          .says("stop after so many epochs without a better test result; 0 = never"),
      EQT_FIELD(train.ema, must_stay)
          .within({0, 1, false, true})
          .says(
              "decay, per step, of a moving average of the weights, which is what is evaluated and "
              "saved in the end; 0.999 is usual; 0 = none"),
      EQT_FIELD(train.mixup, must_stay)
          .from(0, 100)
          .says("classification: alpha of the Beta distribution by which samples of a batch and "
                "their "
                "classes are mixed in pairs; 0.2 is usual; 0 = off"),
      EQT_FIELD(train.emulate_compute, must_stay)
          .from(0, 3600)
          .in("seconds")
          .says("emulated boards: instead of running the network each rank waits this long per "
                "step (a number, or one per rank) and draws its gradient; null = run the network"),
      EQT_FIELD(train.emulate_jitter.cv, must_stay)
          .from(0, 10)
          .says("standard deviation of the time of a step, relative to its mean, of a lognormal "
                "distribution (a number, or one per rank); null = 0"),
      EQT_FIELD(train.emulate_jitter.stall_every, must_stay)
          .from(0, kMany)
          .in("steps")
          .says("mean distance of stalls, which come at random (a number, or one per rank); null "
                "or 0 = none"),
      EQT_FIELD(train.emulate_jitter.stall_seconds, must_stay)
          .from(0, 3600)
          .in("seconds")
          .says("length of a stall"),
      EQT_FIELD(train.emulate_changes, must_stay)
          .says("emulated boards that change their speed: objects with step, rank and factor; from "
                "this step on, counted from 1, the rank's emulate_compute is multiplied by factor, "
                "until its next change"),
  };
}

std::vector<Field> evaluate_fields() {
  return {
      EQT_FIELD(evaluate.augment, may_change)
          .says("what the network sees of a test picture, in training and with the verb evaluate; "
                "pictures alone"),
  };
}

std::vector<Field> optimizer_fields() {
  return {
      EQT_FIELD(optimizer.name, must_stay).says("the parameter update"),
      EQT_FIELD(optimizer.learning_rate, may_change)
          .from(0, kHuge)
          .says("learning rate after warm-up"),
      EQT_FIELD(optimizer.momentum, must_stay)
          .within({0, 1, false, true})
          .says("sgd, muon: momentum; 0 = none"),
      EQT_FIELD(optimizer.nesterov, must_stay).says("sgd, muon: Nesterov's momentum"),
      EQT_FIELD(optimizer.weight_decay, may_change)
          .from(0, kHuge)
          .says("L2 penalty on every parameter; adamw, and muon for matrices: decay that does not "
                "pass "
                "through the moments"),
      EQT_FIELD(optimizer.decay_norms, must_stay)
          .says("weight decay also of parameters of one dimension: norms and biases"),
      EQT_FIELD(optimizer.groups, must_stay)
          .says("parameters with a learning rate or weight decay of their own, frozen, or, with "
                "orthogonal false, no matrices for muon: objects with names, patterns as in "
                "model.freeze, and rate_factor, weight_decay, momentum, frozen or orthogonal; the "
                "first group that matches counts, and of groups with frozen each one"),
      EQT_FIELD(optimizer.clip_norm, may_change)
          .from(0, kHuge)
          .says(
              "largest L2 norm of the gradient that the optimizer applies: the mean over ranks, or "
              "the rank's own where there is none; 0 = any"),
      EQT_FIELD(optimizer.momentum_kind, must_stay).says("sgd: what momentum accumulates"),
      EQT_FIELD(optimizer.beta1, must_stay)
          .within({0, 1, false, true})
          .says("adamw: decay of the mean of the gradient"),
      EQT_FIELD(optimizer.beta2, must_stay)
          .within({0, 1, false, true})
          .says("adamw: decay of the mean of the gradient's square"),
      EQT_FIELD(optimizer.epsilon, must_stay)
          .within({0, 1, true, false})
          .says("adamw: added to the root of the mean square"),
      EQT_FIELD(optimizer.iterations, must_stay)
          .from(1, 20)
          .says("muon: iterations of Newton and Schulz, which make a matrix orthogonal"),
      EQT_FIELD(optimizer.fixed_norm, must_stay)
          .says("muon: before each update a matrix is scaled to the norm of the root of its rows, "
                "in place of weight decay"),
  };
}

std::vector<Field> schedule_fields() {
  return {
      EQT_FIELD(schedule.kind, may_change).says("how the learning rate changes"),
      EQT_FIELD(schedule.milestones, may_change)
          .within({0, 1e6, true, false})
          .in("epochs")
          .says("step: when the rate is multiplied by schedule.factor; increasing"),
      EQT_FIELD(schedule.factor, may_change)
          .within({0, 10, true, false})
          .says("step: the multiplier at each milestone"),
      EQT_FIELD(schedule.warmup_epochs, may_change)
          .from(0, 1e6)
          .in("epochs")
          .says("linear warm-up to the learning rate at the start; 0 = none"),
  };
}

std::vector<Field> synchronization_fields() {
  return {
      EQT_FIELD(synchronization.algorithm, must_stay).says("what ranks exchange"),
      EQT_FIELD(synchronization.collective, must_stay).says("how gradients are averaged"),
      EQT_FIELD(synchronization.overlap, may_change)
          .says("communicate while the backward pass still computes"),
      EQT_FIELD(synchronization.bucket_mib, may_change)
          .within({0, 1024, true, false})
          .in("MiB")
          .says("size of a fusion bucket: about this much of the gradient is exchanged together"),
      EQT_FIELD(synchronization.error_feedback, must_stay)
          .says("memory of what compression left out"),
      EQT_FIELD(synchronization.feedback_decay, must_stay)
          .within({0, 1, true, false})
          .says("ef14: factor of a residual before it is added to the next gradient, also of those "
                "that owners of sums keep (SparseLoCo: 0.95); 1 = nothing is forgotten"),
      EQT_FIELD(synchronization.momentum_correction, must_stay)
          .says("ef14: ranks accumulate momentum before they compress, so that what is sent late "
                "moves the parameters once"),
      EQT_FIELD(synchronization.ef21_momentum, must_stay)
          .within({0, 1, true, false})
          .says("ef21: weight of a new gradient in the running mean that is compressed "
                "(EF21-SGDM, Fatkhullin et al. 2023); 1 = the gradient itself"),
      EQT_FIELD(synchronization.local_steps, must_stay)
          .from(1, kMany)
          .in("steps")
          .says(
              "local-sgd, gossip: steps per round; the last step of a round averages or mixes; "
              "\"qsr\" (local-sgd) = (alpha / learning rate)^2, the quadratic synchronization rule "
              "(Gu et al. 2024)"),
      EQT_FIELD(synchronization.local_steps_base, must_stay)
          .from(1, kMany)
          .in("steps")
          .says("qsr: the least steps per round"),
      EQT_FIELD(synchronization.local_steps_most, must_stay)
          .from(1, kMany)
          .in("steps")
          .says("qsr: the most steps per round"),
      EQT_FIELD(synchronization.local_steps_alpha, must_stay)
          .within({0, kHuge, true, false})
          .says("qsr: alpha; \"auto\" = rounds grow when the learning rate is below a fifth of "
                "optimizer.learning_rate"),
      EQT_FIELD(synchronization.delay, must_stay)
          .from(0, kMany)
          .in("steps")
          .says("local-sgd, d-psgd, choco-sgd: steps that ranks take while the messages of a round "
                "are under way; \"auto\" = half of the next round, rounded up: later averages "
                "cost accuracy"),
      EQT_FIELD(synchronization.fragments, must_stay)
          .from(1, kMany)
          .says("local-sgd: parts of the model that are averaged in turn, spread over local_steps "
                "(Streaming DiLoCo)"),
      EQT_FIELD(synchronization.outer.learning_rate, must_stay)
          .within({0, 10, true, false})
          .says("local-sgd: factor of the mean difference of a round (SlowMo's alpha, DiLoCo)"),
      EQT_FIELD(synchronization.outer.momentum, must_stay)
          .within({0, 1, false, true})
          .says("local-sgd: momentum of the mean differences"),
      EQT_FIELD(synchronization.outer.nesterov, must_stay)
          .says("local-sgd: Nesterov's form of that momentum"),
      EQT_FIELD(synchronization.outer.by_rate, must_stay)
          .says("local-sgd: that momentum is of differences divided by the learning rate of their "
                "round, and a step is multiplied by that of its round (SlowMo)"),
      bind<RunConfig>("synchronization.outer.mixing", OnResume::must_stay,
                      [](RunConfig& config) -> Member {
                        return NumberOrNull{&config.synchronization.outer.mixing};
                      })
          .within({0, 1, false, true})
          .says(
              "local-sgd: weight of a rank's own model against the average, where that is applied "
              "(Streaming DiLoCo); null = ranks keep their whole progress"),
      EQT_FIELD(synchronization.quorum, may_change_with_ranks)
          .from(0, 1'000'000)
          .in("ranks")
          .says("local-sgd: a round closes when so many ranks, at least half of them, have taken "
                "local_steps steps; 0 = all ranks, in step"),
      EQT_FIELD(synchronization.grace_seconds, may_change)
          .within({0, kHuge, false, false})
          .in("s")
          .says("quorum: how long the other ranks are then waited for; \"auto\" = a quarter of the "
                "last round's time"),
      EQT_FIELD(synchronization.post_local_epochs, must_stay)
          .from(0, kMany)
          .in("epochs")
          .says("local-sgd: in this many first epochs models are averaged in every step "
                "(post-local SGD)"),
      EQT_FIELD(synchronization.laq_bits, may_change)
          .from(0, 16)
          .in("bits")
          .says("laq: bits of a value that is sent; 0 = float32, which is LAG"),
      EQT_FIELD(synchronization.laq_history, must_stay)
          .from(1, 10000)
          .in("steps")
          .says("laq: a rank compares its change with the means of this many last steps"),
      EQT_FIELD(synchronization.laq_weight, may_change)
          .from(0, 1)
          .says("laq: sum of the weights of those steps; more = fewer messages and slower steps"),
      EQT_FIELD(synchronization.laq_silence, may_change)
          .from(1, kMany)
          .in("steps")
          .says("laq: a rank sends at least once in so many steps; 1 = in every step"),
      EQT_FIELD(synchronization.consensus_step, may_change)
          .within({0, 1, true, false})
          .says("gossip: how far a model moves towards its neighbours'; \"auto\" = computed from "
                "the compressor's error"),
      EQT_FIELD(synchronization.order, must_stay).says("gossip: what comes first in a step"),
      EQT_FIELD(synchronization.adaptive_step, must_stay)
          .says("choco-sgd, quant-sgp: AdaGossip, a consensus step for every value"),
      EQT_FIELD(synchronization.network_weights, must_stay)
          .says("deep-squeeze with model.precision int8: the messages are the 8-bit weights that "
                "the network computes with, rounded once for both"),
      EQT_FIELD(synchronization.resync_every, may_change)
          .from(0, kMany)
          .in("steps")
          .says("choco-sgd, quant-sgp: steps between exchanges of the public copies as float32; 0 "
                "= never"),
      EQT_FIELD(synchronization.event_threshold, must_stay)
          .from(0, 1000)
          .says("choco-sgd, quant-sgp: slices are sent whose distance from what neighbours know "
                "exceeds so many of their typical movements in a round; 0 = all slices, always"),
      EQT_FIELD(synchronization.event_silence, may_change)
          .from(1, kMany)
          .in("rounds")
          .says("event_threshold: a slice is sent at least once in so many rounds; 1 = in every "
                "one"),
      EQT_FIELD(synchronization.final_rounds, may_change)
          .from(0, kMany)
          .in("rounds")
          .says("gossip: rounds without an update after the last step"),
      EQT_FIELD(synchronization.timeout_seconds, may_change)
          .from(0, 1e6)
          .in("seconds")
          .says("a collective that takes longer ends the run with exit 7; 0 = never"),
      EQT_FIELD(synchronization.topology.kind, may_change_with_ranks)
          .says("which ranks are neighbours, for algorithms that exchange with neighbours only"),
      EQT_FIELD(synchronization.topology.directed, may_change_with_ranks)
          .says("ring: send to the next rank only; the exponential kinds are always directed; the "
                "file of kind graph says whether it is"),
      EQT_FIELD(synchronization.topology.weights, may_change_with_ranks).says("the mixing matrix"),
      EQT_FIELD(synchronization.topology.rows, may_change_with_ranks)
          .from(0, 4096)
          .in("ranks")
          .says("torus, mesh: ranks in a column; 0 = as square as possible"),
      EQT_FIELD(synchronization.topology.file, may_change_with_ranks)
          .text_is(TextRule::path)
          .or_null()
          .says("graph: JSON file with the edges, see docs/topologies.md; rank 0 reads it"),
  };
}

/// The section's own table, as keys of the whole config.
std::vector<Field> fields_of_compressor() {
  std::vector<Field> fields;
  for (const FieldOf<CompressorConfig>& own : compressor_fields()) {
    Field field;
    static_cast<KeyFacts&>(field) = own;
    field.member = [member = own.member](RunConfig& config) { return member(config.compressor); };
    fields.push_back(std::move(field));
  }
  return fields;
}

std::vector<Field> checkpoint_fields() {
  return {
      EQT_FIELD(checkpoint.every_epochs, may_change)
          .from(0, 1e6)
          .in("epochs")
          .says("epochs between saves of every rank's state; it is also saved at the end; 0 = not "
                "by epochs"),
      EQT_FIELD(checkpoint.every_steps, may_change)
          .from(0, kMany)
          .in("steps")
          .says("steps between saves of every rank's state; it is also saved at the end; 0 = not "
                "by steps"),
      EQT_FIELD(checkpoint.memory_seconds, may_change)
          .from(0, 1e6)
          .in("seconds")
          .says("seconds between states that each host keeps in its memory, for --resume after a "
                "failure; more, if they would take more than a hundredth of the time; 0 = none"),
      EQT_FIELD(checkpoint.keep, may_change)
          .from(1, 1000)
          .in("checkpoints")
          .says("number of complete checkpoints to keep; the disk needs room for one more"),
      EQT_FIELD(checkpoint.best, must_stay)
          .says(
              "also keep the weights of the best test result, as model_best.pt in the run folder"),
  };
}

std::vector<Field> output_fields() {
  return {
      EQT_FIELD(output.progress, may_change).says("progress on standard error"),
      EQT_FIELD(output.step_records, may_change)
          .says("a record of every step in metrics.jsonl and for TensorBoard"),
      EQT_FIELD(output.tensorboard, may_change)
          .says("events for TensorBoard: all records, histograms, the config, samples"),
      EQT_FIELD(output.dump_gradients, may_change)
          .from(0, kMany)
          .in("steps")
          .says("steps between dumps of rank 0's own gradient as a NumPy file; 0 = never"),
      EQT_FIELD(output.timeline, may_change)
          .from(0, 1000)
          .in("steps")
          .says("timeline.jsonl has what every rank did when in so many last steps of each epoch, "
                "and "
                "epoch records have the seconds of every rank; 0 = off"),
  };
}

#undef EQT_FIELD

}  // namespace

std::span<const Named<Device>> names_of(Device) { return kDevices; }
std::span<const Named<Tune>> names_of(Tune) { return kTune; }
std::span<const Named<OnDivergence>> names_of(OnDivergence) { return kOnDivergence; }
std::span<const Named<ErrorFeedback>> names_of(ErrorFeedback) { return kErrorFeedback; }
std::span<const Named<MomentumCorrection>> names_of(MomentumCorrection) {
  return kMomentumCorrection;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> table = [] {
    std::vector<Field> all;
    for (auto* section :
         {general_fields, model_fields, data_fields, task_fields, train_fields, evaluate_fields,
          optimizer_fields, schedule_fields, synchronization_fields, fields_of_compressor,
          checkpoint_fields, output_fields})
      for (Field& field : section()) all.push_back(std::move(field));
    return all;
  }();
  return table;
}

const std::vector<Choice>& sections() {
  static const std::vector<Choice> table = {
      {"model", "the network"},
      {"model.int8", "options of 8-bit training, with model.precision int8"},
      {"data", "training and test data"},
      {"data.partition", "how the training set is divided"},
      {"task", "what is learnt"},
      {"train", "duration, batch size and evaluation"},
      {"train.emulate_jitter", "steps of emulated boards that do not all take the same time"},
      {"evaluate", "how the test set is evaluated"},
      {"optimizer", "the parameter update"},
      {"schedule", "the learning rate over time"},
      {"synchronization", "what ranks exchange and how"},
      {"synchronization.outer", "what local-sgd does with the mean difference of a round"},
      {"synchronization.topology", "who exchanges with whom"},
      {"compressor", "how gradients are compressed; a compressor ignores the keys of others"},
      {"checkpoint", "when the state for --resume is saved"},
      {"output", "what is shown and written"},
  };
  return table;
}

const Field* find_field(std::string_view key) {
  for (const Field& field : fields())
    if (field.key == key) return &field;
  return nullptr;
}

bool is_section(std::string_view key) {
  return std::any_of(sections().begin(), sections().end(),
                     [&](const Choice& section) { return section.name == key; });
}

std::vector<Choice> config_choices(std::string_view key) {
  const Field* field = find_field(key);
  EQT_CHECK(field != nullptr, "no key {}", key);
  std::vector<Choice> choices = field->choices();
  EQT_CHECK(!choices.empty(), "no names for {}", key);
  return choices;
}

}  // namespace eqt::config
