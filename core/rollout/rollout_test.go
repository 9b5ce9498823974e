package rollout

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
)

func TestParseSize(t *testing.T) {
	good := map[string]Size{"1": {Count: 1}, "250": {Count: 250}, "5%": {Percent: 5}, "0.5%": {Percent: 0.5}, "100%": {Percent: 100}, "5 %": {Percent: 5}}
	for text, want := range good {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "0%", "101%", "NaN%", "Inf%", "%", "five", "1.5", "5%%", "99999999999999999999"} {
		if got, err := ParseSize(text); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %+v, %v, expected ErrInvalid", text, got, err)
		}
	}
}

func TestSizeOf(t *testing.T) {
	cases := []struct {
		size  string
		total int
		want  int
	}{
		{"5", 100, 5}, {"5", 3, 3}, {"5%", 100, 5}, {"5%", 101, 6}, {"1%", 10, 1}, {"7%", 100, 7}, {"100%", 7, 7},
		{"0.1%", 3000, 3}, {"33.3%", 3, 1}, {"5", 0, 0}, {"5%", 0, 0}, {"", 100, 0},
	}
	for _, c := range cases {
		var s Size
		if err := s.UnmarshalText([]byte(c.size)); err != nil {
			t.Fatal(err)
		}
		if got := s.Of(c.total); got != c.want {
			t.Errorf("%q of %d is %d, expected %d", c.size, c.total, got, c.want)
		}
		if text, _ := s.MarshalText(); string(text) != c.size {
			t.Errorf("%q came back as %q", c.size, text)
		}
	}
}

func sizes(t *testing.T, texts ...string) []Size {
	t.Helper()
	var out []Size
	for _, text := range texts {
		s, err := ParseSize(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func TestLimits(t *testing.T) {
	cases := []struct {
		waves []string
		total int
		want  []int
	}{
		{nil, 7, []int{7}},
		{[]string{"1", "5%", "100%"}, 200, []int{1, 10, 200}},
		{[]string{"1", "5%"}, 200, []int{1, 10, 200}},         // the last is implied
		{[]string{"1", "5%", "100%"}, 10, []int{1, 10}},       // 5 % adds no host
		{[]string{"10", "1", "50%"}, 100, []int{10, 50, 100}}, // never shrinks
		{[]string{"5", "5"}, 3, []int{3}},
		{[]string{"1"}, 0, nil},
	}
	for _, c := range cases {
		if got := Limits(sizes(t, c.waves...), c.total); !slices.Equal(got, c.want) {
			t.Errorf("%v over %d: %v, expected %v", c.waves, c.total, got, c.want)
		}
	}
}

func TestLimitsGrowToTheTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 10_000).Draw(t, "total")
		waves := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Size {
			if rapid.Bool().Draw(t, "count") {
				return Size{Count: rapid.IntRange(0, 12_000).Draw(t, "n")}
			}
			return Size{Percent: rapid.Float64Range(0, 100).Draw(t, "p")}
		}), 0, 8).Draw(t, "waves")
		limits := Limits(waves, total)
		last := 0
		for _, l := range limits {
			if l <= last {
				t.Fatalf("%v does not grow", limits)
			}
			last = l
		}
		if last != total {
			t.Fatalf("%v does not end at %d", limits, total)
		}
		for i := range total {
			k := Wave(limits, i)
			if i >= limits[k] || k > 0 && i < limits[k-1] {
				t.Fatalf("host %d is not in wave %d of %v", i, k, limits)
			}
		}
	})
}

// fleet makes hosts from words: "a" is a host alone, "a:g" in HA group g, "a:g*" its standby.
func fleet(words ...string) []core.Host {
	var out []core.Host
	for _, w := range words {
		h := core.Host{Name: w[:1]}
		if len(w) > 2 {
			h.HAGroup = w[2:3]
		}
		if w[len(w)-1] == '*' {
			h.Labels = map[string]string{RoleLabel: RoleStandby}
		}
		out = append(out, h)
	}
	return out
}

func names(hosts []core.Host) string {
	s := ""
	for _, h := range hosts {
		s += h.Name
	}
	return s
}

func TestOrder(t *testing.T) {
	cases := []struct {
		why    string
		hosts  []core.Host
		limits []int
		want   string
	}{
		{"no groups: as given", fleet("b", "a", "c"), []int{1, 3}, "bac"},
		{"second members go last", fleet("a:x", "b:x", "c", "d:y", "e:y"), []int{5}, "acdbe"},
		{"the standby is first", fleet("a:x", "b:x*", "c", "d:y", "e:y*"), []int{5}, "bcead"},
		{"waves keep members apart", fleet("a", "b", "c:x", "d:x"), []int{2, 4}, "acdb"},
		{"one wave: nothing to keep apart", fleet("a", "b", "c:x", "d:x"), []int{4}, "abcd"},
		{"the canary stays", fleet("a", "b:x", "c:x", "d", "e"), []int{1, 3, 5}, "abdec"},
	}
	for _, c := range cases {
		got := Order(c.hosts, c.limits)
		if names(got) != c.want {
			t.Errorf("%s: %s, expected %s", c.why, names(got), c.want)
		}
	}
}

func TestOrderKeepsPairsApartWhereAnyOrderCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := rapid.IntRange(0, 12).Draw(t, "pairs")
		singles := rapid.IntRange(0, 12).Draw(t, "singles")
		var hosts []core.Host
		for i := range pairs {
			role := rapid.IntRange(0, 2).Draw(t, "standby")
			for m := range 2 {
				h := core.Host{Name: fmt.Sprintf("p%d.%d", i, m), HAGroup: fmt.Sprint(i)}
				if m+1 == role {
					h.Labels = map[string]string{RoleLabel: RoleStandby}
				}
				hosts = append(hosts, h)
			}
		}
		for i := range singles {
			hosts = append(hosts, core.Host{Name: fmt.Sprintf("s%d", i)})
		}
		hosts = rapid.Permutation(hosts).Draw(t, "hosts")
		if len(hosts) == 0 {
			return
		}
		limits := Limits(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Size {
			return Size{Count: rapid.IntRange(1, len(hosts)).Draw(t, "n")}
		}), 0, 5).Draw(t, "waves"), len(hosts))
		got := Order(hosts, limits)

		checkSameHosts(t, hosts, got)
		checkStandbyFirst(t, got)
		// Pairs fit apart exactly when the waves have room for each pair twice (Gale, Ryser).
		room, from := 0, 0
		for _, l := range limits {
			room += min(l-from, pairs)
			from = l
		}
		if clash := together(got, limits); clash != "" && room >= 2*pairs {
			t.Fatalf("pair %s is in one wave of %v, although all fit apart: %v", clash, limits, hostNames(got))
		}
	})
}

func hostNames(hosts []core.Host) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Name)
	}
	return out
}

func checkSameHosts(t *rapid.T, want, got []core.Host) {
	a, b := hostNames(want), hostNames(got)
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		t.Fatalf("hosts %v became %v", a, b)
	}
}

func checkStandbyFirst(t *rapid.T, hosts []core.Host) {
	seen := map[string]bool{}
	for _, h := range hosts {
		if h.HAGroup == "" {
			continue
		}
		if seen[h.HAGroup] && h.Labels[RoleLabel] == RoleStandby {
			t.Fatalf("standby %s comes second: %v", h.Name, hostNames(hosts))
		}
		seen[h.HAGroup] = true
	}
}

// together finds an HA group with two members in one wave.
func together(hosts []core.Host, limits []int) string {
	seen := map[string]bool{}
	for i, h := range hosts {
		key := fmt.Sprint(h.HAGroup, "/", Wave(limits, i))
		if h.HAGroup != "" && seen[key] {
			return h.HAGroup
		}
		seen[key] = true
	}
	return ""
}

func TestOrderOfManyIsQuick(t *testing.T) {
	var hosts []core.Host
	for i := range 20_000 {
		hosts = append(hosts, core.Host{Name: fmt.Sprint(i), HAGroup: fmt.Sprint(i / 2)})
	}
	limits := Limits(sizes(t, "1", "5%", "100%"), len(hosts))
	start := time.Now()
	Order(hosts, limits)
	if took := time.Since(start); took > time.Minute {
		t.Errorf("20,000 hosts in pairs took %v", took)
	}
}

func TestGroupOf(t *testing.T) {
	h := core.Host{Name: "fw-1", Customer: "acme", Site: "main", Pool: "p", HAGroup: "fw", Labels: map[string]string{"rack": "r7"}}
	want := map[string]string{"ha_group": "fw", "site": "acme/main", "customer": "acme", "pool": "p", "label:rack": "r7", "label:none": ""}
	for key, group := range want {
		if err := CheckGroupKey(key); err != nil {
			t.Error(err)
		}
		if got := GroupOf(key, h); got != group {
			t.Errorf("%s: %q, expected %q", key, got, group)
		}
	}
	for _, key := range []string{"", "label:", "host", "sites"} {
		if err := CheckGroupKey(key); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if got := GroupOf("site", core.Host{Customer: "acme"}); got != "" {
		t.Errorf("a host without a site is in %q", got)
	}
}

func TestNext(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	limits := []int{1, 5, 20}
	cases := []struct {
		why   string
		pause Pause
		p     Progress
		want  Decision
	}{
		{"the wave runs", Pause{}, Progress{Released: 1}, Decision{Action: Wait}},
		{"it is done", Pause{}, Progress{Succeeded: 1, Released: 1, Finished: 1}, Decision{Action: Release, Wave: 1, Limit: 5}},
		{"the second is half done", Pause{}, Progress{Succeeded: 1, Released: 5, Finished: 4}, Decision{Action: Wait}},
		{"the second is done", Pause{}, Progress{Succeeded: 1, Released: 5, Finished: 5}, Decision{Action: Release, Wave: 2, Limit: 20}},
		{"all are released", Pause{}, Progress{Succeeded: 1, Released: 20, Finished: 20}, Decision{Action: Wait}},
		{"held", Pause{}, Progress{Succeeded: 1, Released: 1, Finished: 1, Held: true}, Decision{Action: Wait}},
		{"part of a wave was released, and failed", Pause{}, Progress{Released: 3, Finished: 3}, Decision{Action: Release, Wave: 1, Limit: 5}},
		{"not approved", Pause{Approve: true}, Progress{Succeeded: 1, Released: 1, Finished: 1}, Decision{Action: Ask, Wave: 1}},
		{"approved", Pause{Approve: true}, Progress{Succeeded: 1, Released: 1, Finished: 1, Approved: 1}, Decision{Action: Release, Wave: 1, Limit: 5}},
		{"approved is only the one before", Pause{Approve: true}, Progress{Succeeded: 1, Released: 5, Finished: 5, Approved: 1}, Decision{Action: Ask, Wave: 2}},
		{"pause continues", Pause{For: time.Hour}, Progress{Succeeded: 1, Released: 1, Finished: 1, Done: now.Add(-time.Minute)}, Decision{Action: Delay, Wave: 1, Until: now.Add(59 * time.Minute)}},
		{"pause was over before the queue was lost", Pause{For: time.Hour}, Progress{Succeeded: 1, Released: 1, Finished: 1, Reached: 5, Done: now}, Decision{Action: Release, Wave: 1, Limit: 5}},
		{"that wave had not been released", Pause{For: time.Hour}, Progress{Succeeded: 1, Released: 1, Finished: 1, Reached: 1, Done: now}, Decision{Action: Delay, Wave: 1, Until: now.Add(time.Hour)}},
		{"pause is over", Pause{For: time.Hour}, Progress{Succeeded: 1, Released: 1, Finished: 1, Done: now.Add(-time.Hour)}, Decision{Action: Release, Wave: 1, Limit: 5}},
	}
	for _, c := range cases {
		c.p.Now = now
		if got := Next(limits, Strategy{PauseBetween: c.pause}, c.p); got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.why, got, c.want)
		}
	}
}

// A wave of which no host succeeded stops the run, unless the playbook allows it.
func TestFaultW8FailedWaveStops(t *testing.T) {
	limits := []int{1, 5, 20}
	for _, c := range []struct {
		why  string
		s    Strategy
		p    Progress
		want Decision
	}{
		{"no host of the canary succeeded", Strategy{}, Progress{Released: 1, Finished: 1}, Decision{Action: Stop, Wave: 0}},
		{"nor of the second wave", Strategy{}, Progress{Released: 5, Finished: 5}, Decision{Action: Stop, Wave: 1}},
		{"one of the second wave did", Strategy{}, Progress{Released: 5, Finished: 5, Succeeded: 1}, Decision{Action: Release, Wave: 2, Limit: 20}},
		{"the last wave is followed by nothing", Strategy{}, Progress{Released: 20, Finished: 20}, Decision{Action: Wait}},
		{"it still runs", Strategy{}, Progress{Released: 5, Finished: 4}, Decision{Action: Wait}},
		{"held", Strategy{}, Progress{Released: 1, Finished: 1, Held: true}, Decision{Action: Wait}},
		{"nobody is asked to approve more", Strategy{PauseBetween: Pause{Approve: true}}, Progress{Released: 1, Finished: 1}, Decision{Action: Stop, Wave: 0}},
		{"the playbook says stop", Strategy{OnFailedWave: StopRun}, Progress{Released: 1, Finished: 1}, Decision{Action: Stop, Wave: 0}},
		{"the playbook says continue", Strategy{OnFailedWave: ContinueRun}, Progress{Released: 1, Finished: 1}, Decision{Action: Release, Wave: 1, Limit: 5}},
	} {
		if got := Next(limits, c.s, c.p); got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.why, got, c.want)
		}
	}
}
