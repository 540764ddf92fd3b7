// SPDX-License-Identifier: Apache-2.0
// Makes MPI report that it allows calls from one thread only. For LD_PRELOAD.
#include <mpi.h>

extern "C" int MPI_Init_thread(int* argc, char*** argv, int /*required*/, int* provided) {
  const int result = PMPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, provided);
  *provided = MPI_THREAD_FUNNELED;
  return result;
}
