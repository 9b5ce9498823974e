package pages

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// hostView is a host, and what was done on it.
type hostView struct {
	Host    api.Host
	History []api.Job
	Next    string
}

// findHost leads to the host whose name was typed.
func (p *Pages) findHost(w http.ResponseWriter, r *http.Request, _ visit) {
	name := strings.TrimSpace(r.FormValue("host"))
	if name == "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, "/hosts/"+url.PathEscape(name), http.StatusSeeOther)
}

func (p *Pages) host(w http.ResponseWriter, r *http.Request, v visit) {
	name := r.PathValue("host")
	host, err := v.client.Host(r.Context(), name)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	history, err := v.client.HostHistory(r.Context(), name, client.Page{Cursor: r.URL.Query().Get("cursor"), Limit: 50})
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.show(w, http.StatusOK, "host", v, host.Name, hostView{host, history.Items, history.Next})
}
