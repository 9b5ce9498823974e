package queue

import (
	"fmt"
	"testing"
)

func TestFairShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		capacity int
		tenants  map[string]TenantLoad
		want     string
	}{
		{"nobody", 10, nil, "map[]"},
		{"no worker", 0, map[string]TenantLoad{"a": {Due: 5}}, "map[a:0]"},
		{"one that wants all", 10, map[string]TenantLoad{"a": {Leased: 4, Due: 50}}, "map[a:10]"},
		{"one that wants less", 10, map[string]TenantLoad{"a": {Leased: 1, Due: 2}}, "map[a:3]"},
		{"two that want all", 10, map[string]TenantLoad{"a": {Leased: 9, Due: 50}, "b": {Due: 50}}, "map[a:5 b:5]"},
		{"by weight", 12, map[string]TenantLoad{"a": {Due: 50, Weight: 3}, "b": {Due: 50, Weight: 1}}, "map[a:9 b:3]"},
		{"what one leaves goes to the others", 12, map[string]TenantLoad{"a": {Due: 2}, "b": {Due: 50}, "c": {Leased: 50}}, "map[a:2 b:5 c:5]"},
		{"waiting for a window is no demand", 12, map[string]TenantLoad{"a": {Waiting: 100}, "b": {Due: 50}}, "map[a:0 b:12]"},
	} {
		l := Load{ByTenant: c.tenants}
		if got := fmt.Sprint(l.FairShares(c.capacity)); got != c.want {
			t.Errorf("%s: %s, expected %s", c.name, got, c.want)
		}
	}
}

func TestBefore(t *testing.T) {
	t.Parallel()
	l := Load{ByTenant: map[string]TenantLoad{
		"own": {Leased: 4, Weight: 2}, "less": {Leased: 1, Weight: 1, Hungry: true}, "same": {Leased: 2, Weight: 1, Hungry: true}, "more": {Leased: 9, Weight: 1, Hungry: true}, "sated": {Weight: 1},
	}}
	if got := l.Before("own"); got != 1 {
		t.Errorf("%d tenants are before it, expected 1", got)
	}
	if got := l.Before("new"); got != 0 {
		t.Errorf("%d tenants are before one that has nothing", got)
	}
}
