// Package cli owns the command line: one file a verb, and the wiring of all rooms.
package cli

import "io"

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int { return 0 }
