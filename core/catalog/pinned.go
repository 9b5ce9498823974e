package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// kindPinned is the kind of the ledger's documents with what schedules have pinned.
const kindPinned = "pinned launch"

// pin names what a schedule launches instead of the project as it is at the fire time.
type pin struct {
	Document string `json:"document"`           // named by the schedule and its content
	Revision string `json:"revision,omitempty"` // commit, for people
}

// pinned is a playbook and hosts as they were when somebody asked for a launch at a time. Windows,
// freezes, approvals, facts and secrets are those of the fire time.
type pinned struct {
	Revision definitions.Revision      `json:"revision"`
	File     string                    `json:"file"`
	Source   string                    `json:"source"`
	Included map[string]string         `json:"included,omitempty"`
	Hosts    []json.RawMessage         `json:"hosts"` // all that the launcher may see, for hosts('…') and on
	Chosen   []string                  `json:"chosen"`
	Uses     map[string]core.SourceUse `json:"uses,omitempty"` // sources of the hosts
	From     map[string]string         `json:"from,omitempty"` // host to its source
}

// newPin returns the pin of a launch of now, and the document that it names.
func newPin(now Current, playbook *playbooks.Playbook, p payload, id schedule.ID) (*pin, ledger.Document, error) {
	scope := Launching{Scope: p.scope(id)}
	visible, err := hostsOf(now, nil, scope)
	if err != nil {
		return nil, ledger.Document{}, err
	}
	chosen, err := hostsOf(now, p.Limit, scope)
	if err != nil {
		return nil, ledger.Document{}, err
	}
	kept := pinned{
		Revision: now.Set.Revision, File: playbook.File, Source: string(playbook.Source), Included: playbook.Included, Hosts: make([]json.RawMessage, len(visible)),
		Uses: map[string]core.SourceUse{}, From: map[string]string{},
	}
	for i, h := range visible {
		if kept.Hosts[i], err = snapshot.EncodeHost(h); err != nil {
			return nil, ledger.Document{}, err
		}
		if source, ok := now.hosts.source[h.Name]; ok {
			kept.From[h.Name], kept.Uses[source] = source, now.hosts.uses[source]
		}
	}
	for _, h := range chosen {
		kept.Chosen = append(kept.Chosen, h.Name)
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return nil, ledger.Document{}, fmt.Errorf("pin the launch of schedule %s: %w", id, err)
	}
	if len(data) > ledger.MaxDocument {
		return nil, ledger.Document{}, fmt.Errorf("pin the launch of schedule %s: its hosts and playbook have %d bytes, at most %d fit: launch it with the project as it is then (--newest of turnus submit): %w",
			id, len(data), ledger.MaxDocument, core.ErrInvalid)
	}
	sum := sha256.Sum256(data)
	d := ledger.Document{Kind: kindPinned, Tenant: id.Tenant, Name: id.Name + "/" + hex.EncodeToString(sum[:8]), Revision: kept.Revision.Commit, Data: data}
	return &pin{Document: d.Name, Revision: kept.Revision.Commit}, d, nil
}

// keepPin writes down what a schedule has pinned. The same is there already after a repetition.
func (c *Catalog) keepPin(ctx context.Context, d ledger.Document) error {
	version, err := c.cfg.Ledger.DocumentVersion(ctx, d.Kind, d.Tenant, d.Name)
	if err != nil || version > 0 {
		return err
	}
	_, err = c.cfg.Ledger.PutDocument(ctx, ledger.AllTenants(), "", d, 0)
	return ignoreConflict(err) // somebody asked for the same at the same time
}

// unpinned returns now and the playbook as a schedule has pinned them, and the hosts to take. Hosts
// that belong to another tenant since are not among them.
func (c *Catalog) unpinned(ctx context.Context, now Current, p payload, id schedule.ID) (Current, *playbooks.Playbook, func(core.Host) bool, error) {
	fail := func(err error) (Current, *playbooks.Playbook, func(core.Host) bool, error) {
		return now, nil, nil, fmt.Errorf("read what schedule %s has pinned: %w", id, err)
	}
	d, err := c.cfg.Ledger.Document(ctx, ledger.AllTenants(), kindPinned, id.Tenant, p.Pin.Document)
	if errors.Is(err, core.ErrNotFound) {
		err = fmt.Errorf("%w: %w", core.ErrInvalid, err) // it does not come back
	}
	if err != nil {
		return fail(err)
	}
	var kept pinned
	if err := json.Unmarshal(d.Data, &kept); err != nil {
		return fail(fmt.Errorf("%w: %w", core.ErrInvalid, err))
	}
	playbook, err := playbooks.Parse(kept.File, []byte(kept.Source), playbooks.Options{Types: c.cfg.Playbooks.Types, Vars: p.Vars, Steps: playbooks.ReadFrom(kept.Included)})
	if err != nil {
		return fail(fmt.Errorf("%w: %w", core.ErrInvalid, err))
	}
	set, inv := *now.Set, inventory.Inventory{}
	for _, data := range kept.Hosts {
		h, err := snapshot.DecodeHost(data)
		if err != nil {
			return fail(err)
		}
		if today, ok := now.Set.Inventory.Host(h.Name); ok && today.Customer != h.Customer {
			c.cfg.Log.Warn("a host is left out of a pinned launch, because it now belongs to another tenant", "schedule", id, "host", h.Name)
			continue
		}
		inv.Hosts = append(inv.Hosts, h)
	}
	chosen := make(map[string]bool, len(kept.Chosen))
	for _, name := range kept.Chosen {
		chosen[name] = true
	}
	set.Inventory, set.Revision = &inv, kept.Revision
	now.Set, now.hosts.source, now.hosts.uses = &set, kept.From, kept.Uses
	return now, playbook, func(h core.Host) bool { return chosen[h.Name] }, nil
}

// pinAge is how long a document may be without its schedule: the schedule is put after it.
const pinAge = time.Hour

// sweepPins deletes documents whose schedules are gone, or have pinned something else since.
func (c *Catalog) sweepPins(ctx context.Context) error {
	list := func(ctx context.Context, p ledger.Page) ([]ledger.Document, string, error) {
		return c.cfg.Ledger.Documents(ctx, ledger.AllTenants(), kindPinned, p)
	}
	for d, err := range ledger.Each(ctx, 5, list) {
		if err != nil {
			return err
		}
		if time.Since(d.Updated) < pinAge || c.isPinned(ctx, d) {
			continue
		}
		err := c.cfg.Ledger.DeleteDocument(ctx, ledger.AllTenants(), "", d.Kind, d.Tenant, d.Name, d.Version)
		if err != nil && !errors.Is(err, core.ErrConflict) && !errors.Is(err, core.ErrNotFound) {
			return err
		}
	}
	return nil
}

// isPinned reports whether a schedule launches what a document has, or may do so.
func (c *Catalog) isPinned(ctx context.Context, d ledger.Document) bool {
	name, _, _ := strings.Cut(d.Name, "/")
	s, err := c.Schedule(ctx, ledger.AllTenants(), schedule.ID{Tenant: d.Tenant, Name: name})
	return err != nil && !errors.Is(err, core.ErrNotFound) || s.Damaged != nil || err == nil && s.pin != nil && s.pin.Document == d.Name
}

// deletePin deletes what a schedule had pinned. If that fails, sweepPins does it later.
func (c *Catalog) deletePin(ctx context.Context, s *Schedule) {
	if s.pin == nil {
		return
	}
	tenant := s.Definition.ID.Tenant
	version, err := c.cfg.Ledger.DocumentVersion(ctx, kindPinned, tenant, s.pin.Document)
	if err == nil && version > 0 {
		_ = c.cfg.Ledger.DeleteDocument(ctx, ledger.AllTenants(), "", kindPinned, tenant, s.pin.Document, version)
	}
}
