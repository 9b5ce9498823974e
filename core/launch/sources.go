package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// uses returns the sources that the hosts of the launch come from, also those that on and
// hosts('…') give, by name.
func (l *Launch) uses(source func(host string) (core.SourceUse, bool)) (all []core.SourceUse) {
	if source == nil {
		return nil
	}
	counts := useCounts{}
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
	return counts.list()
}

// useCounts is how many hosts each source gave.
type useCounts map[core.SourceUse]int

// list returns them by the name of the source.
func (c useCounts) list() (all []core.SourceUse) {
	for use, n := range c {
		use.Hosts = n
		all = append(all, use)
	}
	slices.SortFunc(all, func(a, b core.SourceUse) int { return cmp.Compare(a.Source, b.Source) })
	return all
}

// ofSources returns how many of hosts each source gave: " (28 of source nb)"; "" if none gave any.
func ofSources(hosts []core.Host, source func(host string) (core.SourceUse, bool)) string {
	if source == nil {
		return ""
	}
	counts := useCounts{}
	for i := range hosts {
		if use, ok := source(hosts[i].Name); ok {
			counts[use]++
		}
	}
	parts := core.Map(counts.list(), func(use core.SourceUse) string { return fmt.Sprintf("%d of source %s", use.Hosts, use.Source) })
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
