// SPDX-License-Identifier: Apache-2.0
#include "model/precision/workspace.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "model/precision/arena.hpp"

namespace eqt::model::precision {
namespace {

/// The moments of a step: node i is computed at i, its error at error_of(i).
class Moments {
 public:
  Moments(const Plan& plan, Pass pass)
      : plan_(plan), nodes_(static_cast<int>(plan.nodes.size())), pass_(pass) {}

  int error_of(int node) const { return 2 * nodes_ - node; }

  /// When a node's values are read for the last time.
  int last_of_node(int node) const {
    int last = node == nodes_ - 1 ? nodes_ : node;
    const Readers& readers = plan_.readers_of(node);
    for (const int b : readers.branches) last = std::max(last, plan_.branch(b).node);
    for (const int m : readers.nodes) last = std::max(last, m);
    if (pass_ == Pass::evaluation) return last;
    if (node < nodes_ - 1) last = error_of(node);
    const Node& n = plan_.node(node);
    return n.kind == NodeKind::max_pool ? std::max(last, error_of(n.input)) : last;
  }

  int last_of_branch(int branch) const {
    if (pass_ == Pass::evaluation) return plan_.branch(branch).node;
    return error_of(plan_.branch(branch).input);
  }

  /// An error is read when those of the nodes that its node reads are computed.
  int last_of_error(int node) const {
    const Node& n = plan_.node(node);
    int last = error_of(node);
    const auto branch = [&](int b) { last = std::max(last, error_of(plan_.branch(b).input)); };
    if (n.kind == NodeKind::layer) branch(n.main);
    if (n.kind == NodeKind::max_pool) last = std::max(last, error_of(n.input));
    if (n.residual == Residual::branch) branch(n.second);
    if (n.residual == Residual::identity || n.residual == Residual::padding)
      last = std::max(last, error_of(n.second));
    return last;
  }

 private:
  const Plan& plan_;
  int nodes_;
  Pass pass_;
};

/// Nodes, branches and, for training, the nodes' errors; bytes are those of one sample.
std::vector<ArenaItem> items_of(const Plan& plan, Pass pass) {
  const Moments moments(plan, pass);
  const int nodes = static_cast<int>(plan.nodes.size());
  std::vector<ArenaItem> items;
  for (int i = 0; i < nodes; ++i)
    items.push_back({plan.node(i).count(), i, moments.last_of_node(i)});
  for (int b = 0; b < static_cast<int>(plan.branches.size()); ++b)
    items.push_back(
        {plan.branch(b).shape.out_count(), plan.branch(b).node, moments.last_of_branch(b)});
  if (pass == Pass::evaluation) return items;
  for (int i = 0; i < nodes; ++i) {
    const std::size_t bytes = i == 0 ? 0 : plan.node(i).count();
    items.push_back({bytes, moments.error_of(i), moments.last_of_error(i)});
  }
  return items;
}

ArenaPlan place(std::vector<ArenaItem> items, std::size_t samples) {
  for (ArenaItem& item : items) item.bytes *= samples;
  return place_items(items);
}

}  // namespace

Workspace::Workspace(const Plan& plan, std::size_t samples, Pass pass)
    : samples_(samples), nodes_(plan.nodes.size()), branches_(plan.branches.size()) {
  const std::vector<ArenaItem> items = items_of(plan, pass);
  for (const ArenaItem& item : items) counts_.push_back(item.bytes);
  ArenaPlan arena = place(items, samples);
  offsets_ = std::move(arena.offsets);
  bytes_ = arena.bytes;
  block_ = make_long_array<std::int8_t>(bytes_);
  scales_.assign(items.size() * samples, 1.0f);
}

Samples Workspace::at(std::size_t item) const {
  EQT_CHECK(item < counts_.size(), "array {} of {}", item, counts_.size());
  return {{block_.get() + offsets_[item], counts_[item] * samples_},
          std::span(scales_).subspan(item * samples_, samples_),
          counts_[item]};
}

std::size_t workspace_bytes(const Plan& plan, std::size_t samples, Pass pass) {
  const std::vector<ArenaItem> items = items_of(plan, pass);
  return place(items, samples).bytes + items.size() * samples * sizeof(float);
}

std::size_t saved_bytes(const Plan& plan, std::size_t samples) {
  const int turn = static_cast<int>(plan.nodes.size());  // after the forward pass
  std::size_t bytes = 0;
  for (const ArenaItem& item : items_of(plan, Pass::training))
    if (item.first < turn && item.last > turn) bytes += item.bytes + sizeof(float);
  return bytes * samples;
}

}  // namespace eqt::model::precision
