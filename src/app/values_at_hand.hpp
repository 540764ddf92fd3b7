// Means for measurements: they count what was encoded.

#pragma once

#include <cstdint>

#include "collective/mean_work.hpp"

namespace eqt::app {

class ValuesAtHand final : public collective::MeanWork {
 public:
  using MeanWork::MeanWork;
  std::uint64_t encoded_bytes = 0;

 private:
  void after(const pipeline::FusionBucket&, const collective::MeanResult& result) override {
    encoded_bytes += result.traffic.encoded_bytes;
  }
};

}  // namespace eqt::app
