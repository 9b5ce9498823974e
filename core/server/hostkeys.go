package server

import (
	"context"
	"encoding/json"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/telemetry"
)

// scanKeys is the operation to which keys of scans belong.
const scanKeys = "scan-host-keys"

func (s *Server) hostKeys() {
	handle(s, route{
		id: scanKeys, method: http.MethodPost, path: "/v1/hostkeys", summary: "Collect the SSH host keys of hosts", role: Operator, status: http.StatusCreated, maxBody: 6 << 20, // 20,000 names
		detail: "It makes a run of one step. Workers connect to the hosts by the addresses and jump hosts of the inventory, and log in to jump hosts only, if the keys of these are known. " +
			"The outputs of each job have the keys in keys, as lines of authorized_keys, and in known_hosts_name the name of the host in known_hosts. Nothing trusts these keys: compare their fingerprints with the hosts. " +
			"A tenant's token reaches the hosts of that tenant; if no host remains, the response is 404.",
	}, s.createKeyScan)
}

func (s *Server) createKeyScan(ctx context.Context, by caller, in *struct {
	Idempotent
	Body api.NewKeyScan
},
) (_ *versioned[api.Run], err error) {
	ctx, span := telemetry.StartSpan(ctx, telemetry.SpanLaunch)
	defer func() { telemetry.EndSpan(span, err) }()
	request, err := json.Marshal(in.Body)
	if err != nil {
		return nil, err
	}
	key := in.of(by, scanKeys)
	if answer, found, err := s.repeated(ctx, by, key, request); found || err != nil {
		return answer, err
	}
	if _, err := s.set(); err != nil {
		return nil, err
	}
	asked := make(map[string]bool, len(in.Body.Hosts))
	for _, name := range in.Body.Hosts {
		asked[name] = true
	}
	tenant := ""
	if !by.scope.All() {
		tenant = by.token.Tenant
	}
	l, err := s.cfg.Catalog.PrepareKeys(s.cfg.Catalog.Current(), tenant, catalog.Launching{
		By: by.name, Trace: telemetry.Traceparent(ctx), Scope: by.scope, Only: func(h core.Host) bool { return asked[h.Name] },
	})
	if err != nil {
		return nil, err
	}
	trace.SpanFromContext(ctx).SetAttributes(telemetry.AttributeRun.String(l.Run.ID), telemetry.AttributeTenant.String(l.Run.Tenant))
	return s.accept(ctx, controller.Acceptance{Launch: l, By: by.name, Key: key, Request: request})
}
