package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/ics"
)

// FeedPath begins the address of each calendar feed. The secret follows, and .ics.
const FeedPath = "/feeds/"

const (
	feedDays    = 92
	feedBefore  = 48 * time.Hour // see ics.Feed.From
	feedSets    = 200
	feedWindows = 1000 // of each set
	feedsEach   = 20   // valid ones of a person
	feedsAtOnce = 2    // that are made
)

// feeds registers calendar feeds. A feed is a token whose role reads one calendar and nothing else.
func (s *Server) feeds() {
	const whose = "A person sees those that the person made, an admin all of the tenant."
	handle(s, route{
		id: "create-calendar-feed", method: http.MethodPost, path: "/v1/calendar-feeds", summary: "Make a secret address for calendar programs", role: Viewer, status: http.StatusCreated,
		detail: "The path is in this answer only. It shows windows, those that nobody approved, and freezes of the next 92 days as iCalendar to everybody who has it, until it is revoked.",
	}, s.createFeed)
	handle(s, route{id: "list-calendar-feeds", method: http.MethodGet, path: "/v1/calendar-feeds", summary: "List calendar feeds that are valid, without their addresses", role: Viewer, detail: whose}, s.listFeeds)
	handle(s, route{
		id: "revoke-calendar-feed", method: http.MethodDelete, path: "/v1/calendar-feeds/{feed}", summary: "Revoke a calendar feed", role: Viewer, status: http.StatusOK, detail: whose,
	}, s.revokeFeed)
	s.mux.HandleFunc("GET "+FeedPath+"{file}", s.serveFeed)
}

// feedFilter finds the valid feeds that a person may see.
func feedFilter(by caller) ledger.TokenFilter {
	f := ledger.TokenFilter{Role: string(Feed), Valid: true}
	if !may(by.token, Admin) {
		f.CreatedBy = by.name
	}
	return f
}

func feedOf(t ledger.Token) api.CalendarFeed {
	return api.CalendarFeed{ID: t.ID, Name: t.Name, Tenant: tenantOf(t), CreatedBy: t.CreatedBy, Created: t.Created, LastUsed: t.LastUsed}
}

func (s *Server) createFeed(ctx context.Context, by caller, in *struct {
	Idempotent
	Body api.NewCalendarFeed
},
) (*body[api.CalendarFeed], error) {
	t := ledger.Token{ID: in.of(by, "create-calendar-feed"), Name: in.Body.Name, Tenant: cmp.Or(in.Body.Tenant, tenantOf(by.token)), Roles: []string{string(Feed)}}
	if t.Tenant == everyTenant {
		t.Tenant, t.AllTenants = "", true
	}
	switch {
	case by.token.ID == "": // pages of a single run
		return nil, forbidden("the address would end with this process: make a calendar feed at a service")
	case !by.scope.All() && (t.AllTenants || !by.scope.Allows(t.Tenant)):
		return nil, forbidden("a token of tenant " + by.token.Tenant + " makes calendar feeds of that tenant only")
	}
	mine, _, err := s.cfg.Ledger.Tokens(ctx, by.scope, ledger.TokenFilter{Role: string(Feed), Valid: true, CreatedBy: by.name}, ledger.Page{Limit: feedsEach})
	if err != nil {
		return nil, err
	}
	if len(mine) >= feedsEach {
		return nil, fmt.Errorf("%s has %d calendar feeds: revoke one that is not in use: %w", by.name, feedsEach, core.ErrQuota)
	}
	secret, made, err := s.cfg.Ledger.NewToken(ctx, by.name, t)
	if errors.Is(err, core.ErrConflict) && in.Key != "" {
		return nil, fmt.Errorf("calendar feed %s was made with this key before, and its address was shown then: revoke it, and make another with another key: %w", t.ID, core.ErrConflict)
	}
	if err != nil {
		return nil, err
	}
	shown := feedOf(made)
	shown.Path = FeedPath + secret + ".ics"
	return &body[api.CalendarFeed]{shown}, nil
}

func (s *Server) listFeeds(ctx context.Context, by caller, in *struct{ Page }) (*list[api.CalendarFeed], error) {
	if by.token.ID == "" {
		return nil, forbidden("pages of this process have no calendar feeds")
	}
	tokens, next, err := s.cfg.Ledger.Tokens(ctx, by.scope, feedFilter(by), in.ledger())
	if err != nil {
		return nil, err
	}
	items := make([]api.CalendarFeed, len(tokens))
	for i, t := range tokens {
		items[i] = feedOf(t)
	}
	return listOf(items, next), nil
}

func (s *Server) revokeFeed(ctx context.Context, by caller, in *struct {
	Feed string `path:"feed" maxLength:"128" doc:"id"`
},
) (*body[api.CalendarFeed], error) {
	f := feedFilter(by)
	f.ID = in.Feed
	found, _, err := s.cfg.Ledger.Tokens(ctx, by.scope, f, ledger.Page{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("calendar feed %q is not valid, or somebody else made it: %w", clip(in.Feed, 128), core.ErrNotFound)
	}
	t, err := s.cfg.Ledger.RevokeToken(ctx, by.scope, by.name, in.Feed)
	if err != nil {
		return nil, err
	}
	s.tokens.revoked(t.ID)
	return &body[api.CalendarFeed]{feedOf(t)}, nil
}

// serveFeed answers calendar programs, which send no token: the address has the secret. An address
// that is unknown, was revoked, or has the secret of another token gets one answer.
func (s *Server) serveFeed(w http.ResponseWriter, r *http.Request) {
	token, err := s.tokens.authenticate(r.Context(), strings.TrimSuffix(r.PathValue("file"), ".ics"))
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		s.ledgerFailed("a calendar feed could not be looked up", err)
		plainProblem(w, http.StatusServiceUnavailable, "the calendar feed could not be looked up: try again")
		return
	}
	if err != nil || !may(token, Feed) {
		s.metrics.Add(telemetry.AccessRefused, 1, refusedUnknown)
		plainProblem(w, http.StatusNotFound, "there is no such calendar feed, or it was revoked: make another one at /calendar")
		return
	}
	select {
	case s.feeding <- struct{}{}:
		defer func() { <-s.feeding }()
	default:
		w.Header().Set("Retry-After", "10")
		plainProblem(w, http.StatusServiceUnavailable, "other calendar feeds are being made: try again")
		return
	}
	feed, err := s.feedFor(caller{name: named(token), scope: token.Scope(), token: token}, time.Now())
	var out bytes.Buffer
	if err == nil {
		err = ics.Write(&out, feed)
	}
	if err != nil {
		plainProblem(w, http.StatusServiceUnavailable, core.ErrorText(err))
		return
	}
	w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
	w.Header().Set("Content-Disposition", `inline; filename="windows.ics"`)
	_, _ = out.WriteTo(w) // to a caller that may be gone
}

// feedFor lists the windows and freezes of the lanes that a caller sees.
func (s *Server) feedFor(by caller, now time.Time) (ics.Calendar, error) {
	set, err := s.set()
	if err != nil {
		return ics.Calendar{}, err
	}
	cal, sets, err := s.windows(by)
	if err != nil {
		return ics.Calendar{}, err
	}
	current := s.cfg.Catalog.Current()
	out := ics.Calendar{Name: "Maintenance windows", Stamp: current.Applied, Sequence: int(current.Version)}
	if !by.scope.All() {
		out.Name += " " + by.token.Tenant
	}
	for _, a := range s.cfg.Catalog.Approvals() {
		if a.At.After(out.Stamp) {
			out.Stamp = a.At
		}
	}
	l := &lanes{Server: s, by: by, set: set, cal: cal}
	hosts := l.hosts(sets)
	about := map[string][]string{}
	for _, key := range slices.SortedFunc(maps.Keys(hosts), func(a, b forecast.LaneKey) int { return cmp.Compare(a.Tenant, b.Tenant) }) {
		about[key.Set] = append(about[key.Set], aboutLane(by, key, hosts[key]))
	}
	names := sortedKeys(about)
	left := max(len(names)-feedSets, 0)
	if names = names[:len(names)-left]; left > 0 {
		out.Note = fmt.Sprintf("%d more window sets are left out: make a feed of one customer", left)
	}
	from := now.UTC().Truncate(24 * time.Hour)
	feedOfSets(&out, cal.Definitions(), names, about, from, now.AddDate(0, 0, feedDays))
	return out, nil
}

func aboutLane(by caller, key forecast.LaneKey, hosts int) string {
	text := fmt.Sprintf("%d hosts", hosts)
	if hosts == 1 {
		text = "1 host"
	}
	if by.scope.All() && key.Tenant != "" {
		text = key.Tenant + ": " + text
	}
	return text
}

// feedOfSets adds the windows of sets to a feed, and each freeze once.
func feedOfSets(out *ics.Calendar, defs *windows.Definitions, names []string, about map[string][]string, from, to time.Time) {
	horizon := windows.Horizon{From: from.Add(-feedBefore), To: to}
	compiled := defs.CompileFor(horizon, windows.Work{}, names...)
	known := map[windows.Denied]bool{}
	for _, name := range names {
		c := compiled[name]
		list := c.Occurrences(horizon.From, to)
		if more := len(list) - feedWindows; more > 0 {
			list = list[:feedWindows]
			out.Note = strings.TrimPrefix(out.Note+fmt.Sprintf("\n%s: the last %d windows are left out", name, more), "\n")
		}
		out.Feeds = append(out.Feeds, ics.Feed{Set: name, About: strings.Join(about[name], ", "), Zone: c.Zone, Windows: list, From: from})
		for _, d := range c.Denials(from, to) {
			freeze, is := strings.CutPrefix(d.Use, "freeze/")
			d.Cancels = false
			if !is || known[d] {
				continue
			}
			known[d] = true
			f := ics.Freeze{Name: freeze, From: d.From, To: d.To}
			if made := defs.Freezes[freeze]; made != nil {
				f.About = made.Reason
			}
			out.Freezes = append(out.Freezes, f)
		}
	}
}
