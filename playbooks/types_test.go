package playbooks_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/playbooks"
)

// The params of the built-in job types as the examples use them.

type commandParams struct {
	Run     string            `json:"run" jsonschema:"command line, given to /bin/sh"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"environment of the command"`
	Creates string            `json:"creates,omitempty" jsonschema:"skip where this path exists"`
	Changed *bool             `json:"changed,omitempty" jsonschema:"whether a run counts as a change"`
	Removes string            `json:"removes,omitempty" jsonschema:"skip where this path does not exist"`
	Stdin   string            `json:"stdin,omitempty" jsonschema:"standard input"`
	Chdir   string            `json:"chdir,omitempty" jsonschema:"folder to run in"`
	OKCodes []int             `json:"ok_codes,omitempty" jsonschema:"exit codes that are no failure"`
}

type scriptParams struct {
	Content string            `json:"content,omitempty" jsonschema:"text of the script"`
	Source  string            `json:"source,omitempty" jsonschema:"script beside the playbook"`
	Args    []string          `json:"args,omitempty" jsonschema:"arguments"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"environment of the script"`
}

type fileParams struct {
	State    string         `json:"state,omitempty" jsonschema:"what is at the path"`
	Path     string         `json:"path" jsonschema:"file on the host"`
	Content  string         `json:"content,omitempty" jsonschema:"the whole content"`
	Template string         `json:"template,omitempty" jsonschema:"template beside the playbook"`
	Source   string         `json:"source,omitempty" jsonschema:"file beside the playbook"`
	Vars     map[string]any `json:"vars,omitempty" jsonschema:"values of the template"`
	Mode     string         `json:"mode,omitempty" jsonschema:"permissions in octal"`
	Owner    string         `json:"owner,omitempty" jsonschema:"user that owns the file"`
	Backup   string         `json:"backup,omitempty" jsonschema:"suffix of the old file's copy"`
}

type fetchParams struct {
	Path     string `json:"path" jsonschema:"file on the host"`
	Optional bool   `json:"optional,omitempty" jsonschema:"a missing file is left out"`
}

type rebootParams struct {
	Timeout string `json:"timeout,omitempty" jsonschema:"longest that the host may be away"`
}

type firewallProbe struct {
	From   string `json:"from,omitempty" jsonschema:"who connects"`
	To     string `json:"to" jsonschema:"address"`
	Port   int    `json:"port" jsonschema:"TCP port"`
	Expect string `json:"expect,omitempty" jsonschema:"open or closed"`
}

type firewallParams struct {
	Mode           string          `json:"mode,omitempty" jsonschema:"replace, widen or narrow"`
	Artifact       string          `json:"artifact,omitempty" jsonschema:"file beside the playbook"`
	ConfirmTimeout string          `json:"confirm_timeout,omitempty" jsonschema:"until the host takes the push back"`
	Probes         []firewallProbe `json:"probes,omitempty" jsonschema:"connections that prove it"`
	MgmtSources    []string        `json:"mgmt_sources,omitempty" jsonschema:"who must reach SSH"`
	OnDrift        string          `json:"on_drift,omitempty" jsonschema:"what to do with another's change"`
	Persist        string          `json:"persist,omitempty" jsonschema:"file for the next boot"`
}

type waitParams struct {
	Port    int    `json:"port,omitempty" jsonschema:"TCP port that must answer"`
	Address string `json:"address,omitempty" jsonschema:"host and port that must answer"`
	File    string `json:"file,omitempty" jsonschema:"file that must exist"`
	Timeout string `json:"timeout,omitempty" jsonschema:"longest to wait"`
}

type httpParams struct {
	URL    string `json:"url" jsonschema:"address to ask"`
	Method string `json:"method,omitempty" jsonschema:"GET when not given"`
	Body   string `json:"body,omitempty" jsonschema:"body of the request"`
	Expect []int  `json:"expect,omitempty" jsonschema:"codes that are good"`
	From   string `json:"from,omitempty" jsonschema:"who asks: worker or host"`
	Match  string `json:"body_match,omitempty" jsonschema:"what the body must match"`
}

type noOutputs struct{}

type scriptOutputs struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

func schemaOf[T any](t testing.TB, edit ...func(*jsonschema.Schema)) json.RawMessage {
	t.Helper()
	s, err := jsonschema.For[T](nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edit {
		e(s)
	}
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func builtins(t testing.TB) []playbooks.Type {
	t.Helper()
	return []playbooks.Type{
		{Name: "command", Params: schemaOf[commandParams](t), Outputs: schemaOf[noOutputs](t)},
		{Name: "script", Params: schemaOf[scriptParams](t), Outputs: schemaOf[scriptOutputs](t)},
		{Name: "file", Params: schemaOf[fileParams](t, func(s *jsonschema.Schema) { s.Properties["mode"].Pattern = "^0?[0-7]{3,4}$" })},
		{Name: "fetch", Params: schemaOf[fetchParams](t)},
		{Name: "reboot", Params: schemaOf[rebootParams](t), Disruptive: true},
		{Name: "wait", Params: schemaOf[waitParams](t, func(s *jsonschema.Schema) {
			s.Properties["port"].Minimum, s.Properties["port"].Maximum = new(1.0), new(65535.0)
		})},
		{Name: "http", Params: schemaOf[httpParams](t, func(s *jsonschema.Schema) {
			s.Properties["from"].Enum = []any{"worker", "host"}
			for _, name := range []string{"url", "body"} {
				s.Properties[name].Extra = map[string]any{"x-turnus-secret": true}
			}
		})},
		{Name: "firmware.stage"}, {Name: "firmware.upgrade"}, {Name: "dnssec.rollover"}, {Name: "config.backup"},
		{Name: "firewall.push", Params: schemaOf[firewallParams](t), Disruptive: true},
	}
}

func options(t testing.TB) playbooks.Options {
	t.Helper()
	types := builtins(t)
	o := playbooks.Options{Types: func(name string) (playbooks.Type, bool) {
		i := slices.IndexFunc(types, func(t playbooks.Type) bool { return t.Name == name })
		if i < 0 {
			return playbooks.Type{}, false
		}
		return types[i], true
	}}
	for _, typ := range types {
		o.TypeNames = append(o.TypeNames, typ.Name)
	}
	return o
}
