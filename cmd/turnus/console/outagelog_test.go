package console

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
)

// Redis is away for two minutes, and each second each of 27 runs reports that. Red where Handle
// logs every record.
func TestFaultR8AnOutageIsNoFloodInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := newOutageLog(slog.NewTextHandler(&out, nil)).With("server", "s1")
		away := fmt.Errorf("queue: turn: connection refused: %w", core.ErrUnavailable)
		for range 120 {
			for run := range 27 {
				log.Warn("a run is not followed", "run", run, "error", away)
			}
			log.Info("a run ended", "error", away)
			log.Warn("a definition is wrong", "error", errors.New("line 3"))
			<-time.After(time.Second)
		}
		for text, want := range map[string]int{"not followed": 2, "left_out=1619": 1, "a run ended": 120, "line 3": 120} {
			if n := strings.Count(out.String(), text); n != want {
				t.Errorf("%d lines with %q, expected %d", n, text, want)
			}
		}
	})
}
