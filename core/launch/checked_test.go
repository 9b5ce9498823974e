package launch

import (
	"reflect"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// A run carries which plugins its playbook was checked with, and where. Red with Checked left out
// of newSnapshot.
func TestFaultP5ASnapshotNamesThePluginsItWasCheckedWith(t *testing.T) {
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nsteps: [{uses: uptime.check}, {uses: other}]\n"), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkedOf := func(o Options) *snapshot.Checked {
		l, err := Prepare(p, []core.Host{{Name: "h"}}, o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := snapshot.Decode(l.Run.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return s.Checked
	}
	types := func(name string) (playbooks.Type, bool) {
		return playbooks.Type{Name: name, Plugin: "uptime 1.2.0"}, name == "uptime.check"
	}
	want := &snapshot.Checked{Place: "the server", Plugins: map[string]string{"uptime.check": "uptime 1.2.0"}}
	if got := checkedOf(Options{Types: types, Place: "the server"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := checkedOf(Options{}); got != nil {
		t.Errorf("without types it returns %+v", got)
	}
	if s, err := snapshot.Decode([]byte(`{"version":1,"run":"r"}`)); err != nil || s.Checked != nil {
		t.Errorf("a run of an older version: %+v, %v", s.Checked, err)
	}
}
