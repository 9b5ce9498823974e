package wirerpc

import (
	"context"
	"errors"
	"io"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// The procedures of plugin.proto.
const (
	pluginService = "/turnus.plugin.v1.Plugin/"
	hostsService  = "/turnus.plugin.v1.Hosts/"
	jobService    = "/turnus.plugin.v1.Job/"
)

type (
	// RunStream is the server side of Run.
	RunStream = ServerStream[wire.RunEvent, *wire.RunEvent]
	// RunEvents is the client side of Run.
	RunEvents = DownloadClient[wire.RunEvent, *wire.RunEvent]
	// ExecServer is the server side of Exec.
	ExecServer = BidiStream[wire.ExecRequest, wire.ExecResponse, *wire.ExecRequest, *wire.ExecResponse]
	// ExecClient is the client side of Exec.
	ExecClient = BidiClient[wire.ExecRequest, wire.ExecResponse, *wire.ExecRequest, *wire.ExecResponse]
	// DialServer is the server side of Dial.
	DialServer = BidiStream[wire.DialMessage, wire.DialMessage, *wire.DialMessage, *wire.DialMessage]
	// DialClient is the client side of Dial.
	DialClient = BidiClient[wire.DialMessage, wire.DialMessage, *wire.DialMessage, *wire.DialMessage]
	// PutServer is the server side of Put.
	PutServer = ClientStream[wire.PutRequest, *wire.PutRequest]
	// PutClient is the client side of Put.
	PutClient = UploadClient[wire.PutRequest, wire.PutResponse, *wire.PutRequest, *wire.PutResponse]
	// GetServer is the server side of Get.
	GetServer = ServerStream[wire.GetResponse, *wire.GetResponse]
	// GetClient is the client side of Get.
	GetClient = DownloadClient[wire.GetResponse, *wire.GetResponse]
	// SaveServer is the server side of SaveFile.
	SaveServer = ClientStream[wire.SaveFileRequest, *wire.SaveFileRequest]
	// SaveClient is the client side of SaveFile.
	SaveClient = UploadClient[wire.SaveFileRequest, wire.SaveFileResponse, *wire.SaveFileRequest, *wire.SaveFileResponse]
	// KeptServer is the server side of Kept.
	KeptServer = ServerStream[wire.KeptResponse, *wire.KeptResponse]
	// KeptClient is the client side of Kept.
	KeptClient = DownloadClient[wire.KeptResponse, *wire.KeptResponse]
	// KeepServer is the server side of Keep.
	KeepServer = ClientStream[wire.KeepRequest, *wire.KeepRequest]
	// KeepClient is the client side of Keep.
	KeepClient = UploadClient[wire.KeepRequest, wire.KeepResponse, *wire.KeepRequest, *wire.KeepResponse]
)

func call[Req, Res any, PReq pointer[Req], PRes pointer[Res]](ctx context.Context, c *Client, procedure string, in *Req) (*Res, error) {
	out := new(Res)
	if err := c.Call(ctx, procedure, PReq(in), PRes(out)); err != nil {
		return nil, err
	}
	return out, nil
}

func serverStream[Req, Res any, PReq pointer[Req], PRes pointer[Res]](h *Handler, procedure string, serve func(context.Context, *Req, *ServerStream[Res, PRes]) error) {
	h.procedures[procedure] = func(c *Call) error {
		req := new(Req)
		if err := c.first(PReq(req)); err != nil {
			return err
		}
		return c.intercepted(nil, func() error { return serve(c.ctx, req, &ServerStream[Res, PRes]{c}) })
	}
}

func clientStream[Req, Res any, PReq pointer[Req], PRes pointer[Res]](h *Handler, procedure string, serve func(context.Context, *ClientStream[Req, PReq]) (*Res, error)) {
	h.procedures[procedure] = func(c *Call) error {
		return c.intercepted(nil, func() error {
			res, err := serve(c.ctx, &ClientStream[Req, PReq]{call: c})
			if err != nil {
				return err
			}
			return c.send(PRes(res), false)
		})
	}
}

func bidi[Req, Res any, PReq pointer[Req], PRes pointer[Res]](h *Handler, procedure string, serve func(context.Context, *BidiStream[Req, Res, PReq, PRes]) error) {
	h.procedures[procedure] = func(c *Call) error {
		return c.intercepted(nil, func() error { return serve(c.ctx, &BidiStream[Req, Res, PReq, PRes]{c}) })
	}
}

// PluginServer is the services of a plugin.
type PluginServer interface {
	Describe(context.Context, *wire.DescribeRequest) (*wire.Manifest, error)
	Validate(context.Context, *wire.ValidateRequest) (*wire.ValidateResponse, error)
	Run(context.Context, *wire.RunRequest, *RunStream) error
	Signal(context.Context, *wire.SignalRequest) (*wire.SignalResponse, error)
	MigrateState(context.Context, *wire.MigrateStateRequest) (*wire.MigrateStateResponse, error)
	Cleanup(context.Context, *wire.CleanupRequest) (*wire.CleanupResponse, error)
}

// RegisterPlugin registers the procedures of a plugin.
func RegisterPlugin(h *Handler, s PluginServer) {
	Unary(h, pluginService+"Describe", s.Describe)
	Unary(h, pluginService+"Validate", s.Validate)
	serverStream(h, pluginService+"Run", s.Run)
	Unary(h, pluginService+"Signal", s.Signal)
	Unary(h, pluginService+"MigrateState", s.MigrateState)
	Unary(h, pluginService+"Cleanup", s.Cleanup)
}

// HostsServer is the services of a worker about hosts.
type HostsServer interface {
	Exec(context.Context, *ExecServer) error
	Command(context.Context, *wire.CommandRequest) (*wire.CommandResponse, error)
	Put(context.Context, *PutServer) (*wire.PutResponse, error)
	Get(context.Context, *wire.GetRequest, *GetServer) error
	Dial(context.Context, *DialServer) error
	Probe(context.Context, *wire.ProbeRequest) (*wire.ProbeResponse, error)
}

// RegisterHosts registers the procedures about hosts.
func RegisterHosts(h *Handler, s HostsServer) {
	bidi(h, hostsService+"Exec", s.Exec)
	Unary(h, hostsService+"Command", s.Command)
	clientStream(h, hostsService+"Put", s.Put)
	serverStream(h, hostsService+"Get", s.Get)
	bidi(h, hostsService+"Dial", s.Dial)
	Unary(h, hostsService+"Probe", s.Probe)
}

// JobServer is the services of a worker about the running job.
type JobServer interface {
	Checkpoint(context.Context, *wire.CheckpointRequest) (*wire.CheckpointResponse, error)
	MayStart(context.Context, *wire.MayStartRequest) (*wire.MayStartResponse, error)
	Secret(context.Context, *wire.SecretRequest) (*wire.SecretResponse, error)
	SaveFile(context.Context, *SaveServer) (*wire.SaveFileResponse, error)
	Kept(context.Context, *wire.KeptRequest, *KeptServer) error
	Keep(context.Context, *KeepServer) (*wire.KeepResponse, error)
}

// RegisterJob registers the procedures about the running job.
func RegisterJob(h *Handler, s JobServer) {
	Unary(h, jobService+"Checkpoint", s.Checkpoint)
	Unary(h, jobService+"MayStart", s.MayStart)
	Unary(h, jobService+"Secret", s.Secret)
	clientStream(h, jobService+"SaveFile", s.SaveFile)
	serverStream(h, jobService+"Kept", s.Kept)
	clientStream(h, jobService+"Keep", s.Keep)
}

// Plugin calls a plugin.
type Plugin struct{ *Client }

// Describe returns the manifest.
func (p Plugin) Describe(ctx context.Context, in *wire.DescribeRequest) (*wire.Manifest, error) {
	return call[wire.DescribeRequest, wire.Manifest](ctx, p.Client, pluginService+"Describe", in)
}

// Validate checks parameters.
func (p Plugin) Validate(ctx context.Context, in *wire.ValidateRequest) (*wire.ValidateResponse, error) {
	return call[wire.ValidateRequest, wire.ValidateResponse](ctx, p.Client, pluginService+"Validate", in)
}

// Run runs a job.
func (p Plugin) Run(ctx context.Context, in *wire.RunRequest) (*RunEvents, error) {
	c, err := p.download(ctx, pluginService+"Run", in)
	return &RunEvents{call: c}, err
}

// Signal cancels a job or drains the plugin.
func (p Plugin) Signal(ctx context.Context, in *wire.SignalRequest) (*wire.SignalResponse, error) {
	return call[wire.SignalRequest, wire.SignalResponse](ctx, p.Client, pluginService+"Signal", in)
}

// MigrateState brings a state to the present version.
func (p Plugin) MigrateState(ctx context.Context, in *wire.MigrateStateRequest) (*wire.MigrateStateResponse, error) {
	return call[wire.MigrateStateRequest, wire.MigrateStateResponse](ctx, p.Client, pluginService+"MigrateState", in)
}

// Hosts calls a worker about hosts.
type Hosts struct{ *Client }

// Exec runs a command whose output is a stream. Its input is a stream if start asks for it.
func (h Hosts) Exec(ctx context.Context, start *wire.ExecStart) (*ExecClient, error) {
	first := &wire.ExecRequest{Message: &wire.ExecRequest_Start{Start: start}}
	if !start.GetStdin() {
		c, err := h.download(ctx, hostsService+"Exec", first)
		return &ExecClient{c}, err
	}
	s := &ExecClient{h.stream(ctx, hostsService+"Exec")}
	if err := s.Send(first); err != nil && !errors.Is(err, io.EOF) { // EOF: the call has ended, Receive returns why
		return nil, err
	}
	return s, nil
}

// Command runs a command with small input and output.
func (h Hosts) Command(ctx context.Context, in *wire.CommandRequest) (*wire.CommandResponse, error) {
	return call[wire.CommandRequest, wire.CommandResponse](ctx, h.Client, hostsService+"Command", in)
}

// Put writes a file.
func (h Hosts) Put(ctx context.Context) *PutClient {
	return &PutClient{h.stream(ctx, hostsService+"Put")}
}

// Get reads a file.
func (h Hosts) Get(ctx context.Context, in *wire.GetRequest) (*GetClient, error) {
	c, err := h.download(ctx, hostsService+"Get", in)
	return &GetClient{call: c}, err
}

// Dial opens a connection from a host.
func (h Hosts) Dial(ctx context.Context) *DialClient {
	return &DialClient{h.stream(ctx, hostsService+"Dial")}
}

// Probe proves that a new connection works.
func (h Hosts) Probe(ctx context.Context, in *wire.ProbeRequest) (*wire.ProbeResponse, error) {
	return call[wire.ProbeRequest, wire.ProbeResponse](ctx, h.Client, hostsService+"Probe", in)
}

// Job calls a worker about the running job.
type Job struct{ *Client }

// Checkpoint saves the state.
func (j Job) Checkpoint(ctx context.Context, in *wire.CheckpointRequest) (*wire.CheckpointResponse, error) {
	return call[wire.CheckpointRequest, wire.CheckpointResponse](ctx, j.Client, jobService+"Checkpoint", in)
}

// MayStart asks whether the maintenance window is open.
func (j Job) MayStart(ctx context.Context, in *wire.MayStartRequest) (*wire.MayStartResponse, error) {
	return call[wire.MayStartRequest, wire.MayStartResponse](ctx, j.Client, jobService+"MayStart", in)
}

// Secret returns a secret of the step.
func (j Job) Secret(ctx context.Context, in *wire.SecretRequest) (*wire.SecretResponse, error) {
	return call[wire.SecretRequest, wire.SecretResponse](ctx, j.Client, jobService+"Secret", in)
}

// SaveFile saves a file of the run.
func (j Job) SaveFile(ctx context.Context) *SaveClient {
	return &SaveClient{j.stream(ctx, jobService+"SaveFile")}
}

// Kept returns a kept version of a file.
func (j Job) Kept(ctx context.Context, in *wire.KeptRequest) (*KeptClient, error) {
	c, err := j.download(ctx, jobService+"Kept", in)
	return &KeptClient{call: c}, err
}

// Keep keeps versions of files.
func (j Job) Keep(ctx context.Context) *KeepClient {
	return &KeepClient{j.stream(ctx, jobService+"Keep")}
}
