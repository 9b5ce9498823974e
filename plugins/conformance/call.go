package conformance

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// maxResumes bounds how often a job that suspends itself is continued with.
const maxResumes = 10

// call is one call to make.
type call struct {
	typ     string
	title   string // of the example
	params  json.RawMessage
	secrets []string // that the step lists
	host    int      // which of the world's
	check   bool
	attempt int
	state   *host.State
	limit   time.Duration // until its deadline; 0: the suite's patience
	saved   func(n int, s host.State) error
}

// saving is a checkpoint.
type saving struct {
	name  string
	state host.State
}

// record is the result of a call, suspensions followed.
type record struct {
	call    call
	out     host.Outcome
	err     error // the call has no valid outcome
	code    codes.Code
	late    bool // it did not end at its deadline, nor when it was cancelled
	overdue bool // it did not end at its deadline, but when it was cancelled
	took    time.Duration
	ops     []op
	saves   []saving
	wrong   []*wire.Diagnostic
	secrets bool     // it resolved one
	shown   []string // where a secret was seen
	private []string // where the process's own environment was seen
	mixed   []string // where another host was seen
	died    string   // how the process ended under it, unasked
	flooded bool     // it sent more than it may
}

func (r *record) name() string {
	if r.call.title == "" {
		return r.call.typ
	}
	return fmt.Sprintf("%s, example %q", r.call.typ, r.call.title)
}

// end is the outcome as a word.
func (r *record) end() string {
	o := r.out
	switch {
	case r.err != nil:
		return "no outcome"
	case o.Suspended:
		return "suspended"
	case o.Cancelled:
		return "cancelled"
	case o.Lost:
		return "lost"
	case o.RolledBack:
		return "rolled_back"
	case o.Unreachable:
		return "unreachable"
	case o.TimedOut:
		return "timed out"
	case o.Failed:
		return "failed"
	case o.Skipped:
		return "skipped"
	case o.Changed:
		return "changed"
	}
	return "unchanged"
}

// why is the reason of an outcome that is not a good one.
func (r *record) why() string {
	if r.err != nil {
		return r.err.Error()
	}
	return r.out.Reason
}

// good reports whether the example did what it shows.
func (r *record) good() bool {
	switch r.end() {
	case "changed", "unchanged", "skipped", "suspended":
		return true
	}
	return false
}

func (r *record) finished() bool {
	return r.err == nil && !r.out.TimedOut && !r.out.Cancelled && !r.late && !r.overdue
}

// kept is the store of a worker for a call: in memory.
type kept struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (k *kept) read(_ context.Context, name string) ([]byte, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	content, ok := k.files[name]
	return content, ok, nil
}

func (k *kept) keep(_ context.Context, files []host.KeptFile) (string, []string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var changed []string
	for _, f := range files {
		if old, had := k.files[f.Name]; had != f.Gone && string(old) == string(f.Content) {
			continue
		}
		changed = append(changed, f.Name)
		if delete(k.files, f.Name); !f.Gone {
			k.files[f.Name] = f.Content
		}
	}
	if len(changed) == 0 {
		return "", nil, nil
	}
	return strings.Repeat("0", 40), changed, nil
}

// do makes a call, follows it to its end, and remembers what it showed.
func (s *suite) do(ctx context.Context, p *process, w *world, c call) *record {
	r := s.follow(ctx, p, w, c)
	s.remember(r)
	return r
}

// follow makes a call, and continues with it as often as it suspends itself. Several may run at the
// same time.
func (s *suite) follow(ctx context.Context, p *process, w *world, c call) *record {
	r := &record{call: c}
	started := time.Now()
	for n := range maxResumes {
		s.once(ctx, p, w, c, r)
		if r.err != nil || !r.out.Suspended || n == maxResumes-1 {
			break
		}
		c.state = r.out.State
	}
	r.took = time.Since(started)
	return r
}

func (s *suite) remember(r *record) {
	s.calls = append(s.calls, r)
	if r.died != "" {
		s.blame("alive", "%s: %s", r.name(), r.died)
	}
	if r.flooded {
		s.blame("flood", "%s: over %d MiB of logs and events in one call", r.name(), maxSaid>>20)
	}
	s.seen.mixed = append(s.seen.mixed, r.mixed...)
	for _, o := range r.ops {
		if s.shows(o.text) != "" {
			r.shown = append(r.shown, "a command line or its environment, which everybody on the host can read ("+r.name()+")")
		}
	}
	s.seen.leaks = append(s.seen.leaks, r.shown...)
	s.seen.private = append(s.seen.private, r.private...)
}

// blame notes what a call did, whatever its case looked for. The first of each case stands.
func (s *suite) blame(id, format string, args ...any) {
	s.seen.blames++
	if s.seen.blamed == nil {
		s.seen.blamed = map[string]string{}
	}
	if s.seen.blamed[id] == "" {
		s.seen.blamed[id] = fmt.Sprintf(format, args...)
	}
}

// running is a call that is under way.
type running struct {
	lease  string
	cancel func(grace time.Duration) error
	done   chan struct{} // closed when r is complete
}

// once makes one call, into r.
func (s *suite) once(ctx context.Context, p *process, w *world, c call, r *record) {
	run := s.begin(ctx, p, w, c, r)
	defer func() { r.died = p.diedUnder(r.err) }()
	if within(run.done, cmp.Or(c.limit, s.cfg.Patience)+s.cfg.Grace) {
		return
	}
	_ = run.cancel(s.cfg.Grace)
	if within(run.done, s.cfg.Grace) {
		r.overdue = true
		return
	}
	p.kill() // nothing else ends it
	<-run.done
	r.late = true
}

// begin starts a call. r must not be read before done.
func (s *suite) begin(ctx context.Context, p *process, w *world, c call, r *record) *running {
	limit := cmp.Or(c.limit, s.cfg.Patience)
	keep := &kept{files: map[string][]byte{}}
	var mu sync.Mutex
	saves := 0
	hc := &host.Call{
		Job: core.JobID{Run: "20260102-030405-conformance", Index: c.host}, Step: "step", Attempt: max(c.attempt, 1), Type: c.typ, Params: c.params,
		Host: w.hosts[c.host], State: c.state, Check: c.check, Diff: true, Key: fmt.Sprintf("key-%d", c.host), Fence: 1,
		Files: s.cfg.Lab.Artifacts, Fetch: filepath.Join(s.scratch, "fetched"),
		Kept: keep.read, Keep: keep.keep,
		Secrets: s.secretsOf(c),
		Checkpoint: func(_ context.Context, st host.State) error {
			mu.Lock()
			defer mu.Unlock()
			saves++
			r.saves = append(r.saves, saving{state: st})
			if c.saved != nil {
				return c.saved(saves, st)
			}
			return nil
		},
	}
	hc.Files = cmp.Or(hc.Files, s.scratch)
	_ = os.MkdirAll(hc.Fetch, 0o700)
	deadline, done := context.WithTimeout(ctx, limit)
	req, end := p.services.Grant(deadline, hc)
	done()
	stream, cut := context.WithCancel(ctx)
	run := &running{lease: req.GetLease(), done: make(chan struct{})}
	run.cancel = func(grace time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		_, err := p.rpc.Signal(ctx, &wire.SignalRequest{Kind: wire.SignalRequest_CANCEL, Lease: req.GetLease(), GraceMs: grace.Milliseconds()})
		return err
	}
	go func() {
		defer close(run.done)
		defer cut()
		p.calls.Add(1)
		r.out, r.err = s.receive(stream, p, w, req, r)
		r.code = status.Code(r.err)
		end()
		mu.Lock()
		defer mu.Unlock()
		s.gather(p, r, p.log.of(req.GetLease()), len(r.saves)-saves)
		for _, o := range r.ops {
			s.sawOther(w, r, o.what+o.text, "a call of a host service")
		}
	}()
	return run
}

// secretsOf are those that the call's step lists, and the lab's. A host has one value for all of
// them.
func (s *suite) secretsOf(c call) map[string][]byte {
	out := map[string][]byte{}
	for _, name := range append(slices.Clone(c.secrets), s.cfg.Lab.Secrets...) {
		out[name] = []byte(s.secretAt(c.host))
	}
	return out
}

// secretAt is the value of every secret of a host.
func (s *suite) secretAt(host int) string { return fmt.Sprintf("%s-h%03d", s.secret, host) }

// sawOther notes that a text of a call names another host of the world, or holds another's secret.
func (s *suite) sawOther(w *world, r *record, text, where string) {
	for i, h := range w.hosts {
		if i != r.call.host && (strings.Contains(text, h.Name) || strings.Contains(text, s.secretAt(i))) {
			r.mixed = append(r.mixed, fmt.Sprintf("%s of %s, on %s, shows something of %s", where, r.name(), w.hosts[r.call.host].Name, h.Name))
			return
		}
	}
}

// gather completes a record when its call has ended: what it did, what its checkpoints from the
// first on are named, and what was seen where it must not be.
func (s *suite) gather(p *process, r *record, ops []op, first int) {
	r.ops = append(r.ops, ops...)
	n := first
	for _, o := range ops {
		if name, ok := strings.CutPrefix(o.what, "checkpoint "); ok && n < len(r.saves) {
			r.saves[n].name = name
			n++
		}
	}
	for _, o := range ops {
		r.secrets = r.secrets || strings.HasPrefix(o.what, "secret ")
		if own := p.private(o.text); own != "" {
			r.private = append(r.private, fmt.Sprintf("%q of %s holds %s", o.what, r.name(), own))
		}
	}
	for _, save := range r.saves {
		if s.shows(string(save.state.JSON)) != "" {
			r.shown = append(r.shown, "a saved state ("+r.name()+")")
		}
	}
}

// receive reads events to the end.
func (s *suite) receive(ctx context.Context, p *process, w *world, req *wire.RunRequest, r *record) (host.Outcome, error) {
	stream, err := p.rpc.Run(ctx, req)
	if err != nil {
		return host.Outcome{}, err
	}
	var out *host.Outcome
	said := 0
	for {
		event, err := stream.Recv()
		if said += proto.Size(event); said > maxSaid {
			r.flooded = true
			return host.Outcome{}, fmt.Errorf("over %d MiB of events in one call", maxSaid>>20)
		}
		switch {
		case errors.Is(err, io.EOF) && out == nil:
			return host.Outcome{}, errors.New("the call ended without an outcome")
		case errors.Is(err, io.EOF):
			return *out, nil
		case err != nil && out != nil:
			return host.Outcome{}, fmt.Errorf("after its outcome the call ended with an error: %w", err)
		case err != nil:
			return host.Outcome{}, err
		case out != nil && event.GetOutcome() != nil:
			return host.Outcome{}, errors.New("a second outcome came after the first")
		case out != nil:
			return host.Outcome{}, fmt.Errorf("an event came after the outcome: %.80s", prototext.Format(event))
		}
		text := prototext.Format(event)
		s.sawOther(w, r, text, "an event or outcome")
		if own := p.private(text); own != "" {
			r.private = append(r.private, fmt.Sprintf("an event or outcome of %s holds %s", r.name(), own))
		}
		if form := s.shows(text); form != "" {
			r.shown = append(r.shown, fmt.Sprintf("an event or outcome%s (%s)", form, r.name()))
		}
		if d := event.GetDiagnostic(); d != nil {
			r.wrong = append(r.wrong, d)
		}
		if end := event.GetOutcome(); end != nil {
			if raw := end.GetDone().GetOutputs(); !utf8.Valid(raw) {
				return host.Outcome{}, fmt.Errorf("the outputs are not UTF-8: %q", raw[:min(len(raw), 80)])
			}
			got, err := host.ReadOutcome(end)
			if err != nil {
				return host.Outcome{}, err
			}
			outputs, err := json.Marshal(got.Outputs)
			s.sawOther(w, r, string(outputs), "the outputs")
			if err == nil && s.shows(string(outputs)) != "" {
				r.shown = append(r.shown, "the outputs ("+r.name()+")")
			}
			out = &got
		}
	}
}

// shows reports whether a text holds the secret, in a form that anybody can read back.
func (s *suite) shows(text string) string {
	if text == "" {
		return ""
	}
	for form, value := range map[string]string{
		"": s.secret, ", in base64": base64.StdEncoding.EncodeToString([]byte(s.secret))[:16], ", in hex": fmt.Sprintf("%x", s.secret), ", as in a URL": url.QueryEscape(s.secret),
	} {
		if strings.Contains(text, value) {
			return form + " "
		}
	}
	return ""
}

// diedUnder returns how the process ended under a call that failed with err; "" when it lives, or
// the suite ended it.
func (p *process) diedUnder(err error) string {
	if status.Code(err) != codes.Unavailable || p.ended.Load() || !within(p.exited, pipeLimit) || p.ended.Load() {
		return ""
	}
	within(p.piped, pipeLimit) // its last words
	return fmt.Sprintf("the process ended under the call, the %d. that it was asked for: %s%s", p.calls.Load(), p.how, p.words())
}

func (p *process) drain(ctx context.Context) error {
	_, err := p.rpc.Signal(ctx, &wire.SignalRequest{Kind: wire.SignalRequest_DRAIN})
	return err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
