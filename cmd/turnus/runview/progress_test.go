package runview

import (
	"bytes"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// The figures must be seen at 40 columns; a bar that pushes them out shows nothing.
func TestLiveLineFitsItsTerminal(t *testing.T) {
	a := console.New(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
	p := progress{name: "ntp-everywhere", total: 300, done: 150, running: 9}
	if got, want := liveLines(a, p, 40)[0], "ntp-everywhere 150/300  9 running  0/s"; got != want {
		t.Errorf("40 columns: %q, want %q", got, want)
	}
	bar := strings.Repeat("━", barWidth/2) + strings.Repeat("─", barWidth/2)
	if got, want := liveLines(a, p, 80)[0], "ntp-everywhere "+bar+" 150/300  9 running  0/s"; got != want {
		t.Errorf("80 columns: %q, want %q", got, want)
	}
}
