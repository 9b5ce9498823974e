package launch

import "slices"

// Tags with a meaning of their own, as Ansible has them.
const (
	tagAlways = "always" // selected whatever --tags says, unless skipped by name
	tagNever  = "never"  // only selected by one of the step's own tags
)

// Selects reports whether a step with these tags runs under the snapshot's tags.
func (s Snapshot) Selects(tags []string) bool {
	if overlap(tags, s.SkipTags) {
		return false
	}
	if overlap(tags, s.Tags) {
		return true
	}
	if slices.Contains(tags, tagNever) {
		return false
	}
	return len(s.Tags) == 0 || slices.Contains(tags, tagAlways)
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(tag string) bool { return slices.Contains(b, tag) })
}
