package pictures

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

func TestShares(t *testing.T) {
	t.Parallel()
	list := []api.Share{
		{Tenant: hostile, Running: 2, Due: 9, Fair: 5.0}, {Tenant: "more", Running: 8, Due: 9, Fair: 5.0}, {Tenant: "idle", Running: 2, Fair: 5.0}, {Tenant: "own", Due: 3},
	}
	markup := Shares(list).Markup
	if n := elements(t, markup); n["rect"] != 4 || n["line"] != 4 || n["path"] != 1 || n["script"] != 0 {
		t.Errorf("%v", n)
	}
	if !strings.Contains(markup, "8 of 5.0") {
		t.Error(markup)
	}
	if b := Shares(make([]api.Share, 1000)); strings.Count(b.Markup, "<rect") != mostShares {
		t.Errorf("height %d", b.Height)
	}
	elements(t, Shares(nil).Markup)
	elements(t, SharesDocument(list, time.Now()))
	SortShares(list)
	if list[0].Tenant != hostile {
		t.Errorf("%s comes first, expected the one with less than its share", list[0].Tenant)
	}
}
