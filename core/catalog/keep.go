package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// What the ledger keeps of the store of schedules, as documents of the service.
const (
	kindKept  = "schedule.kept"
	nameMark  = "mark"  // markDoc: seconds old
	nameKnown = "known" // knownDoc: changes with the schedules only
)

// markDoc says how far everything is decided, and what is not as simple as that.
type markDoc struct {
	Mark time.Time         `json:"mark"` // by the store's clock
	Open map[string][]byte `json:"open"` // records that are not idle, see schedule.Idle
}

// knownDoc is the schedules that the store has had.
type knownDoc map[string]time.Time // since when: made, changed or resumed

// keptState is how keeping goes. It is under Catalog.mu.
type keptState struct {
	failed string
	filled bool // the store had every schedule once
}

func keyOf(id schedule.ID) string { return id.Tenant + "/" + id.Name } // neither has a slash

func idOf(key string) schedule.ID {
	tenant, name, _ := strings.Cut(key, "/")
	return schedule.ID{Tenant: tenant, Name: name}
}

// keepSchedules keeps the store in line with what is wanted, and the ledger with the store, until ctx ends.
func (c *Catalog) keepSchedules(ctx context.Context) {
	var rest time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		err := errors.Join(c.keep(ctx), c.keepRejection(ctx, time.Now().UTC()))
		rest = max(keepEvery, 20*time.Since(began))
		c.keepFailed(ctx, err)
		timer := time.NewTimer(rest)
		for again := false; !again && ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-timer.C:
				again = true
			case <-c.stir:
				again = true
			case run := <-c.ended:
				c.recheck(ctx, run)
			}
		}
		timer.Stop()
	}
}

func (c *Catalog) keepFailed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	was := c.kept.failed
	c.kept.failed = ""
	if err != nil {
		c.kept.failed = err.Error()
	}
	c.mu.Unlock()
	if err != nil && was == "" {
		c.trouble(ctx, "schedules are not kept in line for now", err)
	}
}

// keep looks once. The order matters: the store first, then what is wanted. Whatever another server has
// put into the store was wanted before it put it there, so that what is not wanted now may go.
func (c *Catalog) keep(ctx context.Context) error {
	before, version, err := readKept[markDoc](ctx, c.cfg.Ledger, nameMark) // first: what a person changes meanwhile must not be overwritten
	if err != nil {
		return err
	}
	have, open, at, err := c.readStore(ctx)
	if err != nil {
		return fmt.Errorf("list the schedules of the store: %w", err)
	}
	now, err := c.refresh(ctx)
	if err != nil {
		return err // with older definitions this server would take away what others put there
	}
	if now.Set == nil {
		return nil
	}
	wanted, err := c.wanted(ctx, ledger.AllTenants())
	if err != nil {
		return err
	}
	known, knownVersion, err := readKept[knownDoc](ctx, c.cfg.Ledger, nameKnown)
	if err != nil {
		return err
	}
	if known == nil {
		known = knownDoc{}
	}
	was := maps.Clone(known)
	lost, err := c.align(ctx, have, wanted, known, at)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.kept.filled = true
	c.mu.Unlock()
	if !maps.EqualFunc(was, known, time.Time.Equal) {
		if err := c.writeKept(ctx, nameKnown, known, knownVersion); err != nil {
			return ignoreConflict(err) // another server writes the same, or the next look does
		}
	}
	same := maps.EqualFunc(open, before.Open, bytes.Equal)
	if lost || !at.After(before.Mark) || same && at.Sub(before.Mark) < markEvery { // what was just brought back is not in open
		return nil
	}
	return ignoreConflict(c.writeKept(ctx, nameMark, markDoc{Mark: at, Open: open}, version))
}

// readStore lists what the store has, and which records are not idle, at a moment of its clock.
func (c *Catalog) readStore(ctx context.Context) (have map[schedule.ID]schedule.Definition, open map[string][]byte, at time.Time, err error) {
	have, open = map[schedule.ID]schedule.Definition{}, map[string][]byte{}
	for page := (schedule.Page{All: true, Limit: schedule.MaxBatch}); ; {
		listed, err := c.cfg.Schedules.List(ctx, page)
		if err != nil {
			return nil, nil, at, err
		}
		if at.IsZero() { // all is read then or later
			at = listed.Now
		}
		for _, r := range listed.Records {
			d, _, err := schedule.Decode(r.ID, r.Data)
			if err != nil {
				c.trouble(ctx, "a schedule of the store cannot be read", err)
				continue
			}
			have[r.ID] = d
			if idle, err := c.control.Idle(r, at); err == nil && !idle {
				open[keyOf(r.ID)] = r.Data
			}
		}
		if listed.Next == "" {
			return have, open, at, nil
		}
		page.Cursor = listed.Next
	}
}

// align makes the store have what is wanted, and known say so.
func (c *Catalog) align(ctx context.Context, have map[schedule.ID]schedule.Definition, wanted []Schedule, known knownDoc, at time.Time) (restored bool, _ error) {
	var put []schedule.Definition
	var lost []schedule.Lost
	want := make(map[schedule.ID]bool, len(wanted))
	for _, s := range wanted {
		d := s.Definition
		want[d.ID] = true
		has, there := have[d.ID]
		floor, was := known[keyOf(d.ID)]
		switch {
		case there && was && schedule.Equal(has, d):
		case there && was && has.Cron == d.Cron && has.Timezone == d.Timezone:
			put = append(put, d)
		case !there && was:
			lost = append(lost, schedule.Lost{Definition: d, Floor: floor})
		default:
			put = append(put, d)
			known[keyOf(d.ID)] = at
		}
	}
	var gone []schedule.ID
	for id := range have {
		if !want[id] {
			gone = append(gone, id)
		}
	}
	for key := range known {
		if id := idOf(key); !want[id] {
			delete(known, key)
		}
	}
	if len(lost) > 0 {
		if err := c.restore(ctx, lost); err != nil {
			return false, err
		}
	}
	changed, err := c.control.Put(ctx, put...)
	if err != nil {
		return false, err
	}
	n := len(gone)
	for _, did := range changed {
		if did {
			n++
		}
	}
	if err := c.control.Delete(ctx, gone...); err != nil {
		return false, err
	}
	if n > 0 {
		c.say(Event{Kind: SchedulesChanged, Count: n})
	}
	return len(lost) > 0, nil
}

// restore brings back schedules that the store has forgotten.
func (c *Catalog) restore(ctx context.Context, lost []schedule.Lost) error {
	m, _, err := readKept[markDoc](ctx, c.cfg.Ledger, nameMark)
	if err != nil {
		return err
	}
	active, err := c.activeRuns(ctx)
	if err != nil {
		return err
	}
	blind, _, err := c.cfg.Ledger.Restored(ctx)
	if err != nil {
		return err
	}
	for i := range lost {
		if blind.After(m.Mark) { // the ledger is a backup's, and no server has worked by it yet
			lost[i].Blind = blind
		}
		id := lost[i].Definition.ID
		lost[i].Mark, lost[i].Data, lost[i].Active = m.Mark, m.Open[keyOf(id)], active[launchedBy+id.String()]
	}
	n, err := c.control.Restore(ctx, lost...)
	c.mu.Lock()
	expected := c.cfg.OwnSchedules && !c.kept.filled
	c.mu.Unlock()
	if n > 0 && !expected {
		c.say(Event{Kind: SchedulesLost, Count: n})
	}
	return err
}

// activeRuns lists the runs of schedules that are not complete, by who launched them.
func (c *Catalog) activeRuns(ctx context.Context) (map[string][]schedule.Run, error) {
	active := map[string][]schedule.Run{}
	for page := (ledger.Page{Limit: ledger.MaxPage}); ; {
		runs, next, err := c.cfg.Ledger.Unfinished(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			if _, ok := schedule.IDOf(r.ID); ok {
				active[r.LaunchedBy] = append(active[r.LaunchedBy], schedule.Run{ID: r.ID, Cause: schedule.ByCron, At: r.Created})
			}
		}
		if next == "" {
			return active, nil
		}
		page.Cursor = next
	}
}

// keepOne writes down at once what a person did to a schedule.
func (c *Catalog) keepOne(ctx context.Context, id schedule.ID) error {
	const tries = 10
	var err error
	for range tries {
		if err = c.keepOnce(ctx, id); !errors.Is(err, core.ErrConflict) {
			return err
		}
	}
	return err
}

func (c *Catalog) keepOnce(ctx context.Context, id schedule.ID) error {
	m, version, err := readKept[markDoc](ctx, c.cfg.Ledger, nameMark)
	if err != nil {
		return err
	}
	known, knownVersion, err := readKept[knownDoc](ctx, c.cfg.Ledger, nameKnown)
	if err != nil {
		return err
	}
	read, err := c.cfg.Schedules.Get(ctx, []schedule.ID{id})
	if err != nil || len(read.Records) == 0 {
		return err
	}
	r := read.Records[0]
	idle, err := c.control.Idle(r, read.Now)
	if err != nil {
		return err
	}
	_, wasOpen := m.Open[keyOf(id)]
	if idle && !wasOpen {
		return nil
	}
	if idle { // resumed: what it missed meanwhile is not its any more
		delete(m.Open, keyOf(id))
		if known == nil {
			known = knownDoc{}
		}
		known[keyOf(id)] = read.Now
		if err := c.writeKept(ctx, nameKnown, known, knownVersion); err != nil {
			return err
		}
		return c.writeKept(ctx, nameMark, m, version)
	}
	if m.Open == nil {
		m.Open = map[string][]byte{}
	}
	m.Open[keyOf(id)] = r.Data
	return c.writeKept(ctx, nameMark, m, version)
}

// readKept reads a document of the service; the zero value and version 0 where there is none.
func readKept[T any](ctx context.Context, l *ledger.Ledger, name string) (value T, version int64, err error) {
	doc, err := l.Document(ctx, ledger.AllTenants(), kindKept, "", name)
	if errors.Is(err, core.ErrNotFound) {
		return value, 0, nil
	}
	if err == nil {
		if err = json.Unmarshal(doc.Data, &value); err != nil {
			err = fmt.Errorf("%s %s in the ledger: %w: %w", kindKept, name, core.ErrInvalid, err)
		}
	}
	return value, doc.Version, err
}

func (c *Catalog) writeKept(ctx context.Context, name string, value any, version int64) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = c.cfg.Ledger.PutDocument(ctx, ledger.AllTenants(), "", ledger.Document{Kind: kindKept, Name: name, Data: data}, version)
	return err
}

func ignoreConflict(err error) error {
	if errors.Is(err, core.ErrConflict) {
		return nil
	}
	return err
}
