/* gemm.c - rate of large fp32 GEMMs on the CPU backend, in GFLOP/s: the machine's limit in bench.sh
 */
#include "lib/base/clock.h"
#include "train/ops.h"

#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
	enum { N = 1024, ROUNDS = 20 };
	struct device_config config = { .num_threads = argc > 1 ? atoi(argv[1]) : 1,
		.dtype = DTYPE_F32 };
	struct err err;
	struct device *d = backend_cpu.open(&config, &err);
	struct stream *s = d ? backend_cpu.stream(d, STREAM_COMPUTE) : NULL;
	void *mem = d ? backend_cpu.alloc(d, 3ul * N * N * sizeof(float), &err) : NULL;
	struct tensor all;
	struct gemm g = { .alpha = 1 };
	double best = 1e30;

	if (!mem) {
		fprintf(stderr, "gemm: %s\n", err.msg);
		return 1;
	}
	all = tensor_2d(mem, DTYPE_F32, 3 * N, N);
	s->ops->fill(s, &(struct fill){ all, 0.5 });
	g.a = tensor_rows(&all, 0, N);
	g.b = tensor_rows(&all, N, N);
	g.c = tensor_rows(&all, 2 * N, N);
	for (int i = 0; i < ROUNDS; i++) {
		double start = clock_seconds(), t;

		s->ops->gemm(s, &g);
		t = clock_seconds() - start;
		best = t < best ? t : best;
	}
	printf("%.1f\n", 2.0 * N * N * N / best / 1e9);
	backend_cpu.release(d, mem);
	backend_cpu.close(d);
	return 0;
}
