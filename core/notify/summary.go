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
	type group struct {
		Group
		own  string // reason of the first host, as it is
		like string // the same with HOST for its name; "" where those of others differ
	}
	found := map[key]*group{}
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
				host := list[i].Host
				said, _, _ := strings.Cut(strings.TrimSpace(list[i].Reason), "\n")
				like := firstLine(core.ReplaceHost(host, said))
				k := key{string(outcome), firstLine(core.Generalize(host, said))}
				g := found[k]
				if g == nil {
					g = &group{Group{Outcome: k.outcome, Reason: k.reason}, firstLine(said), like}
					found[k] = g
				} else if like != g.like {
					g.like = ""
				}
				if g.Count++; len(g.Hosts) < maxNamed {
					g.Hosts = append(g.Hosts, line(host, maxHost))
				}
			}
			n += len(list)
			if next == "" {
				break
			}
			page.Cursor = next
		}
	}
	for _, g := range found {
		switch {
		case g.Count == 1:
			g.Reason = g.own
		case g.like != "":
			g.Reason = g.like
		}
		g.Outcome = strings.ReplaceAll(g.Outcome, "_", " ")
		groups = append(groups, g.Group)
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
