//go:build race

package sandbox

// bounded: the race detector maps more than any bound.
const bounded = false
