// SPDX-License-Identifier: Apache-2.0
#include "model/own/workspace.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.hpp"

namespace eqt::model::precision {
namespace {

std::size_t padded(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

/// Whether the backward pass reads the values of a node that others read.
bool is_read_again(const Plan& plan, int node) {
  const Readers& readers = plan.readers_of(node);
  const auto gives_gradient = [&](int b) { return plan.trains(plan.branch(b)); };
  const auto reads = [&](int m) {
    const Node& n = plan.node(m);
    return plan.learns_at(m) && (n.kind != NodeKind::layer || n.nonlinearity != Nonlinearity::none);
  };
  return std::ranges::any_of(readers.branches, gives_gradient) ||
         std::ranges::any_of(readers.nodes, reads);
}

/// The moments of a step: node i is computed at i, its error at error_of(i).
class Moments {
 public:
  Moments(const Plan& plan, Pass pass)
      : plan_(plan), nodes_(static_cast<int>(plan.nodes.size())), pass_(pass) {}

  int error_of(int node) const { return 2 * nodes_ - node; }

  /// When a node's values are read for the last time, before they are computed again if they are.
  int last_of_node(int node) const {
    int last = node == nodes_ - 1 ? nodes_ : node;
    const Readers& readers = plan_.readers_of(node);
    for (const int b : readers.branches) last = std::max(last, plan_.branch(b).node);
    for (const int m : readers.nodes) last = std::max(last, m);
    if (pass_ == Pass::evaluation || computed_again_for(plan_, node)) return last;
    if (is_read_again(plan_, node)) last = error_of(node);
    const Node& n = plan_.node(node);
    const bool routes = n.kind == NodeKind::max_pool && plan_.learns_at(node);
    return routes ? std::max(last, error_of(n.input)) : last;
  }

  int last_of_branch(int branch) const {
    const Branch& b = plan_.branch(branch);
    if (pass_ == Pass::evaluation || !plan_.learns_at(b.node)) return b.node;
    return error_of(plan_.passes_errors(b) ? b.input : b.node);
  }

  /// An error is read when those of the nodes that its node reads are computed.
  int last_of_error(int node) const {
    const Node& n = plan_.node(node);
    int last = error_of(node);
    const auto branch = [&](int b) {
      if (plan_.passes_errors(plan_.branch(b)))
        last = std::max(last, error_of(plan_.branch(b).input));
    };
    if (n.kind == NodeKind::layer) branch(n.main);
    if (n.has_input()) last = std::max(last, error_of(n.input));
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

/// Nodes, branches and, for training, the nodes' errors and the nodes that are computed again;
/// bytes are the values of one sample.
std::vector<ArenaItem> items_of(const Plan& plan, Pass pass) {
  const Moments moments(plan, pass);
  const int nodes = static_cast<int>(plan.nodes.size());
  std::vector<ArenaItem> items;
  for (int i = 0; i < nodes; ++i)
    items.push_back({plan.node(i).count(), i, moments.last_of_node(i)});
  for (int b = 0; b < static_cast<int>(plan.branches.size()); ++b)
    items.push_back({plan.branch(b).count(), plan.branch(b).node, moments.last_of_branch(b)});
  if (pass == Pass::evaluation) return items;
  for (int i = 0; i < nodes; ++i) {
    const std::size_t bytes = i == 0 || !plan.learns_at(i) ? 0 : plan.node(i).count();
    items.push_back({bytes, moments.error_of(i), moments.last_of_error(i)});
  }
  for (int i = 0; i < nodes; ++i) {
    const std::optional<int> before = computed_again_for(plan, i);
    items.push_back({before ? plan.node(i).count() : 0, moments.error_of(before.value_or(i)),
                     moments.error_of(i)});
  }
  return items;
}

template <typename Operand>
ArenaPlan place(std::vector<ArenaItem> items, std::size_t samples) {
  for (ArenaItem& item : items) item.bytes *= samples * sizeof(Operand);
  return place_items(items);
}

}  // namespace

ArenaPlan place_items(const std::vector<ArenaItem>& items) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return items[i].bytes; });
  ArenaPlan plan{.offsets = std::vector<std::size_t>(items.size())};
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    const std::size_t bytes = padded(items[i].bytes);
    std::size_t offset = 0;
    for (const std::size_t j : placed) {
      const bool together = items[j].first <= items[i].last && items[i].first <= items[j].last;
      if (!together) continue;
      if (plan.offsets[j] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[j] + padded(items[j].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto place = std::ranges::upper_bound(placed, offset, {},
                                                [&](std::size_t j) { return plan.offsets[j]; });
    placed.insert(place, i);
  }
  return plan;
}

std::optional<int> computed_again_for(const Plan& plan, int node) {
  const Node& n = plan.node(node);
  const bool from_branches = n.residual == Residual::none || n.residual == Residual::branch;
  const Readers& readers = plan.readers_of(node);
  if (n.kind != NodeKind::layer || !from_branches || !plan.learns_at(node) ||
      !is_read_again(plan, node))
    return {};
  int before = node;
  for (const int m : readers.nodes)
    if (plan.node(m).kind == NodeKind::layer && plan.node(m).rectifies())
      before = std::max(before, m);
  return before;
}

template <typename Operand>
Workspace<Operand>::Workspace(const Plan& plan, std::size_t samples, Pass pass)
    : samples_(samples), nodes_(plan.nodes.size()), branches_(plan.branches.size()) {
  const std::vector<ArenaItem> items = items_of(plan, pass);
  for (const ArenaItem& item : items) counts_.push_back(item.bytes);
  ArenaPlan arena = place<Operand>(items, samples);
  offsets_ = std::move(arena.offsets);
  bytes_ = arena.bytes;
  scales_.assign(items.size() * samples, 1.0f);
}

template <typename Operand>
Samples<Operand> Workspace<Operand>::at(std::size_t item, std::size_t scales) const {
  EQT_CHECK(item < counts_.size(), "array {} of {}", item, counts_.size());
  return {{reinterpret_cast<Operand*>(block_ + offsets_[item]), counts_[item] * samples_},
          std::span(scales_).subspan(scales * samples_, samples_),
          counts_[item]};
}

template <typename Operand>
WorkspaceBytes workspace_bytes(const Plan& plan, std::size_t samples, Pass pass) {
  const std::vector<ArenaItem> items = items_of(plan, pass);
  return {.block = place<Operand>(items, samples).bytes,
          .scales = items.size() * samples * sizeof(float)};
}

template <typename Operand>
std::size_t saved_bytes(const Plan& plan, std::size_t samples) {
  const int turn = static_cast<int>(plan.nodes.size());  // after the forward pass
  std::size_t bytes = 0;
  for (const ArenaItem& item : items_of(plan, Pass::training))
    if (item.first < turn && item.last > turn)
      bytes += item.bytes * sizeof(Operand) + sizeof(float);
  for (const Branch& branch : plan.branches)
    if (branch.pool && plan.learns_at(branch.node))
      bytes += branch.count();  // the places of maxima
  return bytes * samples;
}

template class Workspace<std::int8_t>;
template class Workspace<float>;
template WorkspaceBytes workspace_bytes<std::int8_t>(const Plan&, std::size_t, Pass);
template WorkspaceBytes workspace_bytes<float>(const Plan&, std::size_t, Pass);
template std::size_t saved_bytes<std::int8_t>(const Plan&, std::size_t);
template std::size_t saved_bytes<float>(const Plan&, std::size_t);

}  // namespace eqt::model::precision
