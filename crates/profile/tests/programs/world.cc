// C++ names: a method in a namespace, a template, and an overloaded function.
#include <cstdio>

namespace game {
struct World {
    float at = 0;
    __attribute__((noinline)) void step(float seconds) { at += seconds; std::printf("%f\n", at); }
    __attribute__((noinline)) void step(int ticks) { at += static_cast<float>(ticks); std::printf("%f\n", at); }
};
template <typename T> __attribute__((noinline)) T twice(T value) { return value + value; }
} // namespace game

int main() {
    game::World world;
    world.step(1.5f);
    world.step(game::twice<int>(2));
    return 0;
}
