package sdk

import (
	"encoding/json"
	"runtime/debug"
	"strings"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Manifest describes a plugin. Its JSON is the manifest.json of a plugin folder.
type Manifest struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Protocol    int    `json:"protocol"`
	Concurrency int    `json:"concurrency"`       // jobs that may share one process
	Network     bool   `json:"network,omitempty"` // see [Network]
	Types       []Type `json:"types"`
}

// Type is one job type of a manifest.
type Type struct {
	Name         string             `json:"name"`
	Summary      string             `json:"summary"`
	Description  string             `json:"description,omitempty"` // markdown
	Params       json.RawMessage    `json:"params"`                // JSON Schema
	Outputs      json.RawMessage    `json:"outputs,omitempty"`     // JSON Schema
	Check        bool               `json:"check"`
	Idempotent   bool               `json:"idempotent"`
	Disruptive   bool               `json:"disruptive"`
	OnLost       string             `json:"on_lost"` // retry | hold
	StateVersion int                `json:"state_version,omitempty"`
	Examples     []DescribedExample `json:"examples,omitempty"`

	Reverts       bool     `json:"reverts,omitempty"`        // see [Reverts]
	RevertsUnless []string `json:"reverts_unless,omitempty"` // names of params; with a true one it does not
}

// DescribedExample is a valid with: of a type.
type DescribedExample struct {
	Title   string          `json:"title"`
	Params  json.RawMessage `json:"params"`
	Secrets []string        `json:"secrets,omitempty"` // names under which its step lists secrets
}

// Describe is the manifest of the job types, without a process.
func Describe(defs ...Def) Manifest {
	m := Manifest{Protocol: wire.ProtocolVersion}
	for _, d := range defs {
		if d.plugin != nil {
			m.Name, m.Version = d.plugin.name, d.plugin.version
		}
		m.Network = m.Network || d.network
		if d.job == nil {
			continue
		}
		m.Types = append(m.Types, d.job.Type)
		if m.Concurrency == 0 || d.job.concurrency < m.Concurrency {
			m.Concurrency = d.job.concurrency
		}
	}
	if m.Name == "" && len(m.Types) > 0 {
		m.Name, _, _ = strings.Cut(m.Types[0].Name, ".")
	}
	if m.Version == "" {
		m.Version = buildVersion()
	}
	return m
}

// buildVersion is the main module's version where the go command recorded one.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "0.0.0-dev"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

func (m Manifest) wire() *wire.Manifest {
	out := &wire.Manifest{
		Name: m.Name, Version: m.Version,
		Protocol: uint32(m.Protocol), Concurrency: uint32(m.Concurrency), Network: m.Network,
	}
	for _, t := range m.Types {
		w := &wire.JobType{
			Name: t.Name, Summary: t.Summary, Description: t.Description,
			ParamsSchema: t.Params, OutputsSchema: t.Outputs,
			Check: t.Check, Idempotent: t.Idempotent, Disruptive: t.Disruptive,
			OnLost: t.OnLost, StateVersion: uint32(t.StateVersion), Reverts: t.Reverts, RevertsUnless: t.RevertsUnless,
		}
		for _, e := range t.Examples {
			w.Examples = append(w.Examples, &wire.Example{Title: e.Title, Params: e.Params, Secrets: e.Secrets})
		}
		out.Types = append(out.Types, w)
	}
	return out
}
