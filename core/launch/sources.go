package launch

import (
	"cmp"
	"slices"

	"github.com/turnus/turnus/core"
)

// uses returns the sources that the hosts of the launch come from, also those that on and
// hosts('…') give, by name.
func (l *Launch) uses(source func(host string) (core.SourceUse, bool)) (all []core.SourceUse) {
	if source == nil {
		return nil
	}
	counts := map[core.SourceUse]int{}
	count := func(host string, n int) {
		if use, ok := source(host); ok {
			counts[use] += n
		}
	}
	for i := range l.Hosts {
		count(l.Hosts[i].Name, 1)
	}
	for _, host := range l.Listed {
		count(host, 0)
	}
	for _, hosts := range l.Delegates {
		for host := range hosts {
			count(host, 0)
		}
	}
	for use, n := range counts {
		use.Hosts = n
		all = append(all, use)
	}
	slices.SortFunc(all, func(a, b core.SourceUse) int { return cmp.Compare(a.Source, b.Source) })
	return all
}
