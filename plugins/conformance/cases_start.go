package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// harness is the result when the suite itself is at fault.
func harness(err error) result {
	return fault("this is the machine's fault, not the plugin's: see docs/plugin-suite.md on the needs of the suite", "the suite could not work: %v", err)
}

// doesNotStart is the result on a process that was expected to.
func doesNotStart(err error) result {
	return fault("start it by hand with the environment of docs/plugin-scripts.md and see what it prints", "the program does not start: %v", err)
}

func (s *suite) handshake(ctx context.Context) result {
	w, err := newWorld(ctx, &s.cfg.Lab, 1)
	if err != nil {
		return harness(err)
	}
	defer w.close()
	started := time.Now()
	p, err := s.start(ctx, w)
	if err != nil {
		return doesNotStart(err)
	}
	took := time.Since(started)
	s.finish(p)
	stranger, err := spawn(launching{argv: s.cfg.Argv, noCookie: true}, w)
	if err != nil {
		return doesNotStart(err)
	}
	defer func() { stranger.kill(); stranger.release() }()
	select {
	case <-stranger.line:
		return fault("end with a message when the variable is missing: somebody started the program by hand",
			"it serves though %s is not %s", wire.CookieKey, wire.CookieValue)
	case <-stranger.exited:
	case <-time.After(startLimit):
		return fault("end with a message and exit code 1", "started by hand, without %s, it neither ends nor serves", wire.CookieKey)
	}
	return passed("after %v", took.Round(time.Millisecond))
}

func (s *suite) manifestIsSound(ctx context.Context) result {
	w, err := newWorld(ctx, &s.cfg.Lab, 1)
	if err != nil {
		return harness(err)
	}
	defer w.close()
	p, err := s.start(ctx, w)
	if err != nil {
		return doesNotStart(err)
	}
	defer s.finish(p)
	ctx, cancel := s.ask(ctx)
	defer cancel()
	var both [2]host.Manifest
	for i := range both {
		m, err := p.rpc.Describe(ctx, &wire.DescribeRequest{})
		if err != nil {
			return fault("answer Describe", "Describe: %v", err)
		}
		if both[i], err = host.ReadManifest(m); err != nil {
			return fault("correct what Describe answers", "the manifest is not sound: %v", err)
		}
	}
	s.manifest = both[0]
	if !reflect.DeepEqual(both[0], both[1]) {
		return fault("describe from constants: the manifest is kept, and asked for once", "two calls of Describe differ")
	}
	for _, t := range s.manifest.Types {
		if strings.TrimSpace(t.Summary) == "" {
			return fault("one line on what the type does; turnus plugins ls shows it", "job type %s has no summary", t.Name)
		}
		if t.OnLost == "retry" && !t.Idempotent {
			return fault("declare it idempotent, or on_lost: hold", "job type %s is repeated after a crash (on_lost: retry), but is not idempotent", t.Name)
		}
	}
	return s.manifestOnDisk()
}

func (s *suite) manifestOnDisk() result {
	if s.cfg.Manifest == "" {
		return passed("%s %s, %d job types", s.manifest.Name, s.manifest.Version, len(s.manifest.Types))
	}
	raw, err := os.ReadFile(s.cfg.Manifest)
	if err != nil {
		return harness(err)
	}
	var kept host.Manifest
	if err := words.Unmarshal("manifest", raw, &kept); err != nil {
		return fault("take the file away: it is made again", "%s: %v", s.cfg.Manifest, err)
	}
	a, b := normal(kept), normal(s.manifest)
	if a != b {
		return fault("make it again: turnus plugins install --force, or PROGRAM manifest > manifest.json", "%s differs from the program", s.cfg.Manifest)
	}
	return passed("%s %s, %d job types, as in manifest.json", s.manifest.Name, s.manifest.Version, len(s.manifest.Types))
}

// normal is a manifest without differences of white space and order.
func normal(m host.Manifest) string {
	var tree any
	raw, _ := json.Marshal(m)
	_ = json.Unmarshal(raw, &tree)
	raw, _ = json.Marshal(tree)
	return string(raw)
}

// errorsOf are the diagnostics that are errors.
func errorsOf(all []*wire.Diagnostic) []*wire.Diagnostic {
	return slices.DeleteFunc(slices.Clone(all), func(d *wire.Diagnostic) bool { return d.GetSeverity() != wire.Diagnostic_ERROR })
}

func (s *suite) examplesAreValid(ctx context.Context) result {
	return s.withOne(ctx, func(ctx context.Context, p *process, _ *world) result {
		n := 0
		for _, t := range s.manifest.Types {
			var schema jsonschema.Schema
			if err := words.Unmarshal("schema", t.Params, &schema); err != nil {
				return fault("", "params of %s: %v", t.Name, err)
			}
			resolved, err := schema.Resolve(nil)
			if err != nil {
				return fault("", "params of %s: %v", t.Name, words.Plain(err))
			}
			for _, e := range s.examples(t) {
				n++
				var with any
				if err := words.Unmarshal("with", e.Params, &with); err != nil {
					return fault("correct the example", "example %q of %s: %v", e.Title, t.Name, err)
				}
				if err := resolved.Validate(with); err != nil {
					return fault("correct the example or the schema", "example %q of %s does not fit the schema: %v", e.Title, t.Name, words.Misfit("with", &schema, with, err))
				}
				resp, err := p.rpc.Validate(ctx, &wire.ValidateRequest{Type: t.Name, Params: e.Params})
				if err != nil {
					return fault("answer Validate with diagnostics, not with an error", "Validate of example %q of %s: %v", e.Title, t.Name, err)
				}
				if wrong := errorsOf(resp.GetDiagnostics()); len(wrong) > 0 {
					return fault("correct the example or the validation", "example %q of %s is refused: %s: %s", e.Title, t.Name, words.At("with", wrong[0].GetPointer()), wrong[0].GetSummary())
				}
			}
		}
		if n == 0 {
			return notApplicable("no job type has an example; declare one, most other cases stand on it")
		}
		return passed("%d examples", n)
	})
}

// withOne runs a case on one fresh process with one host.
func (s *suite) withOne(ctx context.Context, run func(context.Context, *process, *world) result) result {
	return s.withHosts(ctx, 1, run)
}

func (s *suite) withHosts(ctx context.Context, n int, run func(context.Context, *process, *world) result) result {
	w, err := newWorld(ctx, &s.cfg.Lab, n)
	if err != nil {
		return harness(err)
	}
	defer w.close()
	p, err := s.start(ctx, w)
	if err != nil {
		return doesNotStart(err)
	}
	defer s.finish(p)
	return run(ctx, p, w)
}

// mistake is a with: that must be refused, and the pointer to why.
type mistake struct {
	what, pointer string
	params        map[string]any
}

// mistakes are made from a valid with:, and from the schema.
func mistakes(schema json.RawMessage, valid json.RawMessage) []mistake {
	var shape struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
		Required   []string        `json:"required"`
		Additional json.RawMessage `json:"additionalProperties"`
	}
	if json.Unmarshal(schema, &shape) != nil {
		return nil
	}
	with := func(change func(map[string]any)) map[string]any {
		m := map[string]any{}
		_ = json.Unmarshal(valid, &m)
		change(m)
		return m
	}
	var all []mistake
	if string(shape.Additional) == "false" || strings.ReplaceAll(string(shape.Additional), " ", "") == `{"not":{}}` {
		all = append(all, mistake{"an unknown parameter", "/xyzzy_unknown", with(func(m map[string]any) { m["xyzzy_unknown"] = 1 })})
	}
	for name, p := range shape.Properties {
		if kind, ok := p.Type.(string); ok && kind != "object" {
			all = append(all, mistake{fmt.Sprintf("%s with an object, where %s is expected", name, kind), "/" + name, with(func(m map[string]any) { m[name] = map[string]any{"no": true} })})
		}
	}
	for _, name := range shape.Required {
		all = append(all, mistake{"no " + name + ", which is required", "", with(func(m map[string]any) { delete(m, name) })})
	}
	slices.SortFunc(all, func(a, b mistake) int { return strings.Compare(a.what, b.what) })
	return all
}

func (s *suite) wrongParams(ctx context.Context) result {
	return s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
		n := 0
		for _, t := range s.manifest.Types {
			valid := json.RawMessage("{}")
			if e := s.examples(t); len(e) > 0 {
				valid = e[0].Params
			}
			for _, m := range mistakes(t.Params, valid) {
				n++
				if v := s.refuses(ctx, p, w, t.Name, m); v.status == Failed {
					return v
				}
			}
			if r := s.do(ctx, p, w, call{typ: t.Name, title: "not JSON", params: json.RawMessage(`{"`)}); r.err == nil && !r.out.Failed {
				return fault("refuse params that are not JSON", "params that are not JSON are taken by %s: %s", t.Name, r.end())
			}
		}
		if n == 0 {
			return notApplicable("the schemas of the params forbid nothing: set additionalProperties to false, and types")
		}
		return passed("%d mistakes refused", n)
	})
}

func (s *suite) refuses(ctx context.Context, p *process, w *world, typ string, m mistake) result {
	params := encode(m.params)
	resp, err := p.rpc.Validate(ctx, &wire.ValidateRequest{Type: typ, Params: params})
	if err != nil {
		return fault("answer Validate with diagnostics", "Validate of %s with %s: %v", typ, m.what, err)
	}
	wrong := errorsOf(resp.GetDiagnostics())
	if len(wrong) == 0 {
		return fault("check params against the schema before anything else", "Validate of %s accepts %s", typ, m.what)
	}
	if m.pointer != "" && !slices.ContainsFunc(wrong, func(d *wire.Diagnostic) bool { return strings.HasPrefix(d.GetPointer(), m.pointer) }) {
		return fault("set the diagnostic's pointer, a JSON pointer: the playbook's author sees the line that it leads to",
			"Validate of %s with %s points to %q, not to %q (%s)", typ, m.what, wrong[0].GetPointer(), m.pointer, wrong[0].GetSummary())
	}
	r := s.do(ctx, p, w, call{typ: typ, title: m.what, params: params})
	if r.err == nil && !r.out.Failed {
		return fault("check params also in Run: a worker does not validate params that are computed at run time", "Run of %s takes %s: %s", typ, m.what, r.end())
	}
	if r.err == nil && r.out.Effects != host.EffectsNone {
		return fault("report effects NONE: nothing was done", "Run of %s refuses %s, and reports that the effects are %s", typ, m.what, r.out.Effects)
	}
	if len(r.ops) > 0 {
		return fault("refuse before the first call to a host", "Run of %s refuses %s only after %q", typ, m.what, r.ops[0].what)
	}
	return result{}
}

func (s *suite) unknownType(ctx context.Context) result {
	return s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
		r := s.do(ctx, p, w, call{typ: "no_such.type", params: json.RawMessage("{}")})
		if r.err == nil && !r.out.Failed {
			return fault("answer NotFound", "a job type that it does not have ends as %s", r.end())
		}
		if status.Code(r.err) == codes.Unavailable || p.healthy(ctx) != nil {
			return fault("answer NotFound, and continue", "the process does not survive a job type that it does not have%s", p.words())
		}
		return passed("%s", r.code)
	})
}
