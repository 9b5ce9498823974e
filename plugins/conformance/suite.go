package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Config defines what is tested, and how patiently.
type Config struct {
	Argv     []string         // the program, by an absolute path, and its arguments
	Manifest string           // a manifest.json that must be equal to that of the program; "" for none
	Lab      Lab              // what the author declares about the hosts
	Only     []string         // ids of cases; all when empty
	Sandbox  *sandbox.Sandbox // in which a worker would run it; nil: the case of that does not apply
	Read     []string         // what it may read there beside the system's programs: its folder, and the paths that operators must allow
	Patience time.Duration    // what a call of an example gets before its deadline; 5 s
	Grace    time.Duration    // between asking and killing; 5 s, as at a worker
}

// Status is how a case ended.
type Status string

// The ways in which a case ends.
const (
	Passed        Status = "passed"
	Failed        Status = "failed"
	NotApplicable Status = "not applicable"
)

// Result is one case of a report.
type Result struct {
	Case   string       `json:"case"`
	Title  string       `json:"title"`
	Status Status       `json:"status"`
	Took   core.Seconds `json:"took_seconds"`
	Note   string       `json:"note,omitempty"` // what was seen, or why it does not apply
	Fault  string       `json:"fault,omitempty"`
	Hint   string       `json:"hint,omitempty"` // what to do about the fault
}

// Example is how an example of the manifest or of the lab ended when nothing interfered.
type Example struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Outcome string `json:"outcome"` // a word, such as "changed"; "no outcome"
	Reason  string `json:"reason,omitempty"`
}

// Report is the result of the suite.
type Report struct {
	Plugin   string    `json:"plugin"`
	Version  string    `json:"version"`
	Results  []Result  `json:"results"`
	Examples []Example `json:"examples,omitempty"` // when a case needed them
}

// Failed counts the cases that failed.
func (r Report) Failed() int {
	n := 0
	for _, one := range r.Results {
		if one.Status == Failed {
			n++
		}
	}
	return n
}

// result is the result of a case.
type result struct {
	status      Status
	note        string
	fault, hint string
}

func passed(format string, args ...any) result {
	return result{status: Passed, note: fmt.Sprintf(format, args...)}
}

func notApplicable(format string, args ...any) result {
	return result{status: NotApplicable, note: fmt.Sprintf(format, args...)}
}

func fault(hint, format string, args ...any) result {
	return result{status: Failed, fault: fmt.Sprintf(format, args...), hint: hint}
}

// suite is one test of one program.
type suite struct {
	cfg      Config
	secret   string // what every secret's value is
	scratch  string
	manifest host.Manifest
	calls    []*record // everything that was called, in order
	seen     watched
	base     []*baseline
}

// watched holds what was seen of all processes, whatever the case.
type watched struct {
	before, badLog, badWhy, after string // first of each
	longest                       int    // of a line of stdout after the handshake
	held                          bool
	left                          []string
	forced                        int
	stopped                       int
	leaks                         []string // of secrets
	private                       []string // of the process's environment
	stray                         []op
	blamed                        map[string]string // by case: what any call did that is that case's to name; the first
	blames                        int               // how often any call did
	mixed                         []string          // what a call of one host showed of another
}

// scene is one case.
type scene struct {
	id, title string
	run       func(*suite, context.Context) result
	deaths    bool // it names the end of the process itself
}

// scenes are all cases, in order. The first two are the ground of the others; those of what was
// seen come last.
func scenes() []scene {
	return []scene{
		{"handshake", "the program starts as a plugin, and only as one", (*suite).handshake, false},
		{"manifest", "the manifest is sound, and always the same", (*suite).manifestIsSound, false},
		{"examples", "every example is valid", (*suite).examplesAreValid, false},
		{"params", "wrong params are refused, with a pointer to the place", (*suite).wrongParams, false},
		{"unknown-type", "an unknown job type is an error, not the end", (*suite).unknownType, true},
		{"outcome", "each call ends with exactly one outcome, as its last event", (*suite).oneOutcome, false},
		{"check-mode", "check mode changes nothing", (*suite).checkMode, false},
		{"deadline", "a call ends at its deadline", (*suite).deadline, false},
		{"cancel", "a cancelled call ends within its grace", (*suite).cancel, false},
		{"drain", "DRAIN lets calls end and takes no new one", (*suite).drain, false},
		{"schema", "the schemas of the params are closed", (*suite).schemasAreClosed, false},
		{"idempotent", "an idempotent example changes nothing when it runs again", (*suite).idempotent, false},
		{"unchanged", "what ends as unchanged has changed nothing", (*suite).unchanged, false},
		{"concurrent", "many jobs at the same time do not mix", (*suite).concurrent, false},
		{"host-drop", "a host that goes away in the midst is reported as such", (*suite).hostDrop, true},
		{"kill-resume", "killed at each checkpoint, it continues to the same end", (*suite).killResume, false},
		{"migrate", "old states are understood, newer ones refused", (*suite).migrate, false},
		{"isolation", "a job shows nothing of another job's host", (*suite).isolation, false},
		{"memory", "memory does not grow from call to call", (*suite).memory, false},
		{"large-file", "a large file takes bounded memory", (*suite).largeFile, false},
		{"freeze", "a process that was stopped for a while continues", (*suite).freeze, false},
		{"network", "the process itself opens no network connection", (*suite).network, false},
		{"sandbox", "in a worker's sandbox the examples end alike", (*suite).confined, false},
		{"secrets", "a secret shows nowhere", (*suite).secrets, false},
		{"environment", "what the worker gave the process goes nowhere", (*suite).environment, false},
		{"lease", "host services are called with the job's lease", (*suite).leases, false},
		{"stdout-before", "nothing is printed before the handshake", (*suite).noiseBefore, false},
		{"stdout-after", "nothing is printed to the real stdout afterwards", (*suite).noiseAfter, false},
		{"stderr-logs", "JSON on stderr is that of log records", (*suite).badLogs, false},
		{"alive", "no call ends the process", (*suite).alive, false},
		{"flood", "a call says a bounded amount", (*suite).flood, false},
		{"stop", "the process ends when it is asked to", (*suite).stops, false},
		{"descendants", "no process outlives the plugin", (*suite).descendants, false},
	}
}

// Cases are the ids of all cases, in the order in which they run.
func Cases() []string {
	return core.Map(scenes(), func(s scene) string { return s.id })
}

// Run tests a program. seen is called with each result as it comes; it may be nil. An error means
// that the suite itself could not do its work; a program that does not even start is a failed case.
func Run(ctx context.Context, cfg Config, seen func(Result)) (Report, error) {
	if len(cfg.Argv) == 0 || !filepath.IsAbs(cfg.Argv[0]) {
		return Report{}, fmt.Errorf("%w: program %q: expected an absolute path", core.ErrInvalid, cfg.Argv)
	}
	for _, id := range cfg.Only {
		if !slices.Contains(Cases(), id) {
			return Report{}, fmt.Errorf("%w: no case %q; there are: %s", core.ErrInvalid, id, strings.Join(Cases(), ", "))
		}
	}
	cfg.Patience, cfg.Grace = cmp.Or(cfg.Patience, 5*time.Second), cmp.Or(cfg.Grace, 5*time.Second)
	scratch, err := os.MkdirTemp("", "turnus-conformance-")
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s := &suite{cfg: cfg, scratch: scratch, secret: "secret-" + hex.EncodeToString(id[:])}
	return s.all(ctx, seen)
}

// all runs the cases that are asked for, and those they stand on.
func (s *suite) all(ctx context.Context, seen func(Result)) (Report, error) {
	var report Report
	show := func(sc scene, v result, took time.Duration) {
		r := Result{Case: sc.id, Title: sc.title, Status: v.status, Took: core.InSeconds(took), Note: v.note, Fault: v.fault, Hint: v.hint}
		report.Results = append(report.Results, r)
		if seen != nil {
			seen(r)
		}
	}
	list := scenes()
	for i, sc := range list {
		ground := sc.id == "handshake" || sc.id == "manifest"
		wanted := len(s.cfg.Only) == 0 || slices.Contains(s.cfg.Only, sc.id) || s.seen.blamed[sc.id] != ""
		if !ground && !wanted {
			continue
		}
		started, blames := time.Now(), s.seen.blames
		v := sc.run(s, ctx)
		switch {
		case v.status != Failed || s.seen.blames == blames || s.seen.blamed[sc.id] != "":
		case sc.deaths:
			delete(s.seen.blamed, "alive")
		default:
			v = notApplicable("what failed it is another case's to name: %s", strings.Join(sortedKeys(s.seen.blamed), ", "))
		}
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		if wanted || v.status == Failed {
			show(sc, v, time.Since(started))
		}
		report.Plugin, report.Version = s.manifest.Name, s.manifest.Version
		if !ground || v.status != Failed {
			continue
		}
		for _, rest := range list[i+1:] {
			switch {
			case rest.id == "stdout-before" || rest.id == "stderr-logs" || rest.id == "descendants": // the reason may be there
				show(rest, rest.run(s, ctx), 0)
			case len(s.cfg.Only) == 0:
				show(rest, notApplicable("without %s nothing can be asked of the plugin", sc.id), 0)
			}
		}
		break
	}
	for _, b := range s.base {
		report.Examples = append(report.Examples, Example{Type: b.typ.Name, Title: b.example.Title, Outcome: b.record.end(), Reason: b.record.why()})
	}
	return report, nil
}

// start starts a process that speaks.
func (s *suite) start(ctx context.Context, w host.Reach) (*process, error) {
	return s.launch(ctx, w, launching{argv: s.cfg.Argv})
}

func (s *suite) launch(ctx context.Context, w host.Reach, l launching) (*process, error) {
	p, err := spawn(l, w)
	if err != nil {
		return nil, err
	}
	if err := p.shake(ctx); err != nil {
		p.kill()
		s.inspect(p, ending{held: !within(p.piped, pipeLimit), left: outliving(p.socket)})
		p.release()
		return nil, err
	}
	return p, nil
}

// finish stops a process and remembers what was seen of it.
func (s *suite) finish(p *process) {
	select {
	case <-p.exited: // killed by its case
		s.inspect(p, ending{held: !within(p.piped, pipeLimit), left: outliving(p.socket)})
		p.release()
		return
	default:
	}
	e := p.stop(s.cfg.Grace)
	s.seen.stopped++
	if e.forced {
		s.seen.forced++
	}
	s.inspect(p, e)
}

func (s *suite) inspect(p *process, e ending) {
	w := &s.seen
	w.before = cmp.Or(w.before, p.before.first())
	w.after = cmp.Or(w.after, p.after.first())
	w.longest = max(w.longest, p.after.longestLine())
	if w.badLog == "" {
		w.badLog, w.badWhy = p.stderr.badLog()
	}
	w.held = w.held || e.held
	w.left = append(w.left, e.left...)
	w.stray = append(w.stray, p.log.stray()...)
	if n := p.stderr.size(); n > maxSaid {
		s.blame("flood", "a process wrote %d MiB to stderr", n>>20)
	}
	for _, stream := range []*tape{&p.before, &p.after, &p.stderr} {
		text := string(stream.bytes())
		if form := s.shows(text); form != "" {
			w.leaks = append(w.leaks, "its standard output or error"+form)
		}
	}
}

func (s *suite) typeOf(name string) *host.Type {
	for i := range s.manifest.Types {
		if s.manifest.Types[i].Name == name {
			return &s.manifest.Types[i]
		}
	}
	return nil
}

// examples of a type: those of the manifest and those of the lab.
func (s *suite) examples(t host.Type) []host.Example {
	all := slices.Clone(t.Examples)
	for i, with := range s.cfg.Lab.Examples[t.Name] {
		all = append(all, host.Example{Title: fmt.Sprintf("lab example %d", i+1), Params: encode(with)})
	}
	return all
}

// ask is a short call of the plugin.
func (s *suite) ask(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.Patience+s.cfg.Grace)
}

func wireState(st *host.State) *wire.State {
	if st == nil {
		return nil
	}
	return &wire.State{Version: uint32(max(st.Version, 0)), Json: st.JSON}
}
