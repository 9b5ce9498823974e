//go:build !race

package sandbox

const bounded = true
