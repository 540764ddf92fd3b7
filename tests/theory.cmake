# SPDX-License-Identifier: Apache-2.0
eqt_test(theory_unit LABEL unit LINK eqt_theory SOURCES
  unit/theory/code_length_test.cpp
  unit/theory/convergence_test.cpp
  unit/theory/energy_test.cpp
  unit/theory/level_bounds_test.cpp
  unit/theory/paper_volume_test.cpp)
eqt_test(theory_laws LABEL property LINK eqt_theory SOURCES
  property/theory/variance_laws_test.cpp)
eqt_test_library(eqt_theory_vectors SOURCES support/theory_vectors.cpp
  LINK eqt_theory nlohmann_json::nlohmann_json)
eqt_test(theory_golden LABEL golden LINK eqt_theory_vectors SOURCES
  golden/theory_vectors_test.cpp)
eqt_test(theory_reference LABEL golden LINK eqt_theory_vectors SOURCES
  golden/theory_reference_test.cpp)
