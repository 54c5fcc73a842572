// A server loop in C#: waits for its ticks, and says how well that went. With Unity or .NET as with Mono:
//   mcs -unsafe EvenkeelRt.cs Server.cs && mono EvenkeelRt.exe
using System;
using System.Runtime.InteropServices;
using System.Text;
using Evenkeel;

static unsafe class Server
{
    static void Must(EvenkeelStatus status, string what)
    {
        if (status == EvenkeelStatus.Ok) return;
        byte* more = stackalloc byte[256];
        EvenkeelRt.evenkeel_last_error(more, (UIntPtr)256);
        string text = Marshal.PtrToStringAnsi((IntPtr)EvenkeelRt.evenkeel_status_text((uint)status));
        throw new InvalidOperationException(what + ": " + text + ": " + Marshal.PtrToStringAnsi((IntPtr)more));
    }

    // Texts go over as UTF-8 with a zero at the end.
    static byte[] Text(string text)
    {
        return Encoding.UTF8.GetBytes(text + "\0");
    }

    static int Main()
    {
        EvenkeelThreadConfig wishes;
        Must(EvenkeelRt.evenkeel_init(&wishes, (UIntPtr)sizeof(EvenkeelThreadConfig)), "prepare");
        EvenkeelThread* thread;
        Must(EvenkeelRt.evenkeel_thread_new(&wishes, &thread), "set the thread up");

        uint move;
        fixed (byte* name = Text("move players")) Must(EvenkeelRt.evenkeel_scope_register(name, &move), "name a scope");

        EvenkeelClockSettings settings;
        Must(EvenkeelRt.evenkeel_init(&settings, (UIntPtr)sizeof(EvenkeelClockSettings)), "prepare");
        settings.period_ns = 5000000;
        settings.overrun = (uint)EvenkeelOverrun.Skip;
        EvenkeelClock* clock;
        Must(EvenkeelRt.evenkeel_clock_new(&settings, &clock), "start the clock");
        Must(EvenkeelRt.evenkeel_clock_take_thread(clock, thread), "hand the thread over");

        EvenkeelTick tick;
        EvenkeelDone done;
        Must(EvenkeelRt.evenkeel_init(&tick, (UIntPtr)sizeof(EvenkeelTick)), "prepare");
        Must(EvenkeelRt.evenkeel_init(&done, (UIntPtr)sizeof(EvenkeelDone)), "prepare");
        for (int i = 0; i < 50; i++)
        {
            Must(EvenkeelRt.evenkeel_clock_wait(clock, &tick), "wait");
            EvenkeelRt.evenkeel_scope_enter(move);
            // ... move the world by (1 + tick.missed) periods ...
            EvenkeelRt.evenkeel_scope_leave(move);
            Must(EvenkeelRt.evenkeel_clock_done(clock, &done), "done");
        }

        EvenkeelSummary felt;
        Must(EvenkeelRt.evenkeel_init(&felt, (UIntPtr)sizeof(EvenkeelSummary)), "prepare");
        Must(EvenkeelRt.evenkeel_clock_due_to_done(clock, &felt), "due to done");
        Console.WriteLine("{0} ticks, due to done {1} ns at the median", felt.count, felt.p50_ns);
        Must(EvenkeelRt.evenkeel_clock_free(clock), "free the clock");
        // A handle that is no more is a status, not a crash.
        return EvenkeelRt.evenkeel_clock_free(clock) == EvenkeelStatus.BadHandle ? 0 : 1;
    }
}
