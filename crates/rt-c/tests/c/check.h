/* What must hold in these programs: else they end with 1, and the line that did not. */
#ifndef CHECK_H
#define CHECK_H
#include <evenkeel_rt.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(is) CHECK(is, EVENKEEL_STATUS_OK)
#define CHECK(is, expected)                                                                                     \
    do {                                                                                                        \
        EvenkeelStatus got_ = (is);                                                                             \
        char more_[256] = "";                                                                                   \
        if (got_ != (expected)) {                                                                               \
            evenkeel_last_error(more_, sizeof more_);                                                           \
            fprintf(stderr, "line %d: %s: %s: %s\n", __LINE__, #is, evenkeel_status_text(got_), more_);         \
            exit(1);                                                                                            \
        }                                                                                                       \
    } while (0)
#define HOLDS(what)                                                                                             \
    do {                                                                                                        \
        if (!(what)) {                                                                                          \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                                                  \
            exit(1);                                                                                            \
        }                                                                                                       \
    } while (0)

#endif
