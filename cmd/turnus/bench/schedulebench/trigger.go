package schedulebench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// Params of a volley of triggers.
type Params struct {
	Due     int  // schedules that are due at one instant
	Servers int  // processes
	Kill    int  // how many of them are killed (SIGKILL) as soon as each has launched its first fire
	Soon    bool // the instant is in a few seconds, not the next full minute
	Ledger  *ledger.Ledger
	First   int                         // number of the first schedule, behind those of Put
	Server  func(n int) *exec.Cmd       // a process that calls Serve with its standard input and output; not started
	Report  func(message string)        // progress; may be nil
	Timeout time.Duration               // for the launches, from the instant on
	Until   func(context.Context) error // returns when the servers may end; nil: with the last launch
}

// Volley is the result of the fire times.
type Volley struct {
	Due       int          `json:"due"`
	Launched  int          `json:"launched"`         // different runs, each launched
	Wrong     int          `json:"wrong"`            // launches of runs that are none of the expected ones
	Repeated  int          `json:"repeated"`         // runs that were launched a second time
	At        time.Time    `json:"-"`                // the instant, by this process's clock
	Confirmed int          `json:"confirmed_once"`   // schedules that launched exactly once by their row, and whose run is in the ledger
	P50       core.Seconds `json:"late_p50_seconds"` // launch minus due
	P99       core.Seconds `json:"late_p99_seconds"`
	Max       core.Seconds `json:"late_max_seconds"`
	Servers   int          `json:"servers"`
	Killed    int          `json:"servers_killed"`
	ByServer  []int        `json:"launched_by_server"` // first launches
}

// ready is the line that a server begins with; each further one is the id of a run that it
// launched.
const ready = "ready"

// server is one process, as its parent sees it.
type server struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	killed bool
	ended  chan struct{}
	// stopping is closed when nobody reads what the server prints any more.
	stopping chan struct{}
}

// line is a line that a server printed, and when it was read.
type line struct {
	server int
	text   string
	at     time.Time
}

// Trigger makes schedules that are due at one instant, and watches servers launch them.
func Trigger(ctx context.Context, p Params) (v Volley, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v = Volley{Due: p.Due, Servers: p.Servers, ByServer: make([]int, p.Servers)}
	lines := make(chan line, 1024)
	var servers []*server
	var readers sync.WaitGroup
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.stop())
		}
		cancel()
		readers.Wait()
	}()
	for n := range p.Servers {
		s, err := start(ctx, &readers, p.Server(n), n, n < p.Kill, lines)
		if err != nil {
			return v, err
		}
		servers = append(servers, s)
	}
	if err := awaitReady(ctx, servers, lines); err != nil {
		return v, err
	}
	now, err := p.Ledger.Now(ctx)
	if err != nil {
		return v, err
	}
	heard := time.Now()
	at := instant(now, p)
	runs, ids, err := prepare(ctx, p, at)
	if err != nil {
		return v, err
	}
	due := heard.Add(at.Sub(now)) // by our clock
	v.At = due
	if late := time.Since(due); late > 0 {
		return v, fmt.Errorf("writing %d schedules took %v longer than until they were due", p.Due, late)
	}
	p.report(fmt.Sprintf("%d due in %.0f s", p.Due, time.Until(due).Seconds()))
	if err := v.watch(ctx, p, lines, runs, due); err != nil {
		return v, err
	}
	if p.Until != nil {
		if err := p.Until(ctx); err != nil {
			return v, err
		}
	}
	for _, s := range servers {
		if s.killed {
			v.Killed++
		}
	}
	return v, v.confirm(ctx, p.Ledger, runs, ids)
}

func (p *Params) report(message string) {
	if p.Report != nil {
		p.Report(message)
	}
}

// instant is when all are due: long enough ahead to write them, and a full minute unless Soon.
func instant(now time.Time, p Params) time.Time {
	lead := 3*time.Second + time.Duration(p.Due)*500*time.Microsecond
	if p.Soon {
		return now.Add(lead).Truncate(time.Second).Add(time.Second)
	}
	return now.Add(lead).Truncate(time.Minute).Add(time.Minute)
}

// prepare writes the schedules, due at that time, and returns the runs that they must launch.
func prepare(ctx context.Context, p Params, at time.Time) (runs map[string]time.Time, ids []schedule.ID, err error) {
	runs = map[string]time.Time{}
	nominal := at.Truncate(time.Minute)
	all := make([]ledger.ScheduleChange, p.Due)
	for i := range all {
		d, err := Definition(p.First+i, nominal)
		if err != nil {
			return nil, nil, err
		}
		// A fire time that no server has processed yet, of this minute where it is Soon.
		data := schedule.Encode(d, schedule.State{Since: nominal.Add(-time.Second)})
		all[i].Schedule = ledger.Schedule{Tenant: d.ID.Tenant, Name: d.ID.Name, By: "bench", Due: at, Data: data}
		ids = append(ids, d.ID)
		runs[schedule.RunID(d.ID, nominal)] = time.Time{}
	}
	for part := range slices.Chunk(all, ledger.MaxPage) {
		if _, err := p.Ledger.ChangeSchedules(ctx, part); err != nil {
			return nil, nil, err
		}
	}
	return runs, ids, nil
}

// watch collects launches until there is one of each run. A server that is killed may have put runs
// into the ledger and died before its report: those are read from the ledger.
func (v *Volley) watch(ctx context.Context, p Params, lines <-chan line, runs map[string]time.Time, due time.Time) error {
	timer := time.NewTimer(time.Until(due) + p.Timeout)
	defer timer.Stop()
	const pollEvery = 100 * time.Millisecond
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var late []time.Duration
	silent := map[string]bool{}
	for v.Launched < v.Due {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("%d of %d fire times were launched within %v", v.Launched, v.Due, p.Timeout)
		case l := <-lines:
			if silent[l.text] {
				delete(silent, l.text)
			} else if v.count(runs, l) {
				late = append(late, l.at.Sub(due))
			}
		case at := <-poll.C:
			found, err := p.Ledger.RunsOf(ctx, missing(runs))
			if err != nil {
				return err
			}
			for i := range found {
				run := found[i].ID
				runs[run], silent[run] = at, true
				v.Launched++
				late = append(late, at.Sub(due))
			}
		}
	}
	slices.Sort(late)
	v.P50, v.P99, v.Max = core.InSeconds(late[len(late)/2]), core.InSeconds(late[len(late)*99/100]), core.InSeconds(late[len(late)-1])
	return nil
}

// missing are up to a thousand of the runs that were not heard of.
func missing(runs map[string]time.Time) (ids []string) {
	for id, at := range runs {
		if at.IsZero() && len(ids) < ledger.MaxPage {
			ids = append(ids, id)
		}
	}
	return ids
}

// count reports whether a line is the first launch of a run.
func (v *Volley) count(runs map[string]time.Time, l line) bool {
	first, expected := runs[l.text]
	switch {
	case !expected:
		v.Wrong++
		return false
	case !first.IsZero():
		v.Repeated++
		return false
	}
	runs[l.text] = l.at
	v.Launched++
	v.ByServer[l.server]++
	return true
}

// confirm counts the schedules that report one trigger, and whose run is in the ledger.
func (v *Volley) confirm(ctx context.Context, l *ledger.Ledger, runs map[string]time.Time, ids []schedule.ID) error {
	there := map[string]bool{}
	for part := range slices.Chunk(slices.Collect(maps.Keys(runs)), ledger.MaxPage) {
		found, err := l.RunsOf(ctx, part)
		if err != nil {
			return err
		}
		for i := range found {
			there[found[i].ID] = true
		}
	}
	control := schedule.NewControl(l)
	for _, id := range ids {
		s, err := control.Get(ctx, ledger.AllTenants(), id)
		if err != nil {
			return err
		}
		if s.State.Triggered == 1 && len(s.State.Claimed) == 0 && there[s.State.Last[0].RunID] {
			v.Confirmed++
		}
	}
	return nil
}

// start runs a server and reads its output; a victim is killed at its first launch.
func start(ctx context.Context, readers *sync.WaitGroup, cmd *exec.Cmd, n int, victim bool, lines chan<- line) (*server, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("server %d: %w", n, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("server %d: %w", n, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server %d: %w", n, err)
	}
	s := &server{cmd: cmd, stdin: in, killed: victim, ended: make(chan struct{}), stopping: make(chan struct{})}
	readers.Go(func() {
		defer close(s.ended)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			l := line{n, strings.Clone(scan.Text()), time.Now()}
			if victim && l.text != ready {
				victim = false
				_ = cmd.Process.Kill()
			}
			select {
			case lines <- l:
			case <-ctx.Done(): // continues, so that the process does not wait
			case <-s.stopping: // nobody reads lines any more
			}
		}
	})
	return s, nil
}

// stop lets the server end, and reaps it. After stopTimeout it is killed.
func (s *server) stop() error {
	const stopTimeout = 10 * time.Second
	close(s.stopping)
	_ = s.stdin.Close()
	timer := time.AfterFunc(stopTimeout, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	<-s.ended // all output is read
	if err := s.cmd.Wait(); err != nil && !s.killed {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

func awaitReady(ctx context.Context, servers []*server, lines <-chan line) error {
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	for range servers {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return errors.New("a server did not start within a minute")
		case l := <-lines:
			if l.text != ready {
				return fmt.Errorf("server %d sent %q, expected %q", l.server, l.text, ready)
			}
		}
	}
	return nil
}

// Maker makes the run of a trigger, and may be notified of the runs that the ledger has.
type Maker struct {
	Run      func(schedule.Trigger) (ledger.NewRun, error)
	Accepted func([]ledger.Run)
}

// Serve is a server: an engine whose launches are lines on out. It ends when in does.
func Serve(ctx context.Context, l *ledger.Ledger, m Maker, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process, or with in
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	launcher := &launcher{Maker: m, out: out}
	if err := launcher.say(ready); err != nil {
		return err
	}
	schedule.NewEngine(l, launcher, func(schedule.Event) {}).Run(ctx)
	return nil
}

// launcher prints the runs that the ledger accepted.
type launcher struct {
	Maker
	mu  sync.Mutex
	out io.Writer
}

func (l *launcher) say(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.out, text+"\n"); err != nil {
		return fmt.Errorf("print %s: %w", text, err)
	}
	return nil
}

// Prepare implements schedule.Launcher.
func (l *launcher) Prepare(_ context.Context, f schedule.Trigger) (ledger.NewRun, error) {
	return l.Run(f)
}

// Accepted implements schedule.Launcher: one line a run, each whole or not at all.
func (l *launcher) Accepted(runs []ledger.Run) {
	for i := range runs {
		_ = l.say(runs[i].ID) // a reader that does not get it counts it as missing
	}
	if l.Maker.Accepted != nil {
		l.Maker.Accepted(runs)
	}
}

// Cancelled implements schedule.Launcher.
func (l *launcher) Cancelled(context.Context, string, string) error { return nil }
