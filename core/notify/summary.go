package notify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// maxRead is how many jobs of one outcome are read for a summary; the counts are of all.
const maxRead = 5000

// hostWord stands for the host's own name in a reason, so that the same reason of many hosts is
// one.
const hostWord = "HOST"

// bad are outcomes that a summary reports, the worst first.
func bad() []core.Outcome {
	return []core.Outcome{core.Lost, core.Failed, core.RolledBack, core.Unreachable, core.Cancelled}
}

// endedBadly reports whether some job ended neither well nor as somebody wanted.
func endedBadly(r *ledger.Run) bool {
	for o, n := range r.Outcomes {
		if n > 0 && !o.Good() && (r.Phase != ledger.PhaseCancelled || o.CountsAsFailure()) {
			return true
		}
	}
	return false
}

// missedWindowsOnly reports whether every host that did not succeed missed its window.
func (s *Service) missedWindowsOnly(ctx context.Context, r *ledger.Run) (bool, error) {
	for o, n := range r.Outcomes {
		if n > 0 && !o.Good() && o != core.Cancelled {
			return false, nil
		}
	}
	list := func(ctx context.Context, p ledger.Page) ([]ledger.Job, string, error) {
		return s.cfg.Ledger.Jobs(ctx, ledger.AllTenants(), r.ID, ledger.JobFilter{Outcome: core.Cancelled}, p)
	}
	for j, err := range ledger.Each(ctx, ledger.MaxPage, list) {
		if err != nil || j.ReasonCode != core.NeedsReapproval {
			return false, err
		}
	}
	return true, nil
}

// summary groups the hosts of a run that did not succeed, the largest groups first, and returns how
// many more there are.
func (s *Service) summary(ctx context.Context, run *ledger.Run) (groups []Group, more string, err error) {
	type key struct{ outcome, reason string }
	found := map[key]*Group{}
	own := map[key]string{}
	all := 0
	for _, outcome := range bad() {
		all += run.Outcomes[outcome]
		page := ledger.Page{Limit: ledger.MaxPage}
		for n := 0; run.Outcomes[outcome] > 0 && n < maxRead; {
			list, next, err := s.cfg.Ledger.Jobs(ctx, ledger.AllTenants(), run.ID, ledger.JobFilter{Outcome: outcome}, page)
			if err != nil {
				return nil, "", err
			}
			for i := range list {
				host, said := line(list[i].Host, maxHost), firstLine(list[i].Reason)
				k := key{string(outcome), withoutHost(said, list[i].Host)}
				g := found[k]
				if g == nil {
					g = &Group{Outcome: k.outcome, Reason: k.reason}
					found[k], own[k] = g, said
				}
				if g.Count++; len(g.Hosts) < maxNamed {
					g.Hosts = append(g.Hosts, host)
				}
			}
			n += len(list)
			if next == "" {
				break
			}
			page.Cursor = next
		}
	}
	for k, g := range found {
		if g.Count == 1 {
			g.Reason = own[k]
		}
		g.Outcome = strings.ReplaceAll(g.Outcome, "_", " ")
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Reason, b.Reason))
	})
	reported := 0
	shown := groups[:min(len(groups), maxGroups)]
	for _, g := range shown {
		reported += g.Count
	}
	if reported < all {
		more = fmt.Sprintf("and %s more, for other reasons", hosts(all-reported))
	}
	return shown, more, nil
}

// firstLine is the part of a reason that is sent: the rest may be output.
func firstLine(reason string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(reason), "\n")
	return line(first, maxReason)
}

// withoutHost puts a word in the place of the host's own name, where that is a word of its own.
func withoutHost(text, host string) string {
	if host == "" {
		return text
	}
	var b strings.Builder
	for {
		i := strings.Index(text, host)
		if i < 0 {
			return b.String() + text
		}
		end := i + len(host)
		if (i == 0 || !nameByte(text[i-1])) && (end == len(text) || !nameByte(text[end])) {
			b.WriteString(text[:i] + hostWord)
		} else {
			b.WriteString(text[:end])
		}
		text = text[end:]
	}
}

func nameByte(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
