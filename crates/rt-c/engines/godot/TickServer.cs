// A server's world, moved 50 times a second on a thread of its own. Frames of Godot only show it.
using System;
using Evenkeel;
using Godot;

public partial class TickServer : Node3D
{
    readonly object world = new object();
    TickThread ticks;
    double moved;

    public override void _EnterTree()
    {
        ticks = new TickThread("match", TimeSpan.FromMilliseconds(20), Tick);
        if (ticks.Advice.Length > 0) GD.PushWarning(ticks.Advice);
    }

    // Runs on the tick thread: call no functions of Godot here.
    void Tick(double seconds)
    {
        lock (world) moved += 3 * seconds;
    }

    public override void _Process(double delta)
    {
        double now;
        lock (world) now = moved;
        Position = new Vector3((float)now, 0, 0);
    }

    public override void _ExitTree()
    {
        GD.Print(ticks.Stop());
    }
}
