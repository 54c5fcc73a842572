// A server in C++17: 50 ticks a second, the work of a tick as jobs on several threads, a scope that measures it, and packets.
#include <evenkeel_rt.hpp>

#include <cstdio>
#include <mutex>
#include <vector>

int main() {
    using namespace std::chrono_literals;

    auto settings = evenkeel::prepared<EvenkeelTickLoopSettings>();
    settings.period_ns = std::chrono::nanoseconds(20ms).count();
    settings.scopes_name = "tick";
    evenkeel::TickLoop ticks(settings);            // on the thread that ticks
    std::fputs(ticks.advice().c_str(), stderr);    // a line for each setting that the kernel refused

    evenkeel::Jobs jobs(2);
    evenkeel::Udp udp("127.0.0.1:0");
    const evenkeel::ScopeName move("move players");
    evenkeel::Mutex log_lock;
    std::vector<double> players(1000);
    std::size_t chunks = 0;

    for (int count = 0; count < 20; ++count) {
        const auto tick = ticks.wait();            // its destructor ends the tick
        udp.receive(4096, [&](const EvenkeelPacket &packet) { udp.send(packet.from, packet.bytes, packet.bytes_count); });
        {
            const evenkeel::Scope scope(move);
            const double seconds = tick.elapsed_seconds();
            auto count_chunk = [&] {
                const std::lock_guard<evenkeel::Mutex> held(log_lock);
                ++chunks;
            };
            jobs.frame([&](evenkeel::Frame frame) {
                frame.push(count_chunk);
                frame.for_each(players.size(), 100, [&](std::size_t player) { players[player] += seconds; });
            });
        }
        udp.flush();
    }
    std::fputs(ticks.report_text().c_str(), stdout);
    return chunks == 20 && players[0] > 0.39 ? 0 : 1;
}
