package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/ledger"
)

// The ledger's documents of a source: the generation in use, the one that waits, and how
// fetching goes.
const (
	kindGeneration = "inventory-generation"
	kindHeld       = "inventory-held"
	kindState      = "inventory-source"
)

// Keeper keeps generations in a ledger. Its methods are safe for concurrent use.
type Keeper struct {
	Ledger *ledger.Ledger
	Fetch  func(ctx context.Context, s Source) (*Generation, error)
	Now    func() time.Time // time.Now when nil
	// Shared is set where servers share the ledger: a source is the same one whatever file each of
	// them has it from.
	Shared bool
}

// State is how fetching a source goes.
type State struct {
	Source   string    `json:"source"`
	Settings string    `json:"settings,omitempty"` // what was asked last, as Source.asks
	Asked    string    `json:"asked,omitempty"`    // the Settings that gave the generation in use; a former version has none
	ID       string    `json:"id,omitempty"`       // of the generation in use
	Hosts    int       `json:"hosts"`
	Good     time.Time `json:"good,omitzero"`  // when the source last gave what is in use
	Tried    time.Time `json:"tried,omitzero"` // the last fetch
	Failed   string    `json:"failed,omitempty"`
	Waiting  *Waiting  `json:"waiting,omitempty"`
	Left     []string  `json:"left,omitempty"` // records that are no hosts, with the reason
	Total    int       `json:"left_total,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler. A ledger of a former version has "held" for "waiting".
func (s *State) UnmarshalJSON(data []byte) error {
	type plain State
	former := struct {
		*plain
		Held *Waiting `json:"held"`
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(data, &former); err != nil {
		return err
	}
	if s.Waiting == nil {
		s.Waiting = former.Held
	}
	return nil
}

// Waiting is a generation that a person must approve.
type Waiting struct {
	ID    string    `json:"id"`
	Hosts int       `json:"hosts"`
	At    time.Time `json:"at"`
	Why   string    `json:"why"`
}

// StaleError refuses a launch on hosts of a source that has given nothing that could be used for
// longer than its max_age, or since its settings changed. It is core.ErrUnavailable.
type StaleError struct {
	Source string
	Good   time.Time // of the last good generation; zero: there is none
	MaxAge time.Duration
	Why    string
	Ahead  bool // Good is in the future: a clock was set back, and the age is not known
	Other  bool // other settings gave the last good generation
}

func (e *StaleError) Error() string {
	if e.Good.IsZero() {
		return fmt.Sprintf("source %s has no generation of hosts yet: %v: %s", e.Source, core.ErrUnavailable, e.Why)
	}
	age := fmt.Sprintf("older than max_age %v", e.MaxAge)
	switch {
	case e.Other:
		age = "fetched with other settings"
	case e.Ahead:
		age = "in the future, because a clock was wrong"
	}
	return fmt.Sprintf("source %s: the last good generation is of %s, %s: %v: %s", e.Source, e.Good.UTC().Format(time.RFC3339), age, core.ErrUnavailable, e.Why)
}

func (e *StaleError) Unwrap() error { return core.ErrUnavailable }

// maxAhead is how far the clocks of two servers may differ.
const maxAhead = 5 * time.Minute

// Stale returns why launches are refused as a *StaleError, or nil.
func (s *State) Stale(source Source, now time.Time) error {
	ahead, other := s.Good.Sub(now) > maxAhead, s.other(source.asks())
	if !s.Good.IsZero() && !ahead && !other && now.Sub(s.Good) <= source.MaxAge {
		return nil
	}
	why := s.Failed
	if s.Waiting != nil {
		why = "a generation waits for approval: " + s.Waiting.Why
	}
	why = cmp.Or(why, "it was not fetched since")
	return &StaleError{source.Name, s.Good, source.MaxAge, why + "\nhint: " + source.Review() + " shows the last fetch, and the generation that waits", ahead, other}
}

// other reports whether the generation in use answers other settings, and none of these waits: it
// may have the hosts of another site. One that waits shows a person what changes.
func (s *State) other(asks string) bool {
	return s.Asked != "" && s.Asked != asks && (s.Waiting == nil || s.Settings != asks)
}

// asks identifies what a source is asked: with other settings an older answer does not count.
func (s Source) asks() string {
	where := s.Program
	if s.URL != nil {
		where = s.URL.String()
	}
	data, _ := json.Marshal([]any{s.Kind, where, s.Records, s.Filter, s.Map}) // plain values
	return digest(data)
}

// name keeps sources of one name apart that are in different files, unless they are Shared.
func (k *Keeper) name(s Source) string {
	if k.Shared {
		return s.Name
	}
	return s.Name + "@" + digest([]byte(s.File))[:24]
}

func (k *Keeper) now() time.Time {
	if k.Now != nil {
		return k.Now().UTC()
	}
	return time.Now().UTC()
}

// Version changes whenever the State does.
func (k *Keeper) Version(ctx context.Context, s Source) (int64, error) {
	return k.Ledger.DocumentVersion(ctx, kindState, s.Tenant, k.name(s))
}

// State reads how fetching goes; the zero State before the first time.
func (k *Keeper) State(ctx context.Context, s Source) (State, error) {
	st, _, err := k.state(ctx, s)
	return st, err
}

// Troubled returns the states of sources that failed at the last fetch, or of which a generation
// waits for approval, by name. It needs no settings, so it leaves out sources that nobody fetched
// for a day: they may have been removed.
func (k *Keeper) Troubled(ctx context.Context) (all []State, err error) {
	list := func(ctx context.Context, p ledger.Page) ([]ledger.Document, string, error) {
		return k.Ledger.Documents(ctx, ledger.AllTenants(), kindState, p)
	}
	for doc, err := range ledger.Each(ctx, ledger.MaxPage, list) {
		if err != nil {
			return nil, err
		}
		var st State
		if err := json.Unmarshal(doc.Data, &st); err != nil {
			return nil, fmt.Errorf("read state of source %s: %w: %w", doc.Name, err, core.ErrInvalid)
		}
		if (st.Failed != "" || st.Waiting != nil) && k.now().Sub(st.Tried) < 24*time.Hour {
			all = append(all, st)
		}
	}
	return all, nil
}

func (k *Keeper) state(ctx context.Context, s Source) (State, int64, error) {
	st := State{Source: s.Name}
	doc, err := k.read(ctx, kindState, s)
	if doc == nil || err != nil {
		return st, 0, err
	}
	if err := json.Unmarshal(doc.Data, &st); err != nil {
		return st, 0, fmt.Errorf("read state of source %s: %w: %w", s.Name, err, core.ErrInvalid)
	}
	return st, doc.Version, nil
}

// read returns a document, or nil.
func (k *Keeper) read(ctx context.Context, kind string, s Source) (*ledger.Document, error) {
	doc, err := k.Ledger.Document(ctx, ledger.AllTenants(), kind, s.Tenant, k.name(s))
	if errors.Is(err, core.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	return &doc, nil
}

func (k *Keeper) generation(ctx context.Context, kind string, s Source) (*Generation, int64, error) {
	doc, err := k.read(ctx, kind, s)
	if doc == nil || err != nil {
		return nil, 0, err
	}
	g, err := Decode(doc.Data)
	if err != nil {
		return nil, 0, fmt.Errorf("source %s: %w", s.Name, err)
	}
	return g, doc.Version, nil
}

// Generations returns the generation in use and the one that waits; nil is none.
func (k *Keeper) Generations(ctx context.Context, s Source) (used, held *Generation, err error) {
	if used, _, err = k.generation(ctx, kindGeneration, s); err != nil {
		return nil, nil, err
	}
	held, _, err = k.generation(ctx, kindHeld, s)
	return used, held, err
}

// Due reports whether it is time to fetch. A last fetch in the future was by a wrong clock.
func (k *Keeper) Due(s Source, st State) bool {
	ago := k.now().Sub(st.Tried)
	return st.Settings != s.asks() || ago < 0 || ago >= s.Every
}

// Refresh fetches a source, and keeps what comes as Judge decides. A source that fails is in the
// State; the error is of the ledger.
func (k *Keeper) Refresh(ctx context.Context, s Source) (State, error) {
	next, failed := k.Fetch(ctx, s)
	if ctx.Err() != nil {
		return State{}, ctx.Err()
	}
	st, version, err := k.state(ctx, s)
	if err != nil {
		return st, err
	}
	if st.Settings != s.asks() {
		st.Waiting = nil // a generation of other settings
	}
	st.Tried, st.Settings, st.Failed = k.now(), s.asks(), ""
	if failed != nil {
		st.Failed = core.ErrorText(failed)
		return st, k.putState(ctx, s, st, version)
	}
	st.Left, st.Total = next.Left, next.Total
	if err := k.take(ctx, s, next, &st); err != nil {
		return st, err
	}
	return st, k.putState(ctx, s, st, version)
}

// take puts a generation where Judge decides.
func (k *Keeper) take(ctx context.Context, s Source, next *Generation, st *State) error {
	used, version, err := k.generation(ctx, kindGeneration, s)
	if err != nil {
		return err
	}
	is, err := next.Summary(ctx)
	if err != nil {
		return err
	}
	var was *Summary
	if used != nil {
		last, err := used.Summary(ctx)
		if err != nil {
			return err
		}
		if last.Fetched.After(k.now()) { // by a wrong clock, which does not show the order
			last.Fetched = next.Fetched
		}
		was = &last
	}
	switch decision, why := Judge(was, is, s.Rules); decision {
	case Reject:
		st.Failed = "source " + s.Name + ": the generation is not used: " + why
		return nil
	case Hold:
		if st.Waiting == nil || st.Waiting.ID != is.ID {
			if err := k.put(ctx, nil, kindHeld, s, next, -1); err != nil {
				return err
			}
			st.Waiting = &Waiting{ID: is.ID, Hosts: len(is.Hosts), At: st.Tried, Why: why}
		}
		return nil
	case Accept:
	}
	if was == nil || was.ID != is.ID {
		if err := k.put(ctx, nil, kindGeneration, s, next, version); err != nil {
			return err
		}
	}
	st.Waiting, st.ID, st.Hosts, st.Good, st.Asked = nil, is.ID, len(is.Hosts), next.Fetched, st.Settings
	return nil
}

// Approve puts the waiting generation into use. id is the generation that the person checked:
// another one is core.ErrConflict, and none is core.ErrNotFound.
func (k *Keeper) Approve(ctx context.Context, who string, s Source, id string) (State, error) {
	st, version, err := k.state(ctx, s)
	if err != nil {
		return st, err
	}
	held, _, err := k.generation(ctx, kindHeld, s)
	if err != nil {
		return st, err
	}
	if st.Waiting == nil || held == nil {
		return st, fmt.Errorf("source %s: no generation waits for approval: %w", s.Name, core.ErrNotFound)
	}
	if st.Waiting.ID != id || held.ID() != id {
		return st, fmt.Errorf("source %s: another generation waits now: %w\nhint: %s", s.Name, core.ErrConflict, s.Review())
	}
	_, had, err := k.generation(ctx, kindGeneration, s)
	if err != nil {
		return st, err
	}
	note := ledger.Entry{Who: who, Tenant: s.Tenant, Action: "source.approve", Kind: "source", Subject: s.Name, Before: noted(st.ID, st.Hosts), After: noted(id, st.Waiting.Hosts)}
	if err := k.put(ctx, &note, kindGeneration, s, held, had); err != nil {
		return st, err
	}
	good := held.Fetched
	if st.Failed == "" { // the last fetch gave it again
		good = st.Tried
	}
	st.ID, st.Hosts, st.Good, st.Waiting, st.Asked = id, st.Waiting.Hosts, good, nil, st.Settings
	return st, k.putState(ctx, s, st, version)
}

func noted(generation string, hosts int) []byte {
	data, _ := json.Marshal(map[string]any{"generation": generation, "hosts": hosts}) // plain values
	return data
}

// put writes a generation in the place of a version; -1 is any. note is for the audit log, if a
// person does it.
func (k *Keeper) put(ctx context.Context, note *ledger.Entry, kind string, s Source, g *Generation, version int64) error {
	data, err := g.Encode()
	if err != nil {
		return err
	}
	if version < 0 {
		doc, err := k.read(ctx, kind, s)
		if err != nil {
			return err
		}
		version = 0
		if doc != nil {
			version = doc.Version
		}
	}
	doc := ledger.Document{Kind: kind, Tenant: s.Tenant, Name: k.name(s), Data: data}
	if note != nil && note.Who != "" {
		_, err = k.Ledger.PutDocumentNoted(ctx, ledger.AllTenants(), doc, version, *note)
	} else {
		_, err = k.Ledger.PutDocument(ctx, ledger.AllTenants(), "", doc, version)
	}
	if err != nil {
		return fmt.Errorf("keep generation of source %s: %w", s.Name, err)
	}
	return nil
}

func (k *Keeper) putState(ctx context.Context, s Source, st State, version int64) error {
	data, err := json.Marshal(st)
	if err == nil {
		_, err = k.Ledger.PutDocument(ctx, ledger.AllTenants(), "", ledger.Document{Kind: kindState, Tenant: s.Tenant, Name: k.name(s), Data: data}, version)
	}
	if err != nil {
		return fmt.Errorf("keep state of source %s: %w", s.Name, err)
	}
	return nil
}

// Loaded is the generation of a source that is in use.
type Loaded struct {
	Hosts inventory.Document
	Use   core.SourceUse // without Hosts
}

// Load returns the hosts of the sources now: each is fetched if that is due, or if nothing that was
// kept can be used after a failure. Where the source fails, Load returns the last good generation.
// Warnings are for a person. An error means that a source has nothing that is new enough.
func (k *Keeper) Load(ctx context.Context, all []Source) (loaded []Loaded, warnings []string, err error) {
	for _, s := range all {
		st, err := k.State(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		if k.Due(s, st) || st.Failed != "" && st.Stale(s, k.now()) != nil {
			if st, err = k.Refresh(ctx, s); err != nil && !errors.Is(err, core.ErrConflict) { // another process has fetched it meanwhile
				return nil, nil, err
			}
			if st, err = k.State(ctx, s); err != nil {
				return nil, nil, err
			}
		}
		if err := st.Stale(s, k.now()); err != nil {
			return nil, nil, err
		}
		used, _, err := k.generation(ctx, kindGeneration, s)
		if err != nil {
			return nil, nil, err
		}
		if used != nil {
			loaded = append(loaded, Loaded{used.Document(s.Tenant), st.Use(used)})
		}
		warnings = append(warnings, st.Warnings(s)...)
	}
	return loaded, warnings, nil
}

// Use returns the record that runs keep of a generation. It was read after the state, and may be
// newer.
func (s *State) Use(used *Generation) core.SourceUse {
	use := core.SourceUse{Source: used.Source, Generation: used.ID(), Good: used.Fetched}
	return s.Seen(use)
}

// Seen returns the use with the time of the last fetch that gave the same generation.
func (s *State) Seen(use core.SourceUse) core.SourceUse {
	if use.Generation == s.ID && s.Good.After(use.Good) {
		use.Good = s.Good
	}
	return use
}

// Warnings lists, for people, what is not as it should be.
func (s *State) Warnings(source Source) (all []string) {
	if s.Failed != "" {
		effect := "hosts are those of " + s.Good.Format(time.RFC3339)
		switch {
		case s.Good.IsZero():
			effect = "it has given no hosts yet"
		case s.other(s.Settings):
			effect = "launches on its hosts are refused: they were fetched with other settings"
		}
		why, hint, _ := strings.Cut(s.Failed, "\n")
		text := fmt.Sprintf("%s; it failed at %s, see %s; %s\n%s", why, s.Tried.Format(time.RFC3339), source.Review(), effect, hint)
		all = append(all, strings.TrimSuffix(text, "\n"))
	}
	if s.Waiting != nil {
		all = append(all, fmt.Sprintf("source %s: a generation waits for approval: %s; see %s", s.Source, s.Waiting.Why, source.Review()))
	}
	if s.Total > 0 {
		all = append(all, fmt.Sprintf("source %s: %d records are left out: %s", s.Source, s.Total, core.Few(s.Left, maxNamed)))
	}
	return all
}
