package forecast

import (
	"cmp"
	"slices"
)

// waited notes what a host waited for in the state that it leaves.
func (s *sim) waited(h int32, old state) {
	from := s.since[h]
	s.since[h] = s.now
	if old == running || s.now == from {
		return
	}
	host := &s.m.hosts[h]
	add := Hold{For: span(s.now - from)}
	switch old {
	case unreleased:
		if pause := min(s.lim.pause, s.now-from); pause > 0 {
			s.hold(h, Hold{Cause: ByPause, For: span(pause)})
			add.For -= span(pause)
		}
		add.Cause = ByWaves
	case deferred:
		add.Cause, add.Name = ByWindows, host.stages[s.stage[h]].set.Name
	case ready:
		add.Cause = s.lim.full()
	case suspendedHA:
		add.Cause, add.Name = ByHAGroup, s.m.names[host.ha].name
	case suspendedGroup:
		add.Cause, add.Name = ByGroup, s.m.names[host.group].name
	}
	if add.For > 0 {
		s.hold(h, add)
	}
}

// hold adds a wait to those of a host: one for each cause and name.
func (s *sim) hold(h int32, add Hold) {
	for i := range s.holds[h] {
		if have := &s.holds[h][i]; have.Cause == add.Cause && have.Name == add.Name {
			have.For += add.For
			return
		}
	}
	s.holds[h] = append(s.holds[h], add)
}

// worked notes when a host works; stages that follow each other without a wait are one span.
func (s *sim) worked(h int32, end int64) {
	list := s.runs[h]
	if n := len(list); n > 0 && list[n-1].To.Equal(instant(s.now)) {
		list[n-1].To = instant(end)
		return
	}
	s.runs[h] = append(list, Span{instant(s.now), instant(end)})
}

// describe writes what the traced sample showed.
func (s *sim) describe(out []HostResult) {
	for i := range out {
		slices.SortFunc(s.holds[i], compareHolds)
		out[i].Holds, out[i].Runs = s.holds[i], s.runs[i]
	}
}

// compareHolds puts the longest first.
func compareHolds(a, b Hold) int {
	return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Name, b.Name))
}
