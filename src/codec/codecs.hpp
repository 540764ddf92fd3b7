// One option struct and one make_ function per compressor. The field's names; defaults as in the
// papers or, where a config key exists, as in configs/README.md.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "codec/compressor.hpp"

namespace eqt::codec {

/// How a bucket's values are scaled into [-1, 1].
enum class Norm { l2, max };

/// How level indices become bits.
enum class Coding {
  fixed,     // sign and index in `bits` bits each, packed
  elias,     // Elias omega: the shorter of sparse (gaps) and dense, per bucket
  huffman,   // canonical Huffman with the table in the payload, per bucket
  automatic  // the shortest of the above entropy codes, per bucket
};

/// Nonzero levels l_1 < ... < l_n = 1 between which values are rounded stochastically.
enum class LevelFamily {
  sinh,         // sinh(j theta) / sinh(n theta)
  exponential,  // p^(n - j)
  mulaw,        // ((1 + mu)^(j/n) - 1) / mu
  general,      // any increasing table
  adaptive      // starts as sinh; fitted to the gradients of the run (ALQ)
};

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
  // sinh, adaptive: theta; exponential: p in (0, 1); mulaw: mu > 0. Unset: the optimum
  std::optional<double> elasticity = {};
  Coding coding = Coding::fixed;
  std::vector<double> table = {};  // general: l_1 < ... < l_n = 1
};
std::unique_ptr<Compressor> make_elastiquant(const ElastiQuantOptions& options);

/// E-ElastiQuant: the same levels, entropy coded; unset elasticity minimises (1 + variance) * bits.
std::unique_ptr<Compressor> make_e_elastiquant(const ElastiQuantOptions& options);

/// NUQSGD: exponential levels with p = 1/2, L2 norm per bucket (Ramezani-Kebrya et al., JMLR 22,
/// 2021). From 5 bits on its variance hardly falls: neighbours stay a factor 2 apart.
inline constexpr int kMostNuqsgdBits = 6;
struct NuqsgdOptions {
  int bits = 4;                    // 2 ... kMostNuqsgdBits, sign included
  std::size_t bucket_size = 8192;  // [values]
  Coding coding = Coding::fixed;
};
std::unique_ptr<Compressor> make_nuqsgd(const NuqsgdOptions& options);

/// ALQ and AMQ: levels that are fitted to the gradients of the run, L2 norm per bucket (Faghri et
/// al., NeurIPS 2020). See adaptive_codec.hpp for how levels are replaced.
struct AdaptiveOptions {
  int bits = 3;                    // 2 ... 8, sign included
  std::size_t bucket_size = 8192;  // [values]
  Coding coding = Coding::fixed;
};
/// Every level by itself, starting from sinh levels of least worst case.
std::unique_ptr<Compressor> make_alq(const AdaptiveOptions& options);
/// Exponential levels of one multiplier, starting from the p of least worst case.
std::unique_ptr<Compressor> make_amq(const AdaptiveOptions& options);

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
