// SPDX-License-Identifier: Apache-2.0
/* A compressor of your own for equant-train, in a shared object:
 *
 *   cc -shared -fPIC -O2 -I/usr/include -o libmine.so mine.c
 *   equant-train list compressors --plugin ./libmine.so
 *   mpirun -np 2 equant-train --plugin ./libmine.so --config FILE --set compressor.name=mine
 *
 * The object exports one function, equant_compressor_plugin(). docs/examples/mean_sign.c is a whole
 * plugin. Plain C, so that any compiler and language can make one.
 *
 * What holds for all functions below: they may be called from several threads at once; they keep no
 * pointer past the call; they let no exception out. Those that can fail return 0 if all went well. How
 * the processor rounds and treats denormal numbers is restored after each call.
 */
#ifndef EQUANT_COMPRESSOR_PLUGIN_H
#define EQUANT_COMPRESSOR_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of everything in this file. A plugin with another version is refused. */
#define EQUANT_PLUGIN_VERSION 1

/* What is known of a compressor, whatever its options. */
enum equant_property {
  EQUANT_UNBIASED = 1,       /* the mean over random draws of what is decoded is what was encoded */
  EQUANT_RANDOM = 2,         /* encode() reads equant_context.random */
  EQUANT_SPARSE = 4,         /* it sends a few values and leaves the others out */
  EQUANT_NEEDS_FEEDBACK = 8, /* training needs what was not sent to be added to the next gradient */
  EQUANT_LOSSLESS = 16       /* what is decoded is what was encoded, bit for bit */
};

/* Keys of the config's section "compressor", which have been checked against their ranges. */
struct equant_options {
  int32_t bits;
  int32_t rank;
  uint64_t bucket_size; /* [values] */
  double density;
  double threshold;
  double clip;
};

struct equant_context {
  /* The seed of everything that encode() draws, a hash of the run's seed, step, rank and tensor. */
  uint64_t random;
  uint64_t first_index; /* of values[0] in its tensor */
  uint64_t rows;        /* the values are a matrix of this many rows, row-major; 0: a vector */
};

struct equant_compressor {
  uint32_t version;       /* EQUANT_PLUGIN_VERSION */
  uint32_t format;        /* 1 ... 255; raise it with every change of the payload's bytes */
  const char* name;       /* in configs: letters a to z, digits and '-' */
  const char* about;      /* one line, for `equant-train list` */
  uint64_t properties;    /* a sum of enum equant_property */
  /* Runs of this many values are encoded independently of their neighbours, so that cutting a tensor
   * at a multiple of it changes no decoded value. 0: a tensor is one whole. */
  uint64_t granule;

  /* An instance, or NULL with a sentence in `reason`: what is expected of the options. */
  void* (*create)(const struct equant_options* options, char* reason, size_t reason_bytes);
  void (*destroy)(void* self);

  /* Upper bound of encode()'s result for `count` values, whatever they are [bytes]. */
  size_t (*max_payload_bytes)(const void* self, size_t count);

  /* Writes the payload of `count` finite values, at least one. Equal values, options and context give
   * equal bytes, on every machine of the job. `payload` has max_payload_bytes(count) bytes. */
  int (*encode)(const void* self, const struct equant_context* context, const float* values,
                size_t count, uint8_t* payload, size_t* payload_bytes);

  /* sum[i] += scale * decoded[i] for the `count` values that were encoded. Not 0 for a payload that
   * encode() cannot have written: it may come damaged from a network, and nothing outside it may be
   * read. */
  int (*decode_add)(const void* self, const uint8_t* payload, size_t payload_bytes, float scale,
                    float* sum, size_t count);
};

/* The plugin's one compressor, which lives as long as the program. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct equant_compressor* equant_compressor_plugin(void);

#ifdef __cplusplus
}
#endif

#endif /* EQUANT_COMPRESSOR_PLUGIN_H */
