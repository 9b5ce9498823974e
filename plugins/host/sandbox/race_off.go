//go:build !race

package sandbox

const bounded = true

// environment is that of a process until it becomes the program of its order.
func environment() []string { return []string{} }
