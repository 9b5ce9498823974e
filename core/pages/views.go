package pages

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Bounds of open pages: of this server, of one person, and of one stream. Each may take a share of
// a core, see viewShare.
const (
	openAll    = 2000
	openPerson = 64
	openStream = 16
)

// How often a view is made again at most: it may take a twentieth of a core.
const (
	viewEvery = time.Second
	viewShare = 20
	viewAgain = 2 * time.Second  // after a failure
	viewWait  = 25 * time.Second // of one question for changes
	beatEvery = 15 * time.Second // so that proxies do not think that a stream has ended
)

// livePage is a page that stays up to date while it is open.
type livePage struct {
	template, title string
	topics          []api.Topic
	read            func(ctx context.Context, v visit, q url.Values) (any, error)
	below           func(ctx context.Context, v visit, q url.Values) any // of template "below", which stays as it is; nil: none
	every           time.Duration                                        // the page depends on the clock; 0: it does not
	cells           bool                                                 // it has a grid: run follows the events of that run
	run             string                                               // id
}

// livePages lists pages by their path. Pages of runs are those of live.go.
func livePages() map[string]*livePage {
	return map[string]*livePage{
		"/":          {template: "overview", title: "Overview", topics: []api.Topic{api.TopicRuns, api.TopicSchedules, api.TopicProject}, every: time.Minute, read: readOverview},
		"/fleet":     {template: "fleet", title: "Fleet", topics: []api.Topic{api.TopicFleet, api.TopicProject}, read: readFleet},
		"/runs":      {template: "runlist", title: "Runs", topics: []api.Topic{api.TopicRuns}, read: readRuns},
		"/queue":     {template: "queue", title: "Queue and workers", topics: []api.Topic{api.TopicRuns, api.TopicQueue}, read: readQueue},
		"/schedules": {template: "schedules", title: "Schedules", topics: []api.Topic{api.TopicSchedules, api.TopicProject}, read: readSchedules},
		"/windows":   {template: "windows", title: "Windows and approvals", topics: []api.Topic{api.TopicProject}, every: time.Minute, read: readWindows},
		"/project":   {template: "project", title: "Project", topics: []api.Topic{api.TopicProject}, read: readProject},
		"/calendar":  {template: "calendar", title: "Calendar", topics: []api.Topic{api.TopicProject, api.TopicSchedules, api.TopicRuns}, every: time.Minute, read: readCalendar, below: readFeeds},
	}
}

// livePage shows a page of livePages. The page names the state that it shows, so that a stream
// continues from there.
func (p *Pages) livePage(path string) func(http.ResponseWriter, *http.Request, visit) {
	return func(w http.ResponseWriter, r *http.Request, v visit) { p.showLive(w, r, v, p.livePages[path]) }
}

func (p *Pages) showLive(w http.ResponseWriter, r *http.Request, v visit, one *livePage) {
	data, err := one.read(r.Context(), v, r.URL.Query())
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	var below any
	if one.below != nil {
		below = one.below(r.Context(), v, r.URL.Query())
	}
	p.showWith(w, http.StatusOK, v, one, r.URL.RequestURI(), data, below)
}

// showWith shows a live page with what was read. path is the one that its stream follows.
func (p *Pages) showWith(w http.ResponseWriter, status int, v visit, one *livePage, path string, data, below any) {
	content, err := p.content(one.template, "content", v, data)
	var under string
	if err == nil && one.below != nil {
		under, err = p.content(one.template, "below", v, below)
	}
	if err != nil {
		p.show(w, http.StatusInternalServerError, "problem", v, one.title, err.Error())
		return
	}
	view := liveView{path, seenOf(content), template.HTML(content), template.HTML(under)} //nolint:gosec // templates made them
	p.show(w, status, "live", v, one.title, view)
}

// liveView is the data of the page around a live page.
type liveView struct {
	Path, Seen     string
	Content, Below template.HTML
}

// rule finds the live page of a path, which is escaped; nil for none.
func (p *Pages) rule(path string) *livePage {
	kind, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if name, err := url.PathUnescape(name); err == nil && name != "" && strings.Count(path, "/") == 2 {
		switch kind {
		case "runs":
			return &livePage{template: "run", cells: true, run: name}
		case "hosts":
			return hostPage(name)
		case "windows":
			return windowPage(name)
		case "schedules":
			return schedulePage(name)
		}
	}
	return p.livePages[path]
}

// views has the views that are open in some browser. Each has a goroutine, which ends with the last
// browser that has it open.
type views struct {
	mu    sync.Mutex
	open  map[viewKey]*view
	pages map[string]int // that people have open
	all   int
}

// take opens n pages of a person, or refuses; release must be called once.
func (s *views) take(person string, n int) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+n > openAll || s.pages[person]+n > openPerson {
		return nil, false
	}
	s.all += n
	s.pages[person] += n
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all -= n
		if s.pages[person] -= n; s.pages[person] == 0 {
			delete(s.pages, person)
		}
	}, true
}

// join opens a view for a watcher; leave must be called once.
func (p *Pages) join(key viewKey, rule *livePage, w *watcher) (v *view, leave func()) {
	s := &p.views
	s.mu.Lock()
	defer s.mu.Unlock()
	v = s.open[key]
	if v == nil {
		ctx, stop := context.WithCancel(context.Background()) // of all who have it open
		v = &view{key: key, rule: rule, stop: stop, ended: make(chan struct{}), states: map[string]int{}, news: make(chan struct{}), watchers: []*watcher{w}}
		s.open[key] = v
		go func() { // it ends with the last watcher: see leave
			defer close(v.ended)
			p.make(ctx, v)
		}()
	} else {
		v.mu.Lock()
		v.watchers = append(v.watchers, w)
		v.mu.Unlock()
	}
	return v, func() {
		s.mu.Lock()
		v.mu.Lock()
		v.watchers = slices.DeleteFunc(v.watchers, func(o *watcher) bool { return o == w })
		last := len(v.watchers) == 0
		if (last || v.over) && s.open[key] == v {
			delete(s.open, key)
		}
		v.mu.Unlock()
		s.mu.Unlock()
		if last {
			v.stop()
			<-v.ended
		}
	}
}

// make keeps a view up to date until ctx ends.
func (p *Pages) make(ctx context.Context, v *view) {
	for ctx.Err() == nil {
		w := v.lender()
		if w == nil { // the last one is leaving
			<-ctx.Done()
			return
		}
		asking, stop := context.WithCancel(ctx)
		go func() { // it ends with asking
			select {
			case <-w.gone:
				stop()
			case <-asking.Done():
			}
		}()
		follow := p.follow
		if v.rule.cells {
			follow = p.followRun
		}
		err := follow(asking, v, w.visit)
		stop()
		switch {
		case err == nil:
			v.finish()
			<-ctx.Done()
			return
		case w.left(): // somebody else lends its session
			continue
		case ends(err):
			w.leave()
			continue
		}
		_, why := statusOf(err)
		v.fail(why)
		core.Pause(ctx, viewAgain, nil)
	}
}

// follow makes the view each time that the API reports a change of a topic, and as time passes if
// the page depends on it.
func (p *Pages) follow(ctx context.Context, v *view, as visit) error {
	u, err := url.Parse(v.key.path)
	if err != nil {
		return err
	}
	var begun time.Time
	for since := ""; ; {
		changes, err := as.client.Changes(ctx, since, viewWait, v.rule.topics...)
		if err != nil {
			return err
		}
		since = changes.At
		if len(changes.Topics) == 0 && (v.rule.every == 0 || time.Since(begun) < v.rule.every) {
			continue
		}
		begun = time.Now()
		data, err := v.rule.read(ctx, as, u.Query())
		if err != nil {
			return err
		}
		html, err := p.content(v.rule.template, "content", as, data)
		if err != nil {
			return err
		}
		v.put(html)
		core.Pause(ctx, max(viewEvery, viewShare*time.Since(begun)), nil)
	}
}

// content makes one template of a page.
func (p *Pages) content(of, name string, v visit, data any) (string, error) {
	var out bytes.Buffer
	if err := p.templates[of].ExecuteTemplate(&out, name, page{Who: v.who, Now: time.Now(), Data: data}); err != nil {
		p.log.Error("a page was not made", "page", of, "err", err)
		return "", fmt.Errorf("make the page: %w", err)
	}
	return out.String(), nil
}

// shared is a stream to one browser that several views write to.
type shared struct {
	mu   sync.Mutex
	out  *events
	seen []string // by view
	as   string   // the mark of the person
}

// send writes the messages of one view.
func (s *shared) send(view int, seen string, all []message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range all {
		if i == len(all)-1 { // until then the browser has only a part of the state
			s.seen[view] = seen
		}
		if !s.out.sendAt(strings.Join(s.seen, ","), fmt.Sprintf("%d:%s", view, m.name), marked(m.data, s.as)) {
			return false
		}
	}
	return true
}

// beat keeps a stream open on which nothing happens.
func (s *shared) beat() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.comment()
}

// live sends the views that a browser asks for, as server-sent events: each event names its view by
// number, and its id names the state of all. A stream that continues, with Last-Event-ID or seen,
// gets what changed since. A page that was made for another person gets the event "other" alone.
func (p *Pages) live(w http.ResponseWriter, r *http.Request, v visit) {
	q := r.URL.Query()
	paths, seen, as := q["view"], q["seen"], q["as"]
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		seen = strings.Split(last, ",")
	}
	if len(paths) == 0 || len(paths) > openStream || len(seen) > 0 && len(seen) != len(paths) || len(as) > 0 && len(as) != len(paths) {
		p.show(w, http.StatusUnprocessableEntity, "problem", v, "Live", fmt.Sprintf("a stream has 1 to %d views, give seen and as once for each view, or leave them out", openStream))
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	me, err := v.client.Whoami(ctx)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	release, ok := p.views.take(me.Tenant+"/"+me.Name, len(paths))
	if !ok {
		w.Header().Set("Retry-After", "30")
		p.show(w, http.StatusTooManyRequests, "problem", v, "Live", "too many pages are open; this one does not change until it is loaded again")
		return
	}
	defer release()
	other := make([]bool, len(paths))
	for i, mark := range as {
		other[i] = v.who.others(mark)
	}
	v.who = whoOf(me)
	mark := v.who.Mark()
	v.who.Name = "" // a view is the same for all with these rights
	rules := make([]*livePage, len(paths))
	for i, path := range paths {
		u, err := url.Parse(path)
		if err == nil && u.Host == "" && u.Scheme == "" {
			rules[i] = p.rule(u.EscapedPath())
		}
		if rules[i] != nil && rules[i].cells && !other[i] {
			if _, err := v.client.Run(ctx, rules[i].run); err != nil {
				p.problem(w, r, v, err)
				return
			}
		}
		if rules[i] == nil {
			p.show(w, http.StatusNotFound, "problem", v, "Not found", "this page does not change while it is open")
			return
		}
	}
	watch := &watcher{visit: v, gone: ctx.Done(), leave: stop}
	out := &shared{out: newEvents(w), seen: make([]string, len(paths)), as: mark}
	copy(out.seen, seen)
	rights := rightsOf(me)
	var open sync.WaitGroup
	for i, path := range paths {
		open.Go(func() {
			if other[i] {
				out.send(i, out.seen[i], []message{{"other", "1"}})
				return
			}
			if !p.watch(ctx, watch, out, i, viewKey{rights, r.Host, path}, rules[i]) {
				stop()
			}
		})
	}
	open.Wait()
	if r.Context().Err() == nil && ctx.Err() != nil {
		if _, err := v.client.Whoami(r.Context()); ends(err) {
			out.out.send("login", "1")
		}
	}
}

// watch sends one view until the browser has gone, or the view has ended. It reports whether the
// stream continues.
func (p *Pages) watch(ctx context.Context, w *watcher, out *shared, at int, key viewKey, rule *livePage) bool {
	v, leave := p.join(key, rule, w)
	defer leave()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for c := (cursor{seen: out.seen[at]}); ; {
		all, seen, over, news := v.next(&c)
		if len(all) > 0 {
			if rights, err := w.rights(ctx); err != nil || rights != key.rights || !out.send(at, seen, all) {
				return false
			}
		}
		if over {
			return true
		}
		select {
		case <-news:
		case <-beat.C:
			if rights, err := w.rights(ctx); err != nil || rights != key.rights || !out.beat() {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}
