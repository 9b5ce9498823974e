//go:build !linux

// Package bootlab owns devices for tests that boot from slots, which only Linux can play.
package bootlab
