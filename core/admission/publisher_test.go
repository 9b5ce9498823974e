package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/windows"
)

const name = "windows/r"

// friday is 2026-11-20 12:00 UTC. In windowText now is open.
var friday = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const windowText = `
window_sets:
  now: {timezone: UTC, allow: [{id: day, rrule: "FREQ=DAILY", from: "08:00", to: "18:00"}]}
  sun: {timezone: Europe/Berlin, allow: [{id: sun, rrule: "FREQ=WEEKLY;BYDAY=SU", from: "22:00", to: "+1d 05:00"}]}
`

// desk is a launcher that publishes a file to a real board, and what it did. Its first windows are
// published, and signals counts from then on.
type desk struct {
	t       *testing.T
	file    string
	board   *memory.Queue
	files   *WindowFiles
	p       *Publisher
	edited  bool
	signals int
	events  []string
	away    error // what posting answers
}

// flaky is a board that may be away.
type flaky struct {
	board.Board
	d *desk
}

func (f flaky) Post(ctx context.Context, name string, data []byte, keep time.Duration) (uint64, error) {
	if f.d.away != nil {
		return 0, f.d.away
	}
	return f.Board.Post(ctx, name, data, keep)
}

// inTime runs a test with a desk under fake time.
func inTime(t *testing.T, test func(*desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		defer d.board.Shutdown()
		test(d)
	})
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, file: filepath.Join(t.TempDir(), "w.yaml"), board: memory.New(memory.Options{})}
	t.Cleanup(d.board.Shutdown)
	d.write(windowText)
	var err error
	if d.files, err = ReadWindowFiles(d.file); err != nil {
		t.Fatal(err)
	}
	d.p = NewPublisher(PublisherOptions{Name: name, Board: flaky{d.board, d}, Current: d.files.Edition, Signal: func() { d.signals++ }})
	if _, err := d.p.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.p.again, d.signals = time.Time{}, 0
	return d
}

func (d *desk) write(text string) {
	d.t.Helper()
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// tick is n rounds of a launcher's loop.
func (d *desk) tick(n int) {
	for range n {
		changed, err := d.files.Poll()
		if err != nil {
			d.events = append(d.events, "broken: "+strings.ReplaceAll(err.Error(), d.file, "w.yaml"))
		}
		d.edited = d.edited || changed
		if _, err := d.p.Publish(d.t.Context()); err != nil {
			d.events = append(d.events, "away: "+err.Error())
		} else if d.edited {
			d.edited = false
			d.events = append(d.events, "changed")
		}
	}
}

// posted asks the posted windows whether a host of set now may start on friday at noon.
func (d *desk) posted() (Answer, uint64) {
	d.t.Helper()
	data, version, err := d.board.Posted(d.t.Context(), name, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	b, err := DecodeCalendar(data)
	if err != nil {
		d.t.Fatal(err)
	}
	a, err := b.Ask(friday, Question{Set: "now", Need: time.Hour})
	if err != nil {
		d.t.Fatal(err)
	}
	return a, version
}

const frozen = windowText + `
  frozen: {timezone: UTC, scope: {}, deny: [{use: freeze/late}]}
freezes:
  late: {timezone: UTC, from: 2026-11-20, to: 2026-11-30}
`

var nowFrozen = strings.ReplaceAll(frozen, `now: {timezone: UTC,`, `now: {timezone: UTC, deny: [{use: freeze/late}],`)

func TestPublisherTakesOverAnEdit(t *testing.T) {
	d := newDesk(t)
	d.tick(3)
	if a, _ := d.posted(); !a.Open || len(d.events) != 0 || d.signals != 0 {
		t.Fatalf("nothing was edited: %+v, %v, signals %d", a, d.events, d.signals)
	}
	d.write(nowFrozen)
	d.tick(3)
	if a, _ := d.posted(); a.Open || a.By != windows.ByFreeze {
		t.Errorf("the freeze is not posted: %+v", a)
	}
	d.write(windowText)
	d.tick(3)
	if a, _ := d.posted(); !a.Open {
		t.Errorf("the freeze was lifted: %+v", a)
	}
	if want := []string{"changed", "changed"}; !slices.Equal(d.events, want) || d.signals != 2 {
		t.Errorf("events %v, signals %d", d.events, d.signals)
	}
}

func TestFilesKeepTheLastValidWindows(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct{ why, says string }{
		{"window_sets: {now: {timezone: Mars/Olympus}}", "Mars/Olympus"},
		{"", "the file is empty"},
		{"freezes: {}", ""}, // valid: the sets are gone
	} {
		d.events = nil
		d.write(c.why)
		d.tick(4)
		a, _ := d.posted()
		if c.says == "" {
			if a.Open || a.By != windows.ByUnknown {
				t.Errorf("%q: %+v", c.why, a)
			}
			continue
		}
		if !a.Open || len(d.events) != 1 || !strings.HasPrefix(d.events[0], "broken: ") || !strings.Contains(d.events[0], c.says) {
			t.Errorf("%q: %+v, events %q, expected one report", c.why, a, d.events)
		}
	}
	d.events = nil
	if err := os.Remove(d.file); err != nil {
		t.Fatal(err)
	}
	d.tick(3)
	if len(d.events) != 1 || !strings.HasPrefix(d.events[0], "broken: ") {
		t.Errorf("the file is gone: %q", d.events)
	}
}

// Half a file may be valid, and lack the freeze at its end.
func TestTrapHalfWrittenWindowsAreNotTakenOver(t *testing.T) {
	d := newDesk(t)
	d.write(nowFrozen)
	d.tick(2)
	half, _, _ := strings.Cut(windowText, "  sun:")
	for i := range 5 {
		d.write(half + strings.Repeat("#\n", i)) // it grows between two looks
		d.tick(1)
		if a, _ := d.posted(); a.Open {
			t.Fatalf("half a file lifted the freeze: %+v", a)
		}
	}
	d.tick(1)
	if a, _ := d.posted(); !a.Open {
		t.Errorf("%+v, expected the file to be taken over when it no longer changes", a)
	}
}

// A tool that writes the files each second does not keep an edit away, as long as it writes the
// same.
func TestFilesThatAreWrittenAgainAndAgain(t *testing.T) {
	d := newDesk(t)
	d.tick(2)
	for i := range 5 {
		d.write(nowFrozen)
		if err := os.Chtimes(d.file, friday, friday.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		d.tick(1)
	}
	if a, _ := d.posted(); a.Open {
		t.Errorf("the freeze is not posted: %+v", a)
	}
}

func TestPublisherPublishesWhenTheQueueAnswersAgain(t *testing.T) {
	inTime(t, func(d *desk) {
		d.away = fmt.Errorf("redis: %w", core.ErrUnavailable)
		d.write(nowFrozen)
		d.tick(5)
		if want := "away: publish the windows: redis: unavailable"; len(d.events) == 0 || d.events[0] != want || d.signals != 0 {
			t.Errorf("events %q, %d signals, expected %q", d.events, d.signals, want)
		}
		d.away = nil
		d.tick(1)
		if a, _ := d.posted(); a.Open || d.signals != 1 || d.events[len(d.events)-1] != "changed" {
			t.Errorf("%+v, %d signals, events %q", a, d.signals, d.events)
		}
	})
}

func TestPublisherPublishesAgainBeforeItExpires(t *testing.T) {
	inTime(t, func(d *desk) {
		_, before := d.posted()
		<-time.After(postAgain)
		d.tick(1)
		if _, version := d.posted(); version != before {
			t.Error("published again though nothing is due")
		}
		<-time.After(time.Second)
		d.tick(1)
		if _, version := d.posted(); version == before || d.signals != 0 {
			t.Errorf("version %d, %d signals: expected a new post without a signal", version, d.signals)
		}
		if postAgain*7 > keepFor {
			t.Error("a launcher that is away for a week loses its windows")
		}
	})
}

// A worker that read the windows before an edit may suspend a host task after the signal.
func TestTrapSignalThatPassedASuspensionIsRepeated(t *testing.T) {
	inTime(t, func(d *desk) {
		d.write(nowFrozen)
		d.tick(3)
		<-time.After(queue.SessionTTL)
		d.tick(1)
		if d.signals != 1 {
			t.Fatalf("%d signals, expected the second one when every earlier session has ended", d.signals)
		}
		<-time.After(signalAgain)
		d.tick(3)
		if d.signals != 2 {
			t.Errorf("%d signals, expected one more and no further", d.signals)
		}
	})
}

// A board that another process changed, or that was emptied, has the windows again at the next
// Publish.
func TestPublisherMendsTheBoard(t *testing.T) {
	inTime(t, func(d *desk) {
		if _, err := d.board.Post(t.Context(), name, []byte("{}"), time.Hour); err != nil {
			t.Fatal(err)
		}
		d.tick(1)
		if a, _ := d.posted(); !a.Open {
			t.Errorf("after another process posted: %+v", a)
		}
		if _, err := d.board.Post(t.Context(), name, []byte("{}"), time.Second); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		d.tick(1)
		if a, _ := d.posted(); !a.Open {
			t.Errorf("after the board was emptied: %+v", a)
		}
	})
}

// A process that was stopped for a while does not bring back windows without the freeze that
// another one published since. The second desk is the negative control: it does not ask, and lifts
// the freeze.
func TestTrapOutdatedWindowsAreNotPublished(t *testing.T) {
	for _, asks := range []bool{true, false} {
		inTime(t, func(d *desk) {
			frozen, err := EncodeCalendar(calendarOf(t, nowFrozen))
			if err == nil {
				_, err = d.board.Post(t.Context(), name, frozen, keepFor)
			}
			if err != nil {
				t.Fatal(err)
			}
			late := NewPublisher(PublisherOptions{Name: name, Board: d.board, Signal: func() {}, Current: func() Edition {
				e := d.files.Edition()
				if asks {
					e.Newest = func(context.Context) (bool, error) { return false, nil }
				}
				return e
			}})
			if _, err := late.Publish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if a, _ := d.posted(); a.Open == asks {
				t.Errorf("asks %v: %+v", asks, a)
			}
		})
	}
}
