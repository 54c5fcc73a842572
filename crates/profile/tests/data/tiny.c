#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile uint64_t sum;
__attribute__((noinline)) static void inner(unsigned n) { for (unsigned i = 0; i < n; i++) sum += i * i; }
__attribute__((noinline)) static void outer(unsigned n) { inner(n); sum++; }
int main(int argc, char **argv) {
    unsigned n = 12000000;
    if (fork() == 0) { outer(n); sum++; return 0; }
    outer(n);
    wait(NULL);
    usleep(2000);
    return (int)(sum & 1);
}
