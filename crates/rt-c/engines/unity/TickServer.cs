// Put this component on an object of the first scene of a dedicated server.
using System;
using Evenkeel;
using UnityEngine;

public sealed class TickServer : MonoBehaviour
{
    public int rateHz = 50;

    readonly object world = new object();
    TickThread ticks;
    double moved;

    void OnEnable()
    {
        // A server needs few frames: they only show the result of the ticks.
        Application.targetFrameRate = 10;
        ticks = new TickThread("match", TimeSpan.FromSeconds(1.0 / rateHz), Tick);
        if (ticks.Advice.Length > 0) Debug.LogWarning(ticks.Advice);
    }

    // Runs on the tick thread: call no functions of Unity here.
    void Tick(double seconds)
    {
        lock (world) moved += 3 * seconds;
    }

    void Update()
    {
        double now;
        lock (world) now = moved;
        transform.position = new Vector3((float)now, 0, 0);
    }

    void OnDisable()
    {
        Debug.Log(ticks.Stop());
    }
}
