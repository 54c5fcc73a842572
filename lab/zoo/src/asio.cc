// A server on Asio, whose timers are a timerfd in its epoll: nothing that a thread asks to sleep for says when the tick is due. 40 Hz at set
// times with 1.5 ms of work (or a period after the work: `chained`), and answers to UDP packets in between. It prints its own count at SIGTERM.
//
// usage: asio PORT set-times|chained
#include "work.h"
#include <asio.hpp>
#include <cstdio>
#include <cstring>
#include <functional>
using clock_type = std::chrono::steady_clock;
int main(int, char **arguments) {
    asio::io_context context(1);
    asio::ip::udp::socket socket(
        context, asio::ip::udp::endpoint(asio::ip::make_address("127.0.0.1"), (unsigned short)atoi(arguments[1])));
    const bool chained = std::strcmp(arguments[2], "chained") == 0;
    const uint64_t rounds = zoo_rounds_for(1500);
    const auto period = std::chrono::milliseconds(25);
    const auto begun = clock_type::now();
    uint64_t ticks = 0;
    asio::steady_timer timer(context, begun + period);
    std::function<void(const asio::error_code &)> tick = [&](const asio::error_code &error) {
        if (error) return;
        zoo_rounds(rounds);
        ticks++;
        timer.expires_at((chained ? clock_type::now() : timer.expiry()) + period);
        timer.async_wait(tick);
    };
    timer.async_wait(tick);
    char packet[2048];
    asio::ip::udp::endpoint from;
    std::function<void()> receive = [&] {
        socket.async_receive_from(asio::buffer(packet), from, [&](const asio::error_code &error, std::size_t length) {
            if (!error) {
                asio::error_code unsent;
                socket.send_to(asio::buffer(packet, length), from, 0, unsent);
            }
            receive();
        });
    };
    receive();
    asio::signal_set ends(context, SIGTERM, SIGINT);
    ends.async_wait([&](const asio::error_code &, int) { context.stop(); });
    context.run();
    const double seconds = std::chrono::duration<double>(clock_type::now() - begun).count();
    std::fprintf(stderr, "zoo: %llu ticks in %.3f s, %.3f Hz\n", (unsigned long long)ticks, seconds, (double)ticks / seconds);
}
