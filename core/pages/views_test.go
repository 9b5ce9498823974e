package pages

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// changingAPI answers as operations do, to several tokens, and lets a test report that something
// changed.
type changingAPI struct {
	*operations

	mu      sync.Mutex
	roles   map[string]string // role by token; others are unknown
	version int
	news    chan struct{}
	reads   int // of lists of runs
}

func newChangingAPI(runs ...api.Run) *changingAPI {
	return &changingAPI{
		operations: &operations{tenant: "acme", answers: map[string]any{
			"GET /v1/runs": map[string]any{"items": runs}, "GET /v1/schedules": map[string]any{"items": []api.Schedule{}}, "GET /v1/approvals": map[string]any{"items": []api.WindowApproval{}},
		}},
		roles: map[string]string{"ann": "viewer", "bob": "viewer", "eve": "operator"}, version: 1, news: make(chan struct{}),
	}
}

func (c *changingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	c.mu.Lock()
	role, version, news := c.roles[token], c.version, c.news
	if r.URL.Path == "/v1/runs" {
		c.reads++
	}
	c.mu.Unlock()
	switch {
	case role == "":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/v1/whoami":
		_ = json.NewEncoder(w).Encode(api.Whoami{Name: token, Token: token, Tenant: "acme", Roles: []string{role}})
	case r.URL.Path == "/v1/changes":
		if r.URL.Query().Get("since") == fmt.Sprint(version) {
			select {
			case <-news:
			case <-r.Context().Done():
			}
			c.mu.Lock()
			version = c.version
			c.mu.Unlock()
		}
		_ = json.NewEncoder(w).Encode(api.Changes{At: fmt.Sprint(version), Topics: []api.Topic{api.TopicRuns}})
	default:
		c.operations.ServeHTTP(w, r)
	}
}

// change replaces the runs.
func (c *changingAPI) change(runs ...api.Run) {
	c.set("GET /v1/runs", map[string]any{"items": runs})
	c.with(func() {
		c.version++
		close(c.news)
		c.news = make(chan struct{})
	})
}

func (c *changingAPI) with(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// streamed is an event of a stream.
type streamed struct{ id, name, data string }

// streaming is an open stream of a browser.
type streaming struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  func()
}

// streams opens /live with a query, as the person of a token.
func streams(t *testing.T, web *httptest.Server, token, query string, header ...string) *streaming {
	t.Helper()
	browser := *web.Client()
	browser.Jar, _ = cookiejar.New(nil)
	logIn(t, web, &browser, token, "/settings")
	ctx, stop := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/live?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	s := &streaming{t: t, lines: bufio.NewScanner(resp.Body), stop: func() { stop(); _ = resp.Body.Close() }}
	s.lines.Buffer(nil, 4<<20)
	t.Cleanup(s.stop)
	return s
}

// next is the next event; ok is false at the end.
func (s *streaming) next() (e streamed, ok bool) {
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data += value + "\n"
		case "":
			if e.name != "" {
				return e, true
			}
		}
	}
	return e, false
}

func (s *streaming) want(name string, parts ...string) streamed {
	s.t.Helper()
	e, ok := s.next()
	if !ok || e.name != name {
		s.t.Fatalf("%+v (%t), expected %s", e, ok, name)
	}
	for _, part := range parts {
		if !strings.Contains(e.data, part) {
			s.t.Fatalf("%s lacks %q: %s", name, part, e.data)
		}
	}
	return e
}

func liveSite(t *testing.T, c *changingAPI) *httptest.Server {
	t.Helper()
	web, _ := site(t, c)
	return web
}

func goes(id string, total int) api.Run {
	return api.Run{ID: id, Playbook: "patch " + id, Phase: api.Queued, Total: total}
}

// All who may see the same share one reading, and each gets the rows that changed only. A browser
// that comes back gets what it missed: nothing, rows, or the page. Others with other rights have a
// view of their own.
func TestOneReadingServesAllBrowsers(t *testing.T) {
	c := newChangingAPI(goes("r1", 10), goes("r2", 20))
	web := liveSite(t, c)
	const browsers = 5
	var open []*streaming
	for i := range browsers {
		s := streams(t, web, []string{"ann", "bob"}[i%2], "view=/")
		s.want("0:page", "patch r1", "patch r2")
		open = append(open, s)
	}
	var reads int
	c.with(func() { reads = c.reads })
	c.change(goes("r1", 10), goes("r2", 21))
	var last streamed
	for _, s := range open {
		last = s.want("0:parts", "patch r2", ">21<")
		if strings.Contains(last.data, "patch r1") {
			t.Errorf("a row that did not change is sent: %s", last.data)
		}
	}
	c.with(func() {
		if c.reads != reads+1 {
			t.Errorf("%d readings for %d browsers", c.reads-reads, browsers)
		}
	})
	streams(t, web, "ann", "view=/", "Last-Event-ID", last.id).want("0:same")
	open[0].stop()
	c.change(goes("r1", 11), goes("r2", 21))
	open[1].want("0:parts", "patch r1", ">11<")
	back := streams(t, web, "bob", "view=/&seen="+last.id)
	if e := back.want("0:parts", "patch r1", ">11<"); strings.Contains(e.data, "patch r2") {
		t.Errorf("a row that was seen is sent again: %s", e.data)
	}
	streams(t, web, "bob", "view=/&seen=unknown").want("0:page", "patch r1", "patch r2")
	c.with(func() { reads = c.reads })
	streams(t, web, "eve", "view=/").want("0:page")
	c.with(func() {
		if c.reads == reads {
			t.Error("control: other rights, and the same reading")
		}
	})
}

// A page names the state that it shows, and its stream begins behind that. A reader that is slow
// gets the newest state of each part, not one after the other.
func TestAStreamBeginsBehindThePage(t *testing.T) {
	c := newChangingAPI(goes("r1", 10))
	web := liveSite(t, c)
	browser := *web.Client()
	browser.Jar, _ = cookiejar.New(nil)
	_, text := logIn(t, web, &browser, "ann", "/")
	_, rest, _ := strings.Cut(text, `data-seen="`)
	seen, _, _ := strings.Cut(rest, `"`)
	s := streams(t, web, "bob", "view=/&seen="+url.QueryEscape(seen))
	s.want("0:same")

	v := &view{rule: &livePage{}, states: map[string]int{}, news: make(chan struct{})}
	page := func(a, b int) string {
		return fmt.Sprintf(`<p id="a" data-part>%d</p><!--part--> and <p id="b" data-part>%d</p><!--part-->.`, a, b)
	}
	var slow cursor
	v.put(page(1, 1))
	v.next(&slow)
	for i := range 10 {
		v.put(page(1, i))
	}
	all, _, _, _ := v.next(&slow)
	if want := []message{{"parts", `<p id="b" data-part>9</p><!--part-->`}}; !slices.Equal(all, want) {
		t.Errorf("a slow reader gets %q", all)
	}
	if again, _, _, _ := v.next(&slow); len(again) > 0 {
		t.Errorf("nothing happened: %q", again)
	}
	v.put(page(2, 9) + "more")
	if all, _, _, _ = v.next(&slow); !slices.Equal(all, []message{{"page", page(2, 9) + "more"}}) {
		t.Errorf("another shape: %q", all)
	}
	exchanged := strings.Replace(page(2, 9), `id="b"`, `id="c"`, 1)
	v.put(page(2, 9))
	v.next(&slow)
	v.put(exchanged)
	if all, _, _, _ = v.next(&slow); !slices.Equal(all, []message{{"page", exchanged}}) {
		t.Errorf("a row in place of another: %q", all)
	}
}

// A browser that loses the stream within a batch has not seen its state.
func TestABatchIsSeenWithItsLastMessage(t *testing.T) {
	w := httptest.NewRecorder()
	s := &shared{out: newEvents(w), seen: []string{"other", "old"}}
	if !s.send(1, "new", []message{{"cells", "x"}, {"page", "y"}}) {
		t.Error("it is not sent")
	}
	has(t, "the batch", w.Body.String(), "id: other,old\nevent: 1:cells\n", "id: other,new\nevent: 1:page\n")
}

// Nobody gets anything once the API refuses its session, or gives it other rights; the others
// continue, also if the view was made with that session.
func TestAnEndedSessionGetsNoChanges(t *testing.T) {
	c := newChangingAPI(goes("r1", 10))
	web := liveSite(t, c)
	ann := streams(t, web, "ann", "view=/")
	ann.want("0:page")
	bob := streams(t, web, "bob", "view=/")
	bob.want("0:page")
	c.with(func() { delete(c.roles, "ann") }) // hers made the view
	c.change(goes("r1", 77))
	bob.want("0:parts", ">77<")
	if e, _ := ann.next(); e.name != "login" || strings.Contains(e.data, "77") {
		t.Errorf("an ended session gets %+v", e)
	}
	c.with(func() { c.roles["bob"] = "operator" })
	for more := range 10 { // what a session may do is known for rightsKeep
		c.change(goes("r1", 88+more))
		if _, ok := bob.next(); !ok {
			return
		}
	}
	t.Error("a session with other rights gets changes: it has to come again")
}

// All views of a browser share one question about its session, which is asked again after
// rightsKeep. An answer that failed is not kept.
func TestRightsAreAskedTwiceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingAPI()
		asked := 0
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.with(func() { asked++ })
			c.ServeHTTP(w, r)
		})
		w := &watcher{visit: visit{client: client.InProcess(&transport{api: api, token: "ann"})}}
		ask := func(over bool) {
			t.Helper()
			var views sync.WaitGroup
			for range openStream {
				views.Go(func() {
					if _, err := w.rights(t.Context()); ends(err) != over {
						t.Errorf("%v, expected that the session has ended: %t", err, over)
					}
				})
			}
			views.Wait()
		}
		for range 3 * time.Second / cellsEvery { // what a page of a run gets
			ask(false)
			<-time.After(cellsEvery)
		}
		if want := int(3 * time.Second / rightsKeep); asked != want {
			t.Errorf("the API was asked %d times, expected %d", asked, want)
		}
		c.with(func() { delete(c.roles, "ann") })
		ask(true)
		ask(true)
		if want := int(3*time.Second/rightsKeep) + 2*openStream; asked != want {
			t.Errorf("the API was asked %d times, expected %d", asked, want)
		}
	})
}

// Several pages share a stream; an event names its page, and the id the state of each.
func TestPagesShareAStream(t *testing.T) {
	c := newChangingAPI(goes("r1", 10))
	web := liveSite(t, c)
	s := streams(t, web, "ann", "view=/&view=/schedules")
	var names []string
	var id string
	for range 2 {
		e, _ := s.next()
		names, id = append(names, e.name), e.id
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"0:page", "1:page"}) {
		t.Fatalf("%q", names)
	}
	again := streams(t, web, "ann", "view=/&view=/schedules", "Last-Event-ID", id)
	if e, _ := again.next(); !strings.HasSuffix(e.name, ":same") {
		t.Errorf("it continues with %+v", e)
	}
}

// A page stays with the person for whom it was made. The stream of a browser that logged in as
// another person reports that, and sends nothing of that person to the page. Controls: the page of
// that person in the same stream, and one of nobody.
func TestAPageOfAnotherPersonGetsNothing(t *testing.T) {
	c := newChangingAPI(goes("r1", 10))
	web := liveSite(t, c)
	mark := func(name string) string { return who{Name: name, Tenant: "acme"}.Mark() }
	browser := *web.Client()
	browser.Jar, _ = cookiejar.New(nil)
	_, text := logIn(t, web, &browser, "ann", "/")
	has(t, "her page", text, ` data-as="`+mark("ann")+`"`)
	s := streams(t, web, "bob", "view=/&view=/&view=/runs/r9&as="+mark("ann")+"&as="+mark("bob")+"&as="+mark("ann"))
	got := map[string]int{}
	for range 3 {
		e, ok := s.next()
		if !ok {
			t.Fatalf("the stream ended behind %v", got)
		}
		got[e.name]++
	}
	if got["0:other"] != 1 || got["1:page"] != 1 || got["2:other"] != 1 {
		t.Errorf("the pages got %v", got)
	}
	streams(t, web, "bob", "view=/&as=").want("0:page", "patch r1")
	only := streams(t, web, "bob", "view=/&as="+mark("ann"))
	only.want("0:other")
	if e, ok := only.next(); ok {
		t.Errorf("and then %+v", e)
	}
}

// A page that cannot be read again shows why, and changes again when it can.
func TestAPageThatIsAwaySaysSo(t *testing.T) {
	c := newChangingAPI(goes("r1", 10))
	web := liveSite(t, c)
	s := streams(t, web, "ann", "view=/")
	s.want("0:page")
	c.set("GET /v1/runs", api.Problem{Status: http.StatusServiceUnavailable, Detail: "the ledger is away"})
	c.with(func() { c.version++; close(c.news); c.news = make(chan struct{}) })
	s.want("0:away", "the ledger is away")
	joins := streams(t, web, "bob", "view=/") // the page, then that it is old
	joins.want("0:page", ">10<")
	joins.want("0:away", "the ledger is away")
	c.change(goes("r1", 12))
	s.want("0:parts", ">12<")
	s.want("0:away")
}

// Each open page may take a share of a core, so a person has a bounded number of them, on however
// many streams. Controls: another person, and the same one who closed a stream.
func TestOpenPagesOfAPersonAreBounded(t *testing.T) {
	t.Parallel()
	v := views{pages: map[string]int{}}
	var release func()
	for i := range openPerson / openStream {
		again, ok := v.take("acme/ann", openStream)
		if !ok {
			t.Fatalf("stream %d was refused", i+1)
		}
		release = again
	}
	if _, ok := v.take("acme/ann", 1); ok {
		t.Errorf("page %d of one person was opened", openPerson+1)
	}
	if _, ok := v.take("acme/bob", 1); !ok {
		t.Error("another person was refused")
	}
	release()
	if _, ok := v.take("acme/ann", openStream); !ok {
		t.Error("a person who closed a stream was refused")
	}
}
