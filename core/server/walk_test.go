package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

// aim is how a test calls one operation with acme's things.
type aim struct {
	run  string // {run}: "done" is complete, "waiting" waits for an approval, "queued" and "ending" are between both
	path map[string]string
	body any
	sse  bool
	// list: a caller who may not see acme's things gets an answer without them; others are refused.
	list    bool
	headers []string
	// creates: there is nothing before it, for the audit log; removes: nothing after it.
	creates, removes bool
	// quiet: it changes nothing, whatever its method.
	quiet bool
	// own: the answer is about who asks, and holds nothing of a tenant.
	own bool
	// each: it answers 200, with an error of its own for each thing that is refused.
	each bool
	// makes: it makes a thing in whatever tenant the body names.
	status int // of acme's own token; 2xx when zero
}

// aims has one entry an operation of the document. A route that is not here fails
// TestEveryRouteRefusesOtherTenants: add how it reaches a tenant's things.
var aims = map[string]aim{
	"create-run":           {creates: true, body: api.NewRun{Playbook: "acme-patch"}},
	"create-runs":          {creates: true, each: true, body: api.NewRuns{Runs: []api.KeyedRun{{Key: "k", NewRun: api.NewRun{Playbook: "acme-patch"}}}}},
	"exec":                 {creates: true, body: api.NewExec{Command: "uptime", Limit: []string{"acme-1"}, Needs: 300}},
	"scan-host-keys":       {creates: true, body: api.NewKeyScan{Hosts: []string{"acme-1"}}},
	"list-runs":            {list: true},
	"get-run":              {run: "done"},
	"replace-run":          {run: "waiting", body: api.NewRun{Playbook: "acme-patch"}},
	"change-run":           {run: "waiting", body: api.ChangeRun{Weight: new(7)}},
	"cancel-run":           {run: "ending", body: api.Why{}},
	"pause-run":            {run: "queued", body: api.Why{}},
	"resume-run":           {run: "queued", body: api.Why{}},
	"signal-run":           {creates: true, run: "queued", body: api.Signal{Event: "go"}},
	"wake-run":             {creates: true, run: "queued", body: api.Signal{Event: "go"}},
	"approve-run":          {run: "waiting", body: api.Approve{Approve: true}},
	"retry-run":            {creates: true, run: "done", body: api.Retry{}},
	"list-decisions":       {run: "done"},
	"list-jobs":            {run: "done"},
	"get-job":              {run: "done", path: map[string]string{"job": "0"}},
	"explain-job":          {run: "done", path: map[string]string{"job": "0"}},
	"forecast-run":         {run: "queued"},
	"show-grid":            {run: "done"},
	"list-result-groups":   {run: "done"},
	"count-steps":          {run: "done"},
	"list-waits":           {run: "queued"},
	"show-timeline":        {run: "queued"},
	"plan-run":             {quiet: true, body: api.NewRun{Playbook: "acme-patch"}},
	"plan-retry":           {quiet: true, run: "done", body: api.Retry{}},
	"list-durations":       {path: map[string]string{"playbook": "acme-patch"}},
	"list-attempts":        {run: "done", path: map[string]string{"job": "0"}},
	"list-outputs":         {run: "done", path: map[string]string{"job": "0"}},
	"get-output":           {run: "done", path: map[string]string{"job": "0", "step": "0", "stream": "stdout"}},
	"follow-run":           {run: "done", sse: true},
	"follow-job":           {run: "done", path: map[string]string{"job": "0"}, sse: true},
	"follow-changes":       {own: true},
	"list-audit":           {list: true},
	"export-runs":          {list: true},
	"export-jobs":          {list: true},
	"export-audit":         {list: true},
	"whoami":               {own: true},
	"create-token":         {creates: true, body: api.NewToken{Name: "x", Tenant: "acme", Role: "viewer"}},
	"list-tokens":          {list: true},
	"revoke-token":         {path: map[string]string{"token": "TOKEN"}},
	"list-hosts":           {list: true},
	"list-fleet":           {list: true},
	"get-calendar":         {list: true},
	"create-calendar-feed": {creates: true, body: api.NewCalendarFeed{Name: "phone", Tenant: "acme"}},
	"list-calendar-feeds":  {list: true},
	"revoke-calendar-feed": {path: map[string]string{"feed": "FEED"}},
	"list-shares":          {list: true},
	"list-sources":         {list: true},
	"get-source":           {path: map[string]string{"source": "acme-cmdb"}},
	"diff-source":          {path: map[string]string{"source": "acme-cmdb"}},
	"approve-source":       {path: map[string]string{"source": "acme-cmdb"}}, // walk fills in what is waiting
	"list-origins":         {path: map[string]string{"host": "acme-1"}},
	"get-host":             {path: map[string]string{"host": "acme-1"}},
	"get-host-facts":       {path: map[string]string{"host": "acme-1"}},
	"list-config-versions": {path: map[string]string{"host": "acme-1"}},
	"diff-config-versions": {path: map[string]string{"host": "acme-1"}},
	"list-locks":           {path: map[string]string{"host": "acme-1"}},
	"host-history":         {path: map[string]string{"host": "acme-1"}},
	"list-host-jobs":       {path: map[string]string{"host": "acme-1"}},
	"list-playbooks":       {list: true},
	"get-playbook":         {path: map[string]string{"playbook": "acme-patch"}},
	"list-windows":         {list: true},
	"get-window":           {path: map[string]string{"set": "acme-night"}},
	"explain-window":       {path: map[string]string{"set": "acme-night"}},
	"list-approvals":       {list: true},
	"approve-window":       {path: map[string]string{"set": "acme-day"}, body: api.ApproveWindow{}},
	"revoke-window":        {path: map[string]string{"set": "acme-day"}, body: api.RevokeWindow{}},
	"list-schedules":       {list: true},
	"get-schedule":         {path: map[string]string{"schedule": "acme:acme-patch"}},
	"put-schedule":         {creates: true, path: map[string]string{"schedule": "acme:hourly"}, body: api.NewSchedule{Playbook: "acme-patch", Cron: "0 * * * *"}},
	"pause-schedule":       {path: map[string]string{"schedule": "acme:made"}, body: api.Why{}},
	"resume-schedule":      {path: map[string]string{"schedule": "acme:made"}, body: api.Why{}},
	"plan-schedule":        {quiet: true, path: map[string]string{"schedule": "acme:made"}},
	"trigger-schedule":     {path: map[string]string{"schedule": "acme:made"}, body: api.Why{}},
	"backfill-schedule": {
		path: map[string]string{"schedule": "acme:made"},
		body: map[string]string{"from": "2026-01-05T00:00:00Z", "to": "2026-01-06T00:00:00Z"},
	},
	"delete-schedule":    {removes: true, path: map[string]string{"schedule": "acme:made"}},
	"list-notifications": {list: true},
	"get-notification":   {path: map[string]string{"notification": "NOTE"}},
	"retry-notification": {path: map[string]string{"notification": "NOTE"}},
	"list-channels":      {list: true},
	"list-handlers":      {list: true},
	"drop-handlers":      {body: api.DropHandlers{Playbook: "acme-patch"}},
	"test-channel":       {creates: true, path: map[string]string{"channel": "acme:ops"}},
	// Of all tenants: refused to any single one.
	"show-share-history": {},
	"list-workers":       {},
	"cordon-worker":      {path: map[string]string{"worker": "w1"}, body: api.Why{}},
	"uncordon-worker":    {path: map[string]string{"worker": "w1"}, body: api.Why{}},
	"put-output": { // what workers write of jobs is no change that a person makes
		run: "queued", path: map[string]string{"job": "0", "step": "0", "stream": "stdout"}, body: "text", quiet: true,
	},
	"drain-worker":             {path: map[string]string{"worker": "w1"}, body: api.Why{}},
	"get-queue":                {},
	"list-settings":            {},
	"get-definitions":          {},
	"get-documents":            {},
	"list-definition-changes":  {},
	"get-rejected-definitions": {},
	"apply-definitions":        {body: applied(moreTree()), headers: []string{"If-Match", "*"}},
	"diff-definitions":         {body: applied(tree()), quiet: true},
}

// moreTree is tree with another playbook.
func moreTree() map[string]string {
	t := tree()
	t["playbooks/more.yaml"] = strings.Replace(t["playbooks/all.yaml"], "everywhere", "more", 1)
	return t
}

// operation is one of the document, aimed.
type operation struct {
	*huma.Operation
	aim
	role     Role
	permits  []api.Permission // that the caller needs beside the role
	everyone bool
	url      string
}

// walk lists every operation of the document, aimed at things that acme has.
func (b *bed) walk() []operation {
	b.t.Helper()
	runs := map[string]string{}
	for _, name := range []string{"done", "queued", "ending"} {
		runs[name] = b.launch("acme", api.NewRun{}).ID
	}
	runs["waiting"] = b.launch("acme", api.NewRun{FourEyes: true}).ID
	b.finish(want[api.Run](b.t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+runs["done"], nil), http.StatusOK))
	want[any](b.t, b.ask(b.token("acme", Operator), "PUT", "/v1/schedules/made", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *"}), http.StatusOK)
	_, token, err := b.ledger.NewToken(b.t.Context(), "test", ledger.Token{Name: "spare", Tenant: "acme", Roles: []string{"viewer"}})
	must(b.t, err)
	_, feed, err := b.ledger.NewToken(b.t.Context(), "test", ledger.Token{Name: "spare feed", Tenant: "acme", Roles: []string{string(Feed)}})
	must(b.t, err)
	_, err = b.queue.Post(b.t.Context(), api.WorkerDocument("w1"), asJSON(api.Worker{Name: "w1", State: api.WorkerReady}), api.OrderKeep)
	must(b.t, err)

	note, err := b.ledger.NewNotification(b.t.Context(), "test", ledger.Notification{
		ID: "note-1", Owner: ledger.Owner{Tenant: "acme"}, Channel: "ops", Medium: policy.MediumWebhook, Kind: policy.RunFailed, Subject: "run:" + runs["done"], Data: []byte(`{"title": "of acme"}`),
	})
	must(b.t, err)

	done, err := b.ledger.Run(b.t.Context(), ledger.AllTenants(), runs["done"])
	must(b.t, err)
	must(b.t, b.ledger.LeaveHandlers(b.t.Context(), done, []string{"acme-1"}, []string{"restart"}))

	b.keepConfig("acme-1", runs["done"], "config\n")

	held := b.hold()

	var all []operation
	paths := b.server.OpenAPI().Paths
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path]
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete, item.Head, item.Options, item.Trace} {
			if op == nil {
				continue
			}
			a, known := aims[op.OperationID]
			if !known {
				b.t.Fatalf("%s (%s %s) is in the document, and aims does not know how to reach another tenant's things with it", op.OperationID, op.Method, path)
			}
			o := operation{Operation: op, aim: a, url: strings.ReplaceAll(path, "{run}", runs[a.run])}
			for name, value := range a.path {
				o.url = strings.ReplaceAll(o.url, "{"+name+"}", strings.NewReplacer("TOKEN", token.ID, "FEED", feed.ID, "NOTE", note.ID).Replace(value))
			}
			if op.OperationID == "approve-source" {
				o.body = api.ApproveSource{Generation: held}
			}
			if strings.Contains(o.url, "{") || strings.HasSuffix(o.url, "//") {
				b.t.Fatalf("%s: the aim leaves %s open", op.OperationID, o.url)
			}
			if len(op.Security) != 1 || len(op.Security[0][bearer]) < 1 {
				b.t.Fatalf("%s names no role", op.OperationID)
			}
			o.role = Role(op.Security[0][bearer][0])
			for _, p := range op.Security[0][bearer][1:] {
				o.permits = append(o.permits, api.Permission(p))
			}
			o.everyone, _ = op.Extensions[extension].(bool)
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b operation) int { return rank(a) - rank(b) })
	return all
}

// rank puts what destroys an aim's target last.
func rank(o operation) int {
	switch {
	case o.OperationID == "cancel-run" || o.Method == http.MethodDelete:
		return 2
	case o.Method != http.MethodGet:
		return 1
	}
	return 0
}

// TestEveryRouteRefusesOtherTenants tries every operation of the document on acme's things, with a
// token of globex that may do anything there. Its negative control is acme's own token, which must
// get through.
func TestEveryRouteRefusesOtherTenants(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	all := b.walk()
	for _, o := range all {
		a := b.ask(b.token("globex", Admin, o.permits...), o.Method, o.url, o.body, o.headers...)
		refused := a.status == http.StatusForbidden || a.status == http.StatusNotFound
		switch {
		case o.own:
		case o.everyone:
			refused = a.status == http.StatusForbidden
		case o.list:
			refused = a.status == http.StatusOK && !strings.Contains(a.body, "acme")
		case o.each:
			refused = a.status == http.StatusOK && strings.Contains(a.body, `"status":404`) && !strings.Contains(a.body, `"run"`)
		}
		if !refused && !o.own || o.own && strings.Contains(a.body, "acme") {
			t.Errorf("%s %s with another tenant's token: %d %s", o.Method, o.url, a.status, a.body)
		}
	}
	for _, o := range all {
		secret := b.token("acme", Admin, o.permits...)
		if o.everyone {
			secret = b.token(everyTenant, Admin, o.permits...)
		}
		if o.OperationID == "approve-run" { // the admin changed it before
			secret = b.token("acme", Approver)
		}
		a := b.ask(secret, o.Method, o.url, o.body, o.headers...)
		good := a.status/100 == 2
		if o.status != 0 {
			good = a.status == o.status
		}
		if o.list && !strings.Contains(a.body, "acme") {
			good = false
		}
		if o.each && strings.Contains(a.body, `"error"`) {
			good = false
		}
		if !good {
			t.Errorf("%s %s with the tenant's own token: %d %s", o.Method, o.url, a.status, a.body)
		}
	}
}

func TestEveryRouteAsksForATokenAndARole(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	all := b.walk()
	_, revoked, err := b.ledger.NewToken(t.Context(), "test", ledger.Token{Name: "gone", Tenant: "acme", Roles: []string{"admin"}})
	must(t, err)
	_, err = b.ledger.RevokeToken(t.Context(), ledger.AllTenants(), "test", revoked.ID)
	must(t, err)
	for _, o := range all {
		for _, secret := range []string{"", "turnus_nonsense", revoked.ID} {
			if a := b.ask(secret, o.Method, o.url, o.body, o.headers...); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with the token %q: %d %s", o.Method, o.url, secret, a.status, a.body)
			}
		}
		tenant := "acme"
		if o.everyone {
			tenant = everyTenant
		}
		for _, role := range []Role{Worker, Viewer, Operator, Approver, Admin, Feed} {
			if slices.Contains(allowed[o.role], role) {
				for _, p := range o.permits { // no role includes one
					if a := b.ask(b.token(tenant, role), o.Method, o.url, o.body, o.headers...); a.status != http.StatusForbidden || !strings.Contains(a.body, "permission "+string(p)) {
						t.Errorf("%s %s with the role %s without %s: %d %s", o.Method, o.url, role, p, a.status, a.body)
					}
				}
				continue
			}
			if a := b.ask(b.token(tenant, role, o.permits...), o.Method, o.url, o.body, o.headers...); a.status != http.StatusForbidden {
				t.Errorf("%s %s with the role %s: %d %s", o.Method, o.url, role, a.status, a.body)
			}
		}
	}
}

// The roles are those of docs/api.md: a table of their own, so that a change of allowed is noticed.
func TestRoles(t *testing.T) {
	t.Parallel()
	for have, may := range map[Role][]Role{
		Viewer: {Viewer}, Operator: {Viewer, Operator}, Approver: {Viewer, Approver}, Admin: {Worker, Viewer, Operator, Approver, Admin}, Worker: {Worker}, Feed: {Feed}, "": nil, "root": nil,
	} {
		for _, role := range []Role{Worker, Viewer, Operator, Approver, Admin, Feed} {
			if got := mayDo(have, role); got != slices.Contains(may, role) {
				t.Errorf("%s may do what %s may: %v", have, role, got)
			}
		}
	}
}

func mayDo(have, role Role) bool { return may(ledger.Token{Roles: []string{string(have)}}, role) }

// Every change is in the audit log with its author, its subject, and the state before and after.
// The test walks the document, so that no operation is forgotten: aims marks those that change
// nothing.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	changes := 0
	for _, o := range b.walk() {
		secret, who := b.token("acme", Admin, o.permits...), "acme/the admin"
		switch {
		case o.OperationID == "approve-run":
			secret, who = b.token("acme", Approver), "acme/the approver"
		case o.everyone:
			secret, who = b.token(everyTenant, Admin), "the admin"
		}
		before := b.newest()
		if a := b.ask(secret, o.Method, o.url, o.body, o.headers...); a.status/100 != 2 {
			t.Errorf("%s: %d %s", o.OperationID, a.status, a.body)
			continue
		}
		after := b.newestBy(who, before.Seq)
		if o.Method == http.MethodGet || o.quiet {
			if after.Seq != before.Seq {
				t.Errorf("%s is declared to change nothing, and left in the audit log: %s", o.OperationID, asJSON(after))
			}
			continue
		}
		changes++
		if after.Seq == before.Seq || after.Who != who || after.What == "" || after.Object == "" {
			t.Errorf("%s left in the audit log: %s", o.OperationID, asJSON(after))
		}
		if o.creates != (after.Before == nil) || o.removes != (after.After == nil) {
			t.Errorf("%s does not have what was before and after: %s", o.OperationID, asJSON(after))
		}
	}
	if changes < 20 {
		t.Errorf("only %d changes were tried", changes)
	}
	if _, err := b.ledger.VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
}

// The former weight in the audit log is the one of the change before, or that of the launch.
func TestReweightReportsTheFormerWeight(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	b.work()
	until(t, "the run is in the queue", func() bool {
		kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
		return err == nil && kept.Incarnation != ""
	})
	b.newest()
	operator := b.token("acme", Operator)
	for i, weights := range [][2]int{{1, 7}, {7, 3}} {
		want[any](t, b.ask(operator, "PATCH", "/v1/runs/"+run.ID, api.ChangeRun{Weight: &weights[1]}), http.StatusOK)
		e := b.newest()
		reported := [2]string{string(asJSON(shares{Weight: weights[0]})), string(asJSON(shares{Weight: weights[1]}))}
		if string(e.Before) != reported[0] || string(e.After) != reported[1] {
			t.Errorf("change %d: %s", i, asJSON(e))
		}
	}
}

// A run that no queue has had leaves the same entry, before the one of its new content.
func TestReweightOfAWaitingRunIsAudited(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	operator, nine := b.token("acme", Operator), 9
	last := func() []api.Entry {
		return want[struct{ Items []api.Entry }](t, b.ask(operator, "GET", "/v1/audit?limit=2", nil), http.StatusOK).Items
	}
	want[any](t, b.ask(operator, "PATCH", "/v1/runs/"+run.ID, api.ChangeRun{Weight: new(7), MaxInFlight: new(2)}), http.StatusOK)
	all := last()
	before, after := asJSON(shares{Weight: 1}), asJSON(shares{Weight: 7, MaxInFlight: 2})
	if e := all[1]; e.What != "run.reweight" || e.Object != run.ID || string(e.Before) != string(before) || string(e.After) != string(after) || all[0].What != "run.amend" {
		t.Errorf("%s", asJSON(all))
	}
	want[any](t, b.ask(operator, "PATCH", "/v1/runs/"+run.ID, api.ChangeRun{Weight: new(7), Criticality: &nine}), http.StatusOK)
	if all = last(); all[0].What != "run.amend" || all[1].What != "run.amend" {
		t.Errorf("the weight stays: %s", asJSON(all))
	}
}

// max_in_flight of a run in the queue is in the audit log, in the ledger and in the queue.
func TestMaxInFlightOfALiveRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	b.work()
	until(t, "the run is in the queue", func() bool {
		kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
		return err == nil && kept.Incarnation != ""
	})
	b.newest()
	operator := b.token("acme", Operator)
	for what, shown := range map[string]api.Run{
		"the answer": want[api.Run](t, b.ask(operator, "PATCH", "/v1/runs/"+run.ID, api.ChangeRun{MaxInFlight: new(2)}), http.StatusOK),
		"the run":    want[api.Run](t, b.ask(operator, "GET", "/v1/runs/"+run.ID, nil), http.StatusOK),
	} {
		if shown.Weight != 1 || shown.MaxInFlight != 2 {
			t.Errorf("%s: weight %d, max_in_flight %d", what, shown.Weight, shown.MaxInFlight)
		}
	}
	if e := b.newest(); string(e.After) != string(asJSON(shares{Weight: 1, MaxInFlight: 2})) {
		t.Errorf("audit log: %s", asJSON(e))
	}
	if kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID); err != nil || kept.Shares.Most(0) != 2 {
		t.Errorf("%+v, %v", kept, err)
	}
	want[any](t, b.ask(operator, "PATCH", "/v1/runs/"+run.ID, api.ChangeRun{MaxInFlight: new(-1)}), http.StatusUnprocessableEntity)
}

// newest is the last entry of the audit log.
func (b *bed) newest() api.Entry { b.t.Helper(); return b.newestBy("", 0) }

// newestBy is the newest entry of the audit log, or that of this person behind seq if there is one:
// what a trigger launches is entered after it.
func (b *bed) newestBy(who string, seq int64) api.Entry {
	b.t.Helper()
	items := want[struct{ Items []api.Entry }](b.t, b.ask(b.token(everyTenant, Viewer), "GET", "/v1/audit?limit=5", nil), http.StatusOK).Items
	if len(items) == 0 {
		return api.Entry{}
	}
	return items[max(0, slices.IndexFunc(items, func(e api.Entry) bool { return e.Who == who && e.Seq > seq }))]
}

func TestUnknownRoutesAndHealth(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, path := range []string{"/", "/v1/", "/v1/nothing", "/hooks/definitions", "/docs"} {
		a := b.ask("", "GET", path, nil)
		if a.status != http.StatusNotFound || a.header.Get("Content-Type") != "application/problem+json" || !json.Valid([]byte(a.body)) {
			t.Errorf("%s: %d %v %s", path, a.status, a.header, a.body)
		}
	}
	want[any](t, answer{b.ask("", "GET", "/healthz", nil).status, nil, ""}, http.StatusOK)
	if h := want[api.Health](t, b.ask("", "GET", "/readyz", nil), http.StatusOK); !h.Ready {
		t.Fatalf("%+v", h)
	}
	must(t, b.ledger.Close())
	if h := want[api.Health](t, b.ask("", "GET", "/readyz", nil), http.StatusServiceUnavailable); h.Ready || h.Ledger == "ok" {
		t.Fatalf("without its ledger it is ready: %+v", h)
	}
}
