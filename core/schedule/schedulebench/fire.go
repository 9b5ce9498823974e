package schedulebench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core/schedule"
)

// Params of a volley of fires.
type Params struct {
	Due     int                   // schedules that are due at one instant
	Servers int                   // processes
	Kill    int                   // how many of them are killed (SIGKILL) as soon as each has launched its first fire
	Soon    bool                  // the instant is in a few seconds, not the next full minute
	First   int                   // number of the first schedule, behind those of Put
	Server  func(n int) *exec.Cmd // a process that calls Serve with its standard input and output; not started
	Tell    func(message string)  // progress; may be nil
	Timeout time.Duration         // for the launches, from the instant on
}

// Volley is what became of the fires.
type Volley struct {
	Due       int           `json:"due"`
	Launched  int           `json:"launched"`       // different runs, each launched
	Wrong     int           `json:"wrong"`          // launches of runs that are none of the expected ones
	Repeated  int           `json:"repeated"`       // calls that launched a run again under the same id, which changes nothing
	Confirmed int           `json:"confirmed_once"` // schedules whose record says that they fired exactly once
	P50       time.Duration `json:"late_p50_ns"`    // launch minus due
	P99       time.Duration `json:"late_p99_ns"`
	Max       time.Duration `json:"late_max_ns"`
	Servers   int           `json:"servers"`
	Killed    int           `json:"servers_killed"`
	ByServer  []int         `json:"launched_by_server"` // first launches
}

// ready is the line that a server begins with; each further one is the id of a run that it launched.
const ready = "ready"

// server is one process, as its parent sees it.
type server struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	killed bool
	ended  chan struct{}
}

// line is what a server said, and when it was heard.
type line struct {
	server int
	text   string
	at     time.Time
}

// Fire makes schedules that are due at one instant, and watches servers fire them.
func Fire(ctx context.Context, store schedule.Store, p Params) (v Volley, err error) {
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
	read, err := store.Get(ctx, nil)
	if err != nil {
		return v, err
	}
	heard := time.Now()
	at := instant(read.Now, p)
	runs, ids, err := prepare(ctx, store, p, at)
	if err != nil {
		return v, err
	}
	due := heard.Add(at.Sub(read.Now)) // by our clock
	if late := time.Since(due); late > 0 {
		return v, fmt.Errorf("writing %d schedules took %v longer than until they were due", p.Due, late)
	}
	p.tell(fmt.Sprintf("%d due in %.0f s", p.Due, time.Until(due).Seconds()))
	if err := v.watch(ctx, lines, runs, due, p.Timeout); err != nil {
		return v, err
	}
	for _, s := range servers {
		if s.killed {
			v.Killed++
		}
	}
	return v, v.confirm(ctx, store, ids, p.Timeout)
}

func (p *Params) tell(message string) {
	if p.Tell != nil {
		p.Tell(message)
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

// prepare writes the schedules, and returns the runs that they must launch.
func prepare(ctx context.Context, store schedule.Store, p Params, at time.Time) (runs map[string]time.Time, ids []schedule.ID, err error) {
	runs = map[string]time.Time{}
	nominal := at.Truncate(time.Minute)
	all := make([]schedule.Definition, 0, p.Due)
	for i := range p.Due {
		d, err := Definition(p.First+i, nominal)
		if err != nil {
			return nil, nil, err
		}
		all, ids = append(all, d), append(ids, d.ID)
		runs[schedule.RunID(d.ID, nominal)] = time.Time{}
	}
	for part := range slices.Chunk(all, schedule.MaxBatch) {
		if !p.Soon {
			if _, err := schedule.NewControl(store).Put(ctx, part...); err != nil {
				return nil, nil, err
			}
			continue
		}
		// A fire of this very minute that nobody has looked at yet.
		var changes []schedule.Change
		for _, d := range part {
			changes = append(changes, schedule.Change{ID: d.ID, Due: at, Data: schedule.Encode(d, schedule.State{Since: nominal.Add(-time.Second)})})
		}
		versions, err := store.Write(ctx, changes)
		if err != nil {
			return nil, nil, fmt.Errorf("write schedules: %w", err)
		}
		if slices.Contains(versions, 0) {
			return nil, nil, errors.New("write schedules: some exist already, expected a store without them")
		}
	}
	return runs, ids, nil
}

// watch collects launches until there is one of each run.
func (v *Volley) watch(ctx context.Context, lines <-chan line, runs map[string]time.Time, due time.Time, timeout time.Duration) error {
	timer := time.NewTimer(time.Until(due) + timeout)
	defer timer.Stop()
	var late []time.Duration
	for v.Launched < v.Due {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("%d of %d fires were launched within %v", v.Launched, v.Due, timeout)
		case l := <-lines:
			if v.count(runs, l) {
				late = append(late, l.at.Sub(due))
			}
		}
	}
	slices.Sort(late)
	v.P50, v.P99, v.Max = late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	return nil
}

// count tells whether a line is the first launch of a run.
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

// confirm waits until each schedule's record says that it fired, and counts those that say once.
func (v *Volley) confirm(ctx context.Context, store schedule.Store, ids []schedule.ID, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		v.Confirmed = 0
		for part := range slices.Chunk(ids, schedule.MaxBatch) {
			read, err := store.Get(ctx, part)
			if err != nil {
				return err
			}
			for _, r := range read.Records {
				_, s, err := schedule.Decode(r.ID, r.Data)
				if err != nil {
					return err
				}
				if s.Fired == 1 && len(s.Claimed) == 0 {
					v.Confirmed++
				}
			}
		}
		if v.Confirmed == v.Due {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d fires are settled: %w", v.Confirmed, v.Due, ctx.Err())
		case <-again.C:
		}
	}
}

// start runs a server and reads what it says; a victim is killed at its first launch.
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
	s := &server{cmd: cmd, stdin: in, killed: victim, ended: make(chan struct{})}
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
			case <-ctx.Done(): // goes on, so that the process is not held up
			}
		}
	})
	return s, nil
}

// stop lets the server end by itself, and reaps it. After stopTimeout it is killed.
func (s *server) stop() error {
	const stopTimeout = 10 * time.Second
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
				return fmt.Errorf("server %d says %q, expected %q", l.server, l.text, ready)
			}
		}
	}
	return nil
}

// Serve is a server: an engine whose launches are lines on out. It ends when in does.
func Serve(ctx context.Context, store schedule.Store, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process, or with in
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	l := &launcher{out: out}
	if err := l.say(ready); err != nil {
		return err
	}
	schedule.NewEngine(store, l, schedule.Options{}).Run(ctx)
	return nil
}

// launcher says what it launches. Runs are complete at once.
type launcher struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *launcher) say(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.out, text+"\n"); err != nil {
		return fmt.Errorf("say %s: %w", text, err)
	}
	return nil
}

// Launch writes one line: whole, or not at all.
func (l *launcher) Launch(_ context.Context, f schedule.Fire) error { return l.say(f.RunID) }

// Running knows of no run that is not complete.
func (l *launcher) Running(context.Context, []string) ([]string, error) { return nil, nil }

// Cancel has nothing to do.
func (l *launcher) Cancel(context.Context, string, string) error { return nil }
