package sandbox

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// oldOpen is the call before openat: there is none.
const oldOpen = 0

// arm64 has none of the older calls.
func machineRefused() []uintptr   { return nil }
func machineOwnership() []uintptr { return nil }
