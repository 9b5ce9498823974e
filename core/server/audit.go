package server

import (
	"context"
	"net/http"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/ledger"
)

func (s *Server) audit() {
	handle(s, route{
		id: "list-audit", method: http.MethodGet, path: "/v1/audit", summary: "List who did what, newest first", role: Viewer,
		detail: "A tenant's token sees what was done to that tenant's things. " + shortPage,
	}, s.listAudit)
}

func (s *Server) listAudit(ctx context.Context, by caller, in *struct {
	Page
	Who    string    `query:"who" maxLength:"300"`
	What   string    `query:"what" maxLength:"100" doc:"as run.cancel"`
	Kind   string    `query:"kind" maxLength:"100" doc:"as run"`
	Object string    `query:"object" maxLength:"300" doc:"id or name"`
	Since  time.Time `query:"since"`
	Until  time.Time `query:"until"`
},
) (*list[api.Entry], error) {
	f := ledger.AuditFilter{Who: in.Who, Action: in.What, Kind: in.Kind, Subject: in.Object, Since: in.Since, Until: in.Until}
	entries, next, err := s.cfg.Ledger.AuditLog(ctx, by.scope, f, in.ledger())
	if err != nil {
		return nil, err
	}
	items := make([]api.Entry, len(entries))
	for i, e := range entries {
		redactEntry(by, &e)
		items[i] = api.Entry{Seq: e.Seq, Time: e.At, Who: e.Who, What: e.Action, Tenant: e.Tenant, Object: e.Subject, Before: e.Before, After: e.After}
	}
	return listOf(items, next), nil
}

// redactEntry takes out of an entry what a tenant does not see of a schedule by a person of all
// tenants, as withhold does.
func redactEntry(by caller, e *ledger.Entry) {
	if e.Kind == "schedule" && !by.token.AllTenants {
		e.Before, e.After = catalog.WithoutForeign(e.Before), catalog.WithoutForeign(e.After)
	}
}
