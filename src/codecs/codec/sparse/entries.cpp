// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/entries.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "codec/bytes.hpp"
#include "codec/finite.hpp"
#include "codec/sparse/scratch.hpp"
#include "codec/sparse/sparse.hpp"
#include "codec/sparse/value_coding.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

/// All values with their indices; in kSelectedIndices and kSelectedValues.
Selection everything(std::span<const float> values, Workspace& workspace) {
  const auto indices = workspace.array(kSelectedIndices, values.size());
  const auto copies = workspace.array(kSelectedValues, values.size());
  std::iota(indices.begin(), indices.end(), 0u);
  std::copy(values.begin(), values.end(), copies.begin());
  return {indices, copies};
}

std::optional<Selection> choose_largest(std::span<const float> values, std::size_t k,
                                        Workspace& workspace) {
  if (k == kAllNonzero) return above_threshold(values, 0, values.size(), workspace);
  if (k == 0) return Selection{};
  return about_largest(values, std::min(k, values.size()), workspace);
}

}  // namespace

Entries sent_entries(CodecId codec, std::span<const std::byte> payload, std::size_t count,
                     Workspace& workspace) {
  EQT_CHECK(codec == CodecId::randomk || codec == CodecId::topk || codec == CodecId::dgc ||
                codec == CodecId::threshold,
            "entries of codec {}", static_cast<int>(codec));
  if (codec == CodecId::randomk) return randomk_entries(payload, count, workspace);
  const SparsePayload open = open_sparse(payload, count);
  // Room for all values: the number of entries changes from step to step, and no step may allocate.
  const auto indices = workspace.array(kSentIndices, count).first(open.k);
  const auto values = workspace.array(kSentValues, count).first(open.k);
  if (open.k == 0) return {{indices, values}, open.form, {}};
  const std::byte* from = as_float32(open.values, open.k, open.form, workspace);
  std::memcpy(values.data(), from, values.size_bytes());
  for_each_entry(open, [&](std::size_t index, std::size_t entry) {
    indices[entry] = static_cast<std::uint32_t>(index);
  });
  return {{indices, values}, open.form, read_magnitudes(open.values, open.form)};
}

void deal_entries(const Selection& selection, const Deal& deal, Workspace& workspace,
                  std::span<Selection> parts) {
  EQT_CHECK(parts.size() == deal.parts(), "{} parts, {} dealt", parts.size(), deal.parts());
  const std::size_t k = selection.indices.size();
  const auto indices = workspace.array(kSelectedIndices, k);
  const auto values = workspace.array(kSelectedValues, k);
  const auto next = workspace.array(kNextOfPart, parts.size() + 1);
  std::fill(next.begin(), next.end(), std::size_t{0});
  for (const std::uint32_t index : selection.indices) ++next[deal.place(index).part + 1];
  for (std::size_t p = 0; p < parts.size(); ++p) {
    parts[p] = {indices.subspan(next[p], next[p + 1]), values.subspan(next[p], next[p + 1])};
    next[p + 1] += next[p];
  }
  for (std::size_t i = 0; i < k; ++i) {
    const Deal::Place place = deal.place(selection.indices[i]);
    const std::size_t to = next[place.part]++;
    indices[to] = static_cast<std::uint32_t>(place.at);
    values[to] = selection.values[i];
  }
}

std::size_t write_entries(const Selection& selection, std::size_t count, const ValueCoding& coding,
                          Workspace& workspace, std::span<std::byte> payload) {
  EQT_CHECK(payload.size() >= max_sparse_bytes(count, coding.bits),
            "a payload buffer of {} bytes for {} values", payload.size(), count);
  return write_sparse(selection, count, coding, workspace, payload.data());
}

std::size_t write_largest(std::span<const float> values, std::size_t k, int value_bits,
                          Workspace& workspace, std::span<std::byte> payload) {
  const auto selection = choose_largest(values, k, workspace);
  if (!selection) require_finite(codec_name(CodecId::topk), values);
  const ValueCoding coding = {value_bits};
  const std::size_t bytes = write_entries(*selection, values.size(), coding, workspace, payload);
  if (value_bits <= kMostFewBits) return bytes;  // which have no magnitude for zeros
  const std::size_t all =
      sparse_head_bytes(values.size()) + value_bytes(values.size(), {value_bits});
  if (bytes <= all) return bytes;
  return write_entries(everything(values, workspace), values.size(), coding, workspace, payload);
}

void place_entries(std::span<const std::byte> payload, const Deal& deal, std::size_t part,
                   Workspace& workspace, std::span<float> values) {
  EQT_CHECK(values.size() == deal.count(), "{} values, {} dealt", values.size(), deal.count());
  const SparsePayload open = open_sparse(payload, deal.size_of(part));
  if (open.k == 0) return;
  const std::byte* from = as_float32(open.values, open.k, open.form, workspace);
  for_each_entry(open, [&](std::size_t at, std::size_t entry) {
    values[deal.index({part, at})] = load<float>(from + entry * sizeof(float));
  });
}

PayloadHead sparse_head(std::span<const std::byte> payload, std::size_t count) {
  const SparsePayload open = open_sparse(payload, count);
  return {open.k, open.form.bits};
}

}  // namespace eqt::codec
