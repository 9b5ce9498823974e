package secrets

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// ForChannel returns the value of a secret of the node's own file for a channel of notifications:
// of a tenant, or of the service if tenant is "". The definitions choose where a channel sends the
// value, so ForChannel is narrower than Resolve. A tenant's channel may use secrets whose tenants:
// names it. A channel of the service may use secrets without tenants:. No channel may use secrets
// that are limited to playbooks or hosts.
//
// The value is the caller's. Errors are those of Resolve; the caller puts the name before them.
func (s *Store) ForChannel(ctx context.Context, tenant, name string) ([]byte, error) {
	e, err := s.ownEntry(name, "server")
	if err != nil {
		return nil, err
	}
	if err := e.opensTo(tenant); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", e.Place(), err, core.ErrInvalid)
	}
	return s.value(ctx, e, Ask{Name: name, Tenant: tenant})
}

// ForSource gives the value of a secret of the process's own file to a source of hosts. A secret
// with limits is refused: a source is for all tenants, playbooks and hosts. The value is the
// caller's; errors are as those of ForChannel.
func (s *Store) ForSource(ctx context.Context, name string) ([]byte, error) {
	e, err := s.ownEntry(name, "process")
	if err != nil {
		return nil, err
	}
	if len(e.Tenants)+len(e.Playbooks) > 0 || e.Hosts != "" {
		return nil, fmt.Errorf("%s: sources of hosts may not use it, because it is limited by tenants:, playbooks: or hosts:: give the source a secret of its own: %w", e.Place(), core.ErrInvalid)
	}
	return s.value(ctx, e, Ask{Name: name})
}

// ownEntry finds a secret of the process's own file.
func (s *Store) ownEntry(name, process string) (Entry, error) {
	e, ok := s.current().entries[name]
	if !ok {
		where := "this " + process + " has no file of its own (--secrets)"
		if s.cfg.File != "" {
			where = s.cfg.File + " of this " + process + " has none of this name"
		}
		return Entry{}, fmt.Errorf("%w: %s", core.ErrNotFound, where)
	}
	return e, nil
}

// opensTo is the limit of ForChannel.
func (e Entry) opensTo(tenant string) error {
	switch {
	case tenant != "" && !slices.Contains(e.Tenants, tenant):
		return fmt.Errorf("channels of tenant %q may not use it: add it to the secret's tenants: if that is meant", yamlread.Clip(tenant))
	case tenant == "" && len(e.Tenants) > 0:
		return errors.New("channels of the service may not use it, because it is limited to tenants: give the channel a secret without that limit")
	case len(e.Playbooks) > 0 || e.Hosts != "":
		return errors.New("channels may not use it, because it is limited by playbooks: or hosts: give the channel its own secret")
	}
	return nil
}
