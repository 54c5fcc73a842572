// A planted effect in any server that is linked to the C library: with this library preloaded, a thread that is about to wait first works for
// ZOO_PLANT_PERCENT of the CPU time that it has used since its last wait, while the file ZOO_PLANT_FILE (a sysctl) holds the number
// ZOO_PLANT_VALUE. A tick is then that much more work, in one arm of a trial that switches the sysctl, and the server notices nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

// No burst is made longer by more than this: what waits for nothing in minutes is no tick.
#define LONGEST_NS 50000000
#define LOOK_NS 10000000

static int file = -1;
static long value, percent;
static _Atomic uint64_t looked_ns;
static _Atomic int is_planted;
static __thread uint64_t since_ns;

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("ZOO_PLANT_FILE"), *number = getenv("ZOO_PLANT_VALUE"), *share = getenv("ZOO_PLANT_PERCENT");
    if (!path || !number || !share) return;
    value = atol(number);
    percent = atol(share);
    file = open(path, O_RDONLY | O_CLOEXEC);
}

static int planted(void) {
    uint64_t at_ns = now(CLOCK_MONOTONIC);
    if (at_ns - looked_ns > LOOK_NS) {
        char text[32] = {0};
        looked_ns = at_ns;
        is_planted = pread(file, text, sizeof text - 1, 0) > 0 && atol(text) == value;
    }
    return is_planted;
}

static void before(void) {
    if (file < 0 || since_ns == 0 || !planted()) return;
    uint64_t at_ns = now(CLOCK_THREAD_CPUTIME_ID), more_ns = (at_ns - since_ns) * (uint64_t)percent / 100;
    if (more_ns > LONGEST_NS) more_ns = LONGEST_NS;
    while (now(CLOCK_THREAD_CPUTIME_ID) < at_ns + more_ns) {}
}

static void after(void) {
    if (file >= 0) since_ns = now(CLOCK_THREAD_CPUTIME_ID);
}

#define WAITS(result, name, parameters, arguments)                            \
    result name parameters {                                                  \
        static result(*real) parameters;                                      \
        if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);      \
        before();                                                             \
        result said = real arguments;                                         \
        after();                                                              \
        return said;                                                          \
    }

WAITS(int, poll, (struct pollfd * files, nfds_t count, int ms), (files, count, ms))
WAITS(int, ppoll, (struct pollfd * files, nfds_t count, const struct timespec *time, const sigset_t *mask), (files, count, time, mask))
WAITS(int, select, (int count, fd_set *in, fd_set *out, fd_set *odd, struct timeval *time), (count, in, out, odd, time))
WAITS(int, pselect, (int count, fd_set *in, fd_set *out, fd_set *odd, const struct timespec *time, const sigset_t *mask),
      (count, in, out, odd, time, mask))
WAITS(int, epoll_wait, (int set, struct epoll_event *events, int count, int ms), (set, events, count, ms))
WAITS(int, epoll_pwait, (int set, struct epoll_event *events, int count, int ms, const sigset_t *mask), (set, events, count, ms, mask))
WAITS(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
WAITS(int, clock_nanosleep, (clockid_t clock, int flags, const struct timespec *time, struct timespec *left), (clock, flags, time, left))
WAITS(int, usleep, (useconds_t us), (us))
WAITS(int, pthread_cond_wait, (pthread_cond_t * changed, pthread_mutex_t *lock), (changed, lock))
WAITS(int, pthread_cond_timedwait, (pthread_cond_t * changed, pthread_mutex_t *lock, const struct timespec *time), (changed, lock, time))
WAITS(int, pthread_cond_clockwait, (pthread_cond_t * changed, pthread_mutex_t *lock, clockid_t clock, const struct timespec *time),
      (changed, lock, clock, time))
WAITS(int, sem_wait, (sem_t * semaphore), (semaphore))
WAITS(int, sem_timedwait, (sem_t * semaphore, const struct timespec *time), (semaphore, time))
