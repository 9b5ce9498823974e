//go:build !linux

// Package dnslab owns signed zones for tests in a network namespace, which only Linux has.
package dnslab
