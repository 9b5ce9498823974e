package server

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/windows"
)

// approvals registers what is approved of windows. Approvals are in the definitions, beside what
// they cover, or are given here by those whose role it is; docs/windows.md describes how the two
// count together.
func (s *Server) approvals() {
	handle(s, route{
		id: "list-approvals", method: http.MethodGet, path: "/v1/approvals", summary: "List the windows that need an approval, and its state", role: Viewer,
		detail: "By window set and rule. A tenant's token sees those of the sets that its hosts have, or its playbooks name.",
	}, s.listApprovals)
	handle(s, route{
		id: "approve-window", method: http.MethodPost, path: "/v1/windows/{set}/approve", summary: "Approve a window set, or a rule of it", role: Approver, status: http.StatusOK,
		detail: "The approval is bound to the set as it is: any edit of its times voids it. It adds to those in the project. A tenant's approver decides where the set serves that tenant's hosts alone.",
	}, s.approveWindow)
	handle(s, route{
		id: "revoke-window", method: http.MethodPost, path: "/v1/windows/{set}/revoke", summary: "Revoke the approvals of a window set, or of a rule of it", role: Approver, status: http.StatusOK,
		detail: "When this answers nothing starts by them any more, those in the project included, until it is approved later than this. A set that needed no approval needs one from then on.",
	}, s.revokeWindow)
}

// waitingShown is how many occurrences without an approval are shown of a place.
const waitingShown = 10

func (s *Server) listApprovals(ctx context.Context, by caller, in *struct {
	Page
	Waiting bool `query:"waiting" doc:"only what waits for somebody: no approval holds, or a window of the next 60 days is not covered"`
},
) (*list[api.WindowApproval], error) {
	cal, hosts, err := s.windows(by)
	if err != nil {
		return nil, err
	}
	work, err := s.work(by, cal)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	names := sortedKeys(hosts)
	cal.Warm(now, names...)
	said := s.cfg.Catalog.Approvals()
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	var all []api.WindowApproval
	for _, name := range names {
		decides := by.scope.All() || ownOnly(by, set.WindowUsers(name))
		for _, a := range approvalsOf(by, set, cal, name, hosts[name], work[name], said, now) {
			a.Decides = decides
			if !in.Waiting || a.State != string(windows.Approved) || len(a.Waiting) > 0 {
				all = append(all, a)
			}
		}
	}
	key := func(a api.WindowApproval) string { return a.Set + " " + a.Rule } // names have no blanks
	slices.SortStableFunc(all, func(a, b api.WindowApproval) int { return strings.Compare(key(a), key(b)) })
	items, next := pageOf(all, key, in.Page)
	reads := tookReads
	for i := range items {
		s.addTook(ctx, items[i].Work, work[items[i].Set], &reads)
	}
	return listOf(items, next), nil
}

func (s *Server) approveWindow(ctx context.Context, by caller, in *struct {
	WindowPath
	Idempotent
	Body api.ApproveWindow
},
) (*body[api.WindowApproval], error) {
	b := in.Body
	return s.report(ctx, by, in.Idempotent, catalog.Approval{
		Set: in.Set, Rule: b.Rule, From: b.From, Until: b.Until, Window: b.Window, Change: b.Change, Targets: b.Targets,
		Freezes: b.Freezes, Ticket: b.Ticket, Reason: b.Reason,
	})
}

func (s *Server) revokeWindow(ctx context.Context, by caller, in *struct {
	WindowPath
	Idempotent
	Body api.RevokeWindow
},
) (*body[api.WindowApproval], error) {
	return s.report(ctx, by, in.Idempotent, catalog.Approval{Set: in.Set, Rule: in.Body.Rule, Window: in.Body.Window, Revoked: true, Ticket: in.Body.Ticket, Reason: in.Body.Reason})
}

func (s *Server) report(ctx context.Context, by caller, key Idempotent, a catalog.Approval) (*body[api.WindowApproval], error) {
	tenant, err := s.decides(by, a.Set)
	if err != nil {
		return nil, err
	}
	a.By = by.name
	a.Asked = digest(string(asJSON(a)))
	if a.ID = key.of(by, "approve-window"); a.ID == "" {
		a.ID = strings.ToLower(rand.Text()[:16])
	}
	if _, err := s.cfg.Catalog.Report(ctx, tenant, a); err != nil {
		return nil, err
	}
	cal, hosts, err := s.windows(by)
	if err != nil {
		return nil, err
	}
	work, err := s.work(by, cal)
	if err != nil {
		return nil, err
	}
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	for _, shown := range approvalsOf(by, set, cal, a.Set, hosts[a.Set], work[a.Set], s.cfg.Catalog.Approvals(), time.Now()) {
		if shown.Rule == a.Rule {
			shown.Decides = true
			return &body[api.WindowApproval]{shown}, nil
		}
	}
	return nil, noWindow(a.Set) // removed from the definitions meanwhile
}

// decides reports whether the caller may decide on a set, and whose it is ("" is the provider's). A
// tenant's token decides on sets by which nobody else's work starts.
func (s *Server) decides(by caller, name string) (tenant string, err error) {
	set, err := s.set()
	if err != nil {
		return "", err
	}
	_, seen, err := s.windows(by)
	if err != nil {
		return "", err
	}
	if _, ok := seen[name]; !ok {
		return "", noWindow(name)
	}
	users := set.WindowUsers(name)
	if !by.scope.All() && !ownOnly(by, users) {
		return "", forbidden("window set " + name + " serves not only hosts and playbooks of tenant " + by.token.Tenant + ": an approver of all tenants decides on it")
	}
	switch {
	case !by.scope.All():
		return by.token.Tenant, nil
	case len(users) == 1:
		return users[0], nil
	}
	return "", nil
}

// ownOnly reports whether all tenants are the caller's.
func ownOnly(by caller, tenants []string) bool {
	return !slices.ContainsFunc(tenants, func(tenant string) bool { return !by.scope.Allows(tenant) })
}

// approvalsOf shows what of a set needs an approval. have counts the caller's hosts that have the
// set.
func approvalsOf(by caller, set *definitions.Set, cal *admission.Calendar, name string, have int, waits []wait, said []catalog.Approval, now time.Time) []api.WindowApproval {
	defs := cal.Definitions()
	standings, err := defs.Standings(name, now)
	if err != nil || len(standings) == 0 {
		return nil
	}
	hosts, work := have+waitingHosts(by, set, name, waits), shownWork(waits)
	c := cal.Compiled(now, name, windows.Work{})
	own := defs.Sets[name]
	ownPlace := func(rule string) bool { // rules that are listed alone
		return slices.ContainsFunc(standings, func(s windows.Standing) bool { return s.Rule == rule && rule != "" })
	}
	out := make([]api.WindowApproval, len(standings))
	for i := range standings {
		s := &standings[i]
		a := api.WindowApproval{
			Set: name, Rule: s.Rule, Timezone: own.Timezone, Hosts: hosts, Work: work, Hash: s.Hash, State: approvalState(s, now), Reason: s.Reason,
			Waiting: []api.Occurrence{}, Given: []api.WindowWord{},
		}
		if b := s.Beside; b != nil {
			a.File = &api.WindowWord{
				Revoked: b.State == windows.Revoked || !b.RevokedAt.IsZero(), By: b.By, At: b.At, Until: b.Until, Window: b.Window, Change: b.Change,
				Targets: b.Targets, Freezes: b.Freezes, Ticket: b.ID,
			}
		}
		for _, w := range said {
			if w.Set == name && (w.Rule == s.Rule || w.Rule == "" && w.Revoked) {
				a.Given = append(a.Given, api.WindowWord{
					ID: w.ID, Revoked: w.Revoked, By: w.By, At: w.At, From: w.From, Until: w.Until, Window: w.Window, Change: w.Change,
					Targets: w.Targets, Freezes: w.Freezes, Ticket: w.Ticket, Reason: w.Reason,
				})
			}
		}
		for _, o := range c.Occurrences(now, now.AddDate(0, 0, windowDays)) {
			mine := slices.Contains(o.Rules, s.Rule) || s.Rule == "" && (own.Allow == nil || !slices.ContainsFunc(o.Rules, ownPlace))
			if o.Unapproved != "" && mine && len(a.Waiting) < waitingShown {
				a.Waiting = append(a.Waiting, occurrenceOf(o, c.Zone))
			}
		}
		out[i] = a
	}
	return out
}

// approvalState is the word for the state of a place.
func approvalState(s *windows.Standing, now time.Time) string {
	switch b := s.Beside; {
	case s.Holds:
		return string(windows.Approved)
	case len(s.Given) > 0 && s.Given[len(s.Given)-1].State == windows.Revoked:
		return string(windows.Revoked)
	case len(s.Given) > 0:
		if last := s.Given[len(s.Given)-1]; !last.Until.IsZero() && !now.Before(last.Until) {
			return "expired"
		}
		return "void"
	case b == nil || b.State == windows.Revoked || !b.RevokedAt.IsZero() && !now.Before(b.RevokedAt):
		return string(windows.Revoked)
	case b.State == windows.Proposed:
		return string(windows.Proposed)
	case !b.Until.IsZero() && !now.Before(b.Until):
		return "expired"
	}
	return "void"
}

// heldBy is the newest approval that holds; nil where none does.
func heldBy(s *windows.Standing, now time.Time) *windows.Approval {
	if !s.Holds {
		return s.Beside
	}
	for _, g := range slices.Backward(s.Given) {
		if g.State != windows.Revoked && g.Window == s.Hash && (g.Until.IsZero() || now.Before(g.Until)) {
			return &g.Approval
		}
	}
	return s.Beside
}
