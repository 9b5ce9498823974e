package launch

import (
	"fmt"
	"maps"
	"slices"

	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/playbooks"
)

// references returns the run's references to the secrets that its steps list; nil where they list
// none. They hold no values.
func references(p *playbooks.Playbook, o Options) (map[string]secrets.Ref, error) {
	names := p.Secrets()
	if len(names) == 0 {
		return nil, nil
	}
	refs := make(map[string]secrets.Ref, len(names))
	for _, name := range names {
		ref, defined := o.Secrets[name]
		switch {
		case defined:
			refs[name] = ref
		case o.NodeSecrets != nil && !slices.Contains(o.NodeSecrets, name):
			known := slices.Sorted(maps.Keys(o.Secrets))
			return nil, fmt.Errorf("playbook %s: %w", p.Name, p.MissingSecret(name, slices.Compact(slices.Sorted(slices.Values(append(known, o.NodeSecrets...))))))
		}
	}
	return refs, nil
}
