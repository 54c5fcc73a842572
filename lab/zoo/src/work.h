// A fixed amount of arithmetic, sized once at the start: what a tick does. The same amount each time, so that a slower CPU shows.
// ZOO_WORK_PERCENT=110 plants a tick that does a tenth more.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
inline volatile uint64_t zoo_sink;
inline void zoo_rounds(uint64_t rounds) {
    uint64_t x = zoo_sink;
    for (uint64_t i = 0; i < rounds; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    zoo_sink = x;
}
inline uint64_t zoo_rounds_for(double us) {
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        auto start = std::chrono::steady_clock::now();
        zoo_rounds(200000);
        best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    const char *percent = getenv("ZOO_WORK_PERCENT");
    return uint64_t(200000 / best * us * (percent ? atof(percent) : 100.0) / 100.0);
}
