package pages

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// feedRoutes registers the actions on calendar feeds, which the page of the calendar lists.
func (p *Pages) feedRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /calendar/feeds", p.signedIn(p.makeFeed))
	mux.HandleFunc("POST /calendar/feeds/{feed}/revoke", p.signedIn(p.revokeFeed))
}

// feedsView is the calendar feeds that a person sees.
type feedsView struct {
	List   []api.CalendarFeed
	All    bool   // of several tenants
	Key    string // of a feed that is made; "" where none can be
	Unseen string // why List is not shown
}

func readFeeds(ctx context.Context, v visit, _ url.Values) any {
	view := feedsView{All: v.who.Everyone()}
	list, err := v.client.CalendarFeeds(ctx, client.Page{Limit: listed})
	if err == nil {
		view.List, view.Key = list.Items, rand.Text()
	} else if status, _ := statusOf(err); status != http.StatusForbidden { // the pages of one run have no feeds
		view.Unseen = reasonOf(err)
	}
	return view
}

// feedMade is a feed whose address is shown once.
type feedMade struct {
	api.CalendarFeed
	Address string
}

func (p *Pages) makeFeed(w http.ResponseWriter, r *http.Request, v visit) {
	n := api.NewCalendarFeed{Name: strings.TrimSpace(r.PostFormValue("name")), Tenant: strings.TrimSpace(r.PostFormValue("tenant"))}
	made, err := v.client.CreateCalendarFeed(r.Context(), r.PostFormValue("key"), n)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.show(w, http.StatusOK, "feed", v, "Calendar feed", feedMade{made, addressOf(r) + made.Path})
}

// addressOf is the address of these pages as the browser that sends a form sees it, also through a
// proxy.
func addressOf(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if u, err := url.Parse(r.Header.Get("Origin")); err == nil && u.Host == r.Host {
		scheme = cmp.Or(u.Scheme, scheme)
	}
	return scheme + "://" + r.Host
}

func (p *Pages) revokeFeed(w http.ResponseWriter, r *http.Request, v visit) {
	if _, err := v.client.RevokeCalendarFeed(r.Context(), r.PathValue("feed")); err != nil {
		p.problem(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/calendar#feeds", http.StatusSeeOther)
}
