package pages

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/turnus/turnus/core/api"
)

// forecastWithin is how long the page of a run waits for its forecast. Of a large run one takes
// seconds, and the page asks for it again once it is open.
const forecastWithin = 200 * time.Millisecond

// forecastView is when a run will end.
type forecastView struct {
	Run      string
	Forecast *api.Forecast // nil: Late, or the run has ended
	Late     bool          // it is still being made
	Problem  string
}

// forecastOf asks for the forecast of a run that is not over.
func forecastOf(ctx context.Context, v visit, run api.Run, within time.Duration) forecastView {
	view := forecastView{Run: run.ID}
	if run.Phase.Over() {
		return view
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f, err := v.client.Forecast(ctx, run.ID)
	switch {
	case err != nil && ctx.Err() != nil:
		view.Late = true
	case err != nil:
		view.Problem = reasonOf(err)
	default:
		view.Forecast = &f
	}
	return view
}

// forecast sends the part of the page of a run that shows when the run will end.
func (p *Pages) forecast(w http.ResponseWriter, r *http.Request, v visit) {
	run, err := v.client.Run(r.Context(), r.PathValue("run"))
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.sendPart(w, "forecast", forecastOf(r.Context(), v, run, writeWithin))
}

// sendPart sends a part of the page of a run.
func (p *Pages) sendPart(w http.ResponseWriter, name string, view any) {
	var out bytes.Buffer
	if err := p.templates["run"].ExecuteTemplate(&out, name, view); err != nil {
		p.log.Error("a page was not made", "page", "run", "err", err)
		http.Error(w, "the "+name+" cannot be shown; the server's log has the reason", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = out.WriteTo(w)
}
