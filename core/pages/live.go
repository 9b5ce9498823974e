package pages

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/turnus/turnus/core/api"
)

// pushEvery is how often a page that is open gets changes, at most.
const pushEvery = 250 * time.Millisecond

// writeWithin bounds a write to a browser: one that does not read is let go, and comes again.
const writeWithin = 30 * time.Second

// live sends what a run's page shows, again each time that something happened to the run, as
// server-sent events. The newest state alone counts: a slow reader misses states between, and never
// what is true now.
func (p *Pages) live(w http.ResponseWriter, r *http.Request, v visit) {
	id := r.PathValue("run")
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	var broken error // valid after ended
	happened, ended := make(chan struct{}, 1), make(chan struct{})
	go func() { // it ends with ctx: stop, and the wait below
		defer close(ended)
		broken = v.client.Events(id).Read(ctx, func(api.Event) {
			select {
			case happened <- struct{}{}:
			default:
			}
		})
	}()
	defer func() { stop(); <-ended }()
	w.Header().Set("Content-Type", "text/event-stream")
	ctl := http.NewResponseController(w)
	send := func(name string) bool {
		view, err := p.runView(ctx, v, id, r.URL.Query())
		if err != nil {
			return false
		}
		var out bytes.Buffer
		if err := p.templates["run"].ExecuteTemplate(&out, "run-body", page{Who: v.who, Now: time.Now(), Data: view}); err != nil {
			p.log.Error("a page was not made", "page", "run", "err", err)
			return false
		}
		_ = ctl.SetWriteDeadline(time.Now().Add(writeWithin))
		_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, strings.ReplaceAll(out.String(), "\n", "\ndata: "))
		return err == nil && ctl.Flush() == nil
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for send("state") {
		pause.Reset(pushEvery)
		<-pause.C
		select {
		case <-happened:
		case <-ended:
			if broken == nil {
				send("done")
			}
			return
		case <-ctx.Done():
			return
		}
	}
}
