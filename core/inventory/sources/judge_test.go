package sources_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/inventory/sources"
)

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("h%04d", i))
	}
	return all
}

func TestJudge(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	of := func(id string, hosts []string, after time.Duration) sources.Summary {
		return sources.Summary{ID: id, Fetched: at.Add(after), Hosts: hosts}
	}
	last := of("a", names(100), 0)
	others := slices.Clone(names(100))
	for i := range 6 {
		others[i] = fmt.Sprintf("a%04d", i)
	}
	slices.Sort(others)
	five := sources.Rules{Removed: 5}
	for name, c := range map[string]struct {
		last  *sources.Summary
		next  sources.Summary
		rules sources.Rules
		want  sources.Decision
		says  string
	}{
		"the first":                    {nil, of("a", names(1), 0), five, sources.Accept, ""},
		"the first is empty":           {nil, of("a", nil, 0), five, sources.Hold, "it is empty"},
		"the same":                     {&last, of("a", names(100), time.Minute), five, sources.Accept, ""},
		"the same empty one":           {&sources.Summary{ID: "e"}, of("e", nil, time.Minute), five, sources.Accept, ""},
		"more hosts":                   {&last, of("b", names(1000), time.Minute), five, sources.Accept, ""},
		"five percent fewer":           {&last, of("b", names(95), time.Minute), five, sources.Accept, ""},
		"six percent fewer":            {&last, of("b", names(94), time.Minute), five, sources.Hold, "it lacks 6 of 100 hosts (6.0 %, review is 5 %): h0094, h0095, h0096, h0097, h0098 and 1 more"},
		"six are others":               {&last, of("b", others, time.Minute), five, sources.Hold, "it lacks 6 of 100 hosts"},
		"none may go":                  {&last, of("b", names(99), time.Minute), sources.Rules{}, sources.Hold, "it lacks 1 of 100"},
		"all may go":                   {&last, of("b", names(1), time.Minute), sources.Rules{Removed: 100}, sources.Accept, ""},
		"all may go, and none is left": {&last, of("b", nil, time.Minute), sources.Rules{Removed: 100}, sources.Hold, "it is empty"},
		"an older one":                 {&last, of("b", names(100), -time.Second), five, sources.Reject, "before the one in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, why := sources.Judge(c.last, c.next, c.rules)
			if got != c.want || !strings.Contains(why, c.says) || c.says == "" && why != "" {
				t.Fatalf("got %s, %q, want %s, %q", got, why, c.want, c.says)
			}
		})
	}
}
