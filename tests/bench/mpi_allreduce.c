/* SPDX-License-Identifier: Apache-2.0 */
/* Times MPI_Allreduce of float32 sums, in place, of one library and prints a line for each size:
 *
 *   mpirun -np N mpi_allreduce SECONDS VALUES...
 *
 * VALUES TAB MILLISECONDS, the median over calls of the slowest rank's time, after calls that warm up and whose sums
 * are verified. It is C, so that any library's mpicc builds it: allreduce_peers.sh does. Exit code 1: a wrong sum. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWarmUp = 5, kLeast = 5, kMost = 20000 };

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Small integers, whose sums float32 holds exactly in any order. */
static void fill(float* data, long count, int rank) {
  for (long i = 0; i < count; ++i) data[i] = (float)((i % 97) * (rank + 1));
}

static void verify(const float* data, long count, int ranks) {
  const int factor = ranks * (ranks + 1) / 2;
  for (long i = 0; i < count; ++i) {
    if (data[i] != (float)((i % 97) * factor)) {
      fprintf(stderr, "mpi_allreduce: value %ld of %ld is %g, expected %ld\n", i, count, data[i], (i % 97) * factor);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

static double call(float* data, long count) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  double seconds = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const double limit = argc > 2 ? atof(argv[1]) : 0;
  double* times = malloc(kMost * sizeof *times);
  if (limit <= 0 || times == NULL) {
    fprintf(stderr, "usage: mpi_allreduce SECONDS VALUES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int index = 2; index < argc; ++index) {
    const long count = atol(argv[index]);
    float* data = count > 0 && count <= 1L << 30 ? malloc((size_t)count * sizeof *data) : NULL;
    if (data == NULL) {
      fprintf(stderr, "mpi_allreduce: expected a number of values from 1 to 2^30, found \"%s\"\n", argv[index]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < kWarmUp; ++i) {
      fill(data, count, rank);
      call(data, count);
      verify(data, count, ranks);
    }
    for (long i = 0; i < count; ++i) data[i] = 0;  /* Sums of sums would leave float32's range. */
    int calls = 0;
    double total = 0;
    while (calls < kMost && (calls < kLeast || total < limit)) total += times[calls++] = call(data, count);
    qsort(times, (size_t)calls, sizeof *times, ascending);
    if (rank == 0) printf("%ld\t%.6f\n", count, 1000 * times[calls / 2]);
    free(data);
  }
  free(times);
  MPI_Finalize();
  return 0;
}
