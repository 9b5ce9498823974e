//go:build race

package sandbox

import "os"

// bounded: the race detector maps more than any bound.
const bounded = false

// environment is that of a process until it becomes the program of its order: what the race
// detector is to do.
func environment() []string { return []string{"GORACE=" + os.Getenv("GORACE")} }
