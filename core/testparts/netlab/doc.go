//go:build !linux

// Package netlab owns the private networks and machines of tests, which only Linux has.
package netlab
