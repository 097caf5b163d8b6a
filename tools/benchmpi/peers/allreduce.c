// The ranks of Open MPI. Rank 0 prints for each size, given as bytes:rounds, the milliseconds of each round.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int k = 1; k < argc; k++) {
		int bytes, rounds;
		if (sscanf(argv[k], "%d:%d", &bytes, &rounds) != 2) return 2;
		int n = bytes / sizeof(float);
		float *vec = malloc(bytes), *sum = malloc(bytes);
		for (int i = 0; i < n; i++) vec[i] = rank + 1;
		for (int i = 0; i < rounds; i++) {
			MPI_Barrier(MPI_COMM_WORLD);
			double begin = MPI_Wtime();
			MPI_Allreduce(vec, sum, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
			double ms = 1e3 * (MPI_Wtime() - begin);
			if (sum[0] != 3 || sum[n - 1] != 3) return 3;
			if (rank == 0) printf("%d %f\n", bytes, ms);
		}
		free(vec), free(sum);
	}
	MPI_Finalize();
}
