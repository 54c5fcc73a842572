// The firmware data of a real server's processors that QEMU lacks: idle states and frequencies, here for CPU 0. lab/machines.sh shows what
// is repeated for each other CPU of a guest.
//
// The kernel then has acpi_idle with POLL, C1, C2 and C3, and acpi-cpufreq from 1.2 to 2.6 GHz. The ports behind C2 and C3 come back
// at once, so a CPU in them spins; their latencies (in us) are long, so that the governor seldom chooses them.
DefinitionBlock ("", "SSDT", 2, "EVENKL", "IDLE", 1)
{
    External (\_SB.CPUS, DeviceObj)
    External (\_SB.CPUS.C000, DeviceObj)

    Scope (\_SB.CPUS)
    {
        Name (STAT, Package ()
        {
            3,
            // Register, type, latency, power
            Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }, 1, 2, 1000 },
            Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x614) }, 2, 400000, 500 },
            Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x615) }, 3, 800000, 200 }
        })
        Name (CTRL, Package ()
        {
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x2F0) },
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x2F1) }
        })
        Name (FREQ, Package ()
        {
            // MHz, mW, latency of a change, latency of the bus, control, status
            Package () { 2600, 90000, 10, 10, 0, 0 },
            Package () { 2000, 60000, 10, 10, 1, 1 },
            Package () { 1200, 30000, 10, 10, 2, 2 }
        })
    }
    Scope (\_SB.CPUS.C000)
    {
        Method (_CST) { Return (STAT) }
        Method (_PCT) { Return (CTRL) }
        Method (_PSS) { Return (FREQ) }
        Name (_PPC, 0)
        Name (_PSD, Package () { Package () { 5, 0, 0, 0xFC, 1 } })
    }
}
