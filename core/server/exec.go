package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/telemetry"
)

// createExec is the operation to which keys of runs of commands belong.
const createExec = "exec"

func (s *Server) exec() {
	handle(s, route{
		id: createExec, method: http.MethodPost, path: "/v1/exec", summary: "Run one command on hosts", role: Operator, permit: api.PermitExec, status: http.StatusCreated,
		detail: "It makes a run of one step, with the locks, the failure threshold, the windows and the record of a playbook's run. The token needs the permission exec, which no role includes. " +
			"A tenant's token reaches the hosts of that tenant. Hosts with a window set keep to it: needs is how much time the command takes. outside_windows needs the permission exec-outside-windows and a reason, become the permission exec-become and a reason; workers have the passwords. " +
			"The audit log has the command line: keep secrets out of it.",
	}, s.createExec)
}

func (s *Server) createExec(ctx context.Context, by caller, in *struct {
	Idempotent
	Body api.NewExec
},
) (_ *versioned[api.Run], err error) {
	ctx, span := telemetry.StartSpan(ctx, telemetry.SpanLaunch)
	defer func() { telemetry.EndSpan(span, err) }()
	n := in.Body
	command, err := s.commandOf(by, n)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	key := in.of(by, createExec)
	if answer, found, err := s.repeated(ctx, by, key, request); found || err != nil {
		return answer, err
	}
	l, err := s.prepareCommand(ctx, by, command, n, catalog.Launching{})
	if err != nil {
		return nil, err
	}
	return s.accept(ctx, controller.Acceptance{
		Launch: l, By: by.name, Key: key, Request: request, Exec: execOf(command),
	})
}

// becomeOf returns nil if the request has no become and no become_user: the inventory counts.
func becomeOf(n api.NewExec) *core.BecomeRule {
	if n.Become == nil && n.BecomeUser == "" {
		return nil
	}
	return &core.BecomeRule{On: n.BecomeUser != "" || *n.Become, User: n.BecomeUser}
}

// becomes reports whether a rule asks for another user than the login.
func becomes(r *core.BecomeRule) bool { return r != nil && r.On }

// execOf is a command as the audit log has it.
func execOf(c launch.Command) *ledger.Exec {
	e := &ledger.Exec{Command: c.Line, OutsideWindows: c.OutsideWindows}
	if becomes(c.Become) {
		e.Become, e.BecomeUser = true, c.Become.User
	}
	return e
}

// commandOf reads the command that a caller asks for, and refuses what the caller may not ask.
func (s *Server) commandOf(by caller, n api.NewExec) (launch.Command, error) {
	c := launch.Command{Line: n.Command, StopAfter: n.StopAfter, Disruptive: n.Disruptive, OutsideWindows: n.OutsideWindows, Become: becomeOf(n)}
	if !by.scope.All() {
		c.Tenant = by.token.Tenant
	}
	if n.Check {
		return c, fmt.Errorf("exec: check: nobody knows what a command would change, so a dry run of it reports nothing: use a playbook of job types that have check mode: %w", core.ErrInvalid)
	}
	for _, more := range []struct {
		field  string
		asked  bool
		permit api.Permission
	}{{"outside_windows", n.OutsideWindows, api.PermitOutside}, {"become", becomes(c.Become), api.PermitBecome}} {
		if !more.asked {
			continue
		}
		if err := s.need(by, more.permit); err != nil {
			return c, err
		}
		if strings.TrimSpace(n.Reason) == "" {
			return c, fmt.Errorf("exec: %s: no reason is given, and the audit log needs one (--reason TEXT of turnus exec): %w", more.field, core.ErrInvalid)
		}
	}
	if n.BecomeUser != "" {
		if err := (core.Become{User: n.BecomeUser}).Check(); err != nil {
			return c, fmt.Errorf("exec: become_user: %w", err)
		}
	}
	for _, d := range []struct {
		field string
		given core.Seconds
		to    *time.Duration
	}{{"timeout_seconds", n.Timeout, &c.Timeout}, {"needs_seconds", n.Needs, &c.Needs}} {
		if *d.to = d.given.Duration(); d.given != 0 && *d.to < time.Millisecond {
			return c, fmt.Errorf("exec: %s %v: expected at least 0.001: %w", d.field, d.given, core.ErrInvalid)
		}
	}
	return c, nil
}

// prepareCommand makes a launch of a command, on hosts of the caller's tenants. It takes Only and
// Asked of as, and sets the rest.
func (s *Server) prepareCommand(ctx context.Context, by caller, c launch.Command, n api.NewExec, as catalog.Launching) (*launch.Launch, error) {
	if _, err := s.set(); err != nil {
		return nil, err
	}
	as.By, as.Trace, as.Scope, as.SkipNoWindow = by.name, telemetry.Traceparent(ctx), by.scope, n.SkipNoWindow || n.SkipUnfit
	l, err := s.cfg.Catalog.PrepareCommand(s.cfg.Catalog.Current(), c, catalog.Request{Limit: n.Limit, MaxInFlight: n.MaxInFlight, Reason: n.Reason}, as)
	if err == nil {
		trace.SpanFromContext(ctx).SetAttributes(telemetry.AttributeRun.String(l.Run.ID), telemetry.AttributeTenant.String(l.Run.Tenant))
	}
	return l, err
}
