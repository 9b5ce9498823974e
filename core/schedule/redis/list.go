package redis

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

// List reads one page, in the order of record keys.
func (s *Store) List(ctx context.Context, p schedule.Page) (schedule.Listed, error) {
	var out schedule.Listed
	if err := p.Validate(); err != nil {
		return out, err
	}
	after, err := readCursor(p)
	if err != nil {
		return out, err
	}
	from, to := after, ""
	if !p.All {
		if err := (schedule.ID{Tenant: p.Tenant, Name: "x"}).Validate(); err != nil {
			return out, err
		}
		to = p.Tenant + string(separator[0]+1) // behind all of the tenant's keys
		from = max(from, p.Tenant+separator)   // no key by itself: no name is empty
	}
	r, err := s.eval(ctx, s.scripts.list, from, to, p.Limit)
	if err != nil {
		return out, err
	}
	out.Now = r.micro()
	more := next[int64](r) == 1
	all := r.records()
	if err := r.end(s.scripts.list); err != nil {
		return out, err
	}
	found := between(all, from, to)
	if len(found) > p.Limit {
		found, more = found[:p.Limit], true
	}
	for _, f := range found {
		out.Records = append(out.Records, f.rec)
	}
	if more && len(found) > 0 {
		out.Next = writeCursor(p, found[len(found)-1].key)
	}
	return out, nil
}

// keyed is a record with its key.
type keyed struct {
	key string
	rec schedule.Record
}

// between are the records whose keys are over from and, unless it is empty, under to, by key. Pages
// are read whole, so there are others before and behind.
func between(all []schedule.Record, from, to string) []keyed {
	var found []keyed
	for _, rec := range all {
		if k := recordKey(rec.ID); k > from && (to == "" || k < to) {
			found = append(found, keyed{k, rec})
		}
	}
	slices.SortFunc(found, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	return found
}

// A cursor is the kind of list and the last key that was given, in a form that is safe in a URL.
const (
	listAll    = "a"
	listTenant = "t"
)

func writeCursor(p schedule.Page, key string) string {
	kind := listTenant
	if p.All {
		kind = listAll
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + key))
}

func readCursor(p schedule.Page) (after string, err error) {
	if p.Cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || len(text) < 2 {
		return "", badCursor("it is not one that a list gave")
	}
	kind, key := string(text[:1]), string(text[1:])
	id, err := recordID(key)
	if err == nil {
		err = id.Validate()
	}
	switch {
	case err != nil || kind != listAll && kind != listTenant:
		return "", badCursor("it is not one that a list gave")
	case (kind == listAll) != p.All || !p.All && id.Tenant != p.Tenant:
		return "", badCursor("it is of another list")
	}
	return key, nil
}

func badCursor(why string) error {
	return fmt.Errorf("cursor: %s; start again without one: %w", why, core.ErrInvalid)
}
