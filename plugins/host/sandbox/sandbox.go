// Package sandbox owns the confinement of a plugin process: files, network, sockets, other
// processes, system calls. A process is started through the program itself, which confines itself
// and then becomes the plugin: every program that imports this package does so when its arguments
// ask for it.
//
// It must not know plugins, manifests or host services: it gets a program, and returns how to start
// it.
package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
)

// Mode is whether plugins are confined.
type Mode string

// The modes.
const (
	Auto Mode = "auto" // by what the kernel gives; Missing lists what it does not
	On   Mode = "on"   // by all of it, or New fails
	Off  Mode = "off"
)

// Config defines how plugins are confined.
type Config struct {
	Mode   Mode
	Memory int64 // bytes of data that a process may have; 0: any. A program with the race detector is not bounded
}

// Profile is the access of one process in addition to the system's programs and libraries.
type Profile struct {
	Dir     string   // its private folder, the only place where it may write; its working directory
	Read    []string // further files and folders that it may read, and whose programs it may run
	Network bool     // of the machine; false: none
}

// Sandbox starts programs confined. Safe for concurrent use.
type Sandbox struct {
	memory    int64                 // see Config
	processes int                   // of one program with all its descendants
	found     func() (means, error) // once: it starts a process
}

// means are the kernel's means of confinement.
type means struct {
	level    level
	landlock int // its ABI; 0: there is none
	nothing  bool
	missing  []string
}

// Bounds of a process with all its descendants, or of each process where that is noted.
const (
	maxProcesses = 1024 // threads count
	maxFiles     = 4096 // of each process
)

// level is which of the kernel's means are used beside Landlock, seccomp and limits.
type level struct {
	User  bool `json:"user"`  // a user namespace: root has no rights outside of it
	Mount bool `json:"mount"` // a file system that holds only what is allowed; also own IPC, host name and network
	PID   bool `json:"pid"`   // a process tree of its own, which ends as one
}

// New makes a sandbox; it is nil for Off. It detects the means of the kernel at the first use, for
// On immediately. An error wraps core.ErrInvalid for an unknown mode, and core.ErrUnavailable for
// On if something is missing.
func New(cfg Config) (*Sandbox, error) { return newBy(find, cfg) }

// newBy is New with a probe of the means that the kernel gives.
func newBy(probe func() (means, error), cfg Config) (*Sandbox, error) {
	if cfg.Memory < 0 {
		return nil, fmt.Errorf("%w: sandbox of plugins: memory of %d bytes; expected more, or 0 for any", core.ErrInvalid, cfg.Memory)
	}
	switch cfg.Mode {
	case Off:
		return nil, nil //nolint:nilnil // nil confines nothing, as Confine says
	case Auto, On:
	default:
		return nil, fmt.Errorf("%w: sandbox of plugins: %q; expected auto, on or off", core.ErrInvalid, cfg.Mode)
	}
	s := &Sandbox{memory: cfg.Memory, processes: maxProcesses, found: sync.OnceValues(probe)}
	if cfg.Mode == Auto {
		return s, nil
	}
	missing, err := s.Missing()
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: the sandbox of plugins is not whole here: %s\nhint: --plugin-sandbox auto takes what there is", core.ErrUnavailable, strings.Join(missing, "; "))
	}
	return s, nil
}

// Missing lists, for people, what the kernel does not give; nothing where the sandbox is whole.
func (s *Sandbox) Missing() ([]string, error) {
	if s == nil {
		return nil, nil
	}
	m, err := s.found()
	return m.missing, err
}

// Tree reports whether a confined process is the first one of a tree of its own: what Confine
// starts is then its parent, which ends with it, by 128+N where signal N ended it.
func (s *Sandbox) Tree() bool {
	if s == nil {
		return false
	}
	m, err := s.found()
	return err == nil && m.level.PID
}

var errNoDir = errors.New("sandbox: no private folder")
