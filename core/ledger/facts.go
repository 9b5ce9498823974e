package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// HostFacts are the newest facts of one host, with their values as JSON.
type HostFacts struct {
	Tenant string // of the host
	Host   string
	Run    string // that gathered them
	At     time.Time
	Boot   string // see core.Facts
	JSON   []byte // nil: only listed

	unreadable bool
}

// Decode returns the facts with numbers as json.Number.
func (h *HostFacts) Decode() (core.Facts, error) {
	f := core.Facts{At: h.At, Boot: h.Boot}
	d := json.NewDecoder(bytes.NewReader(h.JSON))
	d.UseNumber()
	if err := d.Decode(&f.Values); err != nil {
		return f, fmt.Errorf("facts of host %s: %w: %w", h.Host, core.ErrInvalid, err)
	}
	return f, nil
}

// FactsKept is how long the facts of a host are kept that no run asks again.
const FactsKept = 30 * 24 * time.Hour

// encodeFacts writes facts as the ledger keeps them; nil where there is nothing to keep, or too
// much.
func encodeFacts(f *core.Facts) []byte {
	if f == nil || f.Values == nil {
		return nil
	}
	data, err := json.Marshal(f.Values)
	if err != nil || len(data) > core.MaxFacts {
		return nil
	}
	return append([]byte{packRaw}, data...) // reading thousands at a launch is what has to be fast
}

var (
	factsRow = columns{"tenant text", "host text", "at bigint", "run text", "boot text", "data bytea"}
	bootRow  = columns{"tenant text", "host text", "at bigint", "boot text"}
)

// recordFacts writes the facts of hosts that new outcomes have. Rows are written in one order, so
// that two servers that record hosts of both do not wait for each other.
func (l *Ledger) recordFacts(ctx context.Context, t *tx, all []*recording) error {
	newest := map[[2]string]*ready{}
	for _, r := range all {
		for _, o := range r.facts {
			h := r.hosts[o.Index]
			if had := newest[[2]string{h.Tenant, h.Host}]; had == nil || had.Facts.At.Before(o.Facts.At) {
				newest[[2]string{h.Tenant, h.Host}] = o
			}
		}
		r.facts = nil
	}
	var gathered, booted [][]any
	for key, o := range newest {
		at := min(micros(o.Facts.At), o.of.now) // a worker's clock may be ahead
		boot := clean(o.Facts.Boot, maxID)
		if o.facts == nil {
			booted = append(booted, []any{key[0], key[1], at, boot})
			continue
		}
		gathered = append(gathered, []any{key[0], key[1], at, o.of.run.ID, boot, l.encryptPacked(o.facts, factsOf, key[0], key[1])})
	}
	for _, rows := range [][][]any{gathered, booted} {
		slices.SortFunc(rows, func(a, b []any) int {
			return cmp.Or(strings.Compare(a[0].(string), b[0].(string)), strings.Compare(a[1].(string), b[1].(string)))
		})
	}
	if err := t.set(ctx, factsRow, `INSERT INTO facts (tenant, host, at, run, boot, data) SELECT * FROM u WHERE true
		ON CONFLICT (tenant, host) DO UPDATE SET at = excluded.at, run = excluded.run, boot = excluded.boot, data = excluded.data WHERE facts.at < excluded.at`, gathered, nil); err != nil {
		return err
	}
	return t.set(ctx, bootRow, `UPDATE facts SET boot = u.boot FROM u WHERE facts.tenant = u.tenant AND facts.host = u.host AND facts.at < u.at AND u.boot <> ''`, booted, nil)
}

// ListFacts returns whose facts in scope are on record, without their JSON.
func (l *Ledger) ListFacts(ctx context.Context, s Scope) ([]HostFacts, error) {
	q := &query{d: l.db.dialect}
	s.filter(q, "tenant")
	return l.readFacts(ctx, q, "NULL")
}

// AllFacts reads the newest facts of the hosts in scope that were gathered at a time or later.
func (l *Ledger) AllFacts(ctx context.Context, s Scope, since time.Time) ([]HostFacts, error) {
	q := &query{d: l.db.dialect}
	s.filter(q, "tenant")
	if !since.IsZero() {
		q.where("at >= ?", micros(since))
	}
	return l.readFacts(ctx, q, "data")
}

// FactsOf reads the newest facts of a host in scope: one entry for each tenant that has a host of
// this name.
func (l *Ledger) FactsOf(ctx context.Context, s Scope, host string) ([]HostFacts, error) {
	return l.readFacts(ctx, l.factsOf(s, host), "data")
}

func (l *Ledger) factsOf(s Scope, host string) *query {
	q := &query{d: l.db.dialect}
	if s.filter(q, "tenant"); s.all { // the index begins with the tenant: a step for each
		q.where(`tenant IN (WITH RECURSIVE t (name) AS (SELECT min(tenant) FROM facts
			UNION ALL SELECT (SELECT min(tenant) FROM facts WHERE tenant > t.name) FROM t WHERE t.name IS NOT NULL) SELECT name FROM t)`)
	}
	q.where("host = ?", clean(host, maxText))
	return q
}

// readFacts reads rows of q in the order of tenant and host; data is an expression. A host whose
// facts cannot be opened has none: gathering them again replaces them.
func (l *Ledger) readFacts(ctx context.Context, q *query, data string) ([]HostFacts, error) {
	rows, err := l.db.rows(ctx, q.factsText(data), q.args...)
	all, err := collect(rows, err, l.scanFacts)
	all = slices.DeleteFunc(all, func(h HostFacts) bool { return h.unreadable })
	return all, translate("read facts", err)
}

func (q *query) factsText(data string) string {
	where := ""
	if len(q.conds) > 0 {
		where = ` WHERE ` + strings.Join(q.conds, " AND ")
	}
	return `SELECT tenant, host, at, run, boot, ` + data + ` FROM facts` + where + ` ORDER BY tenant, host`
}

func (l *Ledger) scanFacts(row scanner) (h HostFacts, err error) {
	var at int64
	var data []byte
	if err = row.Scan(&h.Tenant, &h.Host, &at, &h.Run, &h.Boot, &data); err != nil {
		return h, err
	}
	h.At = fromMicros(at)
	if data != nil {
		h.JSON, err = l.open(data, factsOf, h.Tenant, h.Host)
		h.unreadable = err != nil
	}
	return h, nil
}

// PruneFacts forgets facts that were gathered before a time, and returns how many.
func (l *Ledger) PruneFacts(ctx context.Context, before time.Time) (n int64, err error) {
	err = l.db.transact(ctx, "forget old facts", func(t *tx) error {
		n, err = t.exec(ctx, `DELETE FROM facts WHERE at < $1`, bound(before))
		return err
	})
	return n, err
}
