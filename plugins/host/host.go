// Package host owns plugin processes: discovery of plugins and their manifests,
// start with a clean environment, handshake, supervision, pooling, and the
// host services that plugins call back.
//
// It must not know queues, playbooks or runs; it imports core for the
// vocabulary, core/transport to reach hosts, and the wire.
package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

// Config defines where plugins come from and what they may use.
type Config struct {
	Builtins []Plugin          // the binary's own, run by re-executing it
	Dirs     []string          // plugin folders: DIR/NAME/VERSION/{plugin,manifest.json}
	Dev      map[string]string // plugins under development, by name: the author's folder or program. They take the place of those of Dirs, and no lockfile is asked
	Adapter  []string          // serves the scripts of plugin folders: an absolute program and arguments, the folder is added; nil: none
	Reach    *transport.Pool   // nil: every call to a host is refused as unreachable
	Socket   string            // folder for sockets, 0700; a temporary one by default
	Idle     time.Duration     // an unused process is stopped after it; 2 min
	Grace    time.Duration     // between asking a job or process to end and killing it; 5 s
	MaxAge   time.Duration     // a process older than this takes no new call; 6 h
	Log      *slog.Logger      // slog.Default() when nil

	Sandbox *sandbox.Sandbox // confines the processes; nil: they have all rights of this user
	Allow   map[string]Allow // by plugin, what it has under the sandbox; nil: nothing, and none is refused for asking, as where no job runs

	UploadRate int64 // most bytes a second that all calls together write to hosts; 0: any
}

// Plugin is one plugin that can be started.
type Plugin struct {
	Name, Version string
	Argv          []string // absolute program first
	Manifest      Manifest
	Dir           string // folder of this version; "" for built-ins
	Tree          string // hash of all its files, when none of them may change; see [Tree]
	SHA256        string // hex; a program of other content is not started. Empty for built-ins
	Allow         Allow  // of a built-in: its own needs
	// Process is the name of the processes that all built-ins with the same one share. They must be
	// started in the same way, with the same needs. "": it has processes of its own.
	Process string
}

// Allow is the access of a plugin under a sandbox, in addition to its own folder and the system's
// programs.
type Allow struct {
	Network bool     // of the machine
	Read    []string // absolute paths, whose programs it may also run
}

// Manifest describes a plugin (see sdk.Manifest, whose JSON it reads).
type Manifest struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Protocol    int    `json:"protocol"`
	Concurrency int    `json:"concurrency"`
	Network     bool   `json:"network,omitempty"` // its own process opens connections
	Types       []Type `json:"types"`
}

// Type is one job type of a manifest.
type Type struct {
	Name         string          `json:"name"`
	Summary      string          `json:"summary"`
	Description  string          `json:"description,omitempty"`
	Params       json.RawMessage `json:"params"`            // JSON Schema
	Outputs      json.RawMessage `json:"outputs,omitempty"` // JSON Schema
	Check        bool            `json:"check"`
	Idempotent   bool            `json:"idempotent"`
	Disruptive   bool            `json:"disruptive"`
	OnLost       string          `json:"on_lost"`
	StateVersion int             `json:"state_version,omitempty"`
	Examples     []Example       `json:"examples,omitempty"`
	Plugin       string          `json:"-"` // name and version of the plugin that declares it, as Supervisor.Type has it

	Reverts       bool     `json:"reverts,omitempty"`        // undoes its own failure
	RevertsUnless []string `json:"reverts_unless,omitempty"` // names of params; with a true one it does not
}

// Example is a valid with: of a type.
type Example struct {
	Title   string          `json:"title"`
	Params  json.RawMessage `json:"params"`
	Secrets []string        `json:"secrets,omitempty"` // names under which its step lists secrets
}

// Call is one call of a job type.
type Call struct {
	Job     core.JobID
	Step    string
	Attempt int
	Type    string
	Params  json.RawMessage
	Host    core.Host
	Become  core.Become // runs commands, and reads and writes files, as another user; the zero value is the login
	Barred  string      // why it may not become that user: the host refused the password before; "" if it may
	State   *State
	Check   bool
	// Untouched is, in check mode, that no earlier step of the run would change the host.
	Untouched bool
	Diff      bool
	Key       string // idempotency key, stable over attempts
	Fence     uint64
	Queue     string // whose leases Fence counts; "": hosts compare no fences
	Files     string // folder that artifacts are read from; "" refuses
	// Withheld are files and folders of this machine that are never read as artifacts, wherever they
	// lie.
	Withheld []string
	Fetch    string // folder that SaveFile writes under; "" refuses

	// Live returns why the call may not begin, or begin another thing: its job may be another worker's
	// already. It is asked in the last instant before the call and before each host service, and does
	// not block. Nil always allows it.
	Live func() error
	// Checkpoint makes state durable; nil keeps it in the process only.
	Checkpoint func(ctx context.Context, s State) error
	// BeforeChange is called before each call of a host service that could change the host; an error
	// refuses that call. Nil allows all.
	BeforeChange func(ctx context.Context) error
	// MayBegin returns, when a process stands ready, and again when the host is connected for the
	// first thing that is asked of it, why the call may not begin after all: both may take long. The
	// call then ends as Held, with its State. "" is that it may. Nil always allows it.
	MayBegin func(ctx context.Context) string
	// Stop returns, after a checkpoint, why the call should end there as Held; "" is continue. Nil
	// never asks for it.
	Stop func(ctx context.Context) string
	// MayStart returns why the call may not begin an action now that cannot be undone and takes so
	// long, rollback included; "" if it may. need 0 is what the step was given. Nil always allows it.
	MayStart func(ctx context.Context, need time.Duration) string
	// Secrets are the values that the call may have, by the names that its job type knows; others are
	// refused.
	Secrets map[string][]byte
	// Hidden are values that must not show in the output of the plugin's process and in the
	// supervisor's log, the values of Secrets among them. The caller takes them out of the call's
	// reports.
	Hidden *redact.Set
	// Kept reads a file of the newest kept version of the host's configuration, and Keep makes a new
	// version (empty when nothing differs). Nil refuses.
	Kept func(ctx context.Context, name string) (content []byte, found bool, err error)
	Keep func(ctx context.Context, files []KeptFile) (version string, changed []string, err error)
	// Sink gets the call's events in order, one at a time; it must not block for long.
	Sink func(Event)

	span trace.Span // of the call; what its plugin asks of hosts is under it. Nil: none
}

// State is a job type's saved state.
type State struct {
	Version int             `json:"version"`
	JSON    json.RawMessage `json:"json"`
}

// Event is one of: output, log, diff, progress.
type Event struct {
	Stdout, Stderr []byte
	Log            string
	Level          slog.Level
	DiffTitle      string
	Diff           string
	Phase          string
	Done           float64
}

// The effects of a failed call on its host, as Outcome.Effects.
const (
	EffectsNone    = "none"
	EffectsPartial = "partial"
	EffectsUnknown = "unknown"
)

// Outcome is how a call ended.
type Outcome struct {
	Changed                                 bool
	Skipped                                 bool
	Failed                                  bool
	Suspended                               bool
	Cancelled                               bool
	Reason                                  string
	Unchecked                               bool // of Changed in check mode: an earlier step may bring what the host lacks
	Outputs                                 map[string]any
	Retryable                               bool   // of Failed
	Effects                                 string // of Failed: none, partial, unknown
	Unreachable, RolledBack, Lost, TimedOut bool
	How                                     string // of TimedOut by its deadline: how the call ended, to follow "timed out"

	State       *State // of Suspended
	ResumeAfter time.Duration
	Signal      string
	KeepLocks   bool
	Misfit      bool   // of Failed: the params or the outputs are not as the job type has them
	Barred      string // the host refused the password of Become: its answer, with the next step
	Held        bool   // because MayBegin, Stop or MayStart asked for it: ResumeAfter and Signal have no meaning
}
