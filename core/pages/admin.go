package pages

import (
	"net/http"
	"strings"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// tokensView is the tokens that an admin sees, those that still hold first.
type tokensView struct {
	Hold, Ended []api.Token
	Own         string // id of the token of this session
	Next        string
}

func (p *Pages) tokens(w http.ResponseWriter, r *http.Request, v visit) {
	list, err := v.client.Tokens(r.Context(), client.Page{Cursor: r.URL.Query().Get("cursor"), Limit: 200})
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	me, err := v.client.Whoami(r.Context())
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	view := tokensView{Own: me.Token, Next: nextPage(r.URL.Query(), list.Next)}
	view.Hold, view.Ended = sortTokens(list.Items, time.Now())
	p.show(w, http.StatusOK, "tokens", v, "Tokens and people", view)
}

// sortTokens parts the tokens that hold from those that were revoked or have expired.
func sortTokens(all []api.Token, now time.Time) (hold, ended []api.Token) {
	for _, t := range all {
		if t.Revoked.IsZero() && (t.Expires.IsZero() || t.Expires.After(now)) {
			hold = append(hold, t)
		} else {
			ended = append(ended, t)
		}
	}
	return hold, ended
}

func (p *Pages) revokeToken(w http.ResponseWriter, r *http.Request, v visit) {
	if _, err := v.client.RevokeToken(r.Context(), r.PathValue("id")); err != nil {
		p.problem(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/tokens", http.StatusSeeOther)
}

// settingsView holds the settings for this person at this server. A panel that cannot be shown
// shows why.
type settingsView struct {
	Me             api.Whoami
	All            bool
	Version        string
	Queue          api.Queue
	QueueProblem   string
	Project        api.Definitions
	ProjectProblem string
	Settings       []api.Setting // of the server, for admins of all tenants
	SettingProblem string
}

func (p *Pages) settings(w http.ResponseWriter, r *http.Request, v visit) {
	me, err := v.client.Whoami(r.Context())
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	view := settingsView{Me: me, All: v.who.Everyone(), Version: p.version}
	if view.All {
		if view.Queue, err = v.client.Queue(r.Context()); err != nil {
			view.QueueProblem = err.Error()
		}
		if view.Project, err = v.client.Definitions(r.Context()); err != nil {
			view.ProjectProblem = err.Error()
		}
		if v.who.Admin() {
			list, err := v.client.Settings(r.Context())
			if view.Settings = list.Items; err != nil {
				view.SettingProblem = err.Error()
			}
		}
	}
	p.show(w, http.StatusOK, "settings", v, "Settings", view)
}

// Can is the roles and permissions of the person, in words.
func (view settingsView) Can() string {
	all := view.Me.Roles
	for _, p := range view.Me.Permissions {
		all = append(all, string(p))
	}
	return strings.Join(all, ", ")
}
