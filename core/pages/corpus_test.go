package pages

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// corpus is texts that would do something if a page took them for more than text, by family.
func corpus() map[string][]string {
	all := map[string][]string{
		"templates": {"{{.}}", "{{.Who.Name}}", "{{`x`}}", "${alert(1)}", "#{1+1}", "<%= 1 %>", "{% raw %}", "[[x]]", "{{template \"content\"}}", "}}{{"},
		"bidi":      {"\u202eevil", "\u2066a\u2069", "a\u200bb", "\ufeffx", "\u2028x\u2029", "\u00a0", "e\u0301", "<\u0338script>", "＜script＞", "\u061c", "ſcript", "\U000e0041"},
		"control":   {"\x1b[31mred\x1b[0m", "\x1b]8;;http://e\x07x", "\x1b[2J", "\x1b]0;t\x07", "\a\b", "\x7f", "a\rb", "a\nb", "\r\n\r\nevent: x", "\x1b[999999999m", "\x00", "\x1b[38;5;1mx"},
		"formulas":  {"=1+1", "+1", "-1", "@SUM(1)", "=cmd|' /C calc'!A0", "\t=1", `=HYPERLINK("http://e")`},
		"JSON":      {`"}]`, `"}</script>`, `\u003cscript\u003e`, `\"`, `\\`, `{"a":1}`, `null`, `"],"x":["`},
		"paths":     {"../../etc", "..%2f", "//evil.example.net", "/login?next=//e", "a/b", "a?b#c", "%00", "%3Cscript%3E", `\\evil\x`, "."},
		"long":      {strings.Repeat("A", 5000), strings.Repeat("<b>", 500), strings.Repeat("&lt;", 500), strings.Repeat("ä\u0301", 500)},
	}
	for _, tag := range []string{"script", "img", "svg", "iframe", "object", "embed", "base", "meta", "link", "style", "form", "input", "textarea", "title", "math", "details", "template", "noscript", "plaintext", "xmp"} {
		for _, shape := range []string{"<%s>", "</%s>", "<%s/onload=alert(1)>", "</td></table><%s src=x onerror=alert(1)>", "<%s><!--"} {
			all["tags"] = append(all["tags"], fmt.Sprintf(shape, tag))
		}
	}
	for _, quote := range []string{`"`, `'`, "`", `">`, `'>`, " "} {
		for _, handler := range []string{"onclick", "onfocus autofocus", "onmouseover", "onanimationstart", "style", "formaction"} {
			all["attributes"] = append(all["attributes"], quote+handler+"=alert(1) "+quote)
		}
	}
	for _, scheme := range []string{"javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)", " javascript:x", "data:text/html,<script>1</script>", "vbscript:x", "&#106;avascript:x", "blob:x", "file:///etc/passwd"} {
		all["addresses"] = append(all["addresses"], scheme, `<a href="`+scheme+`">x</a>`, "url("+scheme+")")
	}
	return all
}

// saying is an API whose texts of hosts, people and git are another text than hostile.
type saying struct {
	http.Handler
	text atomic.Value // string
}

func inJSON(s string) string {
	b, _ := json.Marshal(s)
	return strings.Trim(string(b[1:len(b)-1]), "\n")
}

func (s *saying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got := httptest.NewRecorder()
	s.Handler.ServeHTTP(got, r)
	maps.Copy(w.Header(), got.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(got.Code)
	text := s.text.Load().(string)
	body := strings.ReplaceAll(got.Body.String(), inJSON(hostile), inJSON(text))
	_, _ = w.Write([]byte(strings.ReplaceAll(body, hostile, text)))
}

// formPages are pages of windows, schedules, playbooks, the calendar and the retry of a run.
var formPages = []string{"/windows", "/windows/night", "/schedules", "/schedules/acme:night", "/playbooks", "/playbooks/shop", "/playbooks/shop?plan=1", "/calendar", "/calendar?only=conflict", "/runs", "/runs/r0/retry"}

// corpusAnswers returns answers of the API for these pages, the overview and the project, with
// hostile texts wherever others choose one.
func corpusAnswers() map[string]any {
	at := time.Date(2026, 12, 7, 2, 0, 0, 0, time.UTC)
	work := []api.WindowWork{{Playbook: hostile, Hosts: 12, Need: 1500}}
	open := []api.Occurrence{{Open: at, Close: at.Add(time.Hour), OpenLocal: hostile, CloseLocal: hostile, Notes: []string{hostile}}}
	set := api.WindowSet{Name: hostile, Timezone: hostile, Reason: hostile, Hosts: 12, Next: open, Work: work, Approval: hostile, ApprovedBy: hostile, Hash: hostile}
	approval := api.WindowApproval{Set: "night", Rule: hostile, Timezone: hostile, Hosts: 12, Hash: hostile, State: "proposed", Reason: hostile, Decides: true, Work: work, Waiting: open, Given: []api.WindowWord{{By: hostile, Ticket: hostile, Reason: hostile}}}
	schedule := api.Schedule{Name: hostile, Tenant: hostile, Playbook: hostile, Sentence: hostile, Timezone: hostile, Jitter: hostile, StartWithin: hostile, Next: at, NextLocal: hostile, PauseReason: hostile, Paused: true, LastRun: hostile, LastSkip: hostile, LastSkipAt: at, Upcoming: []api.FireTime{{At: at, Local: hostile}}}
	schedule.Limit, schedule.Vars, schedule.Reason = []string{hostile}, map[string]any{"release": hostile}, hostile
	playbook := api.Playbook{Name: hostile, Tenant: hostile, Description: hostile, File: hostile, Source: hostile, Steps: []string{hostile}, Schedule: hostile, Window: hostile, Params: []api.Param{
		{Name: hostile, Type: "string", Description: hostile, Expected: hostile, Default: hostile, Pattern: hostile}, {Name: "mode", Type: "string", Choices: []any{hostile}, Default: hostile},
	}}
	plan := api.Plan{
		Playbook: hostile, Hash: hostile, Hosts: 200, Approval: hostile, Pause: hostile, Waves: []api.PlanWave{{Wave: 1, Total: 200, Hosts: []string{hostile}}},
		Windows: []api.PlanWindow{{Set: hostile, Hosts: 3, Starts: at, StartsLocal: hostile, Reason: hostile}}, NoWindow: []api.NoWindow{{Host: hostile, Set: hostile, Reason: hostile}},
		Forecast: &api.Forecast{FinishP50: at, FinishP90: at, Binds: &api.Binds{Name: hostile, Text: hostile}, Notes: []string{hostile}}, Retried: &api.Retried{Run: "r0", LeftOut: []string{hostile}},
	}
	lane := api.CalendarLane{
		Tenant: hostile, Set: hostile, Timezone: berlin, Hosts: 12, Windows: []api.CalendarWindow{{Occurrence: open[0]}},
		FireTimes: []api.CalendarFire{{Schedule: hostile, Playbook: hostile, At: at, Local: hostile}},
		Runs:      []api.CalendarRun{{Run: hostile, Playbook: hostile, Begin: at, BeginLocal: hostile, FinishP50: at, FinishP90: at, LateLocal: hostile}},
		Conflicts: []api.CalendarConflict{{Kind: "frozen", At: at, Text: hostile}},
	}
	next := schedule
	next.Paused, next.Next = false, time.Now().Add(time.Hour) // it is on the overview
	edit := api.Change{Kind: "window_set", Name: hostile, Action: "changed", Details: []string{hostile}, Voids: []string{hostile}}
	rejected := &api.Rejected{Revision: hostile, Author: hostile, Since: at, Error: hostile}
	return map[string]any{
		"GET /v1/definitions":          api.Definitions{Revision: hostile, Source: hostile, Author: hostile, Subject: hostile, Applied: at, Rejected: rejected},
		"GET /v1/definitions/changes":  api.DefinitionChanges{From: hostile, To: hostile, At: at, Changes: []api.Change{edit}},
		"GET /v1/definitions/rejected": api.RejectedChanges{Rejected: rejected, At: at, Files: []api.FileChange{{Path: hostile, Action: "changed", Text: hostile, Note: hostile}}, Changes: []api.Change{edit}},
		"GET /v1/runs":                 items([]api.Run{newFake().run, {ID: "r0", Playbook: hostile, Phase: api.Finished, Ended: at, Reason: hostile, LaunchedBy: hostile}}),
		"GET /v1/windows":              items([]api.WindowSet{set}), "GET /v1/windows/night": set, "GET /v1/approvals": items([]api.WindowApproval{approval}),
		"GET /v1/schedules": items([]api.Schedule{schedule, next}), "GET /v1/schedules/acme:night": schedule, "POST /v1/plan": plan, "POST /v1/schedules/acme:night/plan": plan,
		"GET /v1/playbooks": items([]api.Playbook{playbook}), "GET /v1/playbooks/shop": playbook,
		"GET /v1/calendar":            api.Calendar{At: at, From: at.AddDate(0, 0, -1), To: at.AddDate(0, 0, 13), Lanes: []api.CalendarLane{lane}, Zones: []api.CalendarZone{{Name: hostile}}},
		"GET /v1/calendar-feeds":      items([]api.CalendarFeed{{ID: "f1", Name: hostile, Tenant: hostile, CreatedBy: hostile, Created: at}}),
		"GET /v1/sources":             items([]api.Source{{Name: hostile, Waiting: &api.WaitingSource{Generation: hostile, At: at, Reason: hostile}}}),
		"GET /v1/handlers":            items([]api.PendingHandler{{Playbook: hostile, Host: hostile, Handler: hostile, Run: hostile, Since: at, Removed: true, At: hostile}}),
		"GET /v1/runs/r0":             api.Run{ID: "r0", Playbook: hostile, Phase: api.Finished, Ended: at, Reason: hostile, LaunchReason: hostile, Total: 8, Outcomes: map[core.Outcome]int{core.Failed: 3}},
		"POST /v1/runs/r0/retry/plan": plan,
	}
}

// answering has answers of its own for some operations of an API.
func answering(h http.Handler, answers map[string]any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := answers[r.Method+" "+r.URL.Path]; ok {
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// skeleton is the elements of a page with the names of their attributes. An address that leads
// away is one of its own.
func skeleton(t *testing.T, text string) (all []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.CommentNode {
			all = append(all, "comment")
		}
		if n.Type != html.ElementNode {
			continue
		}
		one := n.Data
		for _, a := range n.Attr {
			one += " " + a.Key
			if u, err := url.Parse(a.Val); slices.Contains([]string{"href", "src", "action", "formaction"}, a.Key) && (err != nil || u.Scheme != "" || u.Host != "") {
				all = append(all, "leads away")
			}
		}
		all = append(all, one)
	}
	slices.Sort(all) // hosts and customers are sorted by their names
	return all
}

// No text changes a page: the elements and attributes are those of a page with a harmless text.
// Long lines and colours of terminals have elements of their own, of known kinds. Control: a text
// that is not escaped is seen.
func TestNoTextChangesAPage(t *testing.T) {
	const plain = "harmless"
	f := &serviceAPI{newFake(), api.Whoami{Name: "ann", Token: "t1", Tenant: "*", Roles: []string{"admin"}}, nil}
	f.run.Revision, f.run.Handlers = hostile, 2
	f.run.Options = &api.RunOptions{LaunchOptions: api.LaunchOptions{Limit: []string{hostile}, Vars: map[string]any{"release": hostile}, Tags: []string{hostile}}, Retry: hostile, LeftOut: []string{hostile}}
	say := &saying{Handler: answering(f, corpusAnswers())}
	say.text.Store(plain)
	p, err := New(Config{API: say, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(p)
	t.Cleanup(web.Close)
	browser := web.Client()
	browser.Jar, _ = cookiejar.New(nil)
	logIn(t, web, browser, "good", "/")
	paths := slices.Concat([]string{"/", "/runs/r1", "/runs/r1/hosts/1", "/hosts/web1", "/fleet", "/project"}, servicePages, formPages)
	made := func(text string) (pages []string) {
		say.text.Store(text)
		for _, path := range paths {
			_, page := get(t, browser, web.URL+path)
			pages = append(pages, page)
		}
		return pages
	}
	before := made(plain)
	kinds := made("harmless\n\x1b[31mred\x1b[44mboth\x1b[0m\x1b[44mblue\n" + strings.Repeat("A", 5000))
	tried, seen := 0, map[string]int{}
	for family, texts := range corpus() {
		for _, text := range texts {
			tried++
			for i, page := range made(text) {
				got, want := skeleton(t, page), skeleton(t, before[i])
				if strings.ContainsAny(text, "\x1b\r\n") || len(text) > 1000 {
					known := append(skeleton(t, kinds[i]), want...)
					got = slices.DeleteFunc(got, func(one string) bool { return slices.Contains(known, one) })
					want = nil
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: %.80q on %s changes its elements", family, text, paths[i])
				}
				if family == "tags" && strings.HasPrefix(text, "</td>") && !slices.Equal(skeleton(t, strings.ReplaceAll(before[i], plain, text)), skeleton(t, before[i])) {
					seen[paths[i]]++
				}
			}
		}
	}
	for _, path := range paths {
		if tried < 200 || seen[path] < 15 {
			t.Errorf("%d texts, and of 20 that were not escaped %d were seen on %s", tried, seen[path], path)
		}
	}
}
