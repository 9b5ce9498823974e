package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Details of a run come by index, of the wanted jobs only; an error of the reader ends it.
func testDetails(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r", "acme", 100))
	accept(t, l, newRun("other", "acme", 2))
	record(t, l, "other", ledger.Outcome{Index: 0, Outcome: core.Changed, Attempt: 1, Detail: []byte("of another run")})
	var all []ledger.Outcome
	for i := range 90 {
		o := ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 2, Detail: fmt.Appendf(nil, "detail %d", i)}
		if i == 3 {
			o.Detail = nil
		}
		all = append(all, o)
	}
	record(t, l, "r", all...)
	run, err := l.Run(t.Context(), ledger.AllTenants(), "r")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	read := func(index int, detail []byte) error {
		got += fmt.Sprintf("%d=%s ", index, detail)
		return nil
	}
	if err := l.Details(t.Context(), &run, []int{80, 95, 3, 0, 2}, read); err != nil {
		t.Fatal(err)
	}
	if want := "0=detail 0 2=detail 2 80=detail 80 "; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	full := errors.New("full")
	if err := l.Details(t.Context(), &run, []int{1}, func(int, []byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("%v, expected %v", err, full)
	}
}
