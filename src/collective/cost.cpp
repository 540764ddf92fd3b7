#include "collective/cost.hpp"

namespace eqt::collective {
namespace {

CostCard dense(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = v.ranks <= 2 ? 1 : 2,
          .sent_bytes = 2 * 4 * v.values * (n - 1) / n,
          // Two ranks add everything both; more of them add one n-th, n - 1 times.
          .added_values = v.ranks == 2 ? v.values : v.values * (n - 1) / n};
}

CostCard mpi_allreduce(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = 2 * (v.ranks - 1),
          .sent_bytes = 2 * 4 * v.values * (n - 1) / n,
          .added_values = v.values * (n - 1) / n};
}

CostCard allgather(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = v.scales > 0 ? 2 : 1,
          .sent_bytes = (v.message_bytes + 4 * v.scales) * (n - 1),
          .encoded_values = v.values,
          .decoded_values = n * v.values,
          .quantisations = 1};
}

CostCard scatter_reduce(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = 2,
          .sent_bytes = 2 * v.message_bytes * (n - 1) / n,
          .encoded_values = v.values,
          .decoded_values = v.values * (n - 1) / n + v.values,
          .quantisations = 2};
}

CostCard power_sgd(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = v.ranks <= 2 ? 2 : 4,
          .sent_bytes = 2 * v.message_bytes * (n - 1) / n,
          .encoded_values = v.values,
          .decoded_values = v.values,
          .added_values = v.message_bytes / 4,
          .quantisations = 1};
}

}  // namespace

std::optional<CostCard> cost_card(std::string_view collective, const Volume& volume) {
  if (volume.ranks <= 1) return CostCard{};
  if (collective == "dense") return dense(volume);
  if (collective == "mpi-allreduce") return mpi_allreduce(volume);
  if (collective == "allgather") return allgather(volume);
  if (collective == "scatter-reduce") return scatter_reduce(volume);
  if (collective == "power-sgd") return power_sgd(volume);
  return {};
}

}  // namespace eqt::collective
