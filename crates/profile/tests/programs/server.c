/* A server that ticks a hundred times a second, works for two milliseconds each time, and stalls for three in one tick of a hundred, in
 * the way that its first argument names: `lock`, `fault`, `loop`, `quota`, or `none`. For each tick it prints the number, and when the
 * tick was due, began and was done, in nanoseconds of the monotonic clock.
 *
 *     server KIND TICKS FILE-TO-MAP GROUP
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define US 1000ull
#define MS (1000 * US)
#define PERIOD (10 * MS)
#define WORK (2 * MS)
#define STALL (3 * MS)
#define EVERY 100
#define AT 50
#define TICKS_MAX 20000

static pthread_mutex_t world = PTHREAD_MUTEX_INITIALIZER;
static const char *kind, *file, *group;
static uint64_t ticks, base;
static struct { uint64_t due, begun, done; } seen[TICKS_MAX];
static volatile uint64_t sum;

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t at) {
    struct timespec t = {(time_t)(at / (1000 * MS)), (long)(at % (1000 * MS))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

static NOINLINE void count(void) {
    for (int i = 0; i < 20000; i++)
        sum += (uint64_t)i * sum + 1;
}

NOINLINE void simulate(uint64_t for_ns) {
    uint64_t until = now(CLOCK_THREAD_CPUTIME_ID) + for_ns;
    while (now(CLOCK_THREAD_CPUTIME_ID) < until)
        count();
    __asm__ volatile("");
}

NOINLINE void find_path(uint64_t for_ns) {
    uint64_t until = now(CLOCK_THREAD_CPUTIME_ID) + for_ns;
    while (now(CLOCK_THREAD_CPUTIME_ID) < until)
        for (int i = 0; i < 20000; i++)
            sum ^= sum << 1 ^ (uint64_t)i;
    __asm__ volatile("");
}

NOINLINE void world_lock(void) {
    pthread_mutex_lock(&world);
    __asm__ volatile("");
}

/* Reads mapped pages of a file that are not in memory, until three milliseconds have passed. */
NOINLINE void read_map(void) {
    int fd = open(file, O_RDONLY);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0)
        exit(3);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    uint8_t *map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        exit(3);
    madvise(map, (size_t)about.st_size, MADV_RANDOM);
    uint64_t until = now(CLOCK_MONOTONIC) + STALL;
    for (off_t at = 0; at < about.st_size && now(CLOCK_MONOTONIC) < until; at += 1 << 16)
        sum += map[at];
    munmap(map, (size_t)about.st_size);
    close(fd);
}

static int is_planted(uint64_t tick) { return tick % EVERY == AT; }

NOINLINE void tick(uint64_t number) {
    simulate(WORK / 2);
    if (is_planted(number) && strcmp(kind, "loop") == 0)
        find_path(STALL);
    if (is_planted(number) && strcmp(kind, "fault") == 0)
        read_map();
    world_lock();
    pthread_mutex_unlock(&world);
    simulate(WORK / 2);
    __asm__ volatile("");
}

static void limit(const char *quota) {
    char path[512];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", group);
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, quota, strlen(quota)) < 0)
        exit(4);
    close(fd);
}

/* A thread that causes those stalls that the tick thread does not cause itself. */
static void *saver(void *nothing) {
    pthread_setname_np(pthread_self(), "saver");
    for (uint64_t number = AT; number < ticks; number += EVERY) {
        uint64_t due = base + number * PERIOD;
        sleep_until(due - MS / 2);
        if (strcmp(kind, "lock") == 0) {
            pthread_mutex_lock(&world);
            sleep_until(due + WORK / 2 + STALL);
            pthread_mutex_unlock(&world);
        } else if (strcmp(kind, "quota") == 0) {
            limit("1000");
            sleep_until(due + WORK / 2 + STALL);
            limit("-1");
        }
    }
    return nothing;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    kind = argv[1], ticks = strtoull(argv[2], NULL, 10), file = argv[3], group = argv[4];
    if (ticks > TICKS_MAX)
        return 2;
    pthread_setname_np(pthread_self(), "world");
    base = now(CLOCK_MONOTONIC) + 20 * MS;
    pthread_t other;
    if (pthread_create(&other, NULL, saver, NULL) != 0)
        return 3;
    if (strcmp(kind, "quota") == 0) {
        char path[512];
        snprintf(path, sizeof path, "%s/tasks", group);
        FILE *tasks = fopen(path, "w");
        if (tasks == NULL || fprintf(tasks, "%ld", syscall(SYS_gettid)) < 0 || fclose(tasks) != 0)
            return 4;
    }
    for (uint64_t number = 0; number < ticks; number++) {
        seen[number].due = base + number * PERIOD;
        sleep_until(seen[number].due);
        seen[number].begun = now(CLOCK_MONOTONIC);
        tick(number);
        seen[number].done = now(CLOCK_MONOTONIC);
    }
    pthread_join(other, NULL);
    for (uint64_t number = 0; number < ticks; number++)
        printf("%llu %llu %llu %llu\n", (unsigned long long)number, (unsigned long long)seen[number].due,
               (unsigned long long)seen[number].begun, (unsigned long long)seen[number].done);
    return 0;
}
