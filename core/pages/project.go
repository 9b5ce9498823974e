package pages

import (
	"context"
	"net/http"
	"net/url"

	"github.com/turnus/turnus/core/api"
)

// projectView is the active revision, and what it changed.
type projectView struct {
	api.Definitions
	Changed api.DefinitionChanges
	Unseen  string // why Changed is not shown

	Wrong       api.RejectedChanges // of the rejected revision, if there is one
	WrongUnseen string
}

// openFiles is how many files a diff has at most to be shown unfolded.
const openFiles = 3

// Unfold reports whether the diffs of the rejected revision's files are open.
func (view projectView) Unfold() bool { return len(view.Wrong.Files) <= openFiles }

// Voided returns the changes that voided approvals of windows.
func (view projectView) Voided() (all []api.Change) {
	for _, c := range view.Changed.Changes {
		if len(c.Voids) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// projectRoutes registers the page of the project.
func (p *Pages) projectRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /project", p.signedIn(p.livePage("/project")))
}

// readProject reads which revision is active, what it changed, and the one that the service does
// not take, with its diff.
func readProject(ctx context.Context, v visit, _ url.Values) (any, error) {
	now, err := v.client.Definitions(ctx)
	if err != nil {
		return nil, err
	}
	view := projectView{Definitions: now}
	if view.Changed, err = v.client.DefinitionChanges(ctx); err != nil { // one panel that fails leaves the rest
		view.Unseen = reasonOf(err)
	}
	if view.Rejected != nil {
		if view.Wrong, err = v.client.RejectedDefinitions(ctx); err != nil {
			view.WrongUnseen = reasonOf(err)
		}
	}
	return view, nil
}
