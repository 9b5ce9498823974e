package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// Server is the plugin's end of the wire without a process: [Serve] puts it into
// one, tests serve it in their own. Safe for concurrent use.
type Server struct {
	manifest Manifest
	types    map[string]*jobType
	hosts    wirerpc.Hosts
	jobs     wirerpc.Job

	mu       sync.Mutex
	running  map[string]context.CancelCauseFunc // by lease
	draining bool
}

// NewServer makes a server of the job types, which reaches the worker's host services by
// way of worker. It panics when two types have one name.
func NewServer(worker *wirerpc.Client, defs ...Def) *Server {
	s := &Server{
		manifest: Describe(defs...),
		types:    make(map[string]*jobType),
		running:  make(map[string]context.CancelCauseFunc),
		hosts:    wirerpc.Hosts{Client: worker},
		jobs:     wirerpc.Job{Client: worker},
	}
	for _, d := range defs {
		if d.job == nil {
			continue
		}
		if s.types[d.job.Name] != nil {
			panic(fmt.Sprintf("sdk: two job types are named %q", d.job.Name))
		}
		s.types[d.job.Name] = d.job
	}
	return s
}

// Handler returns the handler of the server's calls.
func (s *Server) Handler() *wirerpc.Handler {
	h := wirerpc.NewHandler()
	wirerpc.RegisterPlugin(h, s)
	return h
}

// Describe answers the manifest.
func (s *Server) Describe(context.Context, *wire.DescribeRequest) (*wire.Manifest, error) {
	return s.manifest.wire(), nil
}

func (s *Server) find(name string) (*jobType, error) {
	t := s.types[name]
	if t == nil {
		return nil, refused(wirerpc.CodeNotFound, "plugin %s has no job type %q", s.manifest.Name, name)
	}
	return t, nil
}

// Validate checks parameters as Run would.
func (s *Server) Validate(_ context.Context, req *wire.ValidateRequest) (resp *wire.ValidateResponse, err error) {
	defer recovered(&err)
	t, err := s.find(req.GetType())
	if err != nil {
		return nil, err
	}
	return &wire.ValidateResponse{Diagnostics: cleanAll(t.validate(req.GetParams()))}, nil
}

// MigrateState brings a saved state to the present version.
func (s *Server) MigrateState(_ context.Context, req *wire.MigrateStateRequest) (resp *wire.MigrateStateResponse, err error) {
	defer recovered(&err)
	t, err := s.find(req.GetType())
	if err != nil {
		return nil, err
	}
	state, err := t.migrateState(int(req.GetState().GetVersion()), req.GetState().GetJson())
	if err != nil {
		return nil, refused(wirerpc.CodeInvalidArgument, "%s", clean(err.Error(), maxReason))
	}
	return &wire.MigrateStateResponse{State: &wire.State{Version: uint32(t.StateVersion), Json: state}}, nil
}

// Cleanup has nothing to do: a job type keeps what it must undo in its state.
func (s *Server) Cleanup(context.Context, *wire.CleanupRequest) (*wire.CleanupResponse, error) {
	return &wire.CleanupResponse{}, nil
}

// Signal ends one job's context, or takes no new jobs from now on.
func (s *Server) Signal(_ context.Context, req *wire.SignalRequest) (*wire.SignalResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.GetKind() {
	case wire.SignalRequest_DRAIN:
		s.draining = true
	case wire.SignalRequest_CANCEL:
		if cancel := s.running[req.GetLease()]; cancel != nil {
			cancel(errCancelled)
		}
	}
	return &wire.SignalResponse{}, nil
}

// Run calls the author's function and ends with its one outcome.
func (s *Server) Run(ctx context.Context, req *wire.RunRequest, stream *wirerpc.RunStream) error {
	t, err := s.find(req.GetType())
	if err != nil {
		return err
	}
	sess := &session{req: req, events: &events{send: stream.Send, last: stream.SendLast}, hosts: s.hosts, jobs: s.jobs}
	sess.done.outputs = make(map[string]json.RawMessage)
	ctx, stop := sess.deadline(ctx)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.enter(req.GetLease(), cancel); err != nil {
		return err
	}
	defer s.leave(req.GetLease())
	err = call(ctx, t, sess)
	if bad := new(paramsError); errors.As(err, &bad) {
		for _, d := range cleanAll(bad.diags) {
			_ = sess.events.emit(&wire.RunEvent{Event: &wire.RunEvent_Diagnostic{Diagnostic: d}})
		}
	}
	outcome := sess.outcome(ctx, err)
	if suspended := outcome.GetSuspended(); suspended != nil {
		suspended.State.Version = uint32(t.StateVersion)
	}
	return sess.events.end(outcome)
}

// refused is the status of a call that is not carried out.
func refused(code wirerpc.Code, format string, args ...any) error {
	return wirerpc.Errorf(code, format, args...)
}

func (s *Server) enter(lease string, cancel context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return refused(wirerpc.CodeUnavailable, "the plugin is draining and takes no new job")
	}
	if s.running[lease] != nil {
		return refused(wirerpc.CodeAlreadyExists, "a job with this lease is running")
	}
	s.running[lease] = cancel
	return nil
}

func (s *Server) leave(lease string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, lease)
}

// call runs the author's function in a goroutine of its own and joins it: a panic, or a
// runtime.Goexit, ends one job and not its neighbours.
func call(ctx context.Context, t *jobType, s *session) error {
	if s.req.GetCheck() && !t.Check {
		return Refuse("%s does not support check mode; nothing was done", t.Name)
	}
	returned := make(chan error, 1)
	go func() {
		err := error(Fail("the job type ended its goroutine without returning; effects on the host are unknown"))
		defer func() {
			if cause := recover(); cause != nil {
				err = Failf("the job type panicked: %v; effects on the host are unknown", cause)
				_ = s.events.emit(&wire.RunEvent{Event: &wire.RunEvent_Log{Log: &wire.Log{
					Level:      wire.Log_ERROR,
					Message:    clean(fmt.Sprintf("panic: %v", cause), maxLog),
					Attributes: map[string]string{"stack": clean(string(debug.Stack()), maxLog)},
				}}})
			}
			returned <- err
		}()
		err = t.run(ctx, s)
	}()
	return <-returned
}

// recovered turns a panic of the author's code into a status.
func recovered(err *error) {
	if cause := recover(); cause != nil {
		*err = refused(wirerpc.CodeInternal, "the job type panicked: %s", clean(fmt.Sprint(cause), maxReason))
	}
}

func cleanAll(diags []*wire.Diagnostic) []*wire.Diagnostic {
	for _, d := range diags {
		d.Summary, d.Detail, d.Pointer = clean(d.GetSummary(), maxReason), clean(d.GetDetail(), maxReason), clean(d.GetPointer(), maxTitle)
	}
	return diags
}
