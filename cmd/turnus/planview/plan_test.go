package planview

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// viewOf is a plan of hosts with these names and customers, two hours of work each, in a nightly
// window of a set.
func viewOf(t *testing.T, hosts ...[2]string) *View {
	t.Helper()
	defs, err := windows.Parse(windows.Document{File: "w.yaml", Data: []byte(`window_sets:
  night: {timezone: Europe/Berlin, allow: [{id: n, rrule: FREQ=DAILY, from: "22:00", to: "+1d 02:00"}], deny: [{use: freeze/f}]}
freezes:
  f: {timezone: Europe/Berlin, from: "2026-12-01T12:00", to: "2026-12-03"}
`)})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	set := defs.Compile("night", windows.Ahead(at, 30))
	work := &forecast.Work{Stages: []forecast.Stage{{Windowed: true, Windows: set, Need: 3 * time.Hour, Steps: []forecast.Step{{Took: forecast.Observed([]time.Duration{2 * time.Hour})}}}}}
	d := &View{at: at, workers: 1, concurrency: 256, result: &launch.Estimate{}, launch: &launch.Launch{Playbook: &playbooks.Playbook{Name: "<p> & \x01"}, Limits: []int{len(hosts)}}}
	in := forecast.Input{At: at, Concurrency: 2, Seed: 1, Samples: 10}
	for _, h := range hosts {
		d.launch.Hosts = append(d.launch.Hosts, core.Host{Name: h[0], Customer: h[1]})
		d.launch.Run.Targets = append(d.launch.Run.Targets, queue.Target{Host: h[0]})
		d.result.Windows = append(d.result.Windows, launch.HostWindow{Set: set, Need: 3 * time.Hour})
		in.Hosts = append(in.Hosts, forecast.Host{Name: h[0], Work: work})
	}
	if d.result.Result, err = forecast.Make(in); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPictureIsValidWhateverNamesSay(t *testing.T) {
	d := viewOf(t, [2]string{"a", `</text><script>alert("1")</script>`}, [2]string{"b", "\x00\x1b[31m\xff"}, [2]string{"c", strings.Repeat("long ", 40)})
	text := d.svg()
	if strings.Contains(text, "<script") || !utf8.ValidString(text) {
		t.Error("a name becomes markup")
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	elements := map[string]int{}
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
			for _, attr := range e.Attr {
				if strings.Contains(attr.Value, "http") && attr.Name.Local != "xmlns" || strings.HasPrefix(attr.Name.Local, "on") {
					t.Errorf("%s loads or runs something: %s", e.Name.Local, attr.Value)
				}
			}
		}
	}
	if elements["svg"] != 1 || elements["desc"] != 1 || elements["title"] < 4 || elements["rect"] < 10 {
		t.Errorf("elements %v", elements)
	}
}

func TestChartShowsWindowsFreezesAndLoad(t *testing.T) {
	d := viewOf(t, [2]string{"a", "acme"}, [2]string{"b", "acme"}, [2]string{"c", "acme"})
	const columns = 200
	c := d.chart(10, columns)
	if len(c.rows) != 1 || c.rows[0].hosts != 3 {
		t.Fatalf("rows %+v", c.rows)
	}
	// The freeze is over at 3 Dec 00:00, and the window of 2 Dec is clipped to 00:00 to 02:00: too
	// short. So two hosts work on 3 Dec from 22:00 on, and the third, which would need until 03:00,
	// the night after.
	local := func(day, hour int) time.Time { return time.Date(2026, 12, day, hour, 0, 0, 0, c.zone) }
	at := func(t time.Time) int { return int(c.place(t, columns)) }
	g := glyphsFor(false)
	a := console.New(nil, io.Discard, io.Discard)
	line := chartLine(a, c, c.rows[0], columns, g)
	for _, want := range []struct {
		why  string
		at   time.Time
		mark string
	}{
		{"before the freeze", local(1, 11), g.closed},
		{"in the freeze", local(2, 12), g.denied},
		{"a window in it", local(1, 23), g.denied},
		{"what is left of a window", local(3, 1), g.open},
		{"between windows", local(3, 12), g.closed},
		{"two at work", local(3, 23), g.load[7]},
		{"the window continues", local(4, 1), g.open},
		{"one at work", local(4, 23), g.load[3]},
	} {
		if got := line[at(want.at) : at(want.at)+1]; got != want.mark {
			t.Errorf("%s, %s: %q, expected %q in\n%s", want.why, want.at, got, want.mark, line)
		}
	}
	if c.peak != 2 || len(line) != columns {
		t.Errorf("peak %v, %d columns", c.peak, len(line))
	}
	sum := 0.0
	for _, load := range c.load(c.rows[0], columns) {
		sum += load
	}
	if hours := sum / columns * c.to.Sub(c.from).Hours(); hours < 5.99 || hours > 6.01 {
		t.Errorf("the load is %v hours of work, not 6", hours)
	}
}

func TestChartIsBounded(t *testing.T) {
	var hosts [][2]string
	for i := range 40 {
		hosts = append(hosts, [2]string{string(rune('a'+i%26)) + string(rune('a'+i/26)), string(rune('a' + i))})
	}
	c := viewOf(t, hosts...).chart(7, 50)
	if len(c.rows) != 7 || c.more != 33 {
		t.Errorf("%d rows and %d more", len(c.rows), c.more)
	}
	for _, most := range []int{2, 5, 10} {
		if n := len(c.ticks(most)); n > most+1 || n == 0 {
			t.Errorf("%d ticks, expected at most %d", n, most)
		}
	}
}

// jsonKeys are the keys of a document's type.
func jsonKeys(t reflect.Type) []string {
	var keys []string
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			keys = append(append(keys, name), jsonKeys(f.Type)...)
		}
	}
	return keys
}

func TestForecastDocumentIsDocumented(t *testing.T) {
	_, text, _ := strings.Cut(page(t, "docs/output.md"), "## `turnus plan`")
	text, _, _ = strings.Cut(text, "\n## ")
	keys := jsonKeys(reflect.TypeFor[forecastDoc]())
	if len(keys) < 40 {
		t.Fatalf("only %v", keys)
	}
	for _, key := range keys {
		if !strings.Contains(text, "`"+key+"`") {
			t.Errorf("docs/output.md does not describe %s", key)
		}
	}
}

func TestRough(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Microsecond: "2ms", 61400 * time.Millisecond: "1m1s", 23*time.Minute + 31*time.Second: "24m",
		50*time.Hour + 20*time.Minute: "2d2h", -time.Hour: "0s",
	} {
		if got := rough(d); got != want {
			t.Errorf("%s is %q, expected %q", d, got, want)
		}
	}
}

// The end in the headline and the lines below it are of the same hosts.
func TestFaultW14ForecastReportsOneEnd(t *testing.T) {
	end := time.Date(2026, 12, 4, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why    string
		result forecast.Result
		want   []string
	}{
		{"all are done", forecast.Result{Binding: forecast.Constraint{Cause: forecast.ByConcurrency, Gain: 3 * time.Hour}},
			[]string{" done at Fri 2026-12-04 ", "concurrency of the workers; without that limit 3h earlier\n"}},
		{"one never is", forecast.Result{Unfinished: 1, Binding: forecast.Constraint{Cause: forecast.ByConcurrency, Hosts: 1}},
			[]string{" 2 of 3 hosts done at Fri 2026-12-04 ", "concurrency of the workers; without that limit, done: 1 host more\n", "not done: about 1.0 hosts"}},
		{"one is impossible", forecast.Result{Hosts: []forecast.HostResult{{}, {Never: "closed"}, {}}, Binding: forecast.Constraint{Cause: forecast.ByWork}},
			[]string{" 2 of 3 hosts done at Fri 2026-12-04 ", "the work itself\n"}},
	} {
		d := viewOf(t, [2]string{"a"}, [2]string{"b"}, [2]string{"c"})
		if c.result.Hosts == nil {
			c.result.Hosts = d.result.Hosts
		}
		c.result.FinishP50, c.result.FinishP90 = end, end
		d.result.Result = &c.result
		var out bytes.Buffer
		writeForecast(console.New(nil, &out, io.Discard), d)
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %s\nexpected %q", c.why, out.String(), want)
			}
		}
		if !strings.Contains(d.sentence(), strings.TrimSuffix(c.want[0], " at Fri 2026-12-04 ")+" Fri 2026-12-04") {
			t.Errorf("%s: the picture has %s", c.why, d.sentence())
		}
	}
}

func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
