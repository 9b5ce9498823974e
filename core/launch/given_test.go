package launch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// launchedWith makes a launch with vars, of a playbook that has params and vars, and brings it back
// from its record.
func launchedWith(t *testing.T, vars map[string]any, o Options) *Launch {
	t.Helper()
	book := `playbook: test
targets: true
params:
  release: {type: string}
  port: {type: integer}
  db_password: {type: secret}
  api_token: {type: string}
vars: {note: x, deep: {}, db_passwd: x, long: x, many: [], hosts: {}, keys: {}, monkey: x, credentials: x}
` + command
	p, err := playbooks.Parse("test.yaml", []byte(book), playbooks.Options{Vars: vars})
	if err != nil {
		t.Fatal(err)
	}
	o.Vars = vars
	l, err := Prepare(p, fleet(3), o)
	if err != nil {
		t.Fatal(err)
	}
	queue, err := EncodeRun(l.Run)
	if err != nil {
		t.Fatal(err)
	}
	back, err := (&Restorer{}).Restore(l.Run.Payload, queue)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// The request of a launch is shown without values whose names mark a secret, and with the name of a
// secret that a param has. The controls are values with other names.
func TestGivenHidesSecrets(t *testing.T) {
	g := launchedWith(t, map[string]any{
		"release": "1.10", "port": "8080", "db_password": "shop.db", "api_token": "hunter2",
		"note": "hello", "deep": map[string]any{"list": []any{map[string]any{"PASSWORD": "hunter2"}}}, "db_passwd": "hunter2",
		"hosts": map[string]any{"adminPassword": "hunter2"}, "keys": map[string]any{"list": []any{map[string]any{"api-key": "hunter2"}}}, "monkey": "see", "credentials": "hunter2",
	}, Options{Tags: []string{"web"}, SkipTags: []string{"slow"}, MaxInFlight: 2}).Given()
	want := map[string]any{"release": "1.10", "port": 8080, "db_password": "shop.db"}
	if !reflect.DeepEqual(g.Params, want) || !reflect.DeepEqual(g.Vars, map[string]any{"note": "hello", "monkey": "see"}) {
		t.Errorf("params %v, vars %v", g.Params, g.Vars)
	}
	if left := []string{"params.api_token", "vars.credentials", "vars.db_passwd", "vars.deep", "vars.hosts", "vars.keys"}; !slices.Equal(g.LeftOut, left) {
		t.Errorf("left out are %v, expected %v", g.LeftOut, left)
	}
	if text := fmt.Sprintf("%+v", g); strings.Contains(text, "hunter2") {
		t.Error(text)
	}
	if !slices.Equal(g.Tags, []string{"web"}) || !slices.Equal(g.SkipTags, []string{"slow"}) || g.MaxInFlight != 2 {
		t.Errorf("%+v", g)
	}
}

// The request of a launch is kept and shown in bounded size, and names what it lacks. The control
// fits.
func TestGivenIsBounded(t *testing.T) {
	few := launchedWith(t, map[string]any{"long": strings.Repeat("x", maxValue-2)}, Options{Asked: snapshot.Asked{Limit: []string{"web", "!web1"}, Select: "true"}}).Given()
	if len(few.LeftOut) > 0 || !slices.Equal(few.Limit, []string{"web", "!web1"}) || few.Select != "true" || len(few.Vars) != 1 {
		t.Errorf("%+v", few)
	}
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("host-%04d.%s", i, strings.Repeat("x", 100)))
	}
	tags := slices.Repeat([]string{strings.Repeat("t", 900)}, 100)
	l := launchedWith(t, map[string]any{"long": strings.Repeat("x", maxValue-1), "many": names}, Options{Tags: tags, Asked: snapshot.Asked{Limit: names, Select: strings.Repeat("x", maxValue)}})
	if kept, _ := json.Marshal(l.Snapshot.Asked.Limit); len(kept) > maxLimit || len(kept) < maxLimit/2 {
		t.Errorf("the snapshot has %d bytes of the limit", len(kept))
	}
	g := l.Given()
	if left := []string{"limit", "select", "tags", "vars.long", "vars.many"}; !slices.Equal(g.LeftOut, left) {
		t.Errorf("left out are %v, expected %v", g.LeftOut, left)
	}
	if shown, _ := json.Marshal(g); len(shown) > maxGiven+1000 {
		t.Errorf("%d bytes are shown", len(shown))
	}
}

// A launch that was not asked for anything keeps nothing of it.
func TestNothingAsked(t *testing.T) {
	if l := launchedWith(t, nil, Options{Asked: snapshot.Asked{All: true}}); l.Snapshot.Asked != nil {
		t.Errorf("%+v", l.Snapshot.Asked)
	}
}
