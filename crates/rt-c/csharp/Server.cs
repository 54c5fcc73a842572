// A server loop in C#: waits for its ticks, and prints how well they kept time. With Unity or .NET as with Mono:
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

    // The library takes texts as UTF-8 with a zero at the end.
    static byte[] Text(string text)
    {
        return Encoding.UTF8.GetBytes(text + "\0");
    }

    static int Main()
    {
        EvenkeelTickLoopSettings settings;
        Must(EvenkeelRt.evenkeel_init(&settings, (UIntPtr)sizeof(EvenkeelTickLoopSettings)), "prepare the settings");
        settings.period_ns = 5000000;
        settings.overrun = (uint)EvenkeelOverrun.Skip;
        EvenkeelTickLoop* ticks;
        fixed (byte* name = Text("tick"))
        {
            settings.scopes_name = name;
            Must(EvenkeelRt.evenkeel_tick_loop_new(&settings, &ticks), "start the loop");
        }

        uint move;
        fixed (byte* name = Text("move players")) Must(EvenkeelRt.evenkeel_scope_register(name, &move), "name a scope");

        EvenkeelTick tick;
        EvenkeelDone done;
        Must(EvenkeelRt.evenkeel_init(&tick, (UIntPtr)sizeof(EvenkeelTick)), "prepare a tick");
        Must(EvenkeelRt.evenkeel_init(&done, (UIntPtr)sizeof(EvenkeelDone)), "prepare a tick's end");
        for (int i = 0; i < 50; i++)
        {
            Must(EvenkeelRt.evenkeel_tick_loop_wait(ticks, &tick), "wait");
            EvenkeelRt.evenkeel_scope_enter(move);
            // ... move the world by tick.elapsed_ns ...
            EvenkeelRt.evenkeel_scope_leave(move);
            Must(EvenkeelRt.evenkeel_tick_loop_done(ticks, &done), "end the tick");
        }

        EvenkeelSummary felt;
        Must(EvenkeelRt.evenkeel_init(&felt, (UIntPtr)sizeof(EvenkeelSummary)), "prepare a summary");
        Must(EvenkeelRt.evenkeel_tick_loop_due_to_done(ticks, &felt), "read the times from due to done");
        Console.WriteLine("{0} ticks, due to done {1} ns at the median", felt.count, felt.p50_ns);
        Must(EvenkeelRt.evenkeel_tick_loop_free(ticks), "end the loop");
        // Using a freed handle returns a status and does not crash.
        return EvenkeelRt.evenkeel_tick_loop_free(ticks) == EvenkeelStatus.BadHandle ? 0 : 1;
    }
}
