// SPDX-License-Identifier: Apache-2.0
/* Plugins that break their contract, one for each value of BAD: what load_plugin() and the program
 * say of them is tested. Without BAD it sends float32 values as they are. */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "equant/compressor_plugin.h"

#define NO_SYMBOL 1
#define OTHER_VERSION 2
#define CRASHES 3
#define WRITES_PAST 4
#define NOT_DETERMINISTIC 5
#define REFUSES_OPTIONS 6
#define BAD_NAME 7
#define TAKEN_NAME 8
#define FAILS_TO_ENCODE 9
#define CRASHES_AT_SIZE 10
#define USES_UP_THE_STACK 11
#define ROUNDS_UPWARD 12

#ifndef BAD
#define BAD 0
#endif

static size_t max_payload_bytes(const void* self, size_t count) {
  (void)self;
  return 4 * count;
}

static void* create(const struct equant_options* options, char* reason, size_t reason_bytes) {
  static char instance;
  if (BAD == REFUSES_OPTIONS && options->bits != 8) {
    strncpy(reason, "expected compressor.bits 8", reason_bytes);
    return NULL;
  }
  return &instance;
}
static void destroy(void* self) { (void)self; }

static int deeper(const volatile char* above) {
  volatile char here[4096];
  here[0] = above[0];
  return here[0] == 1 ? 0 : deeper(here) + here[0];
}

/* As compilers do for -ffast-math, too. */
static void change_arithmetic(void) {
  fesetround(FE_UPWARD);
#ifdef __SSE2__
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); /* denormal numbers are 0 */
#endif
}

static int encode(const void* self, const struct equant_context* context, const float* values,
                  size_t count, uint8_t* payload, size_t* payload_bytes) {
  static int calls;
  (void)self, (void)context;
  if (BAD == CRASHES || (BAD == CRASHES_AT_SIZE && count > 1000)) abort();
  if (BAD == FAILS_TO_ENCODE) return 7;
  if (BAD == USES_UP_THE_STACK) return deeper("");
  if (BAD == ROUNDS_UPWARD) change_arithmetic();
  memcpy(payload, values, 4 * count);
  if (BAD == WRITES_PAST) payload[4 * count] = 1;
  if (BAD == NOT_DETERMINISTIC) payload[0] = (uint8_t)++calls;
  *payload_bytes = 4 * count;
  return 0;
}

static int decode_add(const void* self, const uint8_t* payload, size_t payload_bytes, float scale,
                      float* sum, size_t count) {
  (void)self;
  if (payload_bytes != 4 * count) return 1;
  for (size_t i = 0; i < count; ++i) {
    float value;
    memcpy(&value, payload + 4 * i, 4);
    sum[i] += scale * value;
  }
  return 0;
}

#if BAD == NO_SYMBOL
#define equant_compressor_plugin equant_other_function
#endif

const struct equant_compressor* equant_compressor_plugin(void) {
  static const struct equant_compressor plugin = {
      .version = BAD == OTHER_VERSION ? EQUANT_PLUGIN_VERSION + 1 : EQUANT_PLUGIN_VERSION,
      .format = 1,
      .name = BAD == BAD_NAME ? "Mine!" : BAD == TAKEN_NAME ? "qsgd" : EQT_PLUGIN_NAME,
      .about = "for tests",
      .properties = EQUANT_LOSSLESS | EQUANT_UNBIASED,
      .granule = 1,
      .create = create,
      .destroy = destroy,
      .max_payload_bytes = max_payload_bytes,
      .encode = encode,
      .decode_add = decode_add};
  return &plugin;
}
