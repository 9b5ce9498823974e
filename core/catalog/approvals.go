package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/windows"
)

// The ledger's document of the approvals of windows that were given at a server. One document:
// which of them hold together is one question, and the board has one version of them.
const (
	kindApprovals = "approvals"
	nameWindows   = "windows"
	givenFile     = "approvals given at the server"
)

// Approval is an approval or revocation of a window set, or of one rule of it, given at a server.
type Approval struct {
	ID      string    `json:"id"`
	Set     string    `json:"set"`
	Rule    string    `json:"rule,omitempty"`
	Revoked bool      `json:"revoked,omitempty"` // it revokes earlier approvals, also those in the project
	Tenant  string    `json:"tenant,omitempty"`  // whose quota it counts for; "" is the provider
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	From    time.Time `json:"from,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Window  string    `json:"window,omitempty"` // the hash of the set as it was approved
	Change  string    `json:"change,omitempty"`
	Targets string    `json:"targets,omitempty"`
	Freezes []string  `json:"freezes,omitempty"`
	Ticket  string    `json:"ticket,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Asked   string    `json:"asked,omitempty"` // digest of the request: the same ID with another one is refused
}

func (a *Approval) word() windows.Given {
	g := windows.Given{Set: a.Set, Rule: a.Rule, From: a.From, Approval: windows.Approval{
		ID: a.Ticket, By: a.By, State: windows.Approved, At: a.At, Until: a.Until, Freezes: a.Freezes, Window: a.Window, Change: a.Change, Targets: a.Targets,
	}}
	if a.Revoked {
		g.State = windows.Revoked
	}
	return g
}

// givenState is the approvals and revocations so far. The list is never changed in place.
type givenState struct {
	version int64
	list    []Approval
}

func (g givenState) words() []windows.Given {
	return core.Map(g.list, func(a Approval) windows.Given { return a.word() })
}

func (c *Catalog) approvals() givenState { return core.Locked(&c.mu, &c.given) }

// Approvals are the approvals of windows, and their revocations, that this server knows, the oldest
// first. They may have been given at any server.
func (c *Catalog) Approvals() []Approval { return slices.Clone(c.approvals().list) }

// refreshGiven takes over the ledger's approvals, if they are newer than this server's.
func (c *Catalog) refreshGiven(ctx context.Context) error {
	version, err := c.cfg.Ledger.DocumentVersion(ctx, kindApprovals, "", nameWindows)
	if err != nil || version == c.approvals().version {
		return err
	}
	given, err := c.readGiven(ctx)
	if err != nil {
		return err
	}
	return c.adoptGiven(given)
}

func (c *Catalog) readGiven(ctx context.Context) (givenState, error) {
	doc, err := c.cfg.Ledger.Document(ctx, ledger.AllTenants(), kindApprovals, "", nameWindows)
	if errors.Is(err, core.ErrNotFound) {
		return givenState{}, nil
	}
	if err != nil {
		return givenState{}, err
	}
	g := givenState{version: doc.Version}
	if err := json.Unmarshal(doc.Data, &g.list); err != nil {
		return givenState{}, fmt.Errorf("read version %d of the approvals: %w: %w", doc.Version, core.ErrInvalid, err)
	}
	return g, nil
}

// adoptGiven runs by approvals from now on, unless it has newer ones already.
func (c *Catalog) adoptGiven(given givenState) error {
	c.taking.Lock()
	defer c.taking.Unlock()
	c.mu.Lock()
	now, had := *c.current, c.given.version
	c.mu.Unlock()
	if had >= given.version {
		return nil
	}
	if now.Set != nil {
		next, err := compile(now.Set, given)
		if err != nil {
			return err
		}
		now.calendar, now.published, now.given = next.calendar, next.published, next.given
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.given = &now, given
	return nil
}

// placeState is the state of a place in the audit log, before and after a word.
type placeState struct {
	Rule     string    `json:"rule,omitempty"`
	Approved bool      `json:"approved"`
	Why      string    `json:"why,omitempty"`
	Word     *Approval `json:"word,omitempty"`
}

func stateOf(d *windows.Definitions, a *Approval, word *Approval) placeState {
	out := placeState{Rule: a.Rule, Approved: true, Why: "it needs no approval", Word: word}
	all, err := d.Standings(a.Set, a.At)
	if err != nil {
		return placeState{Rule: a.Rule, Why: err.Error(), Word: word}
	}
	for _, s := range all {
		if s.Rule == a.Rule || s.Rule == "" && out.Why != "" {
			out.Approved, out.Why = s.Holds, s.Reason
		}
	}
	return out
}

// Report approves a window set, or a rule of it, or revokes approvals. When it returns the approval
// is in the ledger, and the audit log under tenant has the state before. From then on no step
// starts by a revoked approval. While the queue is away that holds only once it is back.
//
// The caller sets By, Set and the bounds of the approval. Report sets At, later than all earlier
// approvals. An approval is bound to the set as it is: a.Window, if given, must be the set's hash,
// also for a revocation. The same ID again is the same approval. A revocation has no quota.
//
// Errors wrap core.ErrNotFound for a set or rule that does not exist, core.ErrConflict if no
// approval is needed or the set was edited since, core.ErrQuota, core.ErrInvalid, or
// core.ErrUnavailable.
func (c *Catalog) Report(ctx context.Context, tenant string, a Approval) (Approval, error) {
	c.approving.Lock() // the callers of this server take turns, so that none of them is always too late
	defer c.approving.Unlock()
	a.Tenant = tenant
	for {
		said, err := c.reportOnce(ctx, a)
		if !errors.Is(err, errMoved) {
			return said, err
		}
		if ctx.Err() != nil {
			return Approval{}, fmt.Errorf("window set %s: other servers take approvals at the same time, try again: %w", a.Set, core.ErrUnavailable)
		}
	}
}

// errMoved reports that another approval came between.
var errMoved = errors.New("the approvals have moved on")

func (c *Catalog) reportOnce(ctx context.Context, a Approval) (Approval, error) {
	now, err := c.refresh(ctx)
	if err != nil {
		return Approval{}, err
	}
	if now.Set == nil {
		return Approval{}, ErrNoProject
	}
	before := c.approvals()
	if had, said, err := before.said(&a); said || err != nil {
		return had, err
	}
	a.At = later(time.Now().UTC(), before.list)
	defs := now.calendar.Definitions()
	if err := a.check(defs); err != nil {
		return Approval{}, err
	}
	list, err := makeRoom(before.list, &a, defs)
	if err != nil {
		return Approval{}, err
	}
	next := givenState{list: append(list, a)}
	then, err := compile(now.Set, next)
	if err != nil {
		return Approval{}, err
	}
	if !a.Revoked && len(then.published) > maxPosted {
		return Approval{}, fmt.Errorf("window set %s: all windows and approvals together have %d bytes, and workers take %d: remove window sets, or revoke approvals: %w",
			a.Set, len(then.published), maxPosted, core.ErrQuota)
	}
	data, err := json.Marshal(next.list)
	if err != nil {
		return Approval{}, fmt.Errorf("write approvals: %w", err)
	}
	note, err := a.entry(defs, then.calendar.Definitions())
	if err != nil {
		return Approval{}, err
	}
	doc, err := c.cfg.Ledger.PutDocumentNoted(ctx, ledger.AllTenants(), ledger.Document{Kind: kindApprovals, Name: nameWindows, Data: data}, before.version, note)
	if errors.Is(err, core.ErrConflict) {
		return Approval{}, errMoved
	}
	if err != nil {
		return Approval{}, fmt.Errorf("keep the approval of window set %s: %w", a.Set, err)
	}
	next.version = doc.Version
	if err := c.adoptGiven(next); err != nil {
		return Approval{}, err
	}
	c.publishNow(ctx)
	return a, nil
}

// said finds the word with the ID of a. One of that ID for something else is core.ErrConflict.
func (g givenState) said(a *Approval) (_ Approval, said bool, _ error) {
	for _, had := range g.list {
		if had.ID != a.ID {
			continue
		}
		if had.Asked != a.Asked {
			return Approval{}, false, fmt.Errorf("the Idempotency-Key was used for another request, of window set %s: send this one with another key: %w", had.Set, core.ErrConflict)
		}
		return had, true, nil
	}
	return Approval{}, false, nil
}

// entry is the audit log's: the state of its place without this approval, and with it.
func (a *Approval) entry(before, after *windows.Definitions) (ledger.Entry, error) {
	e := ledger.Entry{Who: a.By, Tenant: a.Tenant, Action: "window.approve", Kind: "window", Subject: a.Set}
	if a.Revoked {
		e.Action = "window.revoke"
	}
	return noted(e, stateOf(before, a, nil), stateOf(after, a, a))
}

// later returns a time after all approvals so far: servers' clocks differ, and the last word
// counts.
func later(now time.Time, said []Approval) time.Time {
	now = now.Truncate(time.Microsecond)
	for _, a := range said {
		if !now.After(a.At) {
			now = a.At.Add(time.Microsecond)
		}
	}
	return now
}

// check reports whether the project has its set and rule, and binds it to the set as it is.
func (a *Approval) check(d *windows.Definitions) error {
	if err := d.Place(a.Set, a.Rule); err != nil {
		return fmt.Errorf("%w: %w", core.ErrNotFound, err)
	}
	hash := d.HashOf(d.Sets[a.Set])
	switch {
	case a.Window == "" && !a.Revoked:
		a.Window = hash
	case a.Window != "" && a.Window != hash:
		return fmt.Errorf("window set %s was edited since: it now has the hash %s, not %s: read it again: %w", a.Set, hash, a.Window, core.ErrConflict)
	}
	if a.Revoked {
		a.Window = "" // it also holds for the set as it will be
		return nil
	}
	if !a.Until.IsZero() && (!a.Until.After(a.At) || !a.Until.After(a.From)) {
		return fmt.Errorf("until %s: expected a time ahead, and after from: %w", a.Until.Format(time.RFC3339), core.ErrInvalid)
	}
	for name, t := range map[string]time.Time{"from": a.From, "until": a.Until} {
		if err := windows.CheckYear(t); err != nil && !t.IsZero() {
			return fmt.Errorf("%s %s: %w: %w", name, t.Format(time.RFC3339), err, core.ErrInvalid)
		}
	}
	g := a.word()
	if err := d.Lifts(&g.Approval); err != nil {
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	all, err := d.Standings(a.Set, a.At)
	if err != nil {
		return err
	}
	set := d.Sets[a.Set]
	covered := func(s windows.Standing) bool { return s.Rule == a.Rule || s.Rule == "" && !ownApproval(set, a.Rule) }
	if !slices.ContainsFunc(all, covered) {
		return fmt.Errorf("nothing of window set %s%s waits for an approval: %w", a.Set, ruleText(a.Rule), core.ErrConflict)
	}
	return nil
}

func ownApproval(s *windows.Set, rule string) bool {
	return slices.ContainsFunc(s.Allow, func(r windows.Rule) bool { return r.ID == rule && r.Approval != nil })
}

func ruleText(rule string) string {
	if rule == "" {
		return " as a whole"
	}
	return ", rule " + rule + ","
}
