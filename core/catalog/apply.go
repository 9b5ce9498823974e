package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
)

// The ledger's document of the definitions.
const (
	kindDefinitions = "definitions"
	nameCurrent     = "current"
)

// stored is its data.
type stored struct {
	Source Source          `json:"source"`
	Base   Base            `json:"base,omitzero"` // see Current.Base
	Set    json.RawMessage `json:"set"`           // as definitions.Set writes itself
	// Changes lists what it changed when it was put, without those that are left out.
	Changes definitions.Changes `json:"changes,omitzero"`
	LeftOut int                 `json:"left_out,omitempty"`
}

// shorten leaves out the hosts of the changes, and then half of the changes: the project itself
// always has room. It reports whether there was anything to leave out.
func (s *stored) shorten() bool {
	all := slices.Clone(s.Changes.Changes)
	kept := len(all) / 2
	for i := range all {
		if c := &all[i]; len(c.HostsCome)+len(c.HostsGo) > 0 {
			c.HostsCome, c.HostsGo, kept = nil, nil, len(all)
		}
	}
	s.Changes.Changes, s.LeftOut = all[:kept], s.LeftOut+len(all)-kept
	return len(all) > 0
}

// maxKept is how many changes are kept of a version. Those of hosts and files come last.
const maxKept = 500

// Applied is the result of Apply.
type Applied struct {
	Current
	Changed bool // false: it was there already
	Changes definitions.Changes
}

// Apply puts definitions in the place of version ifVersion (0: there are none yet; AnyVersion: any
// version or none), all or nothing. When it returns, no step starts by the former windows any more,
// unless the queue is away: then not after it is back. The same definitions again are no change.
//
// Errors are playbooks.Diagnostics with everything that is wrong, core.ErrConflict where another
// version is there, or wrap core.ErrInvalid or core.ErrUnavailable. Where a branch is
// followed, what is applied holds until the branch moves.
func (c *Catalog) Apply(ctx context.Context, who string, docs []definitions.Document, rev definitions.Revision, ifVersion int64) (Applied, error) {
	set, err := definitions.FromDocuments(ctx, docs, definitions.Options{Playbooks: c.cfg.Playbooks, Revision: rev, Sources: c.knows()})
	if err != nil {
		return Applied{}, err
	}
	now, err := c.standing(ctx)
	if err != nil {
		return Applied{}, err
	}
	if ifVersion == AnyVersion {
		ifVersion = now.Version
	}
	if now.Version != ifVersion {
		return Applied{}, fmt.Errorf("the project now has version %d, not %d: read it again: %w", now.Version, ifVersion, core.ErrConflict)
	}
	return c.put(ctx, who, set, FromApply, now.Base, now)
}

// Check validates definitions as Apply would, and returns what they would change.
func (c *Catalog) Check(ctx context.Context, docs []definitions.Document, rev definitions.Revision) (definitions.Changes, error) {
	set, err := definitions.FromDocuments(ctx, docs, definitions.Options{Playbooks: c.cfg.Playbooks, Revision: rev, Sources: c.knows()})
	if err != nil {
		return definitions.Changes{}, err
	}
	if _, err := compile(set, givenState{}); err != nil {
		return definitions.Changes{}, err
	}
	now := c.Current()
	return definitions.DiffGiven(now.own, set, c.approvals().words(), time.Now()), nil
}

// put writes a set in the place of what the ledger has, and takes it over.
func (c *Catalog) put(ctx context.Context, who string, set *definitions.Set, source Source, base Base, before Current) (Applied, error) {
	if before.Set != nil && before.Set.Hash() == set.Hash() && before.Set.Revision == set.Revision && before.Base.ID == base.ID && c.rejection() == nil {
		return Applied{Current: before}, nil
	}
	if _, err := compile(set, givenState{}); err != nil {
		return Applied{}, err
	}
	encoded, err := set.Encode()
	if err != nil {
		return Applied{}, err
	}
	changes := definitions.DiffGiven(before.own, set, c.approvals().words(), time.Now())
	at := stored{Source: source, Base: base, Set: encoded}
	if before.own != nil { // of the first version everything is new
		at.Changes = changes
		kept := min(len(changes.Changes), maxKept)
		at.Changes.Changes, at.LeftOut = changes.Changes[:kept], len(changes.Changes)-kept
	}
	data, err := json.Marshal(at)
	for err == nil && len(data) > ledger.MaxDocument && at.shorten() {
		data, err = json.Marshal(at)
	}
	if err != nil {
		return Applied{}, fmt.Errorf("write the project: %w", err)
	}
	doc, err := c.cfg.Ledger.PutDocument(ctx, ledger.AllTenants(), who, ledger.Document{
		Kind: kindDefinitions, Name: nameCurrent, Revision: set.Revision.Commit, Data: data,
	}, before.Version)
	if err != nil {
		return Applied{}, fmt.Errorf("apply the project: %w", err)
	}
	now, err := c.adopt(ctx, set, doc, at)
	if err != nil {
		return Applied{}, err
	}
	c.publishNow(ctx)
	c.keepAligned(ctx)
	return Applied{Current: now, Changed: true, Changes: changes}, nil
}

// standing returns the definitions that a change replaces: the current ones, or those that this
// server cannot read but may replace.
func (c *Catalog) standing(ctx context.Context) (Current, error) {
	now, err := c.refresh(ctx)
	if r := c.rejection(); err != nil && r != nil && errors.Is(err, r.err) {
		now, err = c.Current(), nil
		now.Version, now.Base = r.Version, r.base
	}
	return now, err
}

// compile makes what is needed to run by a set and the approvals that were given here, and so
// checks whether the service can.
func compile(set *definitions.Set, given givenState) (c *Current, err error) {
	c = &Current{Set: set, given: given.version}
	docs := set.WindowDocuments()
	if doc, ok := set.Windows.GivenDocument(givenFile, given.words()); ok {
		docs = append(slices.Clone(docs), doc)
	}
	if c.calendar, err = admission.NewCalendar(docs); err != nil {
		return nil, err
	}
	if c.published, err = admission.EncodeCalendar(c.calendar); err != nil {
		return nil, err
	}
	for _, d := range c.definedSchedules() {
		if err := d.Validate(); err != nil {
			return nil, fmt.Errorf("playbook %s: %w", d.ID.Name, err)
		}
	}
	return c, nil
}

// adopt runs by a version from now on, unless it has a newer one already.
func (c *Catalog) adopt(ctx context.Context, set *definitions.Set, doc ledger.Document, at stored) (Current, error) {
	c.taking.Lock()
	defer c.taking.Unlock()
	next, err := compile(set, c.approvals())
	if err != nil {
		return Current{}, err
	}
	next.own = set
	if err := next.take(ctx, c.knownSources()); err != nil {
		return Current{}, err
	}
	next.Version, next.By, next.Source, next.Applied, next.Base = doc.Version, doc.By, at.Source, doc.Updated, at.Base
	next.Changes, next.LeftOut = at.Changes, at.LeftOut
	c.mu.Lock()
	if c.current.Version >= next.Version {
		now := *c.current
		c.mu.Unlock()
		return now, nil
	}
	if c.current.Set == nil {
		close(c.begun)
	}
	c.current = next
	if r := c.rejected; r != nil && r.Version <= next.Version {
		c.rejected = nil
	}
	c.mu.Unlock()
	c.report(Event{Kind: ProjectChanged, Version: next.Version, By: next.By})
	return *next, nil
}

// refresh takes over the ledger's version, if it is newer than this server's, and returns what is
// current then. The error reports that the ledger is away, or that its version cannot be read here.
func (c *Catalog) refresh(ctx context.Context) (Current, error) {
	if err := c.refreshGiven(ctx); err != nil {
		return Current{}, err
	}
	if err := c.refreshSources(ctx); err != nil { // before the first definitions: each launch of a schedule needs these hosts
		return Current{}, err
	}
	version, err := c.cfg.Ledger.DocumentVersion(ctx, kindDefinitions, "", nameCurrent)
	if err != nil {
		return Current{}, err
	}
	c.mu.Lock()
	c.none = version == 0
	c.mu.Unlock()
	now := c.Current()
	if version == now.Version {
		return now, nil
	}
	doc, err := c.cfg.Ledger.Document(ctx, ledger.AllTenants(), kindDefinitions, "", nameCurrent)
	if err != nil {
		return Current{}, err
	}
	if doc.Version == now.Version {
		return now, nil
	}
	if r := c.rejection(); r != nil && r.Version == doc.Version { // it has been tried
		return Current{}, r.err
	}
	set, at, err := c.read(ctx, doc)
	if err == nil {
		var taken Current
		if taken, err = c.adopt(ctx, set, doc, at); err == nil {
			return taken, nil
		}
	}
	if ctx.Err() != nil {
		return Current{}, err
	}
	return c.reject(doc, at.Base, err)
}

// read reads a set of the ledger. A set that another server accepted is not refused because this
// one has other sources.
func (c *Catalog) read(ctx context.Context, doc ledger.Document) (*definitions.Set, stored, error) {
	at, docs, rev, err := decode(doc)
	if err != nil {
		return nil, at, err
	}
	set, err := definitions.FromDocuments(ctx, docs, definitions.Options{Playbooks: c.cfg.Playbooks, Revision: rev, Sources: append(c.knows(), definitions.KnownSource{})})
	return set, at, err
}

// decode reads the ledger's document, which may be one that this server cannot run by.
func decode(doc ledger.Document) (at stored, docs []definitions.Document, rev definitions.Revision, err error) {
	if err := json.Unmarshal(doc.Data, &at); err != nil {
		return at, nil, rev, fmt.Errorf("read version %d of the project: %w: %w", doc.Version, core.ErrInvalid, err)
	}
	docs, rev, err = definitions.Decode(at.Set)
	return at, docs, rev, err
}

// Rejected is a version that somebody put, and this server cannot run by.
type Rejected struct {
	Version int64 `json:"version"`
	Rejection
	err  error
	base Base
}

func (c *Catalog) rejection() *Rejected { return core.Locked(&c.mu, &c.rejected) }

// reject remembers why a version cannot be used, and returns that error. If this server runs by a
// newer version already, it returns the current one. Several goroutines check the ledger, and the
// one that read first may be the last to end.
func (c *Catalog) reject(doc ledger.Document, base Base, why error) (Current, error) {
	r := &Rejected{Version: doc.Version, Rejection: Rejection{Revision: doc.Revision, By: doc.By, Since: time.Now().UTC(), Error: why.Error()}, base: base,
		err: fmt.Errorf("version %d of the project, by %s, cannot be used by this server: %w", doc.Version, doc.By, why)}
	c.mu.Lock()
	now, had := *c.current, c.rejected
	if now.Version >= doc.Version {
		c.mu.Unlock()
		return now, nil
	}
	if had != nil && had.Version >= doc.Version {
		c.mu.Unlock()
		return Current{}, had.err
	}
	c.rejected = r
	c.mu.Unlock()
	c.report(Event{Kind: ProjectRejected, Version: doc.Version, By: doc.By, Err: why})
	return Current{}, r.err
}

// watch keeps to the ledger's version, and the board to that, until ctx ends.
func (c *Catalog) watch(ctx context.Context) {
	var reported time.Time
	for ctx.Err() == nil {
		_, err := c.refresh(ctx)
		if err != nil && c.rejection() == nil {
			c.trouble(ctx, "cannot read the project", err)
		}
		if err == nil {
			c.keepAligned(ctx)
			c.trouble(ctx, publishFailed, c.publish(ctx))
		}
		if now := time.Now(); now.Sub(reported) >= reportEvery {
			reported = now
			c.trouble(ctx, "recording that the project is rejected failed", c.keepRejection(ctx, now.UTC()))
		}
		core.Pause(ctx, watchEvery, c.notify)
	}
}

const publishFailed = "publishing the windows failed, retrying"

// publishNow publishes the windows after a change; if that fails, watch continues with it.
func (c *Catalog) publishNow(ctx context.Context) {
	if err := c.publish(ctx); err != nil {
		c.trouble(ctx, publishFailed, err)
		core.Notify(c.notify)
	}
}

func (c *Catalog) publish(ctx context.Context) error {
	posted, err := c.windows.Publish(ctx)
	if posted {
		c.report(Event{Kind: WindowsPosted, Version: c.Current().Version})
	}
	return err
}

// edition is the windows of what is current, as long as the ledger has nothing newer.
func (c *Catalog) edition() admission.Edition {
	now := c.Current()
	return admission.Edition{Data: now.published, Newest: func(ctx context.Context) (bool, error) {
		set, err := c.cfg.Ledger.DocumentVersion(ctx, kindDefinitions, "", nameCurrent)
		if err != nil {
			return false, err
		}
		given, err := c.cfg.Ledger.DocumentVersion(ctx, kindApprovals, "", nameWindows)
		if err != nil {
			return false, err
		}
		newest := set == now.Version && given == now.given
		if !newest {
			core.Notify(c.notify)
		}
		return newest, nil
	}}
}
