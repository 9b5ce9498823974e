//go:build linux && labs

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// The benchmarks that docs/benchmarks.md names start and finish, on loads too small to measure
// speed.
func TestLabBenchmarksFinish(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		args []string
		want map[string]float64 // of the JSON document, by path
	}{
		{"schedules", []string{"--schedules", "1000", "--due", "100", "--servers", "2"}, map[string]float64{"started.hosts": 100, "started.again": 0, "due.confirmed_once": 100}},
		{"api", []string{"--jobs", "3000", "--during", "1s"}, map[string]float64{"jobs": 3000, "create_bulk.not_answered": 0, "create_one_host.not_answered": 0}},
		{"queue", []string{"--memory", "--jobs", "2000", "--spread", "1s"}, nil},
		{"fanout", []string{"--hosts", "20", "--rounds", "1"}, map[string]float64{"hosts": 20, "wrong_host": 0, "goroutines_left": 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := &lab{t: t, dir: t.TempDir()}
			p := l.start(append([]string{"admin", "bench", row.name, "-o", "json"}, row.args...)...)
			<-p.exited // a hang ends with the time limit of all tests
			p.wants(0)
			var doc map[string]any
			if err := json.Unmarshal([]byte(p.out.String()), &doc); err != nil {
				t.Fatalf("%v: %s", err, p.out)
			}
			for path, want := range row.want {
				if got := figure(doc, path); got != want {
					t.Errorf("%s is %v, expected %v", path, got, want)
				}
			}
		})
	}
}

// figure returns the value of a JSON document at a path of names and dots.
func figure(doc map[string]any, path string) any {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		doc, _ = doc[name].(map[string]any)
	}
	return doc[names[len(names)-1]]
}
