/* A pointer chase and three walks through memory, as plain C: what `evenkeel measure memory` is put beside by memory-beside-peers.sh.
 *
 * usage: chase latency MIB    picoseconds a load, by working set from 16 KiB in doubling steps: the median of windows of some 0.2 ms
 *        chase bandwidth      bytes a second of read, write and copy on 128 MiB: the median of windows of 10 ms
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LINE 64
#define WINDOWS 4096
#define STEP (1 << 20)

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double seen[WINDOWS];

static double median(int n) {
    qsort(seen, n, sizeof seen[0], by_size);
    return n ? seen[n / 2] : 0;
}

static char *memory(size_t bytes) {
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(p, bytes, MADV_NOHUGEPAGE);
    memset(p, 1, bytes);
    return p;
}

static void **volatile sink;

static void latency(size_t bytes) {
    size_t lines = bytes / LINE;
    char *p = memory(bytes);
    uint32_t *order = malloc(lines * sizeof *order);
    uint64_t chance = 88172645463325252u;
    for (size_t i = 0; i < lines; i++) order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        size_t j = chance % (i + 1);
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (size_t i = 0; i < lines; i++) *(void **)(p + (size_t)order[i] * LINE) = p + (size_t)order[(i + 1) % lines] * LINE;
    void **at = (void **)(p + (size_t)order[0] * LINE);
    free(order);
    if (lines <= 256 << 10)
        for (size_t i = 0; i < lines; i++) at = *at;
    uint64_t first = now_ns();
    size_t steps = 1024;
    int n = 0;
    while (n < WINDOWS && (now_ns() - first < 100000000u || n == 0)) {
        uint64_t start = now_ns();
        for (size_t i = 0; i < steps; i++) at = *at;
        uint64_t took = now_ns() - start;
        sink = at;
        if (took >= 100000)
            seen[n++] = took * 1000.0 / steps;
        else
            steps *= 2;
    }
    printf("%zu %.0f\n", bytes, median(n));
    munmap(p, bytes);
}

static uint64_t *words;

static void bandwidth(const char *name, size_t bytes) {
    size_t whole = bytes / 8, half = whole / 2, step = STEP / 8, at = 0;
    uint64_t turn = 1;
    int n = 0;
    uint64_t begin = now_ns();
    while (n < 30 && now_ns() - begin < 2000000000u) {
        uint64_t start = now_ns(), moved = 0;
        while (now_ns() - start < 10000000u) {
            if (name[0] == 'r') {
                uint64_t sum = 0;
                for (size_t i = at; i < at + step; i++) sum += words[i];
                *(volatile uint64_t *)&turn = sum;
                moved += STEP;
            } else if (name[0] == 'w') {
                for (size_t i = at; i < at + step; i++) words[i] = turn;
                turn++;
                moved += STEP;
            } else {
                memcpy(words + half + at, words + at, STEP);
                moved += 2 * STEP;
            }
            at = (at + step) % (name[0] == 'c' ? half : whole);
        }
        seen[n++] = moved * 1e9 / (now_ns() - start);
    }
    printf("%s %.0f\n", name, median(n));
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "latency")) {
        size_t most = strtoul(argv[2], NULL, 10) << 20;
        for (size_t bytes = 16 << 10; bytes <= most; bytes *= 2) latency(bytes);
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "bandwidth")) {
        size_t bytes = 128 << 20;
        words = (uint64_t *)memory(bytes);
        bandwidth("read", bytes);
        bandwidth("write", bytes);
        bandwidth("copy", bytes);
        return 0;
    }
    fprintf(stderr, "usage: chase latency MIB | chase bandwidth\n");
    return 2;
}
