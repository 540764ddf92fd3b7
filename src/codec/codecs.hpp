// One option struct and one make_ function per compressor. The field's names; defaults as in the
// papers or, where a config key exists, as in configs/README.md.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "codec/compressor.hpp"

namespace eqt::codec {

/// How a bucket's values are scaled into [-1, 1].
enum class Norm { l2, max };

/// How level indices become bits.
enum class Coding {
  fixed,     // sign and index in `bits` bits each, packed
  elias,     // Elias omega: the shorter of sparse (gaps) and dense, per bucket
  huffman,   // canonical Huffman with the table in the payload, per bucket
  rans,      // interleaved rANS with the frequencies in the payload, per bucket
  automatic  // the shortest of the above entropy codes, per bucket
};

/// Nonzero levels l_1 < ... < l_n = 1 between which values are rounded stochastically.
enum class LevelFamily { sinh, exponential };

std::unique_ptr<Compressor> make_none();
std::unique_ptr<Compressor> make_fp16();
std::unique_ptr<Compressor> make_bf16();

/// QSGD with s = 2^(bits-1) - 1 uniform levels (Alistarh et al. 2017), L2 norm per bucket.
struct QsgdOptions {
  int bits = 4;                   // 2 ... 8, sign included
  std::size_t bucket_size = 512;  // [values]
  Coding coding = Coding::fixed;
};
std::unique_ptr<Compressor> make_qsgd(const QsgdOptions& options);

/// QSGD with the maximum norm per bucket (QSGD-V, also called QSGDinf).
std::unique_ptr<Compressor> make_qsgd_v(const QsgdOptions& options);

/// ElastiQuant: levels denser near zero, by a parameter that trades variance for bits.
struct ElastiQuantOptions {
  int bits = 4;                    // 2 ... 8, sign included
  std::size_t bucket_size = 8192;  // [values]
  Norm norm = Norm::l2;
  LevelFamily levels = LevelFamily::sinh;
  std::optional<double> elasticity =
      {};  // sinh: theta; exponential: p in (0, 1). Unset: the optimum
  Coding coding = Coding::fixed;
};
std::unique_ptr<Compressor> make_elastiquant(const ElastiQuantOptions& options);

/// E-ElastiQuant: the same levels, entropy coded; unset elasticity minimises (1 + variance) * bits.
std::unique_ptr<Compressor> make_e_elastiquant(const ElastiQuantOptions& options);

struct TernGradOptions {
  double clip = 2.5;  // clip at this many standard deviations of the slice; 0 = never
};
std::unique_ptr<Compressor> make_terngrad(const TernGradOptions& options);

struct TopKOptions {
  double density = 0.01;  // fraction kept, k = max(1, floor(density * count))
};
std::unique_ptr<Compressor> make_topk(const TopKOptions& options);
/// DGC's codec: top-k under its own number. Momentum correction lives in the collective room.
std::unique_ptr<Compressor> make_dgc(const TopKOptions& options);

}  // namespace eqt::codec
