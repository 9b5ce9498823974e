package windows

import (
	"fmt"
	"regexp"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

var hashText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

func (d *decoder) approval(n *yaml.Node, s *Set) *Approval {
	a := &Approval{State: Approved}
	d.Mapping(n, "the approval", append(d.approvalFields(a, &s.Timezone),
		value(d, "by", &a.By, nameText).Needed(),
		yamlread.Choice(d.Reader, "state", &a.State, Proposed, Approved, Revoked),
		value(d, "at", &a.At, instant(&s.Timezone, false)),
		value(d, "revoked", &a.RevokedAt, instant(&s.Timezone, false)),
		d.Int("max_occurrences", &a.MaxOccurrences, 1, 10_000))...)
	return a
}

// approvalFields are those of every approval, whose times are of a zone.
func (d *decoder) approvalFields(a *Approval, zone *string) []field {
	hash := func(key, from string, into *string) field {
		return value(d, key, into, func(text string) (string, error) {
			if !hashText().MatchString(text) {
				return "", fmt.Errorf("expected sha256: and 64 hexadecimal digits, as `%s -o json` prints them", from)
			}
			return text, nil
		})
	}
	return []field{
		value(d, "id", &a.ID, nameText),
		value(d, "until", &a.Until, instant(zone, true)),
		d.names("freezes", &a.Freezes, func(n *yaml.Node) { d.checkLifts(n, a) }),
		hash("window", "turnus windows lint", &a.Window),
		hash("change", "turnus plan", &a.Change),
		hash("targets", "turnus plan", &a.Targets),
	}
}

func (d *decoder) checkLifts(n *yaml.Node, a *Approval) {
	for _, name := range a.Freezes {
		if d.defs.Freezes[name] == nil {
			d.fail(n, didYouMean(name, sortedNames(d.defs.Freezes)), "unknown freeze %s", quote(name))
		}
	}
}

// cannotLift is why an approval that names a freeze does not lift it, or "".
func (a *Approval) cannotLift(f *Freeze) string {
	switch {
	case f.Owner == "" || f.Made.IsZero():
		return "the freeze has no owner or does not say when it was made"
	case a.By != f.Owner:
		return fmt.Sprintf("it is by %s, the freeze belongs to %s", a.By, f.Owner)
	case a.At.IsZero() || !a.At.After(f.Made):
		return "it does not say that it was given after the freeze was made (at:)"
	}
	return ""
}
