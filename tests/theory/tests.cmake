# SPDX-License-Identifier: Apache-2.0
eqt_test(theory_unit LABEL unit LINK eqt_theory
  SOURCES unit/code_length_test.cpp unit/convergence_test.cpp unit/energy_test.cpp unit/level_bounds_test.cpp
    unit/paper_volume_test.cpp)
eqt_test(theory_laws LABEL property LINK eqt_theory SOURCES property/variance_laws_test.cpp)
eqt_test_library(eqt_theory_vectors LINK eqt_theory nlohmann_json::nlohmann_json SOURCES ../support/theory_vectors.cpp)
eqt_test(theory_golden LABEL golden LINK eqt_theory_vectors SOURCES golden/theory_vectors_test.cpp)
eqt_test(theory_reference LABEL golden LINK eqt_theory_vectors SOURCES golden/theory_reference_test.cpp)
if(NOT EQT_ONLY_PORTABLE)
  eqt_test(theory_published_volume LABEL unit LINK eqt_networks eqt_theory SOURCES unit/published_volume_test.cpp)
endif()
