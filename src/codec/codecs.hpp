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
  rans,      // interleaved rANS with the frequencies in the payload, per bucket
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

struct Int8Options {
  std::size_t bucket_size = 8192;  // [values] that share one step
};
std::unique_ptr<Compressor> make_int8(const Int8Options& options);

std::unique_ptr<Compressor> make_natural();

/// The sign and majority vote; its momentum (Signum) lives in the collective room.
std::unique_ptr<Compressor> make_signsgd();
std::unique_ptr<Compressor> make_ef_signsgd();
/// 1-bit SGD: means of the two sides of zero, per row where the context says rows.
std::unique_ptr<Compressor> make_onebit();

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
  int value_bits = 32;    // of a value that is sent: 32, or 16 under a common power of two
};
std::unique_ptr<Compressor> make_topk(const TopKOptions& options);
/// DGC's codec: top-k under its own number. Momentum correction lives in the collective room.
std::unique_ptr<Compressor> make_dgc(const TopKOptions& options);

/// All values of magnitude above a threshold, which is given or derived from the density.
struct ThresholdOptions {
  double threshold = 0;   // 0: one that max(1, floor(density * count)) values reach
  double density = 0.01;  // fraction kept, at most 5 % more, if the threshold is 0
  int value_bits = 32;    // as in TopKOptions
};
std::unique_ptr<Compressor> make_threshold(const ThresholdOptions& options);

/// k values at random places that all ranks share, so that no index is sent (Stich et al. 2018).
struct RandomKOptions {
  double density = 0.01;  // k = max(1, floor(density * count))
  int value_bits = 32;    // as in TopKOptions
  bool unbiased = false;  // scaled by count / k, for use without error feedback
};
std::unique_ptr<Compressor> make_randomk(const RandomKOptions& options);

/// PowerSGD (Vogels et al. 2019): factors of rank `rank` by one subspace iteration.
struct PowerSgdOptions {
  int rank = 2;  // 1 ... 32
};
std::unique_ptr<Compressor> make_powersgd(const PowerSgdOptions& options);

/// ATOMO (Wang et al. 2018): keeps atoms at random, large ones more often, and scales them up.
enum class Atoms { spectral, entrywise };
struct AtomoOptions {
  Atoms atoms = Atoms::spectral;
  int rank = 2;           // spectral: atoms kept on average, 1 ... 32
  double density = 0.01;  // entrywise: fraction of the values kept on average
};
std::unique_ptr<Compressor> make_atomo(const AtomoOptions& options);

}  // namespace eqt::codec
