// SPDX-License-Identifier: Apache-2.0
/* equant/codec.h as a C program uses it: what it does, and what it says to mistakes. */

#include "equant/codec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "equant/compressor_plugin.h" /* both headers may be included together */

enum { kCount = 1000, kFrameBytes = 32 + 4 }; /* FORMAT.md: header, length of the segment */

static int failures = 0;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      ++failures;                                                             \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                         \
  } while (0)

/* The last sentence must have the word. */
#define CHECK_SAYS(sentence, word)                                                            \
  do {                                                                                        \
    if (strstr(sentence, word) == NULL) {                                                     \
      ++failures;                                                                             \
      fprintf(stderr, "%s:%d: expected \"%s\" in: %s\n", __FILE__, __LINE__, word, sentence); \
    }                                                                                         \
  } while (0)

static const struct equant_array kArray = {7, 5, 2, 0}; /* step, tensor, rank, rows */

static void fill(float* values) {
  size_t i;
  for (i = 0; i < kCount; ++i) values[i] = sinf((float)i) * (i % 7 == 0 ? 3.0f : 0.1f);
}

static equant_codec* made(const char* name, const char* json) {
  char error[256] = "";
  equant_codec* codec = NULL;
  if (equant_codec_create(name, json, 42, &codec, error, sizeof error) != EQUANT_CODEC_OK) {
    fprintf(stderr, "%s: %s\n", name, error);
    exit(1);
  }
  return codec;
}

static size_t encoded(equant_codec* codec, const float* values, float* residual, void** bytes) {
  size_t most = 0, written = 0;
  CHECK(equant_codec_max_bytes(codec, kCount, &most) == EQUANT_CODEC_OK);
  *bytes = malloc(most);
  if (*bytes == NULL) exit(1);
  CHECK(equant_codec_encode(codec, &kArray, values, kCount, residual, *bytes, most, &written) ==
        EQUANT_CODEC_OK);
  CHECK(written <= most);
  return written;
}

static void the_library_is_the_headers(void) {
  CHECK(equant_codec_abi_version() == EQUANT_CODEC_ABI_VERSION);
  CHECK(strchr(equant_codec_library_version(), '.') != NULL);
}

static void names_are_those_that_can_be_made(void) {
  const size_t count = equant_codec_count();
  size_t i, known = 0;
  for (i = 0; i < count; ++i) {
    const char* const name = equant_codec_name(i);
    equant_codec_destroy(made(name, NULL));
    CHECK(strlen(equant_codec_about(i)) > 0);
    if (strcmp(name, "none") == 0 || strcmp(name, "e-elastiquant") == 0 ||
        strcmp(name, "powersgd") == 0)
      ++known;
  }
  CHECK(known == 3);
  CHECK(equant_codec_name(count) == NULL);
  CHECK(equant_codec_about((size_t)-1) == NULL);
}

static void a_lossless_codec_gives_back_what_it_was_given(void) {
  equant_codec* const codec = made("none", "{}");
  float values[kCount], decoded[kCount], sum[kCount];
  void* bytes;
  size_t size, i;
  fill(values);
  size = encoded(codec, values, NULL, &bytes);
  CHECK(size == kFrameBytes + sizeof values);
  CHECK(equant_codec_properties(codec) & EQUANT_CODEC_LOSSLESS);
  memset(decoded, 0xFF, sizeof decoded);
  CHECK(equant_codec_decode(codec, &kArray, bytes, size, decoded, kCount) == EQUANT_CODEC_OK);
  for (i = 0; i < kCount; ++i) sum[i] = 1.0f;
  CHECK(equant_codec_decode_add(codec, &kArray, bytes, size, 2.0f, sum, kCount) == EQUANT_CODEC_OK);
  for (i = 0; i < kCount; ++i) {
    CHECK(decoded[i] == values[i]);
    CHECK(sum[i] == 1.0f + 2.0f * values[i]);
  }
  CHECK(equant_codec_error(codec)[0] == '\0');
  free(bytes);
  equant_codec_destroy(codec);
}

/* topk sends values as they are, so the two parts have no value in common. */
static void message_and_residual_together_are_the_values(void) {
  equant_codec* const codec = made("topk", "{\"density\": 0.05}");
  float values[kCount], residual[kCount] = {0}, sum[kCount];
  void* bytes;
  size_t size, i;
  fill(values);
  CHECK(equant_codec_properties(codec) == (EQUANT_CODEC_SPARSE | EQUANT_CODEC_NEEDS_FEEDBACK));
  size = encoded(codec, values, residual, &bytes);
  CHECK(size < kCount);
  memcpy(sum, residual, sizeof sum);
  CHECK(equant_codec_decode_add(codec, &kArray, bytes, size, 1.0f, sum, kCount) == EQUANT_CODEC_OK);
  for (i = 0; i < kCount; ++i) CHECK(sum[i] == values[i]);
  free(bytes);
  equant_codec_destroy(codec);
}

static void options_are_the_configs_keys(void) {
  equant_codec* const two = made("qsgd", "{\"name\": \"qsgd\", \"bits\": 2, \"bucket_size\": 512}");
  equant_codec* const eight = made("qsgd", "{\"bits\": 8, \"bucket_size\": 512}");
  float values[kCount];
  void* bytes;
  size_t few, many, payload_bytes = 0, i;
  CHECK(equant_codec_properties(two) == (EQUANT_CODEC_UNBIASED | EQUANT_CODEC_RANDOM));
  fill(values);
  few = encoded(two, values, NULL, &bytes);
  free(bytes);
  many = encoded(eight, values, NULL, &bytes);
  free(bytes);
  /* A bucket of n values has n codes of 8 or of 2 bits, in whole bytes. */
  for (i = 0; i < kCount; i += 512) {
    const size_t n = kCount - i < 512 ? kCount - i : 512;
    payload_bytes += n - (n + 3) / 4;
  }
  CHECK(many - few == payload_bytes);
  equant_codec_destroy(two);
  equant_codec_destroy(eight);
}

static void the_mean_of_votes_becomes_signs(void) {
  equant_codec* const codec = made("signsgd", NULL);
  float mean[3] = {-0.5f, 0.0f, 0.25f};
  CHECK(equant_codec_properties(codec) & EQUANT_CODEC_VOTES);
  CHECK(equant_codec_finish_mean(codec, mean, 3) == EQUANT_CODEC_OK);
  CHECK(mean[0] == -1.0f && mean[1] == 1.0f && mean[2] == 1.0f); /* FORMAT.md: ties are +1 */
  equant_codec_destroy(codec);
}

static void refused(const char* name, const char* json, const char* word) {
  char error[512] = "", cut[8] = "";
  equant_codec* codec = (equant_codec*)1;
  CHECK(equant_codec_create(name, json, 1, &codec, error, sizeof error) == EQUANT_CODEC_USAGE);
  CHECK(codec == NULL);
  CHECK_SAYS(error, word);
  CHECK(equant_codec_create(name, json, 1, &codec, cut, sizeof cut) == EQUANT_CODEC_USAGE);
  CHECK(strlen(cut) == sizeof cut - 1);
  CHECK(strncmp(cut, error, sizeof cut - 1) == 0);
  CHECK(equant_codec_create(name, json, 1, &codec, NULL, sizeof error) == EQUANT_CODEC_USAGE);
  CHECK(equant_codec_create(name, json, 1, &codec, cut, 0) == EQUANT_CODEC_USAGE);
}

static void wrong_names_and_options_are_refused(void) {
  refused("qsgdd", "{}", "the nearest is \"qsgd\"");
  refused("", "{}", "compressor.name");
  refused("\xff\xfe", "{}", "compressor.name");
  refused(NULL, "{}", "NULL");
  refused("qsgd", "", "valid JSON");
  refused("qsgd", "{\"bits\": }", "line 1, column 10");
  refused("qsgd", "[4]", "a JSON object");
  refused("qsgd", "{\"bitz\": 4}", "the nearest is \"bits\"");
  refused("qsgd", "{\"\": 4}", "unknown key");
  refused("qsgd", "{\"bits\": 9}", "an integer in [2, 8], found 9");
  refused("qsgd", "{\"bits\": \"4\"}", "an integer in [2, 8]");
  refused("qsgd", "{\"bits\": 4, \"bits\": 4}", "twice");
  refused("qsgd", "{\"name\": \"topk\"}", "the name \"qsgd\"");
  refused("topk", "{\"coding\": \"huffman\"}", "compressor.coding");
  CHECK(equant_codec_create("qsgd", "{}", 1, NULL, NULL, 0) == EQUANT_CODEC_USAGE);
}

static void null_and_small_buffers_are_refused(void) {
  equant_codec* const codec = made("qsgd", NULL);
  float values[kCount];
  char bytes[8 * kCount];
  size_t most = 0, written = 0;
  const struct equant_array halves = {0, 0, 0, 3};
  float* const inside = (float*)(void*)((char*)values + 1);
  fill(values);
  CHECK(equant_codec_max_bytes(codec, kCount, &most) == EQUANT_CODEC_OK);

#define CHECK_USAGE(call, word)                  \
  do {                                           \
    CHECK((call) == EQUANT_CODEC_USAGE);         \
    CHECK_SAYS(equant_codec_error(codec), word); \
  } while (0)

  CHECK_USAGE(equant_codec_max_bytes(codec, kCount, NULL), "NULL");
  CHECK_USAGE(equant_codec_max_bytes(codec, (size_t)-1, &most), "at most");
  CHECK_USAGE(equant_codec_encode(codec, NULL, values, kCount, NULL, bytes, sizeof bytes, &written),
              "NULL");
  CHECK_USAGE(
      equant_codec_encode(codec, &kArray, NULL, kCount, NULL, bytes, sizeof bytes, &written),
      "NULL");
  CHECK_USAGE(
      equant_codec_encode(codec, &kArray, values, kCount, NULL, NULL, sizeof bytes, &written),
      "NULL");
  CHECK_USAGE(equant_codec_encode(codec, &kArray, values, kCount, NULL, bytes, sizeof bytes, NULL),
              "NULL");
  CHECK_USAGE(equant_codec_encode(codec, &kArray, values, kCount, NULL, bytes, most - 1, &written),
              "equant_codec_max_bytes()");
  CHECK_USAGE(
      equant_codec_encode(codec, &halves, values, kCount, NULL, bytes, sizeof bytes, &written),
      "rows");
  CHECK_USAGE(equant_codec_decode(codec, &kArray, NULL, 100, values, kCount), "NULL");
  CHECK_USAGE(equant_codec_decode(codec, &kArray, bytes, most, NULL, kCount), "NULL");
  CHECK_USAGE(equant_codec_decode(codec, NULL, bytes, most, values, kCount), "NULL");
  CHECK_USAGE(equant_codec_decode_add(codec, &kArray, bytes, most, 1.0f, NULL, kCount), "NULL");
  CHECK_USAGE(equant_codec_decode_add(codec, &kArray, bytes, most, 1.0f, values, (size_t)-1),
              "at most");
  CHECK_USAGE(equant_codec_decode_add(codec, &kArray, bytes, most, INFINITY, values, kCount),
              "a finite scale");
  CHECK_USAGE(equant_codec_finish_mean(codec, NULL, kCount), "NULL");
  CHECK_USAGE(equant_codec_finish_mean(codec, values, (size_t)-1), "at most");

  /* Floats that begin within another one. */
  CHECK_USAGE(equant_codec_encode(codec, &kArray, inside, kCount - 1, NULL, bytes, sizeof bytes,
                                  &written),
              "divides");
  CHECK_USAGE(equant_codec_encode(codec, &kArray, values, kCount - 1, inside, bytes, sizeof bytes,
                                  &written),
              "divides");
  CHECK_USAGE(equant_codec_decode(codec, &kArray, bytes, most, inside, kCount - 1), "divides");
  CHECK_USAGE(equant_codec_decode_add(codec, &kArray, bytes, most, 1.0f, inside, kCount - 1),
              "divides");
  CHECK_USAGE(equant_codec_finish_mean(codec, inside, kCount - 1), "divides");

  CHECK(equant_codec_max_bytes(NULL, kCount, &most) == EQUANT_CODEC_USAGE);
  CHECK(equant_codec_encode(NULL, &kArray, values, kCount, NULL, bytes, sizeof bytes, &written) ==
        EQUANT_CODEC_USAGE);
  CHECK(equant_codec_decode(NULL, &kArray, bytes, most, values, kCount) == EQUANT_CODEC_USAGE);
  CHECK(equant_codec_decode_add(NULL, &kArray, bytes, most, 1.0f, values, kCount) ==
        EQUANT_CODEC_USAGE);
  CHECK(equant_codec_finish_mean(NULL, values, kCount) == EQUANT_CODEC_USAGE);
  CHECK_SAYS(equant_codec_error(NULL), "NULL");
  CHECK(equant_codec_properties(NULL) == 0);
  equant_codec_destroy(NULL);

  /* No values need no pointer. */
  CHECK(equant_codec_encode(codec, &kArray, NULL, 0, NULL, bytes, sizeof bytes, &written) ==
        EQUANT_CODEC_OK);
  CHECK(written == kFrameBytes);
  CHECK(equant_codec_decode(codec, &kArray, bytes, written, NULL, 0) == EQUANT_CODEC_OK);
  equant_codec_destroy(codec);
}

static void values_that_are_no_numbers_are_refused(void) {
  equant_codec* const codec = made("e-elastiquant", NULL);
  float values[kCount];
  size_t most = 0, written = 1;
  void* bytes;
  fill(values);
  values[17] = NAN;
  CHECK(equant_codec_max_bytes(codec, kCount, &most) == EQUANT_CODEC_OK);
  bytes = malloc(most);
  CHECK(equant_codec_encode(codec, &kArray, values, kCount, NULL, bytes, most, &written) ==
        EQUANT_CODEC_DIVERGED);
  CHECK(written == 0);
  CHECK_SAYS(equant_codec_error(codec), "17");
  free(bytes);
  equant_codec_destroy(codec);
}

/* Every cut and every flipped bit is an error or decodes; the buffer ends where the bytes end, so that
 * tools for memory see a read behind it. */
static void damaged_bytes_are_refused_or_decode(const char* name) {
  equant_codec* const codec = made(name, NULL);
  struct equant_array late = kArray, other = kArray;
  float values[kCount], decoded[kCount];
  void* bytes;
  size_t size, i;
  fill(values);
  size = encoded(codec, values, NULL, &bytes);
  late.step += 1;
  other.tensor += 1;
  CHECK(equant_codec_decode(codec, &late, bytes, size, decoded, kCount) == EQUANT_CODEC_WIRE);
  CHECK_SAYS(equant_codec_error(codec), "step");
  CHECK(equant_codec_decode(codec, &other, bytes, size, decoded, kCount) == EQUANT_CODEC_WIRE);
  CHECK(equant_codec_decode(codec, &kArray, bytes, size, decoded, kCount - 1) == EQUANT_CODEC_WIRE);
  for (i = 0; i < size; ++i) {
    char* const cut = malloc(i > 0 ? i : 1);
    if (cut == NULL) exit(1);
    memcpy(cut, bytes, i);
    CHECK(equant_codec_decode(codec, &kArray, cut, i, decoded, kCount) == EQUANT_CODEC_WIRE);
    free(cut);
  }
  for (i = 0; i < 8 * size; ++i) {
    int status;
    ((unsigned char*)bytes)[i / 8] ^= (unsigned char)(1u << i % 8);
    status = equant_codec_decode(codec, &kArray, bytes, size, decoded, kCount);
    CHECK(status == EQUANT_CODEC_WIRE || (status == EQUANT_CODEC_OK && i / 8 >= kFrameBytes));
    ((unsigned char*)bytes)[i / 8] ^= (unsigned char)(1u << i % 8);
  }
  CHECK(equant_codec_decode(codec, &kArray, bytes, size, decoded, kCount) == EQUANT_CODEC_OK);
  free(bytes);
  equant_codec_destroy(codec);
}

int main(void) {
  size_t i;
  the_library_is_the_headers();
  names_are_those_that_can_be_made();
  a_lossless_codec_gives_back_what_it_was_given();
  message_and_residual_together_are_the_values();
  options_are_the_configs_keys();
  the_mean_of_votes_becomes_signs();
  wrong_names_and_options_are_refused();
  null_and_small_buffers_are_refused();
  values_that_are_no_numbers_are_refused();
  for (i = 0; i < equant_codec_count(); ++i)
    damaged_bytes_are_refused_or_decode(equant_codec_name(i));
  printf("%s\n", failures == 0 ? "all checks hold" : "some checks failed");
  return failures == 0 ? 0 : 1;
}
