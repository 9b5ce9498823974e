package windows

import (
	"fmt"
	"regexp"

	"gopkg.in/yaml.v3"
)

var hashText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (d *decoder) approval(n *yaml.Node, s *Set) *Approval {
	a := &Approval{State: Approved}
	d.mapping(n, "the approval", d.approvalKeys(a, &s.Timezone), "by")
	return a
}

// approvalKeys are the keys of an approval whose times are of a zone.
func (d *decoder) approvalKeys(a *Approval, zone *string) keys {
	hash := func(what, from string, into *string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			with(d, n, what, func(text string) (string, error) {
				if !hashText.MatchString(text) {
					return "", fmt.Errorf("expected sha256: and 64 hexadecimal digits, as `%s -o json` prints them", from)
				}
				return text, nil
			}, into)
		}
	}
	return keys{
		"id":    func(n *yaml.Node) { with(d, n, "id", nameText, &a.ID) },
		"by":    func(n *yaml.Node) { with(d, n, "by", nameText, &a.By) },
		"state": func(n *yaml.Node) { with(d, n, "state", choice(Proposed, Approved, Revoked), &a.State) },
		"at":    func(n *yaml.Node) { with(d, n, "at", instant(zone, false), &a.At) },
		"until": func(n *yaml.Node) { with(d, n, "until", instant(zone, true), &a.Until) },
		"revoked": func(n *yaml.Node) {
			with(d, n, "revoked", instant(zone, false), &a.RevokedAt)
		},
		"max_occurrences": func(n *yaml.Node) { with(d, n, "max_occurrences", count, &a.MaxOccurrences) },
		"freezes": func(n *yaml.Node) {
			a.Freezes = d.names(n, "freezes")
			d.later = append(d.later, func() { d.checkLifts(n, a) })
		},
		"window":  hash("window", "turnus windows lint", &a.Window),
		"change":  hash("change", "turnus plan", &a.Change),
		"targets": hash("targets", "turnus plan", &a.Targets),
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
