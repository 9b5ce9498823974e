package launch

import (
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// withFacts returns the host with its facts on record and their age at the launch; without any
// where they are not fresh enough.
func (o *Options) withFacts(p *playbooks.Playbook, h core.Host) core.Host {
	h.Facts = nil
	if p.FactsAge == 0 || o.Facts == nil {
		return h
	}
	if facts, ok := o.Facts(h); ok && facts.Fresh(o.Now, p.FactsAge) {
		h.Facts, h.FactsAge = facts.Values, o.Now.Sub(facts.At)
	}
	return h
}

func withoutFacts(p *playbooks.Playbook, n int) string {
	return fmt.Sprintf("%s without facts younger than %s", core.Plural(n, "host"), windows.FormatDuration(p.FactsAge))
}

// NoFactsError is of a launch that selects no host, because facts are missing that targets read.
type NoFactsError struct {
	Playbook *playbooks.Playbook
	Total    int
	Hosts    []string // without facts
}

func (e *NoFactsError) Error() string {
	return fmt.Sprintf("playbook %s: targets %s selects none of %d hosts, and leaves out %s\n%s",
		e.Playbook.Name, quoteTargets(e.Playbook), e.Total, withoutFacts(e.Playbook, len(e.Hosts)), hintGather)
}

// Is makes errors.Is(err, core.ErrNotFound) hold.
func (e *NoFactsError) Is(target error) bool { return target == core.ErrNotFound }

const hintGather = "hint: turnus run a playbook with the step {uses: facts} on them, or any playbook whose steps read host.facts: that gathers them (docs/facts.md)"

// factsLeftOut returns a message that hosts are left out because they have no facts, and what to
// do.
func (l *Launch) factsLeftOut() string {
	return fmt.Sprintf("%s: %s left out: %s\n%s", l.Playbook.Name, withoutFacts(l.Playbook, len(l.WithoutFacts)), core.Few(l.WithoutFacts, 3), hintGather)
}
