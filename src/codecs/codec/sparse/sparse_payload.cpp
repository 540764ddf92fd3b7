// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/sparse_payload.hpp"

#include "codec/bytes.hpp"
#include "codec/sparse/scratch.hpp"
#include "codec/sparse/value_coding.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr unsigned kRiceMask = 0x1F;
constexpr unsigned kHalves = 0x80;

/// The indices below count that are not in `indices`.
std::span<const std::uint32_t> others(std::span<const std::uint32_t> indices, std::size_t count,
                                      std::span<std::uint32_t> to) {
  std::size_t n = 0;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    for (; next < index; ++next) to[n++] = next;
    next = index + 1;
  }
  for (; next < count; ++next) to[n++] = next;
  return to.first(n);
}

}  // namespace

std::size_t max_sparse_bytes(std::size_t count, int value_bits) {
  if (count == 0) return 0;
  // With the parameter of rice_bits() a coded set takes at most one bit per value.
  return kSparseHeadBytes + value_bytes(count, value_bits) + count / 8 + 2;
}

std::size_t write_sparse(const Selection& selection, std::size_t count, int value_bits,
                         Workspace& workspace, std::byte* to) {
  const std::size_t k = selection.indices.size();
  auto coded = selection.indices;
  if (2 * k > count) {
    coded = others(coded, count, workspace.array(kAbsentIndices, count));
  }
  const int bits = rice_bits(coded, count);
  std::byte* at = to;
  store(at, static_cast<std::uint32_t>(k));
  store(at + 4,
        static_cast<std::uint8_t>(static_cast<unsigned>(bits) | (value_bits == 16 ? kHalves : 0u)));
  at += kSparseHeadBytes;
  at += write_remainders(coded, bits, at);
  write_values(selection.values, value_bits, at);
  at += value_bytes(k, value_bits);
  at += write_quotients(coded, bits, at);
  return static_cast<std::size_t>(at - to);
}

SparsePayload open_sparse(std::span<const std::byte> payload, std::size_t count) {
  if (count == 0 && payload.empty()) return {};
  if (payload.size() < kSparseHeadBytes) {
    fail(Kind::wire,
         "sparse payload: expected at least {} bytes for {} values, found {}; the ranks run "
         "different configs or builds",
         kSparseHeadBytes, count, payload.size());
  }
  const std::size_t k = load<std::uint32_t>(payload.data());
  if (k > count || count == 0) {
    fail(Kind::wire,
         "sparse payload: expected at most {} entries, found {}; the ranks run different configs "
         "or builds",
         count, k);
  }
  const unsigned form = load<std::uint8_t>(payload.data() + 4);
  if ((form & ~(kRiceMask | kHalves)) != 0) {
    fail(Kind::wire,
         "sparse payload: expected a form without unknown bits, found {:#04x}; check the network "
         "and memory",
         form);
  }
  SparsePayload open;
  open.count = count;
  open.k = k;
  open.absent = 2 * k > count;
  open.value_bits = (form & kHalves) != 0 ? 16 : 32;
  const std::size_t m = open.absent ? count - k : k;
  const int bits = static_cast<int>(form & kRiceMask);
  const std::size_t fields = remainder_bytes(m, bits);
  const std::size_t values = value_bytes(k, open.value_bits);
  const std::size_t expected = kSparseHeadBytes + fields + values;
  if (payload.size() < expected) {
    fail(Kind::wire,
         "sparse payload: expected at least {} bytes for {} entries, found {}; the ranks run "
         "different configs or builds",
         expected, k, payload.size());
  }
  open.gaps = {.m = m,
               .count = count,
               .bits = bits,
               .remainders = payload.subspan(kSparseHeadBytes, fields),
               .quotients = payload.subspan(expected)};
  open.values = payload.subspan(kSparseHeadBytes + fields, values);
  check_gaps(open.gaps);
  check_values(open.values, open.value_bits);
  return open;
}

}  // namespace eqt::codec
