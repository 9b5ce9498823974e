package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// PendingHandler is a handler that has to run on a host, and did not succeed in the run that left
// it.
type PendingHandler struct {
	Tenant   string    `json:"tenant,omitempty"` // of the run
	Playbook string    `json:"playbook"`
	Host     string    `json:"host"`
	Handler  string    `json:"handler"`
	Run      string    `json:"run"`
	Since    time.Time `json:"since"`

	seq int64
}

// HandlerFilter narrows a list of pending handlers. Empty fields match everything.
type HandlerFilter struct {
	Playbook, Host, Handler, Run string
}

// conditions adds the filter to a query: sift those that no index of lists has.
func (f HandlerFilter) conditions(q *query, sift func(string, ...any)) {
	q.equals(q.where, "run", f.Run)
	q.equals(q.where, "host", f.Host)
	q.equals(sift, "playbook", f.Playbook)
	q.equals(sift, "handler", f.Handler)
}

const handlerColumns = `seq, tenant, playbook, host, handler, run, since`

func scanHandler(row scanner) (h PendingHandler, err error) {
	var since int64
	err = row.Scan(&h.seq, &h.Tenant, &h.Playbook, &h.Host, &h.Handler, &h.Run, &since)
	h.Since = fromMicros(since)
	return h, err
}

// handlers writes the state of the host's handlers in a new outcome, in the transaction of the
// outcome.
func (r *recording) handlers(ctx context.Context, o *Outcome) error {
	if o.Handlers == nil {
		return nil
	}
	from := o.Handlers.From
	if o.Index >= r.run.Uncertain { // else the run left some that this job does not know of
		from = slices.Concat(from, []string{r.run.ID})
	}
	return r.replaceHandlers(ctx, r.t, &r.run, clean(r.hosts[o.Index].Host, maxText), from, *o.Handlers, r.now)
}

// replaceHandlers makes what a run leaves on a host replace what the runs left whose handlers it
// took over.
func (l *Ledger) replaceHandlers(ctx context.Context, t *tx, run *Run, host string, took []string, h core.Handlers, now int64) error {
	for _, from := range took {
		if _, err := t.exec(ctx, `DELETE FROM handlers WHERE `+l.handlerTenant()+` AND playbook = $2 AND host = $3 AND run = $4`,
			run.Tenant, run.Playbook, host, clean(from, maxText)); err != nil {
			return err
		}
	}
	return leaveHandlers(ctx, t, run, []string{host}, h.Left(), now)
}

// handlerTenant is the condition on the tenant of handlers that a run of tenant $1 takes over.
// Those that ImportHandlers brought into a private ledger have none.
func (l *Ledger) handlerTenant() string {
	if l.private {
		return `tenant IN ($1, '')`
	}
	return `tenant = $1`
}

// ReplaceHandlers writes what a job has saved of its host's handlers before it ends.
func (l *Ledger) ReplaceHandlers(ctx context.Context, run Run, host string, h core.Handlers) error {
	return l.db.transact(ctx, "write pending handlers", func(t *tx) error {
		return l.replaceHandlers(ctx, t, &run, clean(host, maxText), slices.Concat(h.From, []string{run.ID}), h, micros(l.now()))
	})
}

// ImportHandlers writes pending handlers that another record kept; those that are there stay as
// they are.
func (l *Ledger) ImportHandlers(ctx context.Context, all []PendingHandler) error {
	return l.db.transact(ctx, "import pending handlers", func(t *tx) error {
		for i := range all {
			h := &all[i]
			run := Run{ID: clean(h.Run, maxText), Tenant: h.Tenant, Playbook: clean(h.Playbook, maxText)}
			if err := leaveHandlers(ctx, t, &run, []string{h.Host}, []string{h.Handler}, micros(h.Since)); err != nil {
				return err
			}
		}
		return nil
	})
}

var handlerRow = columns{"tenant text", "playbook text", "host text", "handler text", "run text", "since bigint"}

func leaveHandlers(ctx context.Context, t *tx, run *Run, hosts, names []string, now int64) error {
	rows := make([][]any, 0, len(hosts)*len(names))
	for _, host := range hosts {
		for _, name := range names {
			rows = append(rows, []any{run.Tenant, run.Playbook, clean(host, maxText), clean(name, maxText), run.ID, now})
		}
	}
	return t.set(ctx, handlerRow, `INSERT INTO handlers (tenant, playbook, host, handler, run, since) SELECT * FROM u WHERE true ON CONFLICT DO NOTHING`, rows, nil)
}

// handlerHosts is for how many hosts LeaveHandlers writes in one transaction.
const handlerHosts = 500

// LeaveHandlers makes handlers pending on hosts of a run whose queue has lost changes: nobody knows
// what changed there. They stay until a job that took them over, by HostHandlers, has ended.
func (l *Ledger) LeaveHandlers(ctx context.Context, run Run, hosts, names []string) error {
	for len(hosts) > 0 {
		part := hosts[:min(len(hosts), handlerHosts)]
		hosts = hosts[len(part):]
		err := l.db.transact(ctx, "write pending handlers", func(t *tx) error {
			return leaveHandlers(ctx, t, &run, part, names, micros(l.now()))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// HandlersOf names the runs that share pending handlers: those of a playbook in a tenant.
type HandlersOf struct{ Tenant, Playbook string }

// HostHandlers returns the pending handlers that such runs take over, by host. It has no entry for
// those without any.
func (l *Ledger) HostHandlers(ctx context.Context, runs ...HandlersOf) (map[HandlersOf]map[string]core.Handlers, error) {
	pending := map[HandlersOf]map[string]core.Handlers{}
	if len(runs) == 0 {
		return pending, nil
	}
	takers := map[HandlersOf][]HandlersOf{} // of the handlers that runs of the key left
	var tenants, playbooks []string
	for _, of := range slices.Compact(slices.SortedFunc(slices.Values(runs), HandlersOf.compare)) {
		from := []HandlersOf{of}
		if l.private && of.Tenant != "" { // ImportHandlers brought some in, which have no tenant
			from = append(from, HandlersOf{Playbook: of.Playbook})
		}
		for _, f := range from {
			takers[f] = append(takers[f], of)
			tenants, playbooks = append(tenants, f.Tenant), append(playbooks, f.Playbook)
		}
	}
	q := &query{d: l.db.dialect}
	q.whereAny("tenant", unique(tenants))
	q.whereAny("playbook", unique(playbooks))
	rows, err := l.db.rows(ctx, `SELECT `+handlerColumns+` FROM handlers WHERE `+strings.Join(q.conds, " AND ")+` ORDER BY seq`, q.args...)
	err = each(rows, err, func(row scanner) error {
		h, err := scanHandler(row)
		for _, of := range takers[HandlersOf{h.Tenant, h.Playbook}] {
			if pending[of] == nil {
				pending[of] = map[string]core.Handlers{}
			}
			pending[of][h.Host] = pending[of][h.Host].Notify([]string{h.Handler}).Replaces([]string{h.Run})
		}
		return err
	})
	return pending, translate("read pending handlers", err)
}

func (h HandlersOf) compare(o HandlersOf) int {
	return cmp.Or(strings.Compare(h.Tenant, o.Tenant), strings.Compare(h.Playbook, o.Playbook))
}

func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// PendingHandlers lists pending handlers of playbooks in scope, newest first.
func (l *Ledger) PendingHandlers(ctx context.Context, s Scope, f HandlerFilter, p Page) (all []PendingHandler, next string, err error) {
	q := &query{d: l.db.dialect}
	f.conditions(q, q.sift)
	s.sift(q, "tenant")
	return list(ctx, l, q, p, listing[PendingHandler]{
		what: "list pending handlers", columns: handlerColumns, from: "handlers", order: "seq DESC", scan: scanHandler,
		at:    func(h PendingHandler) cursor { return cursor{List: "handlers", Key: []int64{h.seq}} },
		after: func(q *query, at cursor) { q.where("seq < ?", at.Key[0]) },
	})
}

// DropHandlers removes pending handlers of one playbook, which the filter names, and records who
// did it in the audit log. It returns the removed handlers, at most MaxPage in one call. If there
// is none, the error is core.ErrNotFound.
func (l *Ledger) DropHandlers(ctx context.Context, s Scope, who string, f HandlerFilter) (dropped []PendingHandler, err error) {
	if f.Playbook == "" {
		return nil, fmt.Errorf("drop pending handlers: the playbook is not named: %w", core.ErrInvalid)
	}
	err = l.db.transact(ctx, "drop pending handlers", func(t *tx) error {
		q := &query{d: l.db.dialect}
		f.conditions(q, q.where)
		s.filter(q, "tenant")
		text, args := q.page(handlerColumns, "handlers", "tenant, seq", Page{Limit: MaxPage})
		rows, err := t.rows(ctx, text, args...)
		if dropped, err = collect(rows, err, scanHandler); err != nil {
			return err
		}
		dropped, _ = cut(dropped, Page{Limit: MaxPage}, func(PendingHandler) cursor { return cursor{} })
		if len(dropped) == 0 {
			return fmt.Errorf("playbook %s has no such pending handler: %w", clean(f.Playbook, maxID), core.ErrNotFound)
		}
		var entries []Entry // written last: audit locks the head of the chain
		for from := 0; from < len(dropped); {
			part := dropped[from:min(from+auditHandlers, len(dropped))]
			for i := range part { // an entry is of one tenant
				if part[i].Tenant != part[0].Tenant {
					part = part[:i]
					break
				}
			}
			e, err := dropHandlers(ctx, t, who, part)
			if err != nil {
				return err
			}
			entries = append(entries, e)
			from += len(part)
		}
		return l.auditAll(ctx, t, entries)
	})
	return dropped, err
}

// auditHandlers is how many dropped handlers one entry of the audit log has, which is bounded.
const auditHandlers = 20

// dropHandlers removes handlers of one tenant and returns their entry of the audit log.
func dropHandlers(ctx context.Context, t *tx, who string, part []PendingHandler) (Entry, error) {
	for i := range part {
		if _, err := t.exec(ctx, `DELETE FROM handlers WHERE seq = $1`, part[i].seq); err != nil {
			return Entry{}, err
		}
	}
	before, err := json.Marshal(part)
	if err != nil {
		return Entry{}, err
	}
	if len(before) > MaxAuditJSON { // long names: the entry has their number, the response has the names
		before = fmt.Appendf(nil, `{"dropped":%d}`, len(part))
	}
	return Entry{Who: who, Tenant: part[0].Tenant, Action: "handlers.drop", Kind: "playbook", Subject: part[0].Playbook, Before: before, After: json.RawMessage(`[]`)}, nil
}
