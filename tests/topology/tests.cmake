# SPDX-License-Identifier: Apache-2.0
eqt_test(topology_unit LABEL unit LINK eqt_topology SOURCES unit/mixing_matrix_test.cpp unit/topology_test.cpp)
eqt_test(topology_laws LABEL property LINK eqt_topology SOURCES property/mixing_test.cpp property/spectrum_test.cpp)
