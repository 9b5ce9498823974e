package exec

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/words"
)

const (
	maxLine  = 1 << 20         // of stdout: a longer one fails the step
	maxState = 120 << 10       // a script gets its state as one variable of its environment, which has at most 128 KiB
	endGrace = 2 * time.Second // between TERM and KILL of a cancelled script; the call's own grace is 5 s
)

// script runs for each job of a type.
type script struct {
	path string
	args []string
	typ  string
}

// checkState refuses a state that the script could not be started with again. It counts as much as
// JSON takes that is escaped on its way.
func checkState(state []byte) error {
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, state)
	if escaped.Len() > maxState {
		return fmt.Errorf("the state has %d bytes: at most %d can be given to a script again; save a reference instead", escaped.Len(), maxState)
	}
	return nil
}

func (s *script) run(ctx context.Context, r *sdk.Raw) error {
	work, err := os.MkdirTemp("", "job-")
	if err != nil {
		return sdk.Refuse("folder for the script: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	cmd := exec.Command(s.path, s.args...) //nolint:gosec,noctx // the plugin's own script; it is ended gently, below
	cmd.Dir, cmd.Env, cmd.Stdin = work, environment(r, s.typ, work), bytes.NewReader(r.Params)
	ended := make(chan struct{})
	stdout, stderr, err := start(cmd, ended)
	if err != nil {
		failed := sdk.Failf("start the script: %w", err)
		if r.Resumed { // what it began may have changed the host
			return failed
		}
		return failed.Effects(sdk.EffectsNone)
	}
	defer func() { _, _ = stdout.file.Close(), stderr.file.Close() }()
	words := &lastLine{to: r.Stderr()}
	var waitErr error
	var watch sync.WaitGroup
	watch.Go(func() { endWith(ctx, cmd.Process, r, ended) })
	watch.Go(func() { _, _ = io.Copy(words, stderr) })
	watch.Go(func() {
		waitErr = cmd.Wait()
		killJob(r, syscall.SIGKILL) // what it left in the background has no job any more
		close(ended)
		stdout.expire()
		stderr.expire()
	})
	said := &said{run: r}
	readErr := said.read(stdout)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, stdout) // so that the script is not stopped by a full pipe
	}
	watch.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return said.result(readErr, waitErr, words.line())
}

// endWith asks the script and its children to end when ctx does, and then makes them.
func endWith(ctx context.Context, p *os.Process, r *sdk.Raw, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	_ = p.Signal(syscall.SIGTERM)
	killJob(r, syscall.SIGTERM)
	t := time.NewTimer(endGrace)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		_ = p.Kill()
		killJob(r, syscall.SIGKILL)
	}
}

// environment returns the variables of the script beside its params.
func environment(r *sdk.Raw, typ, work string) []string {
	labels, _ := json.Marshal(r.Labels) // a map of texts
	flag := func(b bool) string {
		if b {
			return "1"
		}
		return ""
	}
	state := ""
	if r.Resumed {
		state = string(r.State)
	}
	env := []string{
		"PATH=" + helperDir() + string(os.PathListSeparator) + os.Getenv("PATH"), "LANG=" + os.Getenv("LANG"), "HOME=" + work, "TMPDIR=" + work,
		"TURNUS_TYPE=" + typ, "TURNUS_JOB=" + r.Job, "TURNUS_STEP=" + r.Step, "TURNUS_ATTEMPT=" + strconv.Itoa(r.Attempt),
		"TURNUS_CHECK=" + flag(r.Check), "TURNUS_DIFF=" + flag(r.Diff), "TURNUS_STATE=" + state, "TURNUS_LABELS=" + string(labels),
		"TURNUS_IDEMPOTENCY_KEY=" + r.Key, "TURNUS_FENCE=" + strconv.FormatUint(r.Fence, 10), "TURNUS_STEP_SECRETS=" + strings.Join(r.Secrets, " "),
	}
	if r.Trace != "" {
		env = append(env, "TRACEPARENT="+r.Trace)
	}
	return append(env, r.HelperEnv()...)
}

// lastLine passes stderr on and keeps its last line, for the reason of a failure.
type lastLine struct {
	to io.Writer

	mu   sync.Mutex
	kept sdk.LastLine
}

// Write implements io.Writer.
func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	_, _ = l.kept.Write(p) // it never fails
	l.mu.Unlock()
	_, _ = l.to.Write(p) // when the call has ended, nobody reads it
	return len(p), nil
}

func (l *lastLine) line() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.String()
}

// event is one line of a script's output.
type event struct {
	Event      string          `json:"event"`
	Level      string          `json:"level"`
	Message    string          `json:"message"`
	Phase      string          `json:"phase"`
	Done       float64         `json:"done"`
	Title      string          `json:"title"`
	Before     string          `json:"before"`
	After      string          `json:"after"` // of diff: the text; of suspended: the time
	Name       string          `json:"name"`
	Value      json.RawMessage `json:"value"`
	Reason     string          `json:"reason"`
	Effects    string          `json:"effects"`
	Retryable  bool            `json:"retryable"`
	RolledBack bool            `json:"rolled_back"`
	Lost       bool            `json:"lost"`
	State      json.RawMessage `json:"state"`
	Signal     string          `json:"until_signal"`
	WakeOn     string          `json:"wake_on"` // former name of until_signal
}

// said is the script's report of its end.
type said struct {
	run *sdk.Raw
	end error // of failed, suspended or held: the last one counts
}

// read takes stdout line by line: an event where it is one, and text for the operator otherwise.
func (s *said) read(stdout io.Reader) error {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte(`{"event"`)) {
			s.run.Print(append(bytes.Clone(line), '\n'))
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		var e event
		err := dec.Decode(&e)
		if err == nil {
			if _, more := dec.Token(); more != io.EOF { // such as a second event, which must not be lost
				err = errors.New("expected one event, and then the end of the line")
			}
		}
		if err != nil {
			return fmt.Errorf("line %d of the script's stdout is no event: %w", n, words.Plain(err))
		}
		if err := s.take(e); err != nil {
			return fmt.Errorf("line %d of the script's stdout: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the script's stdout: %w", err)
	}
	return nil
}

func (s *said) take(e event) error {
	r := s.run
	switch e.Event {
	case "log":
		s.log(e)
	case "progress":
		r.Progress(e.Done, e.Phase)
	case "diff":
		r.ShowDiff(e.Title, []byte(e.Before), []byte(e.After))
	case "output":
		if e.Name == "" || len(e.Value) == 0 {
			return errors.New("output: expected name and value")
		}
		r.Output(e.Name, e.Value)
	case "changed":
		r.Changed()
	case "skipped":
		_ = r.Skip(e.Reason)
	case "explain":
		r.Explain(e.Reason)
	case "failed":
		return s.failed(e)
	case "suspended":
		after, err := time.ParseDuration(e.After)
		if err != nil {
			return fmt.Errorf("suspended: after: %w", err)
		}
		if err := checkState(e.State); err != nil {
			return fmt.Errorf("suspended: %w", err)
		}
		s.end = sdk.Suspend(e.State, after, sdk.Because(e.Reason), sdk.UntilSignal(cmp.Or(e.Signal, e.WakeOn)))
	case "held":
		if err := checkState(e.State); err != nil {
			return fmt.Errorf("held: %w", err)
		}
		s.end = sdk.Hold(e.State, e.Reason)
	default:
		return fmt.Errorf("event %q: expected log, progress, diff, output, changed, skipped, explain, failed, suspended or held", e.Event)
	}
	return nil
}

func (s *said) log(e event) {
	log := s.run.Log()
	switch e.Level {
	case "debug":
		log.Debug(e.Message)
	case "warn":
		log.Warn(e.Message)
	case "error":
		log.Error(e.Message)
	default:
		log.Info(e.Message)
	}
}

func (s *said) failed(e event) error {
	e.Reason = cmp.Or(e.Reason, "the script reports that without a reason")
	f := sdk.Fail(e.Reason)
	switch e.Effects {
	case "", "unknown":
	case "none":
		f = f.Effects(sdk.EffectsNone)
	case "partial":
		f = f.Effects(sdk.EffectsPartial)
	default:
		return fmt.Errorf("effects %q: expected none, partial or unknown", e.Effects)
	}
	if e.Retryable {
		f = f.Retryable()
	}
	if e.RolledBack {
		f = f.RolledBack()
	}
	if e.Lost {
		f = f.Lost()
	}
	s.end = f
	return nil
}

// result is the step's error, or nil. The script's report of its end goes before its exit code.
func (s *said) result(readErr, waitErr error, words string) error {
	var exit *exec.ExitError
	switch {
	case readErr != nil:
		return sdk.Fail(readErr.Error())
	case s.end != nil:
		return s.end
	case waitErr == nil:
		return nil
	case errors.As(waitErr, &exit) && words != "":
		return sdk.Failf("the script ended with %s: %s", exit.ProcessState, words)
	}
	return sdk.Failf("the script ended with %w", waitErr)
}
