package host

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A plugin's Validate is asked in the process that its calls then use. One that hangs or dies there
// costs its bound, is named, and leaves no process. Red with the bound on the answer taken out:
// "hang" does not return.
func TestFaultP8APluginIsAskedAboutParams(t *testing.T) {
	raw := func(op string) json.RawMessage { return json.RawMessage(`{"op":"` + op + `"}`) }
	for _, tc := range []struct {
		name, want string
		ends       bool // the process
	}{
		{"hang", "plugin lab 1.0.0, job type lab.echo: Validate did not answer within 2s", true},
		{"exit", "plugin lab 1.0.0, job type lab.echo: Validate ended its process: exit status 3", true},
		{"error", "plugin lab 1.0.0, job type lab.echo: Validate failed: no rules today", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := open(t, &fleet{})
			got, err := b.Validate(t.Context(), "lab.echo", raw("bad"))
			want := []ParamProblem{{Pointer: "/op", Message: "bad op", Hint: "take another"}, {Message: "old", Warning: true}}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v, %v", got, err)
			}
			if again, err := b.Validate(t.Context(), "lab.echo", raw("good")); err != nil || len(again) > 0 {
				t.Errorf("%+v, %v", again, err)
			}
			process := b.processes(t, 1)[0]
			b.pool().timing.start = 2 * time.Second
			if _, err := b.Validate(t.Context(), "lab.echo", raw(tc.name)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
			if !tc.ends {
				b.processes(t, 1)
				return
			}
			<-process.child.exited
			b.processes(t, 0)
			if _, err := os.Stat(process.dir); !os.IsNotExist(err) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
	t.Run("does not start", func(t *testing.T) {
		b := open(t, &fleet{}, mode("quit"))
		if _, err := b.Validate(t.Context(), "lab.echo", raw("good")); err == nil || !strings.Contains(err.Error(), "plugin lab 1.0.0 did not start") {
			t.Errorf("%v", err)
		}
	})
}
