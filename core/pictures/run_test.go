package pictures

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

func timeline() *api.Timeline {
	at := func(minutes int) time.Time {
		return time.Date(2026, 12, 5, 22, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
	}
	return &api.Timeline{
		Run: "r1", From: at(0), To: at(100), Now: at(40), Hosts: 10,
		Waves: []api.TimelineWave{
			{Wave: 1, Hosts: 2, Done: 2, From: at(1), To: at(10)}, {Wave: 2, Hosts: 4, Done: 2, From: at(12), To: at(60), Late: at(80)}, {Wave: 3, Hosts: 4},
		},
		Windows: []api.TimelineSet{{Set: `night <"&`, Hosts: 10, Windows: []api.TimelineSpan{{From: at(-60), To: at(70)}, {From: at(-90), To: at(-80)}}}},
		Done:    []api.TimelinePoint{{At: at(0)}, {At: at(10), Hosts: 2}, {At: at(39), Hosts: 4}},
		P50:     []api.TimelinePoint{{At: at(40), Hosts: 4}, {At: at(60), Hosts: 10}},
		P90:     []api.TimelinePoint{{At: at(40), Hosts: 4}, {At: at(80), Hosts: 10}},
	}
}

func shapes(t *testing.T, document string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(document)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					n[a.Value]++
				}
				if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("%s has %s", e.Name.Local, a.Name.Local)
				}
			}
		}
	}
}

// The picture has a lane for each wave and set, the band of the forecast, and texts escaped. A run
// without a forecast has no band.
func TestRunDocument(t *testing.T) {
	document := RunDocument(timeline(), "patch <script>")
	got := shapes(t, document)
	for class, want := range map[string]int{"band": 2, "p50": 2, "done": 2, "wave": 3, "ahead": 2, "open": 2, "now": 1} { // with the legend
		if got[class] != want {
			t.Errorf("%d of %s, expected %d", got[class], class, want)
		}
	}
	for _, part := range []string{"4 of 10 hosts done", "2026-12-05 23:00 UTC (P50)", "23:20 UTC (P90)", "wave 2: 2 of 4 done", "night &lt;&#34;&amp;", "patch &lt;script&gt;"} {
		if !strings.Contains(document, part) {
			t.Errorf("no %q in %s", part, document)
		}
	}
	kept := timeline()
	kept.Expected = &api.Expectation{FinishP50: kept.P50[1].At, FinishP90: kept.P90[1].At, P50: kept.P50, P90: kept.P90}
	document = RunDocument(kept, "x")
	if got := shapes(t, document); got["launch"] != 2 || !strings.Contains(document, "at the launch the end was expected at 2026-12-05 23:00 UTC (P50)") {
		t.Errorf("a kept forecast: %v: %s", got, document)
	}
	over := timeline()
	over.P50, over.P90 = nil, nil
	if got := shapes(t, RunDocument(over, "x")); got["band"] != 1 || got["p50"] != 1 {
		t.Errorf("a band without a forecast: %v", got)
	}
	shapes(t, RunDocument(&api.Timeline{}, "nothing"))
}

// The picture of many waves is bounded.
func TestRunDocumentIsBounded(t *testing.T) {
	many := timeline()
	for i := range 1000 {
		many.Waves = append(many.Waves, api.TimelineWave{Wave: i, Hosts: 1})
	}
	if n := len(RunDocument(many, "x")); n > 40_000 {
		t.Errorf("%d bytes", n)
	}
}

// The picture of a wave has a lane for each of its hosts, and nothing of the rest of the run.
func TestWaveDocument(t *testing.T) {
	line := timeline()
	at := line.From
	line.OfWave = &api.WaveHosts{Wave: 2, Left: 7, Hosts: []api.TimelineHost{
		{Host: "unforeseen", State: core.Leased, From: at.Add(25 * time.Minute)},
		{Host: "slow", State: core.Leased, From: at.Add(30 * time.Minute), To: at.Add(50 * time.Minute), Late: at.Add(time.Hour)},
		{Host: `web <"&`, Outcome: core.Failed, From: at.Add(12 * time.Minute), To: at.Add(20 * time.Minute)},
		{Host: "db-with-a-name-that-is-long", Outcome: core.Unreachable, From: at.Add(12 * time.Minute), To: at.Add(13 * time.Minute)},
		{Host: "good", Outcome: core.Changed, From: at.Add(12 * time.Minute), To: at.Add(14 * time.Minute)}, {Host: "never", Outcome: core.Cancelled},
	}}
	document := RunDocument(line, "patch")
	got := shapes(t, document)
	for class, want := range map[string]int{"wave": 2, "bad": 3, "ahead": 2, "open": 3, "band": 0, "done": 0, "now": 1} { // with the legend
		if got[class] != want {
			t.Errorf("%d of %s, expected %d", got[class], class, want)
		}
	}
	for _, part := range []string{"patch, wave 2", "6 hosts of wave 2, those without an outcome first (2)", "slow: leased", "slow: at work since 2026-12-05 22:30 UTC, expected to 2026-12-05 22:50 UTC (P50)", "unforeseen: at work since 2026-12-05 22:25 UTC</title>", "at work since</text>", "web &lt;&#34;&amp;: failed", "db-with-a-nam…: unreachable", "never: cancelled", "7 more hosts", "22:50 UTC (P50)", "23:00 UTC (P90)"} {
		if !strings.Contains(document, part) {
			t.Errorf("no %q in %s", part, document)
		}
	}
	shapes(t, RunDocument(&api.Timeline{OfWave: &api.WaveHosts{Wave: 1}}, "nothing"))
}
