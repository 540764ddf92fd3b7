// SPDX-License-Identifier: Apache-2.0
/* A plugin for equant-train: the sign of every value and one magnitude, the mean of all magnitudes.
 *
 *   cc -shared -fPIC -O2 -Iinclude -o libmean_sign.so docs/examples/mean_sign.c
 *   mpirun -np 2 equant-train --plugin ./libmean_sign.so --config FILE \
 *     --set compressor.name=mean-sign --set synchronization.collective=allgather
 *
 * Payload: the magnitude (float32), then a bit for each value, 1 where it is negative, the lowest
 * bit of a byte first: 4 + (count + 7) / 8 bytes.
 */
#include <math.h>
#include <string.h>

#include "equant/compressor_plugin.h"

static size_t payload_bytes_of(const void* self, size_t count) {
  (void)self;
  return sizeof(float) + (count + 7) / 8;
}

/* No options, so every instance is the same. */
static void* create(const struct equant_options* options, char* reason, size_t reason_bytes) {
  static char instance;
  (void)options, (void)reason, (void)reason_bytes;
  return &instance;
}
static void destroy(void* self) { (void)self; }

static int encode(const void* self, const struct equant_context* context, const float* values,
                  size_t count, uint8_t* payload, size_t* payload_bytes) {
  double sum = 0;
  float magnitude;
  (void)context;
  *payload_bytes = payload_bytes_of(self, count);
  memset(payload, 0, *payload_bytes);
  for (size_t i = 0; i < count; ++i) {
    sum += fabsf(values[i]);
    payload[sizeof(float) + i / 8] |= (uint8_t)((values[i] < 0) << i % 8);
  }
  magnitude = (float)(sum / (double)count);
  memcpy(payload, &magnitude, sizeof magnitude);
  return 0;
}

static int decode_add(const void* self, const uint8_t* payload, size_t payload_bytes, float scale,
                      float* sum, size_t count) {
  float magnitude;
  if (payload_bytes != payload_bytes_of(self, count)) return 1;
  memcpy(&magnitude, payload, sizeof magnitude);
  if (!(magnitude >= 0) || isinf(magnitude)) return 1;
  for (size_t i = 0; i < count; ++i)
    sum[i] += payload[sizeof(float) + i / 8] >> i % 8 & 1 ? -scale * magnitude : scale * magnitude;
  return 0;
}

const struct equant_compressor* equant_compressor_plugin(void) {
  static const struct equant_compressor plugin = {
      .version = EQUANT_PLUGIN_VERSION, .format = 1, .name = "mean-sign",
      .about = "the sign of every value and the mean magnitude (an example of a plugin)",
      .properties = EQUANT_NEEDS_FEEDBACK, .granule = 0, .create = create, .destroy = destroy,
      .max_payload_bytes = payload_bytes_of, .encode = encode, .decode_add = decode_add};
  return &plugin;
}
