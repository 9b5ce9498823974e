package settings

import (
	"os"
	"runtime/debug"
)

// How much garbage there is before it is collected, in percent of what lives.
const (
	heapOfStart = 400 // little lives: collecting would be a seventh of a short command's time
	heapOfWork  = 50  // thousands of connections: a smaller heap for a little CPU, see docs/benchmarks.md
)

// StartHeap lets garbage be while a command starts. GOGC of the environment wins.
func StartHeap() { setHeap(heapOfStart) }

// WorkHeap keeps the heap small, for a process that works on many hosts or serves others.
func WorkHeap() { setHeap(heapOfWork) }

func setHeap(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
