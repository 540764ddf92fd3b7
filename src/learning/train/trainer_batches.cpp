// SPDX-License-Identifier: Apache-2.0
// Batches of the rank's own size in the training loop.

#include <cstddef>
#include <cstdint>

#include "train/trainer.hpp"

namespace eqt::train {

/// Sets what else follows from the size of this rank's batches.
void Trainer::weigh_batches() {
  const double weight = p_.balancer->weight();
  accumulation_.set_weight(plan_.loss_weight(0) * weight);
  evaluator_.weigh_buffers({weight});
  no_batch_.targets.shape = {static_cast<std::int64_t>(p_.balancer->own())};
}

/// The next batch is number `batch` of `epoch`, of which this rank reads what is its own now.
void Trainer::take_batches(std::uint64_t epoch, std::size_t batch) {
  weigh_batches();
  if (p_.batches != nullptr) p_.batches->seek(epoch, batch, p_.balancer->deal());
}

/// After a step: ranks whose computing ends at different times may get other batches.
void Trainer::balance(const metrics::StepRecord& record) {
  const StepId done = record.step;
  p_.balancer->note_step(record.seconds.data + record.seconds.compute + record.seconds.update);
  p_.comm.heartbeat("batches by speed", true);
  const auto decision = p_.balancer->decide(done);
  if (!decision) return;
  if (p_.comm.rank() == 0) p_.sink.write(*decision);
  seek(done);
}

}  // namespace eqt::train
