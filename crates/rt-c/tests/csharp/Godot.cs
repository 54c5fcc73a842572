// The part of Godot that the example uses, and an engine that runs it until the ticks have moved its node.
using System;
using System.Diagnostics;
using System.Threading;

namespace Godot
{
    public struct Vector3
    {
        public readonly float X, Y, Z;

        public Vector3(float x, float y, float z)
        {
            X = x;
            Y = y;
            Z = z;
        }
    }

    public class Node3D
    {
        public Vector3 Position { get; set; }

        public virtual void _EnterTree()
        {
        }

        public virtual void _Process(double delta)
        {
        }

        public virtual void _ExitTree()
        {
        }
    }

    public static class GD
    {
        public static void Print(params object[] what)
        {
            Console.WriteLine(string.Concat(what));
        }

        public static void PushWarning(params object[] what)
        {
            Console.Error.WriteLine(string.Concat(what));
        }
    }
}

static class Engine
{
    static int Main()
    {
        var server = new TickServer();
        server._EnterTree();
        var since = Stopwatch.StartNew();
        while (server.Position.X < 1)
        {
            if (since.Elapsed.TotalSeconds > 60) return 1;
            server._Process(0.001);
            Thread.Sleep(1);
        }
        server._ExitTree();
        return 0;
    }
}
