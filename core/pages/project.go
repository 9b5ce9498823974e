package pages

import "net/http"

// projectRoutes registers the page of the project.
func (p *Pages) projectRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /project", p.signedIn(p.project))
}

// project shows which revision is active, and the one that the service does not take.
func (p *Pages) project(w http.ResponseWriter, r *http.Request, v visit) {
	now, err := v.client.Definitions(r.Context())
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.show(w, http.StatusOK, "project", v, "Project", now)
}
