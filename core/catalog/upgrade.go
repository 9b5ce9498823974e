package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// Earlier versions kept the schedules that people made as documents of the ledger, and the state of
// all schedules in a store of its own. Of that state the ledger had, seconds behind, two documents.
const (
	nameMark  = "mark"  // markDoc
	nameKnown = "known" // knownDoc
)

// markDoc has the time up to which everything was decided, and the records that are still open.
type markDoc struct {
	Mark time.Time         `json:"mark"`
	Open map[string][]byte `json:"open"`
}

// knownDoc is the schedules that the store had, and since when.
type knownDoc map[string]time.Time

// storedSchedule is a schedule that a person made, in the documents of earlier versions.
type storedSchedule struct {
	payload
	Cron        string        `json:"cron,omitempty"`
	At          time.Time     `json:"at,omitzero"`
	Timezone    string        `json:"timezone,omitempty"`
	CatchUp     string        `json:"catch_up,omitempty"`
	Overlap     string        `json:"overlap,omitempty"`
	StartWithin time.Duration `json:"start_within_ns,omitempty"`
	Jitter      time.Duration `json:"jitter_ns,omitempty"`
	Paused      bool          `json:"paused,omitempty"`
}

func definitionOf(id schedule.ID, s storedSchedule) schedule.Definition {
	return schedule.Definition{
		ID: id, Cron: s.Cron, Timezone: s.Timezone, CatchUp: schedule.CatchUp(s.CatchUp), Overlap: schedule.Overlap(s.Overlap),
		StartWithin: s.StartWithin, Jitter: s.Jitter, Paused: s.Paused, Payload: s.encode(),
	}
}

func keyOf(id schedule.ID) string { return id.Tenant + "/" + id.Name } // neither has a slash

// upgrade makes rows of the documents of people's schedules, and returns what makes the state of a
// schedule of the definitions; nil where the ledger has nothing of an earlier version.
func (c *Catalog) upgrade(ctx context.Context) (made func(schedule.Definition, time.Time) (schedule.State, error), err error) {
	docs, _, err := c.cfg.Ledger.Documents(ctx, ledger.AllTenants(), kindSchedule, ledger.Page{Limit: 1})
	if err != nil {
		return nil, err
	}
	mark, marked, err := readKept[markDoc](ctx, c.cfg.Ledger, nameMark)
	if err != nil {
		return nil, err
	}
	known, knew, err := readKept[knownDoc](ctx, c.cfg.Ledger, nameKnown)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 && marked == 0 && knew == 0 {
		return nil, nil
	}
	active, err := c.activeRuns(ctx)
	if err != nil {
		return nil, err
	}
	blind, _, err := c.cfg.Ledger.Restored(ctx)
	if err != nil {
		return nil, err
	}
	if !blind.After(mark.Mark) { // a server has worked by the ledger since it was restored
		blind = time.Time{}
	}
	made = func(d schedule.Definition, now time.Time) (schedule.State, error) {
		key := keyOf(d.ID)
		return schedule.Kept{Data: mark.Open[key], Floor: known[key], Mark: mark.Mark, Active: active[launchedBy+d.ID.String()], Blind: blind}.State(d, now)
	}
	return made, c.importPeoples(ctx, made)
}

// importPeoples makes a row of each document of a schedule that a person made, and removes the
// document.
func (c *Catalog) importPeoples(ctx context.Context, made func(schedule.Definition, time.Time) (schedule.State, error)) error {
	for {
		docs, _, err := c.cfg.Ledger.Documents(ctx, ledger.AllTenants(), kindSchedule, ledger.Page{Limit: 100})
		if err != nil || len(docs) == 0 {
			return err
		}
		for _, doc := range docs {
			var s storedSchedule
			id := schedule.ID{Tenant: doc.Tenant, Name: doc.Name}
			if err := json.Unmarshal(doc.Data, &s); err != nil {
				return fmt.Errorf("schedule %s in the ledger: %w: %w", id, core.ErrInvalid, err)
			}
			d := definitionOf(id, s)
			state, err := made(d, time.Now())
			if err == nil {
				err = c.control.Import(ctx, schedule.Imported{Definition: d, By: doc.By, Edition: doc.Version, State: state})
			}
			if err == nil || errors.Is(err, core.ErrConflict) {
				err = c.cfg.Ledger.DeleteDocument(ctx, ledger.AllTenants(), "", kindSchedule, doc.Tenant, doc.Name, doc.Version)
			}
			if err != nil && !errors.Is(err, core.ErrConflict) && !errors.Is(err, core.ErrNotFound) { // another server does the same
				return err
			}
		}
	}
}

// upgraded removes what an earlier version kept, once all of it is in the rows.
func (c *Catalog) upgraded(ctx context.Context) error {
	for _, name := range []string{nameMark, nameKnown} {
		doc, err := c.cfg.Ledger.Document(ctx, ledger.AllTenants(), kindKept, "", name)
		if err == nil {
			err = c.cfg.Ledger.DeleteDocument(ctx, ledger.AllTenants(), "", kindKept, "", name, doc.Version)
		}
		if err != nil && !errors.Is(err, core.ErrConflict) && !errors.Is(err, core.ErrNotFound) {
			return err
		}
	}
	return nil
}

// activeRuns lists the runs of schedules that are not complete, by launcher.
func (c *Catalog) activeRuns(ctx context.Context) (map[string][]schedule.Run, error) {
	active := map[string][]schedule.Run{}
	for r, err := range ledger.Each(ctx, ledger.MaxPage, c.cfg.Ledger.Unfinished) {
		if err != nil {
			return nil, err
		}
		if _, ok := schedule.IDOf(r.ID); ok {
			active[r.LaunchedBy] = append(active[r.LaunchedBy], schedule.Run{ID: r.ID, Cause: schedule.ByCron, At: r.Created})
		}
	}
	return active, nil
}
