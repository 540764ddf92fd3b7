// SPDX-License-Identifier: Apache-2.0
/* The header is C, and a C program can call the library. */

#include "equant/codec.h"

int abi_seen_from_c(void);

int abi_seen_from_c(void) { return equant_codec_abi() == EQUANT_CODEC_ABI ? EQUANT_CODEC_ABI : -1; }
