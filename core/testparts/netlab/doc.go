//go:build !linux

// Package netlab owns the private networks of tests, which only Linux has.
package netlab
