package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// goish matches text that no plugin author or operator should have to read.
var goish = regexp.MustCompile(`json: |Go (struct|value)|interface \{\}|map\[|\*?\bsdk(_test)?\.|unsupported (type|value)|func\(`)

type level struct{ name string }

func (l *level) UnmarshalText(raw []byte) error {
	if l.name = string(raw); l.name != "low" && l.name != "high" {
		return fmt.Errorf("expected low or high, found %q", raw)
	}
	return nil
}

type unworded struct {
	Path  string         `json:"path"`
	Hosts []unwordedHost `json:"hosts"`
	Fail  string         `json:"fail"`
}

type unwordedHost struct {
	Levels map[level]int `json:"levels"`
	Small  half          `json:"small"`
}

// half is a whole number to the schema, and only an even one to itself.
type half int

func (h *half) UnmarshalJSON(raw []byte) error {
	var n int
	if err := json.Unmarshal(raw, &n); err != nil {
		return err
	}
	if *h = half(n / 2); n%2 != 0 {
		return fmt.Errorf("expected an even number, found %d", n)
	}
	return nil
}

func (l level) MarshalText() ([]byte, error) { return []byte(l.name), nil }

type unwordedState struct {
	Phase string   `json:"phase"`
	Seen  []string `json:"seen"`
}

func unwordedDef() sdk.Def {
	return sdk.Job("test.words", func(_ context.Context, r *sdk.Run[unworded, unwordedState]) error {
		switch r.Params.Fail {
		case "output":
			r.Output("size", math.Inf(1))
		case "evidence":
			r.Evidence("probe", make(chan unworded))
		case "answer": // as most authors write it
			var answer struct {
				Boot unwordedState `json:"boot"`
			}
			return json.Unmarshal([]byte(`{"boot":{"phase":7}}`), &answer)
		}
		return nil
	}, sdk.StateVersion(2, func(_ int, state json.RawMessage) (json.RawMessage, error) {
		var old struct {
			Done int `json:"done"`
		}
		return state, json.Unmarshal(state, &old)
	}))
}

// Red with words.Explain and words.Plain returning the error as it is, and with the messages of
// before.
func TestFaultP12NoGoTypesInWhatAStepSays(t *testing.T) {
	kit := plugintest.New(t, unwordedDef())
	state := func(version int, text string) plugintest.Option {
		return plugintest.Resume(&plugintest.State{Version: version, JSON: json.RawMessage(text)})
	}
	for name, c := range map[string]struct {
		with any
		opts []plugintest.Option
		want string
	}{
		"a param":                {sdk.With{"path": 5}, nil, "with.path: expected text, found the number 5"},
		"deep":                   {sdk.With{"hosts": []any{sdk.With{}, sdk.With{"levels": sdk.With{"low": "x"}}}}, nil, `with.hosts[1].levels.low: expected a whole number, found "x"`},
		"beyond the schema":      {sdk.With{"hosts": []any{sdk.With{}, sdk.With{"small": 3}}}, nil, "with.hosts[1].small: expected an even number, found 3"},
		"a key beyond the shema": {sdk.With{"hosts": []any{sdk.With{"levels": sdk.With{"mid": 1}}}}, nil, `expected low or high, found "mid"`},
		"no mapping":             {[]int{1}, nil, "invalid parameters: expected a mapping, found a list"},
		"a state":                {sdk.With{}, []plugintest.Option{state(2, `{"phase":"a","seen":[1]}`)}, "the saved state of test.words cannot be read: state.seen[0]: expected text, found the number 1"},
		"an older state":         {sdk.With{}, []plugintest.Option{state(1, `{"done":"x"}`)}, "the saved state of test.words cannot be used: from version 1 to 2: done: expected a whole number, found text"},
		"a newer state":          {sdk.With{}, []plugintest.Option{state(3, `{}`)}, "state version 3: another version of the plugin saved it, this plugin knows 2"},
		"an output":              {sdk.With{"fail": "output"}, nil, `output "size": +Inf cannot be written as JSON`},
		"evidence":               {sdk.With{"fail": "evidence"}, nil, `evidence "probe": a channel cannot be written as JSON`},
		"the author's own":       {sdk.With{"fail": "answer"}, nil, "boot.phase: expected text, found a number"},
	} {
		result := kit.Run(c.with, c.opts...)
		if result.Outcome != "failed" || !strings.Contains(result.Reason, c.want) || goish.MatchString(result.Reason) {
			t.Errorf("%s: %s\n got %q\nwant %q", name, result.Outcome, result.Reason, c.want)
		}
	}
}

// A problem with a declaration stops the plugin before its handshake, and is the last that its
// worker hears.
func TestFaultP12NoGoTypesInDeclarations(t *testing.T) {
	type inner struct {
		Done func() `json:"done"`
	}
	type outer struct {
		Inner []inner `json:"inner"`
	}
	type loop struct {
		Next *loop `json:"next"`
	}
	for want, declare := range map[string]func(){
		"field inner[].done: a function cannot be given in a playbook": func() { declare[outer]() },
		"field next: it holds itself, without end":                     func() { declare[loop]() },
		"expected a struct, whose fields are the keys":                 func() { declare[[]outer]() },
		"field by: a mapping whose keys are not text cannot be given": func() {
			declare[struct {
				By map[int]string `json:"by"`
			}]()
		},
		"field path: its tag jsonschema is empty; expected a description": func() {
			declare[struct {
				Path string `json:"path" jsonschema:""`
			}]()
		},
		`field Path, tag turnus:"min=x": bound "x": expected a number`: func() {
			declare[struct {
				Path string `json:"path" turnus:"min=x"`
			}]()
		},
		`default: with.small: expected a whole number, found the number 1.5`: func() {
			declare[struct {
				Small int `json:"small" turnus:"default=1.5"`
			}]()
		},
		`example "One": with.path: expected text, found the number 7`: func() { declare[unworded](sdk.Example("One", sdk.With{"path": 7})) },
		`job type test.words: params: schema.properties: expected a mapping, found a list`: func() {
			_, err := sdk.Described(sdk.Type{Name: "test.words", Params: []byte(`{"properties":[1]}`)}, 1, nil)
			panic(err)
		},
	} {
		func() {
			defer func() {
				got := fmt.Sprint(recover())
				if !strings.Contains(got, want) || goish.MatchString(strings.TrimPrefix(strings.TrimPrefix(got, "sdk.Job"), "sdk: ")) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			}()
			declare()
		}()
	}
}

func declare[P any](opts ...sdk.Option) {
	sdk.Job("test.words", func(context.Context, *sdk.Run[P, sdk.NoState]) error { return nil }, opts...)
}
