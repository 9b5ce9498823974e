package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
)

func TestReplaceHost(t *testing.T) {
	for _, c := range [][3]string{
		{"fw-1", "dial fw-1:22: timeout", "dial HOST:22: timeout"},
		{"fw-1", "fw-1", "HOST"},
		{"fw-1", "fw-10 is not fw-1", "fw-10 is not HOST"},
		{"fw-1", "xfw-1 fw-1.acme", "xfw-1 HOST.acme"},
		{"a", "a: packages fail", "HOST: packages fail"},
		{"", "nothing", "nothing"},
	} {
		if got := core.ReplaceHost(c[0], c[1]); got != c[2] {
			t.Errorf("%q without %q is %q, expected %q", c[1], c[0], got, c[2])
		}
	}
}

func TestGeneralizeKeepsWhatMatters(t *testing.T) {
	for name, reason := range testparts.SameFailures() {
		first := core.Generalize("web1", reason("web1", 0))
		for i := range 300 {
			host := fmt.Sprintf("web%d", i+1)
			if got := core.Generalize(host, reason(host, i)); got != first {
				t.Errorf("%s: %q and %q", name, first, got)
				break
			}
		}
	}
	for _, two := range testparts.DifferentFailures() {
		if got := core.Generalize("a", two[0]); got == core.Generalize("b", two[1]) {
			t.Errorf("%q of both of %q", got, two)
		}
	}
	long := strings.Repeat("web1 ", 4000)
	if core.Generalize("web1", long) != long {
		t.Error("a long text has changed")
	}
}
