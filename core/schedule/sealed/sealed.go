// Package sealed owns what a store's records look like outside of a process with a key ring: their data is sealed, each for its schedule,
// before the store behind has it. Ids and due times stay in the clear: the store works with them.
//
// It must not know which store that is, nor what the data means.
package sealed

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/schedule"
)

// Store is a store behind which all data is sealed. All methods are safe for concurrent use. Data that cannot be opened comes as
// schedule.Unreadable, so that one bad record does not keep the others from being taken.
type Store struct {
	schedule.Store
	ring *keyring.Ring
}

// New puts a ring before a store. A nil ring seals nothing, and opens nothing that is sealed.
func New(s schedule.Store, ring *keyring.Ring) *Store { return &Store{Store: s, ring: ring} }

func place(id schedule.ID) []byte { return keyring.Context("schedule", id.Tenant, id.Name) }

// Write seals the data of changes.
func (s *Store) Write(ctx context.Context, changes []schedule.Change) ([]uint64, error) {
	if s.ring == nil {
		return s.Store.Write(ctx, changes)
	}
	sealed := make([]schedule.Change, len(changes))
	for i, c := range changes {
		if len(c.Data) > 0 {
			c.Data = s.ring.Seal(c.Data, place(c.ID))
		}
		sealed[i] = c
	}
	return s.Store.Write(ctx, sealed)
}

// Take opens what it hands out.
func (s *Store) Take(ctx context.Context, n int, hold time.Duration) (schedule.Taken, error) {
	t, err := s.Store.Take(ctx, n, hold)
	t.Records = s.open(t.Records)
	return t, err
}

// Get opens what it reads.
func (s *Store) Get(ctx context.Context, ids []schedule.ID) (schedule.Read, error) {
	r, err := s.Store.Get(ctx, ids)
	r.Records = s.open(r.Records)
	return r, err
}

// List opens what it lists.
func (s *Store) List(ctx context.Context, p schedule.Page) (schedule.Listed, error) {
	l, err := s.Store.List(ctx, p)
	l.Records = s.open(l.Records)
	return l, err
}

// open does not change the store's own records.
func (s *Store) open(records []schedule.Record) []schedule.Record {
	if len(records) == 0 {
		return records
	}
	opened := make([]schedule.Record, len(records))
	for i, r := range records {
		opened[i] = r
		if len(r.Data) == 0 {
			continue
		}
		data, err := s.ring.Open(r.Data, place(r.ID))
		if err != nil {
			data = schedule.Unreadable(err)
		}
		opened[i].Data = data
	}
	return opened
}

// Reseal seals with the ring's primary key whatever is sealed with another, and, where the ring accepts plain bytes, what is not
// sealed. It returns how many records it wrote. It may run beside engines: a record that one of them writes meanwhile is left to it.
func (s *Store) Reseal(ctx context.Context) (int, error) {
	n := 0
	for page := (schedule.Page{All: true, Limit: schedule.MaxBatch}); ; {
		list, err := s.Store.List(ctx, page)
		if err != nil {
			return n, err
		}
		primary, _ := s.ring.Primary()
		var changes []schedule.Change
		for _, r := range list.Records {
			key, sealed := keyring.KeyOf(r.Data)
			if len(r.Data) == 0 || sealed && key == primary || !sealed && !s.ring.AcceptsPlain() {
				continue
			}
			plain, err := s.ring.Open(r.Data, place(r.ID))
			if err != nil {
				return n, fmt.Errorf("schedule %s: %w", r.ID, err)
			}
			changes = append(changes, schedule.Change{ID: r.ID, Version: r.Version, Due: r.Due, Data: s.ring.Seal(plain, place(r.ID))})
		}
		if len(changes) > 0 {
			versions, err := s.Store.Write(ctx, changes)
			if err != nil {
				return n, err
			}
			for _, v := range versions {
				if v != 0 {
					n++
				}
			}
		}
		if list.Next == "" {
			return n, nil
		}
		page.Cursor = list.Next
	}
}
