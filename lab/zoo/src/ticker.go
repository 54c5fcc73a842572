// A Go server's tick with 2 ms of work: time.Ticker (set times) or time.Sleep (a period after the one before). With GOMAXPROCS above 1 the
// runtime moves the goroutine between threads. It prints its own count at SIGTERM.
//
// usage: ticker ticker|sleep HZ WORK_US
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

var sink uint64

func rounds(n int) {
	x := sink
	for i := 0; i < n; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

func main() {
	hz, _ := strconv.ParseFloat(os.Args[2], 64)
	workUs, _ := strconv.ParseFloat(os.Args[3], 64)
	best := time.Hour
	for i := 0; i < 20; i++ {
		start := time.Now()
		rounds(200000)
		best = min(best, time.Since(start))
	}
	percent := 100.0
	if text := os.Getenv("ZOO_WORK_PERCENT"); text != "" {
		percent, _ = strconv.ParseFloat(text, 64)
	}
	work := int(200000 / best.Seconds() * workUs / 1e6 * percent / 100)
	period := time.Duration(1e9 / hz)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	ticks, start := 0, time.Now()
	end := func() {
		seconds := time.Since(start).Seconds()
		fmt.Fprintf(os.Stderr, "zoo: %d ticks in %.3f s, %.3f Hz\n", ticks, seconds, float64(ticks)/seconds)
		os.Exit(0)
	}
	if os.Args[1] == "sleep" {
		for {
			select {
			case <-stop:
				end()
			default:
			}
			rounds(work)
			ticks++
			time.Sleep(period)
		}
	}
	ticker := time.NewTicker(period)
	for {
		select {
		case <-stop:
			end()
		case <-ticker.C:
			rounds(work)
			ticks++
		}
	}
}
