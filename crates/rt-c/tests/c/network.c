/* Sockets, telemetry and the tick rate from C: two sockets on loopback, a page of shared memory, and a clock whose period a rate chooses.
 * Exits with 0, or with the line that failed. The argument is a folder for the page. */
#include "check.h"
#include <string.h>

static unsigned seen[256];
static EvenkeelUdp *listening;

static void packet(const EvenkeelPacket *packet, void *context)
{
    HOLDS(context == seen && packet->bytes_count == 100 && packet->is_truncated == 0 && packet->from.is_ipv6 == 0);
    HOLDS(packet->from.ip[0] == 127 && packet->from.ip[3] == 1 && packet->waited_ns != EVENKEEL_UNKNOWN);
    seen[packet->bytes[0]]++;
    CHECK(evenkeel_udp_free(listening), EVENKEEL_STATUS_BUSY);
}

static void sockets(void)
{
    EvenkeelUdpSettings settings;
    EvenkeelUdpReport report;
    EvenkeelReceived received;
    EvenkeelFlushed flushed;
    EvenkeelAddress to;
    EvenkeelUdp *sending = NULL;
    unsigned char bytes[2000] = {0};
    uint64_t came = 0;
    int i, tries;

    OK(EVENKEEL_INIT(&settings));
    settings.address = "nowhere";
    CHECK(evenkeel_udp_new(&settings, &listening), EVENKEEL_STATUS_BAD_TEXT);
    settings.address = "192.0.2.1:7";
    CHECK(evenkeel_udp_new(&settings, &listening), EVENKEEL_STATUS_REFUSED);
    settings.address = "127.0.0.1:0";
    settings.receive = 6;
    CHECK(evenkeel_udp_new(&settings, &listening), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.receive = EVENKEEL_IO_BACKEND_BATCHED;
    settings.players = 64;
    CHECK(evenkeel_udp_new(&settings, &listening), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.packets_a_second = 60;
    settings.packet_bytes = 100;
    settings.drain_interval_ms = 40;
    settings.stamps = 1;
    OK(evenkeel_udp_new(&settings, &listening));
    OK(EVENKEEL_INIT(&report));
    OK(evenkeel_udp_report(listening, &report));
    HOLDS(report.port > 0 && report.buffer_needed_bytes != EVENKEEL_UNKNOWN && report.receive_backend >= EVENKEEL_IO_BACKEND_ONE);

    OK(EVENKEEL_INIT(&settings));
    settings.address = "127.0.0.1:0";
    OK(evenkeel_udp_new(&settings, &sending));
    OK(EVENKEEL_INIT(&to));
    CHECK(evenkeel_udp_send(sending, &to, bytes, 100), EVENKEEL_STATUS_OUT_OF_RANGE);
    to.ip[0] = 127;
    to.ip[3] = 1;
    to.port = report.port;
    CHECK(evenkeel_udp_send(sending, &to, NULL, 100), EVENKEEL_STATUS_NULL_POINTER);
    CHECK(evenkeel_udp_send(sending, &to, bytes, sizeof bytes), EVENKEEL_STATUS_OUT_OF_RANGE);
    OK(EVENKEEL_INIT(&flushed));
    for (i = 0; i < 50; i++) {
        bytes[0] = (unsigned char)i;
        OK(evenkeel_udp_send(sending, &to, bytes, 100));
    }
    OK(evenkeel_udp_flush(sending, &flushed));
    HOLDS(flushed.refused == 0 && flushed.waiting == 0);
    OK(EVENKEEL_INIT(&received));
    /* Loopback delivers within the call that sends, or soon after. */
    for (tries = 0; tries < 10000000 && came < 50; tries++) {
        OK(evenkeel_udp_receive(listening, 1000, packet, seen, &received));
        came += received.packets;
    }
    for (i = 0; i < 50; i++)
        HOLDS(seen[i] == 1);
    OK(evenkeel_udp_report(listening, &report));
    HOLDS(report.packets_in == 50);
    OK(evenkeel_udp_free(sending));
    OK(evenkeel_udp_free(listening));
}

static void page(const char *folder)
{
    static char text[1 << 16];
    EvenkeelTelemetrySettings settings;
    EvenkeelTelemetry *telemetry = NULL;
    EvenkeelRateSettings rate_settings;
    EvenkeelRate *rate = NULL;
    EvenkeelClockSettings clock_settings;
    EvenkeelClock *clock = NULL;
    EvenkeelTick tick;
    EvenkeelDone done;
    EvenkeelQuantum quantum;
    EvenkeelRateChange change;
    EvenkeelTickMemory cost;
    uint64_t period;
    double load;
    size_t needed;
    int i;

    OK(EVENKEEL_INIT(&rate_settings));
    rate_settings.ladder_ns[0] = 1;
    CHECK(evenkeel_rate_new(&rate_settings, &rate), EVENKEEL_STATUS_OUT_OF_RANGE);
    rate_settings.ladder_ns[0] = 2000000;
    rate_settings.ladder_ns[1] = 5000000;
    rate_settings.start_ns = rate_settings.fastest_ns = 2000000;
    OK(evenkeel_rate_new(&rate_settings, &rate));
    OK(evenkeel_rate_period(rate, &period));
    HOLDS(period == 2000000);
    OK(EVENKEEL_INIT(&clock_settings));
    clock_settings.period_ns = period;
    OK(evenkeel_clock_new(&clock_settings, &clock));
    CHECK(evenkeel_rate_after(rate, clock, &period), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_rate_load(rate, &load), EVENKEEL_STATUS_NO_DATA);
    OK(EVENKEEL_INIT(&change));
    CHECK(evenkeel_rate_last_change(rate, &change), EVENKEEL_STATUS_NO_DATA);

    OK(EVENKEEL_INIT(&settings));
    CHECK(evenkeel_telemetry_new(&settings, &telemetry), EVENKEEL_STATUS_NULL_POINTER);
    settings.session = "match \"7\"";
    settings.folder = folder;
    OK(evenkeel_telemetry_new(&settings, &telemetry));
    CHECK(evenkeel_telemetry_after(telemetry, clock), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_telemetry_set(telemetry, 7, 1), EVENKEEL_STATUS_OUT_OF_RANGE);
    OK(evenkeel_telemetry_set(telemetry, EVENKEEL_COUNT_PLAYERS, 12));
    OK(evenkeel_telemetry_add(telemetry, EVENKEEL_COUNT_JOBS, 3));
    OK(EVENKEEL_INIT(&tick));
    OK(EVENKEEL_INIT(&done));
    OK(EVENKEEL_INIT(&cost));
    cost.minor_faults = 3;
    cost.major_faults = 1;
    cost.swapped_in = 9;
    for (i = 0; i < 10; i++) {
        OK(evenkeel_clock_wait(clock, &tick));
        OK(evenkeel_clock_done(clock, &done));
        OK(evenkeel_telemetry_quantum(telemetry, clock));
        OK(evenkeel_telemetry_memory(telemetry, &cost));
        OK(evenkeel_telemetry_after(telemetry, clock));
        OK(evenkeel_rate_after(rate, clock, &period));
        OK(evenkeel_rate_take_slices(rate, clock));
    }
    OK(evenkeel_clock_checkpoint(clock));
    OK(EVENKEEL_INIT(&quantum));
    OK(evenkeel_clock_quantum(clock, &quantum));
    HOLDS(quantum.model <= EVENKEEL_QUANTUM_MODEL_IRREGULAR && quantum.share <= 1);
    HOLDS(quantum.confidence <= 1 && (quantum.phase_ns > 0) == (quantum.model == EVENKEEL_QUANTUM_MODEL_FIXED_SLOT));
    /* A phase that allows only the slow rung. */
    OK(evenkeel_rate_enter(rate, clock, 5000000, 5000000));
    OK(evenkeel_clock_wait(clock, &tick));
    OK(evenkeel_clock_done(clock, &done));
    OK(evenkeel_rate_after(rate, clock, &period));
    HOLDS(period == 5000000);
    OK(evenkeel_rate_last_change(rate, &change));
    HOLDS(change.changes >= 1 && change.to_ns == 5000000 && change.why <= EVENKEEL_RATE_REASON_TIME_SLICES);
    OK(evenkeel_telemetry_path(telemetry, text, sizeof text, &needed));
    HOLDS(strncmp(text, folder, strlen(folder)) == 0 && needed == strlen(text) + 1);
    OK(evenkeel_telemetry_prometheus(telemetry, text, sizeof text, &needed));
    HOLDS(strstr(text, "evenkeel_ticks_total") != NULL && strstr(text, "match \\\"7\\\"") != NULL);
    /* Each of 10 ticks has 3 minor faults and 1 major fault. The tick without faults adds none. */
    HOLDS(strstr(text, "} 30\n") != NULL && strstr(text, "} 10\n") != NULL);
    OK(evenkeel_telemetry_prometheus_of_all(folder, text, sizeof text, &needed));
    HOLDS(strstr(text, "match \\\"7\\\"") != NULL && needed == strlen(text) + 1);
    CHECK(evenkeel_telemetry_prometheus_of_all(folder, text, 4, &needed), EVENKEEL_STATUS_TOO_SMALL);
    CHECK(evenkeel_telemetry_prometheus_of_all("/nowhere/at/all", text, sizeof text, &needed), EVENKEEL_STATUS_REFUSED);
    OK(evenkeel_telemetry_prometheus_of_all("", text, sizeof text, &needed));
    OK(evenkeel_telemetry_free(telemetry));
    OK(evenkeel_telemetry_prometheus_of_all(folder, text, sizeof text, &needed));
    HOLDS(strstr(text, "match") == NULL);
    OK(evenkeel_rate_free(rate));
    OK(evenkeel_clock_free(clock));
}

int main(int count, char **arguments)
{
    HOLDS(count == 2);
    sockets();
    page(arguments[1]);
    return 0;
}
