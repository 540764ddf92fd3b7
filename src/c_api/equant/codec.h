// SPDX-License-Identifier: Apache-2.0
/* equant codecs from C, and from every language that calls C: float32 arrays to compressed messages and
 * back. docs/examples/ddp_hook.py uses it from Python.
 *
 * A message is a frame of src/codec/FORMAT.md with one compressed segment. Functions that return an int
 * return EQUANT_OK or the number of what went wrong, and equant_codec_error() then has the sentence. A
 * codec is used by one thread at a time; different codecs are independent. */

#ifndef EQUANT_CODEC_H
#define EQUANT_CODEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by a change that breaks programs compiled against an older header. */
#define EQUANT_CODEC_ABI 1

enum {
  EQUANT_OK = 0,
  EQUANT_USAGE = 2,    /* unknown name or option, value out of range, too little room */
  EQUANT_DIVERGED = 4, /* a value to encode is NaN or infinite */
  EQUANT_WIRE = 5,     /* a message is malformed, or not the one expected */
  EQUANT_BUG = 70
};

typedef struct equant_codec equant_codec;

/* What all sides of an exchange know of a message. The random numbers of stochastic rounding are a
 * function of seed, step, rank and index: never encode two arrays with the same four. */
typedef struct equant_message {
  uint64_t seed;  /* of the run; the same on all ranks */
  uint64_t step;  /* checked on receipt */
  uint32_t rank;  /* of the encoder */
  uint32_t index; /* of the array in the step, checked on receipt */
  uint64_t rows;  /* the values are a matrix of this many rows, row-major; 0: a vector */
} equant_message;

/* EQUANT_CODEC_ABI of the library, to be compared with the header's. */
int equant_codec_abi(void);

/* Version of the library: "0.2.0". */
const char* equant_codec_version(void);

/* What went wrong in this thread's last call that failed; "" if none has. Valid until its next one. */
const char* equant_codec_error(void);

/* A codec by its name in configs ("qsgd") with options "KEY=VALUE ...", separated by spaces: the config's
 * keys under "compressor" ("bits=4 bucket_size=512"). "" takes the defaults.
 * Returns NULL on an error. */
equant_codec* equant_codec_create(const char* name, const char* options);
void equant_codec_destroy(equant_codec* codec); /* NULL is allowed */

/* 1 if training needs what was not sent to be added to the next gradient, else 0. */
int equant_codec_needs_feedback(const equant_codec* codec);

/* 1 if the expected decoded value is the encoded one, else 0. */
int equant_codec_is_unbiased(const equant_codec* codec);

/* Upper bound of a message of `count` values [bytes]. */
size_t equant_codec_max_bytes(const equant_codec* codec, size_t count);

/* Encodes `count` values into `out`, which has room for `capacity` bytes, at least
 * equant_codec_max_bytes(). `residual` is NULL or has `count` values for error feedback: then values +
 * residual are encoded, and residual becomes what the message left out. `written` gets the bytes. */
int equant_codec_encode(equant_codec* codec, const equant_message* message, const float* values, size_t count,
                        float* residual, void* out, size_t capacity, size_t* written);

/* sum[i] += scale * decoded[i] for the `count` values of a message; `message->rank` and `seed` are not
 * used. After an error `sum` may hold part of the message. */
int equant_codec_decode_add(equant_codec* codec, const equant_message* message, const void* bytes,
                            size_t byte_count, float scale, float* sum, size_t count);

/* Turns the mean over ranks of decoded values into the update: the vote of signsgd; for most codecs it
 * changes nothing. */
int equant_codec_finish_mean(equant_codec* codec, float* mean, size_t count);

#ifdef __cplusplus
}
#endif

#endif
