package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// generator makes requests of the schema: values that fit it, values at its edges, and values that
// do not fit.
type generator struct {
	*rand.Rand
	schemas huma.Registry
}

// odd are texts that make servers stumble.
var odd = []string{
	"", " ", "*", "0", "-1", "null", "\x00", "\u202e", "a\nb", "../../etc/passwd", "@/etc/passwd", "%2e%2e%2f", "'; DROP TABLE runs; --", "{{7*7}}", "acme", "acme-1", "acme-patch",
	"acme-night", "acme:acme-patch", ":", "::", "~(", "~(a+)+$", "[", "GROUP[0]", "!", "&", "all", "9999999999999999999", "1e309", "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
	"90d", "-5m", "1h30m", "\"0\"", "W/\"1\"", "0 3 * * 1", "*/0 * * * *", "Europe/Zurich", "Mars/Base", strings.Repeat("a", 300), strings.Repeat("é", 200), "\xff\xfe",
}

func pick[T any](g *generator, of []T) T { return of[g.IntN(len(of))] }

// value makes a JSON value for a schema.
func (g *generator) value(s *huma.Schema, depth int) any {
	if s == nil || depth > 6 || g.IntN(25) == 0 {
		return pick(g, []any{nil, true, -1, 1e308, 0, "x", []any{}, map[string]any{}, []any{nil, []any{[]any{}}}})
	}
	if s.Ref != "" {
		s = g.schemas.SchemaFromRef(s.Ref)
	}
	if len(s.Enum) > 0 && g.IntN(5) > 0 {
		return pick(g, s.Enum)
	}
	switch s.Type {
	case huma.TypeObject:
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) && g.IntN(20) > 0 || g.IntN(3) == 0 {
				object[name] = g.value(s.Properties[name], depth+1)
			}
		}
		if g.IntN(10) == 0 || s.AdditionalProperties != nil && s.AdditionalProperties != false && g.IntN(2) == 0 {
			object[pick(g, odd)] = g.value(nil, depth+1)
		}
		return object
	case huma.TypeArray:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(s.Items, depth+1))
		}
		return list
	case huma.TypeInteger, huma.TypeNumber:
		return pick(g, []any{0, 1, 2, 3, 100, -1, 1 << 31, int64(1) << 62, 0.5, "1"})
	case huma.TypeBoolean:
		return g.IntN(2) == 0
	}
	if s.Format == "date-time" && g.IntN(3) > 0 {
		return fmt.Sprintf("20%02d-%02d-%02dT0%d:00:00Z", g.IntN(40), 1+g.IntN(12), 1+g.IntN(28), g.IntN(10))
	}
	return pick(g, odd)
}

// request makes a request of an operation: mostly as in the document, with the bed's own things as
// often as not.
func (g *generator) request(o operation) (method, target, body string, headers []string) {
	target = o.url
	if g.IntN(3) == 0 { // other things than those that are there
		for _, value := range o.path {
			target = strings.ReplaceAll(target, "/"+value, "/"+url.PathEscape(pick(g, odd)))
		}
	}
	query := url.Values{}
	for _, p := range o.Parameters {
		if g.IntN(2) == 0 {
			continue
		}
		text := fmt.Sprint(g.value(p.Schema, 5))
		switch p.In {
		case "query":
			query.Set(p.Name, text)
		case "header":
			if strings.IndexFunc(text, func(r rune) bool { return r < ' ' }) < 0 {
				headers = append(headers, p.Name, text)
			}
		}
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if o.RequestBody == nil {
		return o.Method, target, "", headers
	}
	if o.RequestBody.Content["application/json"] == nil {
		return o.Method, target, strings.Repeat("output\n", g.IntN(20_000)), headers
	}
	text, err := json.Marshal(g.value(o.RequestBody.Content["application/json"].Schema, 0))
	if err != nil {
		text = []byte("{")
	}
	if g.IntN(10) == 0 && len(text) > 0 { // and what is no JSON at all
		text[g.IntN(len(text))] ^= byte(1 + g.IntN(255))
	}
	if g.IntN(30) == 0 {
		text = []byte(strings.Repeat("[", 20_000))
	}
	return o.Method, target, string(text), headers
}

// barrage sends n generated requests and fails on each answer that is a fault of the server.
func (b *bed) barrage(all []operation, seed uint64, n int) (answers map[int]int) {
	b.t.Helper()
	g := &generator{rand.New(rand.NewPCG(seed, 1)), b.server.OpenAPI().Components.Schemas}
	answers = map[int]int{}
	for range n {
		o := pick(g, all)
		method, target, body, headers := g.request(o)
		secret := b.token(everyTenant, Admin, o.permits...)
		if g.IntN(3) == 0 {
			secret = b.token("acme", Admin, o.permits...)
		}
		var payload any
		if body != "" {
			payload = body
		}
		a := b.ask(secret, method, target, payload, headers...)
		answers[a.status]++
		if a.status >= 500 || a.status < 200 {
			b.t.Fatalf("seed %d: %s %s %v %.500s: %d %s", seed, method, target, headers, body, a.status, a.body)
		}
		if a.status >= 400 && a.status != http.StatusRequestedRangeNotSatisfiable && !strings.Contains(a.header.Get("Content-Type"), "problem+json") {
			b.t.Fatalf("seed %d: %s %s: %d is no problem: %v %.300s", seed, method, target, a.status, a.header, a.body)
		}
	}
	return answers
}

// fuzzed returns the operations that may be sent to a bed where nobody works: streams of runs that
// never end are followed elsewhere.
func (b *bed) fuzzed() []operation {
	return slices.DeleteFunc(b.walk(), func(o operation) bool { return o.sse })
}

func TestGeneratedRequestsFindNoFault(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	answers := b.barrage(b.fuzzed(), 20261120, 1500)
	if answers[200] == 0 || answers[422] == 0 || answers[404] == 0 {
		t.Fatalf("the requests are not what they should be: %v", answers)
	}
	t.Log(answers)
}

func FuzzRequests(f *testing.F) {
	b := newBed(f)
	b.work()
	all := b.fuzzed()
	for seed := range uint64(3) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		in := *b
		in.t = t
		in.barrage(all, seed, 20)
	})
}
