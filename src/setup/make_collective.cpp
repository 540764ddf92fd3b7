#include "setup/make_collective.hpp"

#include <string_view>

namespace eqt::setup {

std::unique_ptr<collective::Collective> make_collective(
    const config::RunConfig& config, comm::Communicator& comm, const codec::Compressor& compressor,
    bool remembers, const std::vector<pipeline::FusionBucket>& plan) {
  std::string_view name = config.synchronization.collective;
  if (name == "auto") {
    name = collective::choose_collective(compressor, plan.front().end, comm.size());
  }
  if (name == "dense") return collective::make_dense(comm);
  if (name == "mpi-allreduce") return collective::make_mpi_allreduce(comm);
  if (name == "power-sgd") {
    return collective::make_power_sgd(
        comm, plan,
        {.rank = static_cast<std::size_t>(config.compressor.rank), .run_seed = config.seed});
  }
  if (name == "allgather") return collective::make_allgather(comm, compressor, plan);
  if (name == "ring") return collective::make_ring(comm, compressor, plan);
  if (name == "recursive-doubling") {
    return collective::make_recursive_doubling(comm, compressor, plan);
  }
  if (name == "sparse") {
    return collective::make_sparse(comm, compressor, plan, {.reducer_feedback = remembers});
  }
  if (name == "integer") return collective::make_integer(comm, compressor, plan);
  if (name == "hierarchical") {
    return collective::make_hierarchical(comm, compressor, plan, {.reducer_feedback = remembers});
  }
  return collective::make_scatter_reduce(comm, compressor, plan, {.reducer_feedback = remembers});
}

}  // namespace eqt::setup
