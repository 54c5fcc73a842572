/* What one call costs in a plain C loop, in nanoseconds: the best of what a program could write, as the peer of `measure clock`.
 * usage: clock-cost CALLS; prints `NAME NS` for each kind, the median of 100 batches. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

enum { BATCHES = 100 };

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void report(const char *name, double *ns)
{
	qsort(ns, BATCHES, sizeof *ns, by_value);
	printf("%s %.3f\n", name, (ns[BATCHES / 2 - 1] + ns[BATCHES / 2]) / 2);
}

#define MEASURE(name, call)                                             \
	do {                                                            \
		double ns[BATCHES];                                     \
		for (int b = 0; b < BATCHES; b++) {                     \
			double start = now_ns();                        \
			for (long i = 0; i < calls; i++) {              \
				call;                                   \
			}                                               \
			ns[b] = (now_ns() - start) / (double)calls;     \
		}                                                       \
		report(name, ns);                                       \
	} while (0)

int main(int argc, char **argv)
{
	long calls = (argc > 1 ? atol(argv[1]) : 1000000) / BATCHES;
	struct timespec t;
	struct timeval v;

	if (calls < 1)
		return 2;
	MEASURE("clock_gettime", clock_gettime(CLOCK_MONOTONIC, &t));
	MEASURE("gettimeofday", gettimeofday(&v, NULL));
#ifdef __x86_64__
	volatile unsigned long long sink;
	unsigned int cpu;
	MEASURE("rdtsc", sink = __rdtsc());
	MEASURE("rdtscp", sink = __rdtscp(&cpu));
	(void)sink;
#endif
	MEASURE("clock_gettime_by_system_call", syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t));
	MEASURE("empty_system_call", syscall(SYS_getppid));
	return 0;
}
