package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/windows"
)

// desk is a keeper on a file and a real board, and what it did.
type desk struct {
	t      *testing.T
	file   string
	board  *memory.Queue
	k      *Keeper
	woken  []string
	events []string
	away   error // what waking, and posting through flaky, answers
}

// flaky is a board that may be away.
type flaky struct {
	queue.Board
	d *desk
}

func (f flaky) Post(ctx context.Context, name string, data []byte, keep time.Duration) (uint64, error) {
	if f.d.away != nil {
		return 0, f.d.away
	}
	return f.Board.Post(ctx, name, data, keep)
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, file: filepath.Join(t.TempDir(), "w.yaml"), board: memory.New(memory.Options{})}
	t.Cleanup(d.board.Shutdown)
	d.write(windowText)
	docs, err := windows.Read(d.file)
	if err != nil {
		t.Fatal(err)
	}
	book, err := gate.NewBook(docs)
	if err != nil {
		t.Fatal(err)
	}
	d.k = NewKeeper(book, KeeperOptions{
		Paths: []string{d.file}, Board: flaky{d.board, d},
		Wake: func(_ context.Context, run, event string) (int, error) {
			if d.away == nil {
				d.woken = append(d.woken, run+" "+event)
			}
			return 1, d.away
		},
		OnEvent: func(e KeeperEvent) {
			text := string(e.Kind)
			if e.Err != nil {
				text += ": " + strings.ReplaceAll(e.Err.Error(), d.file, "w.yaml")
			}
			d.events = append(d.events, text)
		},
	})
	l, err := gated(t, upgrade, inSets("now"), Options{Windows: book})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.k.Post(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) write(text string) {
	d.t.Helper()
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// tick is n rounds of Run.
func (d *desk) tick(n int) {
	for range n {
		d.k.look()
		d.k.keep(d.t.Context())
	}
}

// posted asks the posted windows whether a host of set now may start on friday at noon.
func (d *desk) posted() (gate.Answer, uint64) {
	d.t.Helper()
	data, version, err := d.board.Posted(d.t.Context(), "windows/r", 0)
	if err != nil {
		d.t.Fatal(err)
	}
	p, err := gate.Decode(data)
	if err != nil {
		d.t.Fatal(err)
	}
	a, err := p.Book.Ask(friday, gate.Question{Set: "now", Need: time.Hour})
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

func TestKeeperTakesOverAnEdit(t *testing.T) {
	d := newDesk(t)
	d.tick(3)
	if a, _ := d.posted(); !a.Open || len(d.events) != 0 || len(d.woken) != 0 {
		t.Fatalf("nothing was edited: %+v, %v, woken %v", a, d.events, d.woken)
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
	if want := []string{"changed", "changed"}; !slices.Equal(d.events, want) || !slices.Equal(d.woken, []string{"r window", "r window"}) {
		t.Errorf("events %v, woken %v", d.events, d.woken)
	}
}

func TestKeeperKeepsTheLastValidWindows(t *testing.T) {
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
			t.Errorf("%q: %+v, events %q, expected to be told once", c.why, a, d.events)
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

// A tool that writes the files each second does not keep an edit away, as long as it writes the same.
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

func TestKeeperPostsWhenTheQueueAnswersAgain(t *testing.T) {
	d := newDesk(t)
	d.away = fmt.Errorf("redis: %w", core.ErrUnavailable)
	d.write(nowFrozen)
	d.tick(5)
	if want := "away: give the windows to the workers: redis: unavailable"; len(d.events) != 1 || d.events[0] != want {
		t.Errorf("events %q, expected %q once", d.events, want)
	}
	d.away = nil
	d.tick(1)
	if a, _ := d.posted(); a.Open || len(d.woken) != 1 || d.events[len(d.events)-1] != "changed" {
		t.Errorf("%+v, woken %v, events %q", a, d.woken, d.events)
	}
}

func TestKeeperPostsAgainBeforeItExpires(t *testing.T) {
	d := newDesk(t)
	_, before := d.posted()
	d.tick(1)
	if _, version := d.posted(); version != before {
		t.Error("posted again though nothing is due")
	}
	d.k.posts["windows/r"].at = time.Now().Add(-repostEvery)
	d.tick(1)
	if _, version := d.posted(); version == before || len(d.woken) != 0 {
		t.Errorf("version %d, woken %v: expected a new post that wakes nobody", version, d.woken)
	}
	if repostEvery*48 > postedKeep {
		t.Error("a launcher that is away for days loses its windows")
	}
}

// A worker that read the windows before an edit may give its job back after the wake.
func TestTrapWakeThatPassedAParkingIsRepeated(t *testing.T) {
	d := newDesk(t)
	d.write(nowFrozen)
	d.tick(3)
	p := d.k.posts["windows/r"]
	if len(d.woken) != 1 || time.Until(p.again) <= queue.SessionTTL {
		t.Fatalf("woken %v, again in %v: expected another wake when every earlier session has ended", d.woken, time.Until(p.again))
	}
	p.again = time.Now()
	d.tick(3)
	if len(d.woken) != 2 {
		t.Errorf("woken %v, expected once more and no further", d.woken)
	}
}

func TestKeeperForgivesARunThatIsOver(t *testing.T) {
	d := newDesk(t)
	d.k.o.Wake = func(context.Context, string, string) (int, error) {
		return 0, fmt.Errorf("run r: %w", core.ErrNotFound)
	}
	d.write(nowFrozen)
	d.tick(3)
	if !slices.Equal(d.events, []string{"changed"}) {
		t.Errorf("events %q", d.events)
	}
}

func TestDocumentsFitTheBoard(t *testing.T) {
	if gate.MaxEncoded > queue.MaxDocument {
		t.Errorf("a document of %d bytes does not fit the board's %d", gate.MaxEncoded, queue.MaxDocument)
	}
	if n := len(gate.BoardName(strings.Repeat("r", queue.MaxIDLength))); n > queue.MaxIDLength {
		t.Errorf("a name of %d bytes", n)
	}
}

func TestKeeperStops(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("over"))
	d.k.Run(ctx) // returns
}
