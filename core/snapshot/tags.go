package snapshot

import (
	"slices"

	"github.com/turnus/turnus/playbooks"
)

// tagAlways is selected whatever the value of --tags, unless skipped by name, as in Ansible.
const tagAlways = "always"

// Selects reports whether a step with these tags runs under the snapshot's tags.
func (s Snapshot) Selects(tags []string) bool {
	if overlap(tags, s.SkipTags) {
		return false
	}
	return overlap(tags, s.Tags) || !slices.Contains(tags, playbooks.TagNever) && (len(s.Tags) == 0 || slices.Contains(tags, tagAlways))
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(tag string) bool { return slices.Contains(b, tag) })
}
