package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// Run is one call of a job type. Its methods are safe for concurrent use; its
// fields are the author's to read. Nothing of it works after the function returned.
type Run[P, S any] struct {
	Params   P
	State    S         // what Checkpoint or Suspend saved last; the zero value at first
	Resumed  bool      // State was saved by an earlier call
	Job      string    // RUN/INDEX
	Step     string    // the step's name in the playbook
	Attempt  int       // from 1
	Check    bool      // change nothing, report what would change
	Diff     bool      // ShowDiff is wanted
	Key      string    // idempotency key, stable over the attempts of this step of this job
	Fence    uint64    // grows with each lease: a larger one is the later, also after the queue lost data or turnus up was restarted, unless the clock was set back
	Deadline time.Time // zero: none; ctx also has it
	Labels   map[string]string
	Secrets  []string // names that Secret takes: those of the step's secrets:, sorted
	Trace    string   // W3C traceparent of the call, for the plugin's own requests; "": the run is not traced

	s        *session
	stateVer int
}

func newRun[P, S any](s *session, t *jobType, p params[P]) (*Run[P, S], error) {
	value, diags := p.decode(s.req.GetParams())
	if len(diags) > 0 {
		return nil, &paramsError{diags: diags}
	}
	r := &Run[P, S]{
		Params: value, Job: s.req.GetJob(), Step: s.req.GetStep(), Attempt: int(s.req.GetAttempt()),
		Check: s.req.GetCheck(), Diff: s.req.GetDiff(), Key: s.req.GetIdempotencyKey(), Fence: s.req.GetFence(),
		Labels: maps.Clone(s.req.GetHostLabels()), Secrets: slices.Clone(s.req.GetSecrets()), Trace: s.req.GetTraceparent(), s: s, stateVer: t.StateVersion,
	}
	if ms := s.req.GetDeadlineUnixMs(); ms > 0 {
		r.Deadline = time.UnixMilli(ms)
	}
	if state := s.req.GetState(); len(state.GetJson()) > 0 {
		current, err := t.migrateState(int(state.GetVersion()), state.GetJson())
		if err != nil {
			return nil, Failf("the saved state of %s cannot be used: %w", t.Name, err)
		}
		if err := words.Unmarshal("state", current, &r.State); err != nil {
			return nil, Failf("the saved state of %s cannot be read: %w", t.Name, err)
		}
		r.Resumed, s.done.saved = true, current
	}
	return r, nil
}

// migrateState brings a state to the present version.
func (t *jobType) migrateState(version int, state json.RawMessage) (json.RawMessage, error) {
	if version == 0 || version == t.StateVersion {
		return state, nil
	}
	if version > t.StateVersion || t.migrate == nil {
		return nil, fmt.Errorf("state version %d: another version of the plugin saved it, this plugin knows %d", version, t.StateVersion)
	}
	migrated, err := t.migrate(version, state)
	if err != nil {
		return nil, fmt.Errorf("from version %d to %d: %w", version, t.StateVersion, words.Plain(err))
	}
	return migrated, nil
}

// Host is the job's own host.
func (r *Run[P, S]) Host() *Host { return &Host{s: r.s, Name: r.s.req.GetHost()} }

// Log writes records of this job. Those made within a phase carry its name. The operator sees a
// warning as a line of the host's standard error; other levels are only events of the run.
func (r *Run[P, S]) Log() *slog.Logger {
	h := &logHandler{events: r.s.events}
	r.s.update(func(d *done) {
		if d.phase.name != "" {
			h.attrs = map[string]string{"phase": d.phase.name}
		}
	})
	return slog.New(h)
}

// Changed records that the host was changed; in check mode, that it would be.
func (r *Run[P, S]) Changed() { r.s.update(func(d *done) { d.changed = true }) }

// Skip records that nothing applied, as when a guard is satisfied. It returns nil:
//
//	return r.Skip("already there")
func (r *Run[P, S]) Skip(reason string) error {
	r.s.update(func(d *done) { d.skipped, d.reason = true, reason })
	return nil
}

// Explain gives the reason that is recorded when the step succeeds.
func (r *Run[P, S]) Explain(reason string) { r.s.update(func(d *done) { d.reason = reason }) }

// Lacks ends a step whose host does not have what the step needs; the function returns its result.
// In check mode the step counts as a change if an earlier step of the run would change the host,
// because that step may bring what is missing. Otherwise the step fails with this reason, and
// without effects.
func (r *Run[P, S]) Lacks(format string, args ...any) error {
	why := Refuse(format, args...)
	if !r.Check || r.s.req.GetUntouched() {
		return why
	}
	reason := why.Error() + "; an earlier step of this run may bring it"
	r.s.update(func(d *done) { d.changed, d.unchecked, d.reason = true, true, reason })
	return nil
}

// Output sets an output, which later steps read as steps.NAME.outputs.KEY. A step that fails also
// keeps its outputs. The name evidence is that of [Run.Evidence]. value must encode to JSON: with
// one that does not, or with more than 1 MiB together, the step fails. A worker keeps 32 KiB of a
// step's outputs, evidence included, and fails a step that gives more; [OutputText] cuts a text to
// fit.
func (r *Run[P, S]) Output(key string, value any) {
	raw, err := json.Marshal(value)
	r.s.update(func(d *done) {
		d.size += len(key) + len(raw)
		switch {
		case err != nil:
			d.err = fmt.Errorf("output %q: %w", key, words.Plain(err))
		case d.size > maxOutputs:
			d.err = fmt.Errorf("output %q: outputs are over %d bytes", key, maxOutputs)
		default:
			d.outputs[key] = raw
		}
	})
}

// Evidence attaches what was seen to the outcome, under a name: a fingerprint before and after, a
// probe's answer. It is kept whether the step succeeds, fails, is rolled back or lost; not when the
// call suspends, is cancelled or dies: what must last over that belongs in State, and is given here
// at the end. It is the output "evidence", an object of all names; turnus logs shows it. value must
// encode to JSON. It counts towards the bounds of [Run.Output]: of what is larger keep a reference
// and a hash, as [Run.SaveFile] gives them. No secrets.
func (r *Run[P, S]) Evidence(name string, value any) {
	raw, err := json.Marshal(value)
	r.s.update(func(d *done) {
		d.size += len(name) + len(raw)
		switch {
		case err != nil:
			d.err = fmt.Errorf("evidence %q: %w", name, words.Plain(err))
		case d.size > maxOutputs:
			d.err = fmt.Errorf("evidence %q: outputs are over %d bytes", name, maxOutputs)
		default:
			if d.evidence == nil {
				d.evidence = map[string]json.RawMessage{}
			}
			d.evidence[name] = raw
		}
	})
}

// Print streams text to the operator, as the host's standard output.
func (r *Run[P, S]) Print(text []byte) { _, _ = r.Stdout().Write(text) }

// Stdout streams to the operator.
func (r *Run[P, S]) Stdout() io.Writer { return printer{events: r.s.events} }

// Stderr streams to the operator.
func (r *Run[P, S]) Stderr() io.Writer { return printer{events: r.s.events, stderr: true} }

// ShowDiff reports what differs as a unified diff, when the operator asked for it.
// Binary content is described by size and hash, long diffs are cut.
func (r *Run[P, S]) ShowDiff(title string, before, after []byte) {
	if !r.Diff {
		return
	}
	text := unified(title, before, after)
	if text == "" {
		return
	}
	_ = r.s.events.emit(&wire.RunEvent{Event: &wire.RunEvent_Diff{Diff: &wire.Diff{
		Title: clean(title, maxTitle), Text: clean(text, maxDiff),
	}}})
}

// Progress reports how far the step is, from 0 to 1, and the name of its phase. Within a phase of
// [Run.Phases] it is how far that is, and what it does there.
func (r *Run[P, S]) Progress(part float64, phase string) {
	part = min(max(part, 0), 1)
	r.s.update(func(d *done) { part, phase = d.phase.progress(part, phase) })
	_ = r.s.events.emit(&wire.RunEvent{Event: &wire.RunEvent_Progress{Progress: &wire.Progress{
		Done: part, Phase: clean(phase, maxTitle),
	}}})
}

// Checkpoint saves state and returns once it is durable: after a crash the next
// call finds it in State. name is the phase that was reached. State holds
// references to secrets only, never secrets.
//
// It must stand where the job may stop and continue much later: when the host's window has
// closed it returns an [ErrWindowClosed], which the function returns. Where the job must continue,
// save with [Run.Save].
func (r *Run[P, S]) Checkpoint(ctx context.Context, name string, state S) error {
	return r.save(ctx, name, state, false)
}

// Save is [Run.Checkpoint] where the job must not stop, as within a rollback, or between
// arming a device's own way back and committing: it never returns [ErrWindowClosed].
func (r *Run[P, S]) Save(ctx context.Context, name string, state S) error {
	return r.save(ctx, name, state, true)
}

func (r *Run[P, S]) save(ctx context.Context, name string, state S, goOn bool) error {
	raw, err := encodeState(state)
	if err != nil {
		return err
	}
	resp, err := r.s.jobs.Checkpoint(r.s.withLease(ctx), &wire.CheckpointRequest{
		Name: clean(name, maxTitle), State: &wire.State{Version: uint32(r.stateVer), Json: raw}, GoOn: goOn,
	})
	if err != nil {
		return hostError(ctx, "", "checkpoint "+name, err)
	}
	r.s.update(func(d *done) { r.State, d.saved = state, raw })
	if stop := resp.GetStop(); stop != "" && !goOn {
		return &suspension{state: raw, reason: stop, held: true}
	}
	return nil
}

// MayStart checks whether the host's window is still open, approved, and long enough for
// need. Call it right before an action that cannot be undone (a reboot, a flash). need includes all
// later actions, also a rollback; 0 is the rest of the step's needs:.
//
// If the window does not suffice, the error is an [ErrWindowClosed] with the reason, which the
// function returns. Save state that the next attempt needs before the call. A rollback does not
// call it. Outside of windows, as in a run without any, it is always nil.
func (r *Run[P, S]) MayStart(ctx context.Context, need time.Duration) error {
	resp, err := r.s.jobs.MayStart(r.s.withLease(ctx), &wire.MayStartRequest{NeedMs: max(need, 0).Milliseconds()})
	if wirerpc.CodeOf(err) == wirerpc.CodeUnimplemented { // a worker from before windows lets everything start
		return nil
	}
	if err != nil {
		return hostError(ctx, "", "asking whether the maintenance window fits", err)
	}
	if resp.GetWait() == "" {
		return nil
	}
	held := &suspension{reason: resp.GetWait(), held: true}
	r.s.update(func(d *done) { held.state = d.saved })
	return held
}

// Secret is the value of a secret that the step lists in the playbook; name is the one that it has
// there, as [Run].Secrets has them. Others are refused. The worker takes the value out of all that
// this job reports, and refuses a State that holds it. To hand it to a command of the host use
// [Command].Secrets, which needs no value here.
func (r *Run[P, S]) Secret(ctx context.Context, name string) (string, error) {
	resp, err := r.s.jobs.Secret(r.s.withLease(ctx), &wire.SecretRequest{Name: name})
	if err != nil {
		return "", hostError(ctx, "", "secret "+name, err)
	}
	return string(resp.GetValue()), nil
}

// Artifact copies a file of the worker into w: by digest, or by a path relative to the
// playbook. More than maxSize bytes are ErrTooLarge (0: any).
func (r *Run[P, S]) Artifact(ctx context.Context, name string, maxSize int64, w io.Writer) (FileInfo, error) {
	return r.s.get(ctx, &wire.GetRequest{Artifact: name, MaxSize: maxSize}, w)
}

// SavedFile is a file in the worker's fetch folder.
type SavedFile struct {
	Path   string // on the worker
	Size   int64
	SHA256 string // hex
}

// SaveFile streams data to the worker's fetch folder, under HOST/name; an older file is replaced.
func (r *Run[P, S]) SaveFile(ctx context.Context, name string, data io.Reader) (SavedFile, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := r.s.jobs.SaveFile(r.s.withLease(ctx))
	err := stream.Send(&wire.SaveFileRequest{Message: &wire.SaveFileRequest_Start{Start: &wire.SaveFileStart{Name: name}}})
	if err == nil {
		err = sendChunks(data, func(b []byte) error {
			return stream.Send(&wire.SaveFileRequest{Message: &wire.SaveFileRequest_Data{Data: b}})
		})
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the worker ended the call, and CloseAndReceive returns why
		return SavedFile{}, fmt.Errorf("save file %s: %w", name, err)
	}
	resp, err := stream.CloseAndReceive()
	if err != nil {
		return SavedFile{}, hostError(ctx, "", "save file", err)
	}
	return SavedFile{Path: resp.GetPath(), Size: resp.GetSize(), SHA256: resp.GetSha256()}, nil
}
