package catalog

import (
	"testing"
	"time"
)

func TestNextRejection(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	bad := &Rejection{Revision: "c1", By: "bob", Since: now.Add(-time.Hour), Error: "p.yaml:3:5: unknown key"}
	record := func(server string, age time.Duration) *rejectedDoc {
		return &rejectedDoc{Rejection: *bad, Server: server, Seen: now.Add(-age)}
	}
	for _, c := range []struct {
		name string
		mine *Rejection
		was  *rejectedDoc
		want string // keep, remove, write
	}{
		{"all is well", nil, nil, "keep"},
		{"rejected", bad, nil, "write"},
		{"recorded by this server", bad, record("me", 10*time.Second), "keep"},
		{"recorded for a while", bad, record("me", rejectedRenew), "write"},
		{"another error", &Rejection{Revision: "c2", Error: "other"}, record("me", 0), "write"},
		{"corrected", nil, record("me", 0), "remove"},
		{"another server rejects it", nil, record("other", 10*time.Second), "keep"},
		{"another server has recorded it", bad, record("other", 10*time.Second), "keep"},
		{"the other server is gone", nil, record("other", rejectedStale), "remove"},
		{"the other server is gone, and it is still bad", bad, record("other", rejectedStale), "write"},
	} {
		got, did := nextRejection(c.mine, c.was, "me", now), "write"
		switch got {
		case c.was:
			did = "keep"
		case nil:
			did = "remove"
		}
		if did != c.want {
			t.Errorf("%s: %s, expected %s", c.name, did, c.want)
		}
		if did == "write" && (got.Server != "me" || !got.Seen.Equal(now) || got.Error != c.mine.Error) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
