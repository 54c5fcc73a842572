import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** ScheduledExecutorService with some work. usage: Fixed rate|delay HZ WORK_US THREADS. It prints its own count at SIGTERM. */
public class Fixed {
    static volatile long sink = 1;

    static void rounds(long n) {
        long x = sink;
        for (long i = 0; i < n; i++) x = x * 6364136223846793005L + 1442695040888963407L;
        sink = x;
    }

    public static void main(String[] args) {
        long period = (long) (1e9 / Double.parseDouble(args[1]));
        double best = 1e18;
        for (int i = 0; i < 60; i++) {
            long start = System.nanoTime();
            rounds(200000);
            best = Math.min(best, System.nanoTime() - start);
        }
        String percent = System.getenv().getOrDefault("ZOO_WORK_PERCENT", "100");
        long work = (long) (200000 / best * 1e3 * Double.parseDouble(args[2]) * Double.parseDouble(percent) / 100);
        AtomicLong ticks = new AtomicLong();
        long start = System.nanoTime();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            double seconds = (System.nanoTime() - start) / 1e9;
            System.err.printf("zoo: %d ticks in %.3f s, %.3f Hz%n", ticks.get(), seconds, ticks.get() / seconds);
        }));
        var pool = Executors.newScheduledThreadPool(Integer.parseInt(args[3]));
        Runnable tick = () -> {
            rounds(work);
            ticks.incrementAndGet();
        };
        if (args[0].equals("rate")) {
            pool.scheduleAtFixedRate(tick, 0, period, TimeUnit.NANOSECONDS);
        } else {
            pool.scheduleWithFixedDelay(tick, 0, period, TimeUnit.NANOSECONDS);
        }
    }
}
