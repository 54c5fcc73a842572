// The part of Unity that the sample uses, and an engine that runs it until the ticks have moved its object.
using System;
using System.Diagnostics;
using System.Reflection;
using System.Threading;

namespace UnityEngine
{
    public struct Vector3
    {
        public readonly float x, y, z;

        public Vector3(float x, float y, float z)
        {
            this.x = x;
            this.y = y;
            this.z = z;
        }
    }

    public class Transform
    {
        public Vector3 position { get; set; }
    }

    public class MonoBehaviour
    {
        public readonly Transform transform = new Transform();
    }

    public static class Application
    {
        public static int targetFrameRate { get; set; }
    }

    public static class Debug
    {
        public static void Log(object text)
        {
            Console.WriteLine(text);
        }

        public static void LogWarning(object text)
        {
            Console.Error.WriteLine(text);
        }
    }
}

static class Engine
{
    static void Call(object of, string name)
    {
        of.GetType().GetMethod(name, BindingFlags.Instance | BindingFlags.NonPublic).Invoke(of, null);
    }

    static int Main()
    {
        var server = new TickServer();
        Call(server, "OnEnable");
        var since = Stopwatch.StartNew();
        while (server.transform.position.x < 1)
        {
            if (since.Elapsed.TotalSeconds > 60) return 1;
            Call(server, "Update");
            Thread.Sleep(1);
        }
        Call(server, "OnDisable");
        return 0;
    }
}
