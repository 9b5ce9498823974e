package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

type item struct {
	Port int    `json:"port" turnus:"required,min=1,max=65535"`
	Kind string `json:"kind" turnus:"enum=tcp|udp,default=tcp"`
}

type base struct {
	Shared string `json:"shared" turnus:"default=s"`
}

type wide struct {
	base
	Name    string            `json:"name" turnus:"required,min=2,max=5" jsonschema:"its name"`
	Path    string            `json:"path" turnus:"pattern=^/[a-z,]+$"`
	Count   int64             `json:"count" turnus:"default=9007199254740993"` // over 2^53
	Rate    float64           `json:"rate" turnus:"min=0.5"`
	On      bool              `json:"on" turnus:"default=true"`
	Items   []item            `json:"items" turnus:"max=3"`
	Labels  map[string]string `json:"labels"`
	Vars    map[string]any    `json:"vars"`
	Wait    sdk.Duration      `json:"wait" turnus:"default=1m30s"`
	Size    sdk.Size          `json:"size" turnus:"default=10MiB"`
	Pointer *string           `json:"pointer"`
	Inner   struct {
		Deep int `json:"deep" turnus:"default=7"`
	} `json:"inner"`
}

func (w *wide) Validate() error {
	if w.Name == "bad" {
		return errors.Join(&sdk.ParamError{Pointer: "/name", Err: errors.New("this one")}, errors.New("and this"))
	}
	return nil
}

func wideDef(seen *wide) sdk.Def {
	return sdk.Job("test.wide", func(_ context.Context, r *sdk.Run[wide, sdk.NoState]) error {
		*seen = r.Params
		return nil
	})
}

func TestDefaultsAreApplied(t *testing.T) {
	var got wide
	kit := plugintest.New(t, wideDef(&got))
	if result := kit.Run(sdk.With{"name": "ab", "items": []sdk.With{{"port": 1}}, "inner": sdk.With{}}); result.Outcome != "unchanged" {
		t.Fatalf("got %s (%s)", result.Outcome, result.Reason)
	}
	want := wide{
		base: base{Shared: "s"}, Name: "ab", Count: 9007199254740993, On: true,
		Items: []item{{Port: 1, Kind: "tcp"}}, Wait: sdk.Duration(90 * time.Second), Size: 10 << 20,
	}
	want.Inner.Deep = 7
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	kit.Run(sdk.With{"name": "ab", "on": false, "count": 0, "wait": "0s", "size": 5, "pointer": ""})
	if got.On || got.Count != 0 || got.Wait != 0 || got.Size != 5 || got.Pointer == nil {
		t.Errorf("what is given must not become the default: %+v", got)
	}
}

func TestParametersAreStrict(t *testing.T) {
	kit := plugintest.New(t, wideDef(new(wide)))
	for name, tc := range map[string]struct {
		with any
		want []string
	}{
		"no mapping":        {[]int{1}, []string{": expected a mapping, found a list"}},
		"several at once":   {sdk.With{"nam": 1, "count": "x"}, []string{"/count: expected a whole number, found \"x\"", `/nam: unknown parameter "nam"; did you mean "name"?`, `: parameter "name" is required`}},
		"null is not given": {sdk.With{"name": nil}, []string{"/name: expected text, found nothing"}},
		"other case":        {sdk.With{"name": "ab", "Path": "/x"}, []string{`/Path: unknown parameter "Path"; did you mean "path"?`}},
		"too short":         {sdk.With{"name": "a"}, []string{"/name: expected at least 2 characters, found 1"}},
		"characters":        {sdk.With{"name": "ééééé"}, nil},
		"too long":          {sdk.With{"name": "abcdef"}, []string{"/name: expected at most 5 characters, found 6"}},
		"pattern, comma":    {sdk.With{"name": "ab", "path": "/a,b"}, nil},
		"pattern":           {sdk.With{"name": "ab", "path": "x"}, []string{`/path: "x" does not match ^/[a-z,]+$`}},
		"a fraction":        {sdk.With{"name": "ab", "count": 1.5}, []string{"/count: expected a whole number, found the number 1.5"}},
		"too small":         {sdk.With{"name": "ab", "rate": 0.25}, []string{"/rate: expected at least 0.5, found 0.25"}},
		"deep":              {sdk.With{"name": "ab", "items": []any{sdk.With{"port": 1}, sdk.With{"port": 0, "kind": "icmp", "x/y~": 1}}}, []string{`/items/1/kind: expected one of tcp, udp, found "icmp"`, "/items/1/port: expected at least 1, found 0", `/items/1/x~1y~0: unknown parameter "x/y~"; known are kind, port`}},
		"too many":          {sdk.With{"name": "ab", "items": []any{sdk.With{"port": 1}, sdk.With{"port": 1}, sdk.With{"port": 1}, sdk.With{"port": 1}}}, []string{"/items: expected at most 3 entries, found 4"}},
		"value of a map":    {sdk.With{"name": "ab", "labels": sdk.With{"a": 1}}, []string{"/labels/a: expected text, found the number 1"}},
		"any value":         {sdk.With{"name": "ab", "vars": sdk.With{"a": sdk.With{"b": []any{sdk.With{"c": sdk.With{}}}}}}, nil},
		"duration":          {sdk.With{"name": "ab", "wait": "5 minutes"}, []string{`/wait: expected a duration such as "90s", "1h30m" or "2d", found "5 minutes"`}},
		"duration, no unit": {sdk.With{"name": "ab", "wait": "5"}, []string{`/wait: expected a duration such as "90s", "1h30m" or "2d", found "5"`}},
		"duration, number":  {sdk.With{"name": "ab", "wait": 5}, []string{"/wait: expected text, found the number 5"}},
		"size":              {sdk.With{"name": "ab", "size": "10 apples"}, []string{`/size: expected a size such as "10MiB" or a number of bytes, found "10 apples"`}},
		"NUL":               {sdk.With{"name": "ab", "labels": sdk.With{"a": "x\x00y"}}, []string{"/labels/a: expected text without a NUL byte"}},
		"control character": {sdk.With{"name": "ab", "path": "/a\nb"}, []string{`/path: expected a path without control characters, found "/a\nb"`}},
		"other lines":       {sdk.With{"name": "ab", "labels": sdk.With{"a": "x\n\ty"}}, nil},
		"Validate":          {sdk.With{"name": "bad"}, []string{"/name: this one", ": and this"}},
		"a flood of errors": {sdk.With{"name": "ab", "labels": flood(500)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := kit.Validate(tc.with)
			if name == "a flood of errors" {
				if len(got) != 50 {
					t.Errorf("got %d lines, want 50", len(got))
				}
				return
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// A playbook's own keys, such as timeout, are read by playbooks.ParseDuration: params read alike.
func TestDurationsAreThoseOfPlaybooks(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "30s": 30 * time.Second, "1.5h": 90 * time.Minute, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond,
		"1d": 24 * time.Hour, "2d12h": 60 * time.Hour, "0.5d": 12 * time.Hour, "1w": 7 * 24 * time.Hour, "0.001s": time.Millisecond,
	} {
		var got sdk.Duration
		if err := json.Unmarshal([]byte(strconv.Quote(text)), &got); err != nil || time.Duration(got) != want {
			t.Errorf("%s = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "-1d", "1y", "1 d", "1d ", "1D", "99999999999999999999w", ".5d"} {
		var got sdk.Duration
		if err := json.Unmarshal([]byte(strconv.Quote(text)), &got); err == nil {
			t.Errorf("%q = %v, expected an error", text, got)
		}
	}
}

func flood(n int) sdk.With {
	w := sdk.With{}
	for i := range n {
		w[fmt.Sprint(i)] = i
	}
	return w
}

func TestManifest(t *testing.T) {
	m := sdk.Describe(sdk.Plugin("wide", "1.2.3"), wideDef(new(wide)),
		sdk.Job("test.more", func(context.Context, *sdk.Run[struct{}, phase]) error { return nil },
			sdk.Idempotent(true), sdk.Check(), sdk.Disruptive(), sdk.Reverts("force"), sdk.Concurrency(4), sdk.Outputs[item](),
			sdk.Summary("s"), sdk.Description("d"), sdk.Example("e", sdk.With{})))
	if m.Name != "wide" || m.Version != "1.2.3" || m.Protocol != 1 || m.Concurrency != 4 || len(m.Types) != 2 {
		t.Errorf("got %+v", m)
	}
	first, more := m.Types[0], m.Types[1]
	if first.OnLost != "hold" || first.Idempotent || first.StateVersion != 0 {
		t.Errorf("defaults: %+v", first)
	}
	if more.OnLost != "retry" || !more.Check || !more.Disruptive || !more.Reverts || len(more.RevertsUnless) != 1 || more.StateVersion != 1 || len(more.Examples) != 1 || more.Outputs == nil {
		t.Errorf("options: %+v", more)
	}
	var schema struct {
		Required             []string
		Properties           map[string]map[string]any
		AdditionalProperties any
	}
	if err := json.Unmarshal(first.Params, &schema); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(schema.Required, []string{"name"}) || schema.AdditionalProperties == nil {
		t.Errorf("required %v, additional %v", schema.Required, schema.AdditionalProperties)
	}
	name := schema.Properties["name"]
	if name["description"] != "its name" || name["minLength"] != 2.0 || schema.Properties["on"]["default"] != true || schema.Properties["items"]["type"] != "array" {
		t.Errorf("properties %v", schema.Properties)
	}
}

func TestWrongDeclarationsPanic(t *testing.T) {
	for name, declare := range map[string]func(){
		"name":    func() { sdk.Job("Bad Name", func(context.Context, *plain) error { return nil }) },
		"example": func() { job(nil, sdk.Example("e", sdk.With{"x": 1})) },
		"default": func() {
			sdk.Job("a", func(context.Context, *sdk.Run[struct {
				A int `json:"a" turnus:"max=1,default=2"`
			}, sdk.NoState],
			) error {
				return nil
			})
		},
		"tag": func() {
			sdk.Job("a", func(context.Context, *sdk.Run[struct {
				A int `json:"a" turnus:"minimum=1"`
			}, sdk.NoState],
			) error {
				return nil
			})
		},
		"pattern": func() {
			sdk.Job("a", func(context.Context, *sdk.Run[struct {
				A string `json:"a" turnus:"pattern=("`
			}, sdk.NoState],
			) error {
				return nil
			})
		},
		"no struct": func() { sdk.Job("a", func(context.Context, *sdk.Run[int, sdk.NoState]) error { return nil }) },
		"two alike": func() { sdk.NewServer(nil, job(nil), job(nil)) },
		"on lost":   func() { sdk.OnLost("forget") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			declare()
		})
	}
}

// The shell is the judge: a quoted word comes out as it went in.
func TestQuoteSurvivesTheShell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[^\x00]{0,12}`), 1, 20).Draw(t, "words")
		script := "printf '%s\\0' " + sdk.QuoteAll(words...)
		out, err := exec.Command("/bin/sh", "-c", script).Output()
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		if want := strings.Join(words, "\x00") + "\x00"; string(out) != want {
			t.Fatalf("%s printed %q, want %q", script, out, want)
		}
	})
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		`5`: 5, `"5"`: 5, `"5B"`: 5, `"1k"`: 1000, `"2KiB"`: 2048, `"3 MB"`: 3_000_000, `"1Gi"`: 1 << 30, `"1T"`: 1e12,
		`"99999999T"`: -1, `-1`: -1, `"x"`: -1, `""`: -1, `"5X"`: -1, `1.5`: -1,
	} {
		var got sdk.Size
		err := json.Unmarshal([]byte(text), &got)
		if (err != nil) != (want < 0) || (err == nil && int64(got) != want) {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
}

func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		`{"name":"ab"}`, `{}`, ``, `[]`, `null`, `{"name":"ab","items":[{"port":1}]}`, `{"name":"ab"} x`,
		`{"name":"ab","wait":"1h","size":"1k"}`, `{"name":"ab","count":1e400}`, "{\"name\":\"\xff\xfe\"}",
		`{"name":"ab","size":"99999999999999999999T"}`, `{"name":"ab","wait":"9999999999h"}`,
	} {
		f.Add([]byte(seed))
	}
	def := wideDef(new(wide))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		kit := plugintest.New(t, def)
		bad := kit.Validate(json.RawMessage(raw))
		got := kit.Run(json.RawMessage(raw))
		if (len(bad) == 0) != (got.Outcome == "unchanged") {
			t.Errorf("Validate reports %q, Run %s (%s)", bad, got.Outcome, got.Reason)
		}
	})
}

func TestProblemsOfAPath(t *testing.T) {
	t.Parallel()
	for path, ok := range map[string]bool{"/a": true, "/a b/..c": true, "": false, "a": false, "/": false, "/a/": false, "/a/../b": false, "//a": false, "/a\nb": false, "/\x7f": false, "/a/.": false} {
		var bad sdk.Problems
		if bad.Path("/path", path); (bad.Err() == nil) != ok {
			t.Errorf("%q: %v", path, bad.Err())
		}
	}
}

func TestVarsAreOneWordEach(t *testing.T) {
	t.Parallel()
	const odd = "it's $HOME; `id`\n*"
	script := sdk.Vars("a", odd, "n", 3, "b", true, "none", "") + `printf '%s|' "$a" "$n" "$b" "$none"`
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).Output(); err != nil || string(out) != odd+"|3|true||" {
		t.Errorf("%q: %q, %v", script, out, err)
	}
}
