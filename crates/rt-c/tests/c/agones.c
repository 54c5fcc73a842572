/* A game server in Kubernetes: it is ready, healthy while it ticks, and shuts down. Exits with 0, or with the line that failed. */
#include "check.h"
#include <string.h>

int main(void)
{
    EvenkeelAgonesSettings settings;
    EvenkeelAgonesReport report;
    EvenkeelGameServer server;
    EvenkeelClockSettings clock_settings;
    EvenkeelAgones *agones = NULL;
    EvenkeelClock *clock = NULL;
    EvenkeelTick tick;
    int i;

    OK(EVENKEEL_INIT(&settings));
    settings.health_period_ms = 20;
    settings.port = 65536;
    if (evenkeel_agones_new(&settings, &agones) != EVENKEEL_STATUS_OUT_OF_RANGE)
        return 2;
    settings.port = 0;
    OK(evenkeel_agones_new(&settings, &agones));
    OK(evenkeel_agones_ready(agones));

    OK(EVENKEEL_INIT(&clock_settings));
    clock_settings.period_ns = 10 * 1000 * 1000;
    OK(evenkeel_clock_new(&clock_settings, &clock));
    OK(EVENKEEL_INIT(&tick));
    OK(EVENKEEL_INIT(&report));
    /* Wait long enough for the slowest machine. Most need less than a second. */
    for (i = 0; i < 2000 && (report.health_sent < 3 || report.ready != EVENKEEL_PROGRESS_DONE); i++) {
        OK(evenkeel_clock_wait(clock, &tick));
        OK(evenkeel_agones_tick(agones));
        OK(evenkeel_agones_report(agones, &report));
    }
    printf("ready %u, health %s, last failure '%s'\n", report.ready, report.health_sent >= 3 ? "sent" : "missing",
           report.last_failure);

    OK(EVENKEEL_INIT(&server));
    OK(evenkeel_agones_game_server(agones, &server));
    printf("%s is %s at %s:%u\n", server.name, server.state, server.address, server.port);
    OK(evenkeel_agones_shutdown(agones));
    OK(evenkeel_agones_free(agones));
    OK(evenkeel_clock_free(clock));
    return 0;
}
