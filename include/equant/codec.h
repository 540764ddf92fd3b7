// SPDX-License-Identifier: Apache-2.0
/* The compressors of equant-train in C, and in every language that calls C: float32 arrays to bytes and
 * back, without MPI.
 *
 *   cc -std=c99 mine.c -lequant_codec
 *
 * docs/codec_library.md is the guide; python/equant uses this from Python.
 *
 * Functions that return an int return EQUANT_CODEC_OK or another enum equant_codec_status. What went
 * wrong is then one sentence: in the caller's buffer for equant_codec_create(), of equant_codec_error()
 * for all others. No exception gets out, and no pointer is kept past a call. A codec may be used by one
 * thread at a time; different codecs by as many as there are. Sizes and pointers are checked: NULL only
 * where there are no values, floats at addresses of floats.
 */
#ifndef EQUANT_CODEC_H
#define EQUANT_CODEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of everything in this file. Raised by every change that a program compiled before cannot use; the
 * library's soname has the same number. */
#define EQUANT_CODEC_ABI_VERSION 1

#if defined(__GNUC__)
#define EQUANT_CODEC_API __attribute__((visibility("default")))
#else
#define EQUANT_CODEC_API
#endif

enum equant_codec_status {
  EQUANT_CODEC_OK = 0,
  EQUANT_CODEC_USAGE = 2,    /* an argument, a name or an option is wrong */
  EQUANT_CODEC_DIVERGED = 4, /* a value to encode is NaN, infinite or too large for the compressor */
  EQUANT_CODEC_WIRE = 5,     /* bytes to decode that were not encoded for this array */
  EQUANT_CODEC_NO_MEMORY = 12,
  EQUANT_CODEC_BUG = 70      /* an error in the library */
};

/* What is known of a compressor with its options. */
enum equant_codec_property {
  EQUANT_CODEC_LOSSLESS = 1, /* what is decoded equals what was encoded */
  EQUANT_CODEC_UNBIASED = 2, /* the mean over random draws of what is decoded is what was encoded */
  EQUANT_CODEC_RANDOM = 4,   /* the bytes depend on the seed and on struct equant_array */
  EQUANT_CODEC_SPARSE = 8,   /* it sends a few values and leaves the others out */
  /* Training needs what was not sent to be added to the next gradient: give equant_codec_encode() a
   * residual. */
  EQUANT_CODEC_NEEDS_FEEDBACK = 16,
  EQUANT_CODEC_VOTES = 32    /* the mean over ranks needs equant_codec_finish_mean() */
};

/* Which array it is. The random numbers of the rounding follow from the codec's seed and this alone, so
 * that the same call gives the same bytes on every machine, and no two arrays of a run round alike. */
struct equant_array {
  uint64_t step;   /* of the run; checked on receipt */
  uint32_t tensor; /* number of the array within the step; checked on receipt */
  uint32_t rank;   /* of who encodes; not read by decoding */
  /* The values are a matrix of this many rows, row-major; 0: a vector. Not read by decoding, and by
   * encoding only with atomo, int8-channels, onebit and powersgd. */
  uint64_t rows;
};

/* A compressor with its options. */
typedef struct equant_codec equant_codec;

/* EQUANT_CODEC_ABI_VERSION of the library, to be compared with the header's. */
EQUANT_CODEC_API uint32_t equant_codec_abi_version(void);

/* The version of equant-train that the library belongs to: "0.2.0", or "0.2.0+abc1234" if it was built in
 * a git checkout. */
EQUANT_CODEC_API const char* equant_codec_library_version(void);

/* Number of compressors; name ("qsgd") and description in one line of each, NULL from that number on. */
EQUANT_CODEC_API size_t equant_codec_count(void);
EQUANT_CODEC_API const char* equant_codec_name(size_t index);
EQUANT_CODEC_API const char* equant_codec_about(size_t index);

/* Makes the compressor `name` with the options of `json`: an object with keys of the config's section
 * "compressor" (docs/keys.md), as in "{\"bits\": 4, \"bucket_size\": 512}". NULL and "{}" take its
 * defaults. Keys that belong to training rather than to the compressor (adapt_every, clip_norm,
 * granularity, skip_below, small_tensors, warmup_epochs) are checked and do nothing. `seed` is that of
 * the run, the same on all ranks. Writes the codec to *codec, NULL on failure; then `error`, if it is
 * not NULL, gets a sentence of at most `error_bytes` - 1 bytes and a zero. */
EQUANT_CODEC_API int equant_codec_create(const char* name, const char* json, uint64_t seed,
                                         equant_codec** codec, char* error, size_t error_bytes);
/* NULL is allowed. */
EQUANT_CODEC_API void equant_codec_destroy(equant_codec* codec);

/* The sentence of the codec's last call that failed, "" if none has. Valid until the next call with this
 * codec. */
EQUANT_CODEC_API const char* equant_codec_error(const equant_codec* codec);

/* A sum of enum equant_codec_property; 0 for NULL. */
EQUANT_CODEC_API uint64_t equant_codec_properties(const equant_codec* codec);

/* Writes to *bytes an upper bound of what `count` values are encoded to, whatever they are. `count` is at
 * most 2^29 here and in all functions below. */
EQUANT_CODEC_API int equant_codec_max_bytes(equant_codec* codec, size_t count, size_t* bytes);

/* Encodes `count` values into `bytes`, which has room for `capacity` bytes, at least
 * equant_codec_max_bytes(), and writes to *written how many it took. What is written is a message of
 * src/codecs/codec/FORMAT.md with one compressed segment.
 * `residual` is NULL, or has `count` values for error feedback: then values + residual are encoded, and
 * residual becomes what the message leaves out of them. It begins as zeros. After an error it may hold
 * anything. */
EQUANT_CODEC_API int equant_codec_encode(equant_codec* codec, const struct equant_array* array,
                                         const float* values, size_t count, float* residual,
                                         void* bytes, size_t capacity, size_t* written);

/* Writes the `count` decoded values to `values`; -0 is decoded as 0. The codec's name and options,
 * `count`, array->step and array->tensor must be the encoder's. Bytes that are damaged, hostile or of
 * other options are either an error or decode to wrong values; nothing outside `bytes` and `values` is
 * read or written. After an error `values` may hold anything. */
EQUANT_CODEC_API int equant_codec_decode(equant_codec* codec, const struct equant_array* array,
                                         const void* bytes, size_t byte_count, float* values,
                                         size_t count);

/* The same, but sum[i] += scale * value[i]: the mean over ranks, with scale 1 / ranks, in one pass for
 * each rank. The scale is finite. Ranks that add in the same order get the same bits. */
EQUANT_CODEC_API int equant_codec_decode_add(equant_codec* codec, const struct equant_array* array,
                                             const void* bytes, size_t byte_count, float scale,
                                             float* sum, size_t count);

/* Turns the mean over ranks of decoded values into the update: the majority vote of signsgd. It changes
 * nothing without EQUANT_CODEC_VOTES. */
EQUANT_CODEC_API int equant_codec_finish_mean(equant_codec* codec, float* mean, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* EQUANT_CODEC_H */
