package ledger

import "testing"

func TestRedactHidesPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:/var/lib/turnus/ledger.db":           "sqlite:/var/lib/turnus/ledger.db",
		"postgres://turnus@db/ops":                   "postgres://turnus@db/ops",
		"postgres://turnus:secret@db:5432/ops":       "postgres://turnus:***@db:5432/ops",
		"postgres://turnus:se@cr/et@db/ops":          "postgres://turnus:***@db/ops",
		"postgres://turnus:se?cret@db/ops?x=1":       "postgres://turnus:***@db/ops",
		"postgres://db/ops?user=a&password=secret":   "postgres://db/ops",
		"postgres://db/ops?user=a&password=sec@ret":  "postgres://db:***@ret",
		"postgres:///ops?host=/run/pg&password=oops": "postgres:///ops",
	} {
		if got := redact(url); got != want {
			t.Errorf("%s: %s, expected %s", url, got, want)
		}
	}
}
