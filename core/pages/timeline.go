package pages

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/pictures"
)

// timelineRows bounds the waves, and the window sets, of a timeline in words.
const timelineRows = 100

// timelineView is the timeline of a run in words, for people who do not see its picture.
type timelineView struct {
	Run     string
	Text    string
	Waves   []api.TimelineWave
	Windows []api.TimelineSet
	Left    int  // waves and window sets that are left out
	Late    bool // it is still being made
	Problem string
}

// timelineOf asks for the timeline of a run. It has a forecast, which takes long for a large run.
func timelineOf(ctx context.Context, v visit, run string, within time.Duration) timelineView {
	view := timelineView{Run: run}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t, err := v.client.Timeline(ctx, run, 0)
	switch {
	case err != nil && ctx.Err() != nil:
		view.Late = true
	case err != nil:
		view.Problem = reasonOf(err)
	default:
		view.Text = pictures.TimelineText(&t)
		view.Waves, view.Windows = wavesAround(t.Waves), t.Windows[:min(len(t.Windows), timelineRows)]
		view.Left = len(t.Waves) - len(view.Waves) + len(t.Windows) - len(view.Windows)
	}
	return view
}

// wavesAround are the waves around the first that is not done: of many, those that matter.
func wavesAround(all []api.TimelineWave) []api.TimelineWave {
	open := slices.IndexFunc(all, func(w api.TimelineWave) bool { return w.Done < w.Hosts })
	if open < 0 {
		open = len(all)
	}
	from := max(0, min(open-timelineRows/2, len(all)-timelineRows))
	return all[from:min(from+timelineRows, len(all))]
}

// timeline sends the timeline of a run in words, as a part of its page.
func (p *Pages) timeline(w http.ResponseWriter, r *http.Request, v visit) {
	run, err := v.client.Run(r.Context(), r.PathValue("run"))
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.sendPart(w, "timeline", timelineOf(r.Context(), v, run.ID, writeWithin))
}
