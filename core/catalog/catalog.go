package catalog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/playbooks"
)

// Config holds what a catalog works on. Ledger, Board and Controller must be set.
type Config struct {
	Ledger     *ledger.Ledger
	Board      board.Board
	Controller *controller.Controller
	Playbooks  playbooks.Options // what is known of job types
	// Pool is the one whose workers take what schedules launch; "" takes hosts of every pool.
	Pool string
	// Follow, when set, makes this server follow a branch. Load and Apply are filled in. Any number of
	// servers may follow the same one.
	Follow *definitions.FollowOptions
	// Folder, when set, is a folder of definitions that is followed instead: edits are taken over when
	// files no longer change between two polls.
	Folder string
	// Sources are the systems that keep hosts beside the project's inventory; names are unique. Of the
	// servers with one ledger, one asks them, with Fetch.
	Sources []sources.Source
	Fetch   func(ctx context.Context, s sources.Source) (*sources.Generation, error)
	// Events gets what happens. It is called by several goroutines and must not block.
	Events func(Event)
	Log    *slog.Logger // discarded when nil
	// Traces makes the spans of what schedules launch; nil makes none.
	Traces trace.TracerProvider
}

// ErrNoProject is the answer of a server without a valid project. It wraps [core.ErrUnavailable].
var ErrNoProject = fmt.Errorf("the server has no valid project yet: %w\nhint: turnus admin doctor shows why one was rejected; turnus project apply DIR applies one", core.ErrUnavailable)

// Times of the loops.
const (
	watchEvery  = time.Second     // between checks of the ledger's version and the board
	folderPoll  = time.Second     // between checks of a folder
	reportEvery = 2 * time.Second // between checks of the rejected definitions in the ledger
)

// BoardName is the name of the service's windows on the board.
const BoardName = "service/windows"

// AnyVersion as ifVersion of Apply replaces any version.
const AnyVersion = -1

// Current is the definitions that the service runs by.
type Current struct {
	Set      *definitions.Set    // with the hosts of sources
	Version  int64               // of the ledger's document; 0 before the first
	By       string              // who applied it
	Source   Source              // where it came from
	Applied  time.Time           // when
	Changes  definitions.Changes // what it changed, when it was put, of the version before; none of the first
	LeftOut  int                 // further changes, which are not kept
	Base     Base                // what was last taken from git or a folder: what somebody applies by hand afterwards holds until that changes
	calendar *admission.Calendar
	given    int64            // version of the approvals that are in it
	own      *definitions.Set // without the hosts of sources
	hosts    sourceHosts

	published []byte // the calendar, for workers
}

// Base is a commit, or the hash of a folder's definitions.
type Base struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at,omitzero"`     // when it was committed
	Branch string    `json:"branch,omitzero"` // of which repository
	Seen   time.Time `json:"seen,omitzero"`   // when that was asked, by the clock of the server that put it
}

// ETag identifies the version: `"7"`.
func (c *Current) ETag() string { return `"` + strconv.FormatInt(c.Version, 10) + `"` }

// VersionOf reads what ETag wrote, also as a weak one. It is core.ErrInvalid for anything else.
func VersionOf(etag string) (int64, error) {
	text := strings.TrimPrefix(etag, "W/")
	if len(text) > 2 && text[0] == '"' && text[len(text)-1] == '"' {
		if n, err := strconv.ParseInt(text[1:len(text)-1], 10, 64); err == nil && n >= 0 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("ETag %.40q is none of the project: %w", etag, core.ErrInvalid)
}

// Source is where definitions came from.
type Source string

// The sources.
const (
	FromGit    Source = "git"
	FromFolder Source = "folder"
	FromApply  Source = "apply"
)

// Catalog is one server's part. Its methods are safe for concurrent use.
type Catalog struct {
	cfg      Config
	id       string                // of this process, random
	follower *definitions.Follower // nil: no branch is followed
	control  *schedule.Control
	engine   *schedule.Engine
	begun    chan struct{} // closed with the first definitions
	notify   chan struct{} // has room for one: check the ledger
	ended    chan string   // runs that are complete

	templates templates
	facts     controller.FactsCache
	aligning  sync.Mutex // held while schedules are brought in line

	windows *admission.Publisher
	keeper  *sources.Keeper // of generations of hosts

	sourcing sync.Mutex // held while generations of hosts are taken over

	approving sync.Mutex // held while an approval of a window is written
	taking    sync.Mutex // held while definitions or approvals are taken over

	mu       sync.Mutex
	current  *Current // never nil
	none     bool     // the ledger had no definitions when it was last read
	given    givenState
	sources  []knownSource // as cfg.Sources
	rejected *Rejected
	aligned  alignState

	compared rejectedDiff

	folderError string // why the folder's definitions were not taken over
}

// New checks the configuration. Nothing is read before Run. Errors wrap core.ErrInvalid.
func New(cfg Config) (*Catalog, error) {
	if cfg.Ledger == nil || cfg.Board == nil || cfg.Controller == nil {
		return nil, fmt.Errorf("catalog: a ledger, a board and a controller are needed: %w", core.ErrInvalid)
	}
	if cfg.Follow != nil && cfg.Folder != "" {
		return nil, fmt.Errorf("catalog: either a repository or a folder can be followed: %w", core.ErrInvalid)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	c := &Catalog{
		cfg: cfg, id: rand.Text(), control: schedule.NewControl(cfg.Ledger), current: &Current{},
		begun: make(chan struct{}), notify: make(chan struct{}, 1), ended: make(chan string, 1024),
	}
	c.keeper = &sources.Keeper{Ledger: cfg.Ledger, Fetch: cfg.Fetch, Shared: true}
	for _, s := range cfg.Sources {
		c.sources = append(c.sources, knownSource{Source: s})
	}
	c.windows = admission.NewPublisher(admission.PublisherOptions{Name: BoardName, Board: cfg.Board, Current: c.edition, Signal: cfg.Controller.SignalWindows})
	c.engine = schedule.NewEngine(cfg.Ledger, &launcher{c}, c.triggered)
	if cfg.Follow != nil {
		o := *cfg.Follow
		o.Load.Sources = c.knows()
		o.Load.Playbooks, o.Apply, o.Still, o.OnStatus = cfg.Playbooks, c.followed, c.still, c.gitStatus(cfg.Follow.OnStatus)
		follower, err := definitions.NewFollower(o)
		if err != nil {
			return nil, err
		}
		c.follower = follower
	}
	return c, nil
}

// Run keeps everything in line until ctx ends, and then returns nil when all that it started has
// ended. An error means that it could not begin: no git, or its folder is another process's.
func (c *Catalog) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	if c.follower != nil {
		wg.Go(func() {
			if err := c.follower.Run(ctx); err != nil {
				stop(err)
			}
		})
	}
	if c.cfg.Folder != "" {
		wg.Go(func() { c.watchFolder(ctx) })
	}
	if len(c.cfg.Sources) > 0 {
		wg.Go(func() { c.fetchSources(ctx) })
	}
	wg.Go(func() { c.wakeWaiting(ctx) })
	wg.Go(func() {
		select {
		case <-c.begun: // before, no fire could be launched
			c.engine.Run(ctx)
		case <-ctx.Done():
		}
	})
	c.watch(ctx)
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Set is the newest valid definitions that this server could read; nil before the first.
func (c *Catalog) Set() *definitions.Set { return c.Current().Set }

// None reports whether the ledger had no definitions when it was last read. It is false until this
// server has read the ledger.
func (c *Catalog) None() bool { return core.Locked(&c.mu, &c.none) }

// Windows returns the window calendar of Set, and the name under which workers find it. Before the
// first definitions the calendar is nil, and nothing can be launched.
func (c *Catalog) Windows() (cal *admission.Calendar, board string) {
	return c.Current().calendar, BoardName
}

// Current returns the definitions that this server runs by, and their source.
func (c *Catalog) Current() Current {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.current
}

// Notify asks for a check of the followed branch and the ledger soon. It never blocks.
func (c *Catalog) Notify() {
	if c.follower != nil {
		c.follower.Notify()
	}
	core.Notify(c.notify)
}
