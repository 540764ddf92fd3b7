// SPDX-License-Identifier: Apache-2.0
// Compresses an array with 4-bit QSGD, decodes it, and prints bits per value and the error.
//   cc compress_in_c.c $(pkg-config --cflags --libs equant_codec) -o compress_in_c

#include <equant/codec.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100000 };
static float gradient[COUNT], decoded[COUNT];

static void require(int status, const char* error) {
  if (status == EQUANT_CODEC_OK) return;
  fprintf(stderr, "%s\n", error);
  exit(1);
}

int main(void) {
  for (int i = 0; i < COUNT; ++i) gradient[i] = (float)(i % 251) / 251.0f - 0.5f;

  equant_codec* codec;
  char error[512];
  require(equant_codec_create("qsgd", "{\"bits\": 4, \"bucket_size\": 512}", 1, &codec, error,
                              sizeof error),
          error);

  const struct equant_array array = {.step = 1, .tensor = 0, .rank = 0};  // a vector
  size_t most, written;
  require(equant_codec_max_bytes(codec, COUNT, &most), equant_codec_error(codec));
  unsigned char* message = malloc(most);
  if (message == NULL) return 1;
  require(equant_codec_encode(codec, &array, gradient, COUNT, NULL, message, most, &written),
          equant_codec_error(codec));
  require(equant_codec_decode(codec, &array, message, written, decoded, COUNT),
          equant_codec_error(codec));

  double wrong = 0, square = 0;
  for (int i = 0; i < COUNT; ++i) {
    wrong += (decoded[i] - gradient[i]) * (decoded[i] - gradient[i]);
    square += gradient[i] * gradient[i];
  }
  printf("bits per value %.3f, relative variance %.3f\n", 8.0 * (double)written / COUNT,
         wrong / square);
  free(message);
  equant_codec_destroy(codec);
  return 0;
}
