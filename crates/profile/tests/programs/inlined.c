/* A function that the compiler inlines, with line information in DWARF. */
#include <stdio.h>

static inline __attribute__((always_inline)) unsigned leaf(unsigned x) {
    for (unsigned i = 0; i < x % 7 + 1; i++)
        x = x * 1664525u + 1013904223u; /* the line of leaf */
    return x;
}

__attribute__((noinline)) unsigned outer(unsigned x) {
    unsigned sum = 0;
    for (unsigned i = 0; i < x; i++)
        sum += leaf(i);
    return sum;
}

static __attribute__((noinline)) unsigned hidden(unsigned x) {
    return outer(x) ^ 5;
}

int main(int argc, char **argv) {
    (void)argv;
    printf("%u\n", hidden((unsigned)argc * 1000));
    return 0;
}
