# SPDX-License-Identifier: Apache-2.0
# The Python package, from the sources and with the library of this build: python/README.md has how a wheel is tested.
if(NOT TARGET equant_codec)
  return()
endif()

foreach(name IN ITEMS arrays ddp trainers)
  add_test(NAME python.${name} COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${name}_test.py)
  set_tests_properties(python.${name} PROPERTIES LABELS e2e TIMEOUT 300 PROCESSORS 2
    SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]"
    ENVIRONMENT "EQUANT_CODEC_LIBRARY=$<TARGET_FILE:equant_codec>;OMP_NUM_THREADS=1")
endforeach()
