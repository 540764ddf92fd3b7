# SPDX-License-Identifier: Apache-2.0
eqt_test(c_api_unit LABEL unit LINK equant_codec SOURCES unit/c_api/codec_test.cpp unit/c_api/header.c)
