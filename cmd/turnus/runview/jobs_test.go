package runview

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// The jobs that a recap names are those that did not succeed and those that were rescued, also on a
// page behind an empty one. Controls: a run without a host that succeeded has no rescued one.
func TestRecapsNameRescuedHosts(t *testing.T) {
	jobs := map[string][]client.List[api.Job]{
		"outcome=failed":      {{Items: []api.Job{{Host: "web1", Outcome: core.Failed}}}},
		"reason_code=rescued": {{Next: "1"}, {Items: []api.Job{{Host: "web2", Outcome: core.Changed, ReasonCode: core.Rescued}}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		page := len(q.Get("cursor"))
		q.Del("cursor")
		q.Del("limit")
		if len(jobs[q.Encode()]) <= page {
			t.Errorf("asked for %s", r.URL)
			return
		}
		_ = json.NewEncoder(w).Encode(jobs[q.Encode()][page])
	}))
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		outcomes map[core.Outcome]int
		want     []string
	}{
		{map[core.Outcome]int{core.Failed: 1}, []string{"web1"}},
		{map[core.Outcome]int{core.Failed: 1, core.Changed: 3}, []string{"web1", "web2"}},
		{map[core.Outcome]int{core.Changed: 3}, []string{"web2"}},
	} {
		list, err := JobsOf(t.Context(), c, api.Run{ID: "r1", Outcomes: tc.outcomes}, true)
		if got := core.Map(list, func(j api.Job) string { return j.Host }); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v %v, expected %v", tc.outcomes, got, err, tc.want)
		}
	}
}
