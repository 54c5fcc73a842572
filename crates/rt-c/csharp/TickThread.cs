// Runs a function at a steady rate on a thread of its own. The thread of an engine draws or handles events, and a server's tick must not wait
// for that.
using System;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace Evenkeel
{
    /// <summary>A call of the library that failed.</summary>
    public sealed class EvenkeelException : Exception
    {
        /// <summary>The reason, as a status.</summary>
        public readonly EvenkeelStatus Status;

        internal EvenkeelException(EvenkeelStatus status, string message) : base(message)
        {
            Status = status;
        }
    }

    /// <summary>A thread that calls a function once a tick.</summary>
    public sealed unsafe class TickThread : IDisposable
    {
        delegate EvenkeelStatus TextCall(EvenkeelTickLoop* ticks, byte* text, UIntPtr size, UIntPtr* needed);

        readonly Action<double> tick;
        readonly ulong periodNs;
        readonly Thread thread;
        readonly ManualResetEventSlim started = new ManualResetEventSlim();
        volatile bool isSetUp;
        volatile bool stopping;
        long count;
        Exception failure;
        string report = "";

        /// <summary>
        /// Starts the thread, and returns when it is set up. <c>tick</c> receives the seconds to move the world by: one period, and one for each
        /// missed tick. It runs on the new thread, so it must not access objects that belong to the engine's thread.
        /// </summary>
        public TickThread(string name, TimeSpan period, Action<double> tick)
        {
            if (tick == null) throw new ArgumentNullException("tick");
            if (period <= TimeSpan.Zero) throw new ArgumentOutOfRangeException("period");
            this.tick = tick;
            // A product that overflows would be another period. Pass the largest number instead, which the library refuses.
            periodNs = period.Ticks > long.MaxValue / 100 ? ulong.MaxValue : (ulong)period.Ticks * 100;
            Advice = "";
            thread = new Thread(Run) { Name = name, IsBackground = true };
            thread.Start();
            started.Wait();
            // If a tick has failed since, Stop reports it.
            if (isSetUp) return;
            thread.Join();
            throw failure;
        }

        /// <summary>A line for each setting that the kernel refused.</summary>
        public string Advice { get; private set; }

        /// <summary>How many ticks have ended.</summary>
        public long Count
        {
            get { return Interlocked.Read(ref count); }
        }

        /// <summary>
        /// Ends the thread after the next tick, which takes up to a period, and returns how well the ticks kept time. It throws what <c>tick</c>
        /// threw. Do not call it from <c>tick</c>.
        /// </summary>
        public string Stop()
        {
            Dispose();
            if (failure != null) throw new InvalidOperationException("a tick failed", failure);
            return report;
        }

        /// <summary>Ends the thread after the next tick, which takes up to a period.</summary>
        public void Dispose()
        {
            stopping = true;
            if (Thread.CurrentThread != thread) thread.Join();
        }

        void Run()
        {
            try
            {
                EvenkeelTickLoop* ticks = New();
                try
                {
                    Advice = Text(EvenkeelRt.evenkeel_tick_loop_advice, ticks);
                    isSetUp = true;
                    started.Set();
                    Loop(ticks);
                    report = Text(EvenkeelRt.evenkeel_tick_loop_report_text, ticks);
                }
                finally
                {
                    EvenkeelRt.evenkeel_tick_loop_free(ticks);
                }
            }
            catch (Exception error)
            {
                failure = error;
            }
            finally
            {
                started.Set();
            }
        }

        // The loop belongs to the thread that makes it.
        EvenkeelTickLoop* New()
        {
            EvenkeelTickLoopSettings settings;
            Must(EvenkeelRt.evenkeel_init(&settings, (UIntPtr)sizeof(EvenkeelTickLoopSettings)), "prepare the settings");
            settings.period_ns = periodNs;
            EvenkeelTickLoop* ticks;
            Must(EvenkeelRt.evenkeel_tick_loop_new(&settings, &ticks), "start the loop");
            return ticks;
        }

        void Loop(EvenkeelTickLoop* ticks)
        {
            EvenkeelTick begun;
            EvenkeelDone done;
            Must(EvenkeelRt.evenkeel_init(&begun, (UIntPtr)sizeof(EvenkeelTick)), "prepare a tick");
            Must(EvenkeelRt.evenkeel_init(&done, (UIntPtr)sizeof(EvenkeelDone)), "prepare a tick's end");
            while (!stopping)
            {
                Must(EvenkeelRt.evenkeel_tick_loop_wait(ticks, &begun), "wait for a tick");
                tick(begun.elapsed_ns / 1e9);
                Must(EvenkeelRt.evenkeel_tick_loop_done(ticks, &done), "end a tick");
                Interlocked.Increment(ref count);
            }
        }

        static string Text(TextCall call, EvenkeelTickLoop* ticks)
        {
            byte[] text = new byte[8192];
            UIntPtr needed;
            fixed (byte* start = text) Must(call(ticks, start, (UIntPtr)text.Length, &needed), "read a text");
            int end = Array.IndexOf(text, (byte)0);
            return Encoding.UTF8.GetString(text, 0, end < 0 ? text.Length : end);
        }

        static void Must(EvenkeelStatus status, string what)
        {
            if (status == EvenkeelStatus.Ok) return;
            byte* more = stackalloc byte[256];
            EvenkeelRt.evenkeel_last_error(more, (UIntPtr)256);
            string text = Marshal.PtrToStringAnsi((IntPtr)EvenkeelRt.evenkeel_status_text((uint)status));
            throw new EvenkeelException(status, "failed to " + what + ": " + text + ": " + Marshal.PtrToStringAnsi((IntPtr)more));
        }
    }
}
