package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// Raw is a run whose params and state are JSON: that of a job type that is described by data.
type Raw = Run[json.RawMessage, json.RawMessage]

// Described declares a job type whose description is data instead of Go types, as that of a script
// is. Its params are a JSON Schema of type, properties, items, required, additionalProperties,
// enum, pattern, default, and the bounds of length and size; other keywords are refused. The
// function gets params with their defaults. At most concurrency jobs share one process.
func Described(t Type, concurrency int, fn func(context.Context, *Raw) error) (Def, error) {
	if !typeName().MatchString(t.Name) {
		return Def{}, fmt.Errorf("job type %q: expected noun.verb or one word, of a-z, 0-9 and _", t.Name)
	}
	if concurrency < 1 {
		return Def{}, fmt.Errorf("job type %s: concurrency %d: expected at least 1", t.Name, concurrency)
	}
	if t.OnLost == "" {
		t.OnLost = "hold"
		if t.Idempotent {
			t.OnLost = "retry"
		}
	}
	s, err := readSchema(t.Params)
	if err != nil {
		return Def{}, fmt.Errorf("job type %s: params: %w", t.Name, err)
	}
	p := params[json.RawMessage]{schema: s}
	if bad := s.checkDefaults(s.root); bad != "" {
		return Def{}, fmt.Errorf("job type %s: params: %s", t.Name, bad)
	}
	for _, e := range t.Examples {
		if _, diags := p.decode(e.Params); len(diags) > 0 {
			return Def{}, fmt.Errorf("job type %s: example %q: %s", t.Name, e.Title, diagnosticsText(diags))
		}
	}
	j := &jobType{Type: t, concurrency: concurrency}
	j.validate = func(raw []byte) []*wire.Diagnostic {
		_, diags := p.decode(raw)
		return diags
	}
	j.run = func(ctx context.Context, s *session) error {
		r, err := newRun[json.RawMessage, json.RawMessage](s, j, p)
		if err != nil {
			return err
		}
		return fn(ctx, r)
	}
	return Def{job: j}, nil
}

// keywords lists the keywords that the walker of params understands, or may pass over.
var keywords = []string{
	"$schema", "title", "description", "type", "properties", "items", "required", "additionalProperties", "enum", "pattern", "default",
	"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", wire.SecretKeyword, wire.FileKeyword,
	wire.ConditionKeyword,
}

func readSchema(raw json.RawMessage) (*schema, error) {
	s := &schema{root: &jsonschema.Schema{}, encoded: raw, patterns: map[string]*regexp.Regexp{}}
	if err := words.Unmarshal("schema", raw, s.root); err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	return s, s.take("", tree)
}

// take checks the keywords of a schema and of those within it, and compiles their patterns.
func (s *schema) take(at string, tree any) error {
	node, ok := tree.(map[string]any)
	if !ok {
		return nil // true or false
	}
	for _, key := range sortedKeys(node) {
		where, value := at+"/"+key, node[key]
		var err error
		switch {
		case !slices.Contains(keywords, key):
			err = fmt.Errorf("%s: this keyword is not supported here", where)
		case key == "pattern":
			text, _ := value.(string)
			if err = s.compile(text); err != nil {
				err = fmt.Errorf("%s: %w", where, err)
			}
		case key == "properties":
			properties, _ := value.(map[string]any)
			for _, name := range sortedKeys(properties) {
				err = errors.Join(err, s.take(where+"/"+name, properties[name]))
			}
		case key == "items", key == "additionalProperties":
			err = s.take(where, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Hold suspends the job as an [ErrWindowClosed] does, with a state: for a job type that learned of
// the closed window in another process than its own.
func Hold(state json.RawMessage, reason string) error {
	return &suspension{state: state, reason: reason, held: true}
}

// The environment of a program that a job type starts to work for it.
const (
	helperLease = "TURNUS_LEASE"
	helperHost  = "TURNUS_HOST"
	helperState = "TURNUS_STATE_VERSION"
)

// HelperEnv lets a program that the job type starts use the host services as this job, by [Attach].
// The program must stay in the plugin's process group, and loses the right when the function
// returns.
func (r *Run[P, S]) HelperEnv() []string {
	return []string{
		wire.HostSocketEnv + "=" + os.Getenv(wire.HostSocketEnv), helperLease + "=" + r.s.req.GetLease(),
		helperHost + "=" + r.s.req.GetHost(), helperState + "=" + strconv.Itoa(r.stateVer),
	}
}

// Attach is the run of the job that started this process with [Run.HelperEnv]. It reaches hosts,
// secrets and checkpoints; what it would report, its parent must.
func Attach() (*Raw, error) {
	lease := os.Getenv(helperLease)
	if lease == "" || os.Getenv(wire.HostSocketEnv) == "" {
		return nil, errors.New("no job: " + helperLease + " and " + wire.HostSocketEnv + " are set for programs that a job type starts")
	}
	version, _ := strconv.Atoi(os.Getenv(helperState)) // 0: no version is kept
	s := &session{
		req:    &wire.RunRequest{Lease: lease, Host: os.Getenv(helperHost)},
		events: &events{send: discard, last: discard},
	}
	worker := wirerpc.NewClient(dialWorker)
	s.hosts, s.jobs = wirerpc.Hosts{Client: worker}, wirerpc.Job{Client: worker}
	s.done.outputs = map[string]json.RawMessage{}
	return &Raw{Key: os.Getenv("TURNUS_IDEMPOTENCY_KEY"), s: s, stateVer: version}, nil
}

func discard(*wire.RunEvent) error { return nil }
