// SPDX-License-Identifier: Apache-2.0
// Networks from TorchScript files train like the program's own; files that cannot are refused.

#include <torch/csrc/jit/api/module.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "model/arithmetic.hpp"
#include "model/replica.hpp"
#undef CHECK  // LibTorch's logging has a macro of the same name as Catch2's
#include "model/unit/support.hpp"
#include "support/refusal.hpp"
#include "support/saved_state.hpp"
#include "support/temporary_files.hpp"
#include "support/zip_bytes.hpp"
#include "weights/script_archive.hpp"
#include "weights/state_dict.hpp"
#include "weights/zip_archive.hpp"

namespace eqt::model {
namespace {

constexpr data::ImageShape kShape{1, 4, 5};
constexpr std::int64_t kHidden = 7, kClasses = 3;

/// relu(x A' + a) B' + b, or other code.
/// @param add  registers more attributes, which the code may use
torch::jit::Module mlp(const std::string& forward = {},
                       const std::function<void(torch::jit::Module&)>& add = {}) {
  torch::manual_seed(1);
  torch::jit::Module module("mlp");
  module.register_parameter("hidden_weight", (torch::randn({kHidden, 20}) * 0.2).requires_grad_(),
                            false);
  module.register_parameter("hidden_bias", torch::zeros({kHidden}).requires_grad_(), false);
  module.register_parameter("out_weight",
                            (torch::randn({kClasses, kHidden}) * 0.4).requires_grad_(), false);
  module.register_parameter("out_bias", torch::zeros({kClasses}).requires_grad_(), false);
  module.register_attribute("training", c10::BoolType::get(), true);
  if (add) add(module);
  module.define(forward.empty() ? R"(
def forward(self, x):
    h = torch.relu(torch.addmm(self.hidden_bias, x.flatten(1), self.hidden_weight.t()))
    return torch.addmm(self.out_bias, h, self.out_weight.t())
)"
                                : forward);
  return module;
}

ModelOptions options_of(const torch::jit::Module& module) {
  std::ostringstream file;
  module.save(file);
  return {.model = models::torchscript,
          .inputs = test::pictures(kShape),
          .outputs = kClasses,
          .path = "net.pt",
          .script = std::make_shared<const std::string>(file.str())};
}

std::string refusal(const ModelOptions& options) {
  const std::string sentence = test::refusal(Kind::data, [&] { make_replica(options); });
  test::says(sentence, "net.pt");
  return sentence;
}

data::Batch batch_of(std::size_t size) {
  data::Batch batch = random_batch(size, kShape);
  for (std::int64_t& label : test::labels_in(batch)) label %= kClasses;
  return batch;
}

TEST_CASE("operations of the user's own network compute in bf16 where LibTorch can", "[script]") {
  ModelOptions options = options_of(mlp());
  const auto exact = make_replica(options);
  options.precision = Precision::bf16;
  const auto half = make_replica(options);
  const data::Batch batch = batch_of(32);
  const double loss = exact->forward_backward(batch, {}),
               rounded = half->forward_backward(batch, {});
  CHECK(rounded == Approx(loss).epsilon(0.01));
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < exact->gradient().size(); ++i) {
    error += std::pow(static_cast<double>(half->gradient()[i]) - exact->gradient()[i], 2);
    norm += std::pow(static_cast<double>(exact->gradient()[i]), 2);
  }
  CHECK(error < 1e-3 * norm);
  CHECK((error > 0) == (bf16_arithmetic() == Bf16Arithmetic::native));
  // Nothing of it is left for networks in float32.
  CHECK(exact->forward_backward(batch, {}) == loss);
}

TEST_CASE("parameters keep their names, and gradients are autograd's", "[script]") {
  torch::jit::Module module = mlp();
  const auto replica = make_replica(options_of(module));
  std::vector<std::string> names;
  for (const TensorSlice& slice : replica->layout()) names.push_back(slice.name);
  CHECK(names ==
        std::vector<std::string>{"hidden_weight", "hidden_bias", "out_weight", "out_bias"});

  const data::Batch batch = batch_of(6);
  std::vector<std::size_t> announced;
  const double loss =
      replica->forward_backward(batch, [&](std::size_t slice) { announced.push_back(slice); });
  CHECK(announced.size() == 4);
  CHECK(std::set<std::size_t>(announced.begin(), announced.end()).size() == 4);

  // The channel comes last in a batch; with one channel that is the same order.
  const auto images = torch::from_blob(const_cast<float*>(test::images_in(batch).data()), {6, 20});
  const auto labels =
      torch::from_blob(const_cast<std::int64_t*>(test::labels_in(batch).data()), {6}, torch::kLong);
  std::vector<torch::Tensor> leaves;
  for (const auto& item : module.named_parameters())
    leaves.push_back(item.value.detach().clone().requires_grad_());
  const auto hidden = torch::relu(torch::addmm(leaves[1], images, leaves[0].t()));
  const auto expected =
      torch::cross_entropy_loss(torch::addmm(leaves[3], hidden, leaves[2].t()), labels);
  expected.backward();
  CHECK(loss == Approx(expected.item<double>()));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const TensorSlice& slice = replica->layout()[i];
    const auto ours = torch::from_blob(replica->gradient().data() + slice.offset,
                                       {static_cast<std::int64_t>(slice.count)});
    INFO(slice.name);
    CHECK(torch::allclose(ours, leaves[i].grad().flatten(), 1e-5, 1e-7));
  }
}

TEST_CASE("the flat buffer is what the module computes with", "[script]") {
  const auto replica = make_replica(options_of(mlp()));
  const data::Batch batch = batch_of(32);
  const double before = replica->forward_backward(batch, {});
  for (int step = 0; step < 60; ++step) {
    replica->forward_backward(batch, {});
    for (std::size_t i = 0; i < replica->parameters().size(); ++i)
      replica->parameters()[i] -= 0.5f * replica->gradient()[i];
  }
  CHECK(replica->forward_backward(batch, {}) < 0.7 * before);
  std::ranges::fill(replica->parameters(), 0.0f);
  CHECK(replica->evaluate(batch).loss_sum / 32 == Approx(std::log(3.0)));
}

TEST_CASE("random numbers of a module follow the replica's seed and rank", "[script]") {
  torch::jit::Module module = mlp(R"(
def forward(self, x):
    h = torch.relu(torch.addmm(self.hidden_bias, x.flatten(1), self.hidden_weight.t()))
    h = torch.dropout(h, 0.5, self.training)
    return torch.addmm(self.out_bias, h, self.out_weight.t())
)");
  const ModelOptions plain = options_of(module);
  const auto losses = [&](std::uint64_t seed, Rank rank) {
    ModelOptions options = plain;
    options.seed = seed;
    options.rank = rank;
    const auto replica = make_replica(options);
    const data::Batch batch = batch_of(16);
    const double first = replica->forward_backward(batch, {});
    return std::pair(first, replica->forward_backward(batch, {}));
  };
  const auto reference = losses(1, 0);
  CHECK(reference.first != reference.second);
  CHECK(losses(1, 0) == reference);
  CHECK(losses(2, 0) != reference);
  CHECK(losses(1, 1) != reference);
}

TEST_CASE("a module may compute its own loss, from the inputs and the targets", "[script]") {
  ModelOptions own = options_of(mlp(R"(
def forward(self, x, y):
    h = torch.relu(torch.addmm(self.hidden_bias, x.flatten(1), self.hidden_weight.t()))
    return torch.cross_entropy_loss(torch.addmm(self.out_bias, h, self.out_weight.t()), y)
)"));
  own.task.kind = tasks::module;
  const auto classifies = make_replica(options_of(mlp())), computes_loss = make_replica(own);
  const data::Batch batch = batch_of(16);
  CHECK(computes_loss->forward_backward(batch, {}) == classifies->forward_backward(batch, {}));
  CHECK(std::ranges::equal(computes_loss->gradient(), classifies->gradient()));
  CHECK(computes_loss->evaluate(batch).loss() ==
        Approx(classifies->evaluate(batch).loss()).epsilon(1e-6));
  data::Array output;
  classifies->predict(batch, output);
  CHECK(output.shape == std::vector<std::int64_t>{16, kClasses});
  test::says(test::refusal(Kind::usage, [&] { computes_loss->predict(batch, output); }), "loss");
}

TEST_CASE("a module takes any arrays, in the data set's order", "[script]") {
  // The mean of the words' rows that the mask has; the second input is one number a sample.
  torch::jit::Module module("words");
  module.register_parameter("rows", torch::randn({20, 4}).requires_grad_(), false);
  module.define(R"(
def forward(self, tokens, scale, mask):
    words = self.rows[tokens] * mask.unsqueeze(2)
    return words.sum(1) * scale.unsqueeze(1)
)");
  const data::ArraySpec tokens{
      .name = "tokens", .type = data::ElementType::int64, .shape = {-1}, .longest = 6, .bound = 20};
  const data::ArraySpec scale{.name = "scale"};
  const data::ArraySpec mask{
      .name = "mask", .type = data::ElementType::uint8, .shape = {-1}, .longest = 6};
  ModelOptions options = options_of(module);
  options.inputs = {tokens, scale, mask};
  options.target = data::ArraySpec{.name = "y", .shape = {4}};
  options.outputs = 4;
  options.task.kind = tasks::regression;
  const auto replica = make_replica(options);
  const auto rows = module.attr("rows").toTensor();
  for (const std::int64_t length : {2, 6}) {  // from batch to batch
    const std::array<std::int64_t, 1> shape = {length};
    data::Batch batch;
    batch.inputs.resize(3);
    std::ranges::fill(batch.inputs[0].prepare<std::int64_t>(tokens, 3, shape), length);
    std::ranges::fill(batch.inputs[1].prepare<float>(scale, 3), 2.0f);
    const auto masks = batch.inputs[2].prepare<std::uint8_t>(mask, 3, shape);
    std::ranges::fill(masks, std::uint8_t{1});
    masks[0] = 0;
    data::Array output;
    replica->predict(batch, output);
    REQUIRE(output.shape == std::vector<std::int64_t>{3, 4});
    const auto expected = [&](std::int64_t column, std::int64_t count) {
      return 2 * static_cast<double>(count) * rows[length][column].item<double>();
    };
    for (std::int64_t c = 0; c < 4; ++c) {
      CHECK(output.get<float>()[static_cast<std::size_t>(c)] == Approx(expected(c, length - 1)));
      CHECK(output.get<float>()[static_cast<std::size_t>(4 + c)] == Approx(expected(c, length)));
    }
  }
}

TEST_CASE("a tensor with two names is one, and files have it under both", "[script]") {
  torch::jit::Module module = mlp();
  module.register_parameter("again", module.attr("out_bias").toTensor(), false);
  module.register_buffer("mean", torch::zeros({2}));
  module.register_buffer("mean_again", module.attr("mean").toTensor());
  const ModelOptions options = options_of(module);
  const auto replica = make_replica(options);
  CHECK(replica->layout().size() == 4);
  REQUIRE(replica->buffers().size() == 2);
  std::ranges::fill(replica->buffers(), 2.5f);
  std::ranges::fill(replica->parameters(), 1.5f);

  const test::TemporaryFiles folder;
  const std::string path = folder.write("model.pt", "");
  replica->save_weights(path);
  const weights::StateDict file = weights::read_state_dict(path, 1 << 20);
  std::set<std::string_view> seen;
  std::vector<weights::Tensor> last_names;  // as files that keep a tensor once may have them
  for (const weights::Tensor& tensor : file.tensors()) {
    seen.insert(tensor.name);
    float first = 0;
    std::memcpy(&first, tensor.storage.data(), sizeof first);
    CHECK(first == (tensor.name.starts_with("mean") ? 2.5f : 1.5f));
    if (tensor.name != "out_bias" && tensor.name != "mean") last_names.push_back(tensor);
  }
  CHECK(seen.size() == 7);
  CHECK(seen.contains("again"));
  CHECK(seen.contains("mean_again"));

  const auto check_loaded = [&] {
    const auto other = make_replica(options);
    other->load_weights(path);
    CHECK(std::ranges::equal(other->parameters(), replica->parameters()));
    CHECK(std::ranges::equal(other->buffers(), replica->buffers()));
  };
  check_loaded();
  folder.write("model.pt", weights::pack_state_dict(last_names));
  check_loaded();
  // Two values for one tensor.
  std::vector<weights::Tensor> different(file.tensors().begin(), file.tensors().end());
  const std::vector<float> other_bias = {1, 2, 3};
  for (weights::Tensor& tensor : different)
    if (tensor.name == "again") tensor.storage = std::as_bytes(std::span(other_bias));
  folder.write("model.pt", weights::pack_state_dict(different));
  const std::string sentence = test::refusal(Kind::data, [&] { replica->load_weights(path); });
  test::says(sentence, "out_bias");
  test::says(sentence, "again");

  ModelOptions frozen = options;
  frozen.freeze = {"again"};
  CHECK(make_replica(frozen)->frozen().size() == static_cast<std::size_t>(kClasses));
}

/// A network whose submodule `norm` normalizes the hidden values, as torch.nn.BatchNorm1d does.
/// @param training  the code of the mode in which it does: a trace has a constant there
torch::jit::Module normalized(const std::string& training) {
  torch::jit::Module norm("norm");
  norm.register_parameter("weight", torch::ones({kHidden}).requires_grad_(), false);
  norm.register_parameter("bias", torch::zeros({kHidden}).requires_grad_(), false);
  norm.register_buffer("running_mean", torch::full({kHidden}, 0.25));
  norm.register_buffer("running_var", torch::full({kHidden}, 2.0));
  norm.register_buffer("num_batches_tracked", torch::full({}, 5, torch::kLong));
  norm.register_attribute("training", c10::BoolType::get(), true);
  norm.define(R"(
def forward(self, x):
    training = )" +
              training + R"(
    if training:
        self.num_batches_tracked.add_(1)
    return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, training, 0.1, 1e-5, False)
)");
  return mlp(R"(
def forward(self, x):
    h = torch.relu(self.norm.forward(torch.addmm(self.hidden_bias, x.flatten(1), self.hidden_weight.t())))
    return torch.addmm(self.out_bias, h, self.out_weight.t())
)",
             [&](torch::jit::Module& net) { net.register_module("norm", norm); });
}

TEST_CASE("frozen norms of a module keep their running statistics where they are told",
          "[script]") {
  ModelOptions options = options_of(normalized("self.training"));
  options.freeze = {"norm.*"};
  const data::Batch batch = batch_of(6);
  const auto counts = [](Replica& replica) {
    test::StateSpans state;
    replica.visit_state(state, Across::same);
    return state.counts;
  };
  const auto following = make_replica(options);
  following->forward_backward(batch, {});
  CHECK(following->buffers()[0] != 0.25f);
  CHECK(counts(*following) == std::vector<std::uint64_t>{1, 6});

  options.frozen_norms = FrozenNorms::running;
  const auto keeping = make_replica(options);
  const double loss = keeping->evaluate(batch).loss();
  CHECK(keeping->forward_backward(batch, {}) == Approx(loss).epsilon(1e-6));
  CHECK(std::ranges::count(keeping->buffers(), 0.25f) == kHidden);
  CHECK(counts(*keeping) == std::vector<std::uint64_t>{1, 5});
  std::vector<float> mean(keeping->buffers().size(), -1);
  keeping->keep_constants(mean);
  CHECK(std::ranges::equal(mean, keeping->buffers()));

  const std::string expected = "model.frozen_norms: expected with \"running\" a normalization";
  const auto refused = [&] { return test::refusal(Kind::usage, [&] { make_replica(options); }); };
  options.freeze.clear();
  test::says(refused(), expected);
  options.script = options_of(normalized("True")).script;
  options.freeze = {"norm.*"};
  test::says(refused(), expected);
}

TEST_CASE("buffers of any type stay in the module, in checkpoints and in files", "[script]") {
  torch::jit::Module module =
      mlp(R"(
def forward(self, x):
    x = x.flatten(1)[:, self.order].masked_fill(self.mask, 0.) * self.scale.float()
    if self.training:
        self.seen.add_(x.size(0))
    h = torch.relu(torch.addmm(self.hidden_bias, x, self.hidden_weight.t()))
    return torch.addmm(self.out_bias, h, self.out_weight.t())
)",
          [](torch::jit::Module& net) {
            net.register_buffer("order", torch::arange(20).flip(0));
            net.register_buffer("mask", torch::arange(20) % 3 == 0);
            net.register_buffer("scale", torch::full({20}, 0.5, torch::kDouble));
            net.register_buffer("few", torch::full({}, 7, torch::kByte).expand({3}));
            net.register_buffer("seen", torch::zeros({2}, torch::kInt));
          });
  const ModelOptions options = options_of(module);
  const auto replica = make_replica(options);
  CHECK(replica->buffers().empty());
  const data::Batch batch = batch_of(6);
  // The same network with its tables applied to the batch and to the weights.
  const auto plain = make_replica(options_of(mlp()));
  data::Batch ordered = batch;
  const auto from = test::images_in(batch);
  const auto to = ordered.inputs.front().get<float>();
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t p = 0; p < 20; ++p)
      to[20 * i + p] = p % 3 == 0 ? 0 : from[20 * i + 19 - p] / 2;
  CHECK(replica->forward_backward(batch, {}) == Approx(plain->forward_backward(ordered, {})));
  CHECK(replica->evaluate(batch).loss_sum == Approx(plain->evaluate(ordered).loss_sum));

  test::StateSpans state;
  replica->visit_state(state, Across::same);
  // A number for the batches; 20 words of order; 20 bytes of mask, 160 of scale, 3 of few, 8 of
  // seen: 3 + 20 + 1 + 1 words, the last with 6 and 6.
  REQUIRE(state.counts.size() == 1 + 20 + 3 + 20 + 1 + 1);
  CHECK(state.counts[1] == 19);
  CHECK(state.counts.back() == (std::uint64_t{6} << 32 | 6));

  const test::TemporaryFiles folder;
  const std::string path = folder.write("model.pt", "");
  replica->save_weights(path);
  const weights::StateDict file = weights::read_state_dict(path, 1 << 20);
  CHECK(file.tensors().size() == 4 + 5);
  module.attr("order").toTensor().zero_();
  const auto other = make_replica(options_of(module));
  other->load_weights(path);
  CHECK(other->evaluate(batch).loss_sum == replica->evaluate(batch).loss_sum);
  // A state dict that lacks them leaves the module's.
  std::vector<weights::Tensor> few;
  for (const weights::Tensor& tensor : file.tensors())
    if (tensor.type == weights::ElementType::float32) few.push_back(tensor);
  folder.write("model.pt", weights::pack_state_dict(few));
  CHECK(make_replica(options)->load_pretrained(path, true).kept.size() == 5);
}

TEST_CASE("an evaluation leaves a module as it was, and training keeps what it assigns",
          "[script]") {
  torch::jit::Module module =
      mlp(R"(
def forward(self, x):
    self.calls += 1
    self.history.append(1)
    self.times.mul_(2)
    self.before = self.now
    self.now = self.now + torch.ones(2)
    h = torch.relu(torch.addmm(self.hidden_bias * self.now[0], x.flatten(1), self.hidden_weight.t()))
    return torch.addmm(self.out_bias, h * float(self.calls + len(self.history)), self.out_weight.t())
)",
          [](torch::jit::Module& net) {
            net.register_attribute("calls", c10::IntType::get(), 0);
            net.register_attribute("unused", c10::IntType::get(), 0);
            net.register_attribute("history", c10::ListType::ofInts(), c10::List<std::int64_t>());
            net.register_buffer("now", torch::zeros({2}));
            net.register_buffer("before", torch::zeros({2}));
            net.register_buffer("times", torch::ones({1}));
          });
  const auto replica = make_replica(options_of(module)), other = make_replica(options_of(module));
  // A state dict of Python's may lack buffers, which keep the module's values.
  const test::TemporaryFiles folder;
  const std::string path = folder.write("model.pt", "");
  replica->save_weights(path);
  const weights::StateDict file = weights::read_state_dict(path, 1 << 20);
  std::vector<weights::Tensor> parameters;
  for (const weights::Tensor& tensor : file.tensors())
    if (tensor.name.starts_with("hidden_") || tensor.name.starts_with("out_"))
      parameters.push_back(tensor);
  folder.write("model.pt", weights::pack_state_dict(parameters));
  CHECK(make_replica(options_of(module))->load_pretrained(path, true).kept.size() == 3);
  const auto buffers = [&] {
    return std::vector<float>(replica->buffers().begin(), replica->buffers().end());
  };
  CHECK(buffers() == std::vector<float>{0, 0, 0, 0, 1});  // after the example that make_replica ran
  const data::Batch batch = batch_of(5);
  data::Array output;
  for (int step = 1; step <= 3; ++step) {
    CHECK(replica->forward_backward(batch, {}) == other->forward_backward(batch, {}));
    const auto now = static_cast<float>(step);
    CHECK(buffers() == std::vector<float>{now, now, now - 1, now - 1, std::exp2(now)});
    for (int i = 0; i < 2; ++i) static_cast<void>(replica->evaluate(batch));
    replica->predict(batch, output);
    CHECK(buffers() == std::vector<float>{now, now, now - 1, now - 1, std::exp2(now)});
  }
  // The code computes with what others write into the flat buffer.
  std::ranges::fill(replica->buffers(), 10.0f);
  replica->forward_backward(batch, {});
  CHECK(buffers() == std::vector<float>{11, 11, 10, 10, 20});

  REQUIRE(replica->notes().size() == 1);
  test::says(replica->notes()[0], "calls, history while");
  CHECK(make_replica(options_of(mlp()))->notes().empty());
}

TEST_CASE("what LibTorch cannot compute is the module's error", "[script]") {
  const auto replica = make_replica(options_of(mlp(R"(
def forward(self, x):
    h = torch.sigmoid(torch.addmm(self.hidden_bias, x.flatten(1), self.hidden_weight.t()))
    y = torch.addmm(self.out_bias, h, self.out_weight.t())
    h.mul_(2)
    return y + h.sum() * 0
)")));
  const std::string sentence =
      test::refusal(Kind::data, [&] { replica->forward_backward(batch_of(4), {}); });
  test::says(sentence, "net.pt");
  test::says(sentence, "modified by an inplace operation");
  // An error of the listener stays what it is.
  const auto good = make_replica(options_of(mlp()));
  CHECK_THROWS_AS(
      good->forward_backward(batch_of(4), [](std::size_t) { throw std::logic_error("x"); }),
      std::logic_error);
}

TEST_CASE("a parameter that requires no gradient is not trained", "[script]") {
  torch::jit::Module module = mlp();
  module.attr("hidden_weight").toTensor().set_requires_grad(false);
  const auto replica = make_replica(options_of(module));
  CHECK(replica->layout().size() == 3);
  CHECK(replica->frozen().size() == static_cast<std::size_t>(kHidden) * 20);
  CHECK(replica->frozen()[0] == module.attr("hidden_weight").toTensor().flatten()[0].item<float>());
  replica->forward_backward(batch_of(4), {});
  CHECK(std::ranges::any_of(replica->gradient(), [](float g) { return g != 0; }));
}

TEST_CASE("what cannot be trained is refused", "[script]") {
  ModelOptions garbage = options_of(mlp());
  garbage.script = std::make_shared<const std::string>("not an archive");
  test::says(refusal(garbage), "no whole zip archive");
  ModelOptions cut = options_of(mlp());
  cut.script = std::make_shared<const std::string>(cut.script->substr(0, cut.script->size() / 2));
  test::says(refusal(cut), "no whole zip archive");

  torch::jit::Module empty("empty");
  empty.define("def forward(self, x):\n    return x.flatten(1)\n");
  test::says(refusal(options_of(empty)), "no parameters");

  torch::jit::Module half = mlp();
  half.register_parameter("half", torch::zeros({2}, torch::kHalf), false);
  test::says(refusal(options_of(half)), "half");
  torch::jit::Module views = mlp();
  views.register_parameter("flat", views.attr("out_weight").toTensor().detach().view(-1), false);
  test::says(refusal(options_of(views)), "out_weight and flat");
  torch::jit::Module table = mlp();
  table.register_buffer("table",
                        torch::quantize_per_tensor(torch::zeros({4}), 1, 0, torch::kQInt8));
  test::says(refusal(options_of(table)), "quantized");

  test::says(refusal(options_of(mlp("def forward(self, x):\n    return [self.out_bias]\n"))),
             "to return a tensor");
  test::says(refusal(options_of(mlp("def forward(self, x):\n    return self.out_bias\n"))),
             "[1, 3]");
  test::says(refusal(options_of(mlp("def forward(self, x):\n    return x.flatten(1)\n"))),
             "[1, 20]");
  test::says(
      refusal(options_of(mlp("def forward(self, x):\n    return torch.mm(x[0][0], x[0][0])\n"))),
      "failed on images of shape [1, 1, 4, 5]");
  test::says(refusal(options_of(
                 mlp("def forward(self, x):\n    assert x.size(2) == 224, \"wanted 224 pixels\"\n"
                     "    return x\n"))),
             "wanted 224 pixels");
}

/// The module's archive with `from` in its code or pickle replaced.
ModelOptions replaced(const torch::jit::Module& module, const std::string& from,
                      const std::string& to) {
  ModelOptions options = options_of(module);
  const auto bytes = std::as_bytes(std::span(*options.script));
  const std::string whole = weights::checked_script(bytes, "net.pt");  // nothing is compressed
  const weights::ZipArchive archive(std::as_bytes(std::span(whole)),
                                    weights::ForeignFile("net.pt"));
  std::vector<std::pair<std::string, std::string>> records;
  for (const auto& record : archive.records()) {
    const std::vector<std::byte> held = archive.read(record);
    std::string text(reinterpret_cast<const char*>(held.data()), held.size());
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
    records.emplace_back(record.name, text);
  }
  options.script = std::make_shared<const std::string>(support::zip_bytes(records));
  return options;
}

std::string refusal_of(const std::string& statement) {
  return refusal(options_of(mlp("def forward(self, x):\n    " + statement +
                                "\n    return torch.addmm(self.out_bias, x.flatten(1), "
                                "self.out_weight.t())\n")));
}

TEST_CASE("operations that reach files or other processes are refused with their line",
          "[script]") {
  const std::string saving = refusal_of("torch.save(x, \"pwned\")");
  test::says(saving, "aten::save");
  test::says(saving, "in code/__torch__");
  test::says(saving, "torch.save(x, \"pwned\")");
  // LibTorch computes operations of constants while it reads the code.
  test::says(refusal_of("torch.save(1, \"pwned\")"), "aten::save");
  test::says(refusal_of("x = x + torch.from_file(\"/etc/hostname\", False, 1)"), "aten::from_file");
  test::says(refusal(replaced(mlp(), "torch.relu(", "ops.quantized.relu6(")), "quantized::relu6");
  // In blocks, in what is not called, in what another thread would do.
  test::says(
      refusal_of("for i in range(3):\n        if i > 1:\n            torch.save(x, \"pwned\")"),
      "aten::save");
  torch::jit::Module module = mlp();
  module.define("def unused(self, x):\n    torch.save(x, \"pwned\")\n    return x\n");
  test::says(refusal(options_of(module)), "aten::save");
  torch::jit::Module inner("inner");
  inner.define("def forward(self, x):\n    torch.save(x, \"pwned\")\n    return x\n");
  module = mlp();
  module.register_module("inner", inner);
  test::says(refusal(options_of(module)), "aten::save");
  CHECK(!std::filesystem::exists("pwned"));
}

TEST_CASE("functions that call each other until they have millions of operations are refused",
          "[script]") {
  torch::jit::Module module = mlp();
  module.define("def f0(self, x):\n    return x + 1\n");
  for (int i = 1; i < 24; ++i)
    module.define(
        fmt::format("def f{0}(self, x):\n    return self.f{1}(self.f{1}(x))\n", i, i - 1));
  test::says(refusal(options_of(module)), "operations");
}

TEST_CASE("attributes that are not of the type in the code are refused", "[script]") {
  torch::jit::Module module = mlp();
  module.register_attribute("steps", c10::IntType::get(), 70000);
  test::says(refusal(replaced(module, "steps : int", "steps : Tensor")),
             "its attribute steps is Int");
  torch::jit::Module one("one"), two("two");
  one.register_attribute("a", c10::IntType::get(), 1);
  one.register_attribute("b", c10::IntType::get(), 1);
  two.register_attribute("a", c10::IntType::get(), 1);
  module = mlp();
  module.register_module("one", one);
  module.register_module("two", two);
  // With LibTorch alone, module.two.b would be what lies behind the object.
  test::says(refusal(replaced(module, "two : __torch__.two", "two : __torch__.one")),
             "its attribute two is Object instead of __torch__.one");
}

}  // namespace
}  // namespace eqt::model
