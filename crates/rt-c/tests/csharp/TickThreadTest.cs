// An exception of a tick reaches the caller of Stop, an invalid period is refused, and a disposed thread ends.
using System;
using System.Threading;
using Evenkeel;

static class TickThreadTest
{
    static void Expect(bool holds, string what)
    {
        if (!holds) throw new InvalidOperationException("not so: " + what);
    }

    static int Main()
    {
        var failed = new ManualResetEvent(false);
        var failing = new TickThread("failing", TimeSpan.FromMilliseconds(1), seconds =>
        {
            failed.Set();
            throw new FormatException("a tick that fails");
        });
        failed.WaitOne();
        try
        {
            failing.Stop();
            Expect(false, "Stop throws what a tick threw");
        }
        catch (InvalidOperationException error)
        {
            Expect(error.InnerException is FormatException, "Stop throws what a tick threw");
        }

        try
        {
            new TickThread("never", TimeSpan.Zero, seconds => { });
            Expect(false, "a period of zero is refused");
        }
        catch (ArgumentOutOfRangeException)
        {
        }

        // In nanoseconds this number overflows 64 bits, and the rest would be a valid period.
        try
        {
            new TickThread("never", new TimeSpan(184467440737195516), seconds => { });
            Expect(false, "a period of centuries is refused");
        }
        catch (EvenkeelException error)
        {
            Expect(error.Status == EvenkeelStatus.OutOfRange, "a period of centuries is refused");
        }

        double moved = 0;
        var ten = new ManualResetEvent(false);
        using (var ticks = new TickThread("ten", TimeSpan.FromMilliseconds(1), seconds =>
        {
            moved += seconds;
            if (moved > 0.0095) ten.Set();
        }))
        {
            ten.WaitOne();
            string report = ticks.Stop();
            Expect(report.Contains("ticks"), "the report counts ticks: " + report);
            long count = ticks.Count;
            Expect(count > 0, "ticks were counted");
            Thread.Sleep(3);
            Expect(ticks.Count == count, "no tick comes after Stop");
        }
        Console.WriteLine("passed");
        return 0;
    }
}
