package host

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A plugin's Validate is asked, in one process; one that hangs or dies there costs its bound once,
// is named, and leaves no process. Red with the bound on the answer taken out: "hang" does not
// return.
func TestFaultP8APluginIsAskedAboutParams(t *testing.T) {
	raw := func(op string) json.RawMessage { return json.RawMessage(`{"op":"` + op + `"}`) }
	for _, tc := range []struct{ name, want string }{
		{"hang", "plugin lab 1.0.0, job type lab.echo: Validate did not answer within 2s"},
		{"exit", "plugin lab 1.0.0, job type lab.echo: Validate ended its process: exit status 3"},
		{"error", "plugin lab 1.0.0, job type lab.echo: Validate failed: no rules today"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := open(t, &fleet{})
			v := b.Validator()
			got, err := v.Validate(t.Context(), "lab.echo", raw("bad"))
			want := []ParamProblem{{Pointer: "/op", Message: "bad op", Hint: "take another"}, {Message: "old", Warning: true}}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v, %v", got, err)
			}
			process := v.asked["lab"]
			if again, err := v.Validate(t.Context(), "lab.echo", raw("good")); err != nil || len(again) > 0 || v.asked["lab"] != process {
				t.Errorf("%+v, %v", again, err)
			}
			v.within = 2 * time.Second
			if _, err := v.Validate(t.Context(), "lab.echo", raw(tc.name)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
			if !process.dead() {
				t.Error("its process is left")
			}
			if got, err := v.Validate(t.Context(), "lab.echo", raw(tc.name)); got != nil || err != nil {
				t.Errorf("it was asked again: %v, %v", got, err)
			}
			if err := v.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(process.dir); !os.IsNotExist(err) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
	t.Run("does not start", func(t *testing.T) {
		v := open(t, &fleet{}, mode("quit")).Validator()
		defer v.Close()
		if _, err := v.Validate(t.Context(), "lab.echo", raw("good")); err == nil || !strings.Contains(err.Error(), "plugin lab 1.0.0 did not start") {
			t.Errorf("%v", err)
		}
	})
}
