package localrun

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/worker"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// Hosts whose number is below three have no part in the step with once. Each later step writes down
// what it read of that.
const onceBook = `playbook: site
targets: true
strategy: {waves: [20%, 40%, 60%, 80%, 100%]}
steps:
  - {name: prepare, uses: file, with: {path: /a}}
  - {name: migrate, uses: file, once: true, when: host.vars.n >= 3, with: {path: /db}}
  - {name: use, uses: file, when: host.vars.n >= 3, with: {path: "${{ steps.migrate.outputs.token }} ${{ steps.migrate.changed }}"}}
`

// database is the place on which the hosts of a run work: migrate has its effect there, and a
// second call finds it.
type database struct {
	types map[string]host.Type
	fail  bool // migrate fails
	die   func(ctx context.Context)
	at    int  // die is called in this call of the run; 0 is never
	after bool // once the call has had its effect

	mu       sync.Mutex
	calls    int
	migrated int
	on       map[string]int // calls of migrate by host
	restarts map[string]int
	read     map[string]string
}

func newDatabase(onLost string) *database {
	t := host.Type{Name: "file", Check: true, Idempotent: onLost == "retry", OnLost: onLost}
	facts := host.Type{Name: "facts", Check: true, Idempotent: true, OnLost: "retry"}
	return &database{types: map[string]host.Type{"file": t, "facts": facts}, on: map[string]int{}, restarts: map[string]int{}, read: map[string]string{}}
}

func (d *database) Type(name string) (host.Type, bool) {
	t, ok := d.types[name]
	return t, ok
}

func (d *database) Warm([]string) {}

func (d *database) Run(ctx context.Context, c host.Call) (host.Outcome, error) {
	d.mu.Lock()
	d.calls++
	hit := d.calls == d.at
	d.mu.Unlock()
	if hit && !d.after {
		d.die(ctx)
		return host.Outcome{Cancelled: true, Effects: host.EffectsUnknown}, nil
	}
	out := d.effect(c)
	if hit {
		d.die(ctx)
		return host.Outcome{Cancelled: true, Effects: host.EffectsUnknown}, nil
	}
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return host.Outcome{Cancelled: true}, nil
	}
	return out, nil
}

func (d *database) effect(c host.Call) host.Outcome {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail && c.Type == "facts" { // of a host that failed
		return host.Outcome{Outputs: map[string]any{"boot_id": "boot of " + c.Host.Name}}
	}
	switch c.Step {
	case "use":
		d.read[c.Host.Name] = string(c.Params)
		return host.Outcome{Changed: true}
	case "restart":
		d.restarts[c.Host.Name]++
	case "migrate":
		d.on[c.Host.Name]++
		if d.fail {
			return host.Outcome{Failed: true, Reason: "no such table"}
		}
		changed := d.migrated == 0 && !c.Check
		if changed {
			d.migrated++
		}
		return host.Outcome{Changed: changed || c.Check, Outputs: map[string]any{"token": "v7", "boot_id": "boot of " + c.Host.Name}}
	}
	return host.Outcome{Changed: true}
}

// severed is a queue whose worker dies: from then on the queue does not hear from it.
type severed struct {
	encrypted.Backend
	gone atomic.Bool
}

func (s *severed) err() error {
	if s.gone.Load() {
		return fmt.Errorf("the worker is killed: %w", core.ErrUnavailable)
	}
	return nil
}

func (s *severed) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	if err := s.err(); err != nil {
		return queue.TurnResult{}, err
	}
	return s.Backend.Turn(ctx, t)
}

func (s *severed) Beat(ctx context.Context, session string) (queue.BeatResult, error) {
	if err := s.err(); err != nil {
		return queue.BeatResult{}, err
	}
	return s.Backend.Beat(ctx, session)
}

func (s *severed) Save(ctx context.Context, save queue.Save) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Backend.Save(ctx, save)
}

func (s *severed) Close(ctx context.Context, session string) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Backend.Close(ctx, session)
}

func (s *severed) PostFirst(ctx context.Context, name string, data []byte, keep time.Duration) ([]byte, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Backend.PostFirst(ctx, name, data, keep)
}

// explaining is a queue that calls the lab behind each answer of Explain.
type explaining struct {
	encrypted.Backend
	l *onceLab
}

func (e explaining) Explain(ctx context.Context, job core.JobID) (queue.Explanation, error) {
	why, err := e.Backend.Explain(ctx, job)
	if e.l.explained != nil {
		e.l.explained()
	}
	return why, err
}

// onceLab is a ledger, a queue, a server and workers in fake time.
type onceLab struct {
	*testing.T
	db     *database
	ledger *ledger.Ledger
	q      encrypted.Backend
	ctl    *controller.Controller
	ends   []func()

	explained func() // called each time that the server has asked where a job is
}

func inOnceLab(t *testing.T, onLost string, f func(l *onceLab)) {
	t.Helper()
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		store, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := &onceLab{T: t, db: newDatabase(onLost), ledger: store}
		l.startAll()
		f(l)
		l.endAll()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// warm makes the compressor that ledgers of this process share, which must not be made in a test's
// bubble.
func warm(t *testing.T) {
	t.Helper()
	store, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "warm.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Accept(t.Context(), ledger.NewRun{ID: "w", Playbook: "w", LaunchedBy: "w", Jobs: []ledger.JobHost{{Host: "h"}}, Snapshot: make([]byte, 4<<10)}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Material(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// startAll makes a queue that knows nothing, with a server and a worker.
func (l *onceLab) startAll() {
	l.Helper()
	q := memory.New(memory.Options{})
	ctl, err := controller.New(controller.Config{Name: "server", Ledger: l.ledger, Queue: explaining{q, l}, Board: q, Types: l.playbookType})
	if err != nil {
		l.Fatal(err)
	}
	l.q, l.ctl = q, ctl
	l.ends = append(l.ends, q.Shutdown)
	l.begin(ctl.Run)
	first := &severed{Backend: q}
	l.db.die = func(ctx context.Context) {
		first.gone.Store(true)
		l.worker("second", q)
		<-ctx.Done()
	}
	l.worker("first", first)
}

// endAll ends what startAll and begin have started.
func (l *onceLab) endAll() {
	l.db.mu.Lock()
	ends := l.ends
	l.ends = nil
	l.db.mu.Unlock()
	for i := range ends {
		ends[len(ends)-1-i]()
	}
}

func (l *onceLab) begin(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx) // a worker that died reports an error
	}()
	l.db.mu.Lock()
	defer l.db.mu.Unlock()
	l.ends = append(l.ends, func() { cancel(); <-done })
}

func (l *onceLab) worker(name string, q encrypted.Backend) {
	w, err := worker.New(worker.Config{Queue: q, Payload: q.Payload, Board: q, Plugins: l.db, Name: name, Concurrency: 8, Grace: time.Second})
	if err != nil {
		l.Error(err)
		return
	}
	l.begin(func(ctx context.Context) error {
		go func() { <-ctx.Done(); w.Kill() }()
		return w.Run(ctx)
	})
}

func (l *onceLab) playbookType(name string) (playbooks.Type, bool) {
	t, ok := l.db.types[name]
	return playbooks.Type{Name: t.Name, Check: true, Idempotent: t.Idempotent, OnLost: t.OnLost}, ok
}

func (l *onceLab) launch(id string, hosts int, check bool) *launch.Launch {
	l.Helper()
	return l.launchOf(onceBook, id, hosts, check)
}

func (l *onceLab) launchOf(book, id string, hosts int, check bool) *launch.Launch {
	l.Helper()
	p, err := playbooks.Parse("site.yaml", []byte(book), playbooks.Options{})
	if err != nil {
		l.Fatal(err)
	}
	fleet := make([]core.Host, hosts)
	for i := range fleet {
		fleet[i] = core.Host{Name: fmt.Sprintf("h%02d", i), Vars: map[string]any{"n": i}}
	}
	made, err := launch.Prepare(p, fleet, launch.Options{RunID: id, Types: l.playbookType, LaunchedBy: "alice", Check: check})
	if err != nil {
		l.Fatal(err)
	}
	return made
}

func (l *onceLab) accept(made *launch.Launch) {
	l.Helper()
	if _, _, err := l.ctl.Accept(context.Background(), controller.Acceptance{Launch: made, By: "alice"}); err != nil {
		l.Fatal(err)
	}
}

// until waits until a run in the ledger is as ok expects.
func (l *onceLab) until(id string, ok func(ledger.Run) bool) ledger.Run {
	l.Helper()
	for end := time.Now().Add(time.Hour); ; <-time.After(100 * time.Millisecond) {
		run, err := l.ledger.Run(context.Background(), ledger.AllTenants(), id)
		if err != nil {
			l.Fatal(err)
		}
		if ok(run) {
			return run
		}
		if time.Now().After(end) {
			status, err := l.q.Status(context.Background(), id)
			l.Fatalf("run %s after an hour: %+v, %+v, %v", id, run, status, err)
		}
	}
}

func (l *onceLab) complete(id string) ledger.Run {
	l.Helper()
	return l.until(id, func(r ledger.Run) bool { return r.Complete() })
}

// judge fails unless one host called migrate, which changed the database once, and each host that
// is to read the result has read it.
func (l *onceLab) judge(hosts int) {
	l.Helper()
	for _, bad := range l.db.faults(hosts) {
		l.Error(bad)
	}
}

func (d *database) faults(hosts int) (bad []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.on) != 1 || d.migrated != 1 {
		bad = append(bad, fmt.Sprintf("migrate was called on %v, and changed the database %d times", d.on, d.migrated))
	}
	for host := range d.on {
		if host < "h03" {
			bad = append(bad, "migrate was called on "+host+", whose when is false")
		}
	}
	if len(d.read) != hosts-3 {
		bad = append(bad, fmt.Sprintf("%d hosts have read the result, expected %d", len(d.read), hosts-3))
	}
	said := map[string]bool{}
	for host, read := range d.read {
		said[read] = true
		if !strings.Contains(read, "v7 ") {
			bad = append(bad, host+" has read "+read)
		}
	}
	if len(said) > 1 {
		bad = append(bad, fmt.Sprintf("hosts have read different results: %v", said))
	}
	return bad
}
