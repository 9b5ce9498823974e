package conformance

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// op is one call of a host service, as the plugin made it.
type op struct {
	lease    string
	what     string // "exec systemctl restart nginx", "put /etc/motd"
	text     string // what others on the host can see of it: a command line with its environment
	mutates  bool   // it may change the host
	moves    bool   // it carries a file
	refused  bool   // check mode forbade it
	unleased bool   // it came without the lease of a running job
}

// callLog sees every call of a process's host services. Safe for concurrent use.
type callLog struct {
	mu  sync.Mutex
	ops []op
}

func (l *callLog) of(lease string) []op {
	l.mu.Lock()
	defer l.mu.Unlock()
	var mine []op
	for _, o := range l.ops {
		if o.lease == lease {
			mine = append(mine, o)
		}
	}
	return mine
}

func (l *callLog) stray() []op {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []op
	for _, o := range l.ops {
		if o.unleased {
			all = append(all, o)
		}
	}
	return all
}

func (l *callLog) began(ctx context.Context, method string, first any) int {
	o := describe(method, first)
	md, _ := metadata.FromIncomingContext(ctx)
	if leases := md.Get(wire.LeaseKey); len(leases) == 1 {
		o.lease = leases[0]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
	return len(l.ops) - 1
}

func (l *callLog) ended(at int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &l.ops[at]
	switch status.Code(err) {
	case codes.FailedPrecondition:
		o.refused = true
	case codes.PermissionDenied:
		o.unleased = o.lease == ""
	}
}

func (l *callLog) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	at := l.began(ctx, info.FullMethod, req)
	resp, err := next(ctx, req)
	l.ended(at, err)
	return resp, err
}

func (l *callLog) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	s := &peeked{ServerStream: ss, log: l, method: info.FullMethod, at: -1}
	err := next(srv, s)
	if at := s.entry(); at >= 0 {
		l.ended(at, err)
	}
	return err
}

// peeked checks the first message of a stream.
type peeked struct {
	grpc.ServerStream
	log    *callLog
	method string

	mu sync.Mutex
	at int // in the log; -1 before the first message
}

func (p *peeked) entry() int { return core.Locked(&p.mu, &p.at) }

// RecvMsg implements grpc.ServerStream.
func (p *peeked) RecvMsg(m any) error {
	err := p.ServerStream.RecvMsg(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.at < 0 {
		p.at = p.log.began(p.Context(), p.method, m)
	}
	return err
}

func describe(method string, first any) op {
	switch m := first.(type) {
	case *wire.CommandRequest:
		return command(m.GetStart())
	case *wire.ExecRequest:
		return command(m.GetStart())
	case *wire.PutRequest:
		return op{what: "put " + m.GetStart().GetPath(), mutates: true, moves: true}
	case *wire.GetRequest:
		return op{what: "get " + m.GetPath() + m.GetArtifact(), moves: m.GetArtifact() == ""}
	case *wire.DialMessage:
		return op{what: "dial " + m.GetStart().GetAddress()}
	case *wire.CheckpointRequest:
		return op{what: "checkpoint " + m.GetName()}
	case *wire.SecretRequest:
		return op{what: "secret " + m.GetName()}
	case *wire.KeepRequest:
		return op{what: "keep " + m.GetFile().GetName()}
	}
	return op{what: method}
}

func command(start *wire.ExecStart) op {
	o := op{what: "exec " + start.GetCommand(), text: start.GetCommand(), mutates: !start.GetReadOnly()}
	for name, value := range start.GetEnv() {
		o.text += "\n" + name + "=" + value
	}
	return o
}
