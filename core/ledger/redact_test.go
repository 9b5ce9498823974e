package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

func TestRedactHidesPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:/var/lib/turnus/ledger.db":           "sqlite:/var/lib/turnus/ledger.db",
		"postgres://turnus@db/ops":                   "postgres://turnus@db/ops",
		"postgres://turnus:secret@db:5432/ops":       "postgres://turnus:***@db:5432/ops",
		"postgres://turnus:se@cr/et@db/ops":          "postgres://turnus:***@db/ops",
		"postgres://turnus:se?cret@db/ops?x=1":       "postgres://turnus:***@db/ops",
		"postgres://db/ops?user=a&password=secret":   "postgres://db/ops",
		"postgres://db/ops?user=a&password=sec@ret":  "postgres://db:***@ret",
		"host=db user=turnus password=secret":        "***",
		"postgres:///ops?host=/run/pg&password=oops": "postgres:///ops",
	} {
		if got := redact(url); got != want {
			t.Errorf("%s: %s, expected %s", url, got, want)
		}
	}
}

func TestCheckURLRefusesWhatOpenWould(t *testing.T) {
	for url, good := range map[string]bool{
		"sqlite:ledger.db": true, "postgres://turnus@127.0.0.1/ops": true, "postgres://turnus@db/ops": true,
		"postgres://turnus:secret@db/ops?sslmode=disable": false, "mysql://db/ops": false, "host=db password=secret": false, "ledger.db": false,
	} {
		err := CheckURL(url)
		if (err == nil) != good || !good && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}
