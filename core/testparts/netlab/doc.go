//go:build !linux

// Package netlab owns hosts for tests in network namespaces, which only Linux has.
package netlab
