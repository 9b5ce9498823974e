package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/sdk/words"
)

const maxLab = 4 << 20

// Lab is an author's description of the test: the hosts on which the examples make sense, and
// states that older versions of the plugin have saved. All of it may be left out.
type Lab struct {
	Answers      []Answer                    `yaml:"answers"`       // to commands; the simulated host answers the others
	Files        map[string]string           `yaml:"files"`         // of each host
	Artifacts    string                      `yaml:"artifacts"`     // folder of the worker's files, beside the lab
	Examples     map[string][]map[string]any `yaml:"examples"`      // by job type: more with:, in addition to those of the manifest
	Secrets      []string                    `yaml:"secrets"`       // names of secrets that every step lists, in addition to those of the examples
	States       []OldState                  `yaml:"states"`        // that must be migrated
	AllowNetwork bool                        `yaml:"allow_network"` // the plugin's own process opens connections, as its manual states
}

// Answer is the hosts' answer to a command.
type Answer struct {
	On     string `yaml:"on"` // the command; * is any text
	Stdout string `yaml:"stdout"`
	Stderr string `yaml:"stderr"`
	Code   int    `yaml:"code"`
	Times  int    `yaml:"times"` // then the next that fits; 0: always
}

// OldState is a state that an older version has saved.
type OldState struct {
	Type    string         `yaml:"type"`
	Version int            `yaml:"version"`
	State   map[string]any `yaml:"state"`
}

// ReadLab reads a lab file.
func ReadLab(path string) (Lab, error) {
	var lab Lab
	f, err := os.Open(path)
	if err != nil {
		return lab, fmt.Errorf("%w: lab: %w", core.ErrInvalid, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxLab+1))
	if err != nil {
		return lab, fmt.Errorf("read %s: %w", path, err)
	}
	if len(raw) > maxLab {
		return lab, fmt.Errorf("%w: %s: over %d bytes", core.ErrInvalid, path, maxLab)
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&lab); err != nil && !errors.Is(err, io.EOF) {
		return lab, fmt.Errorf("%w: %s: %w\nhint: its keys are answers, files, artifacts, examples, secrets, states and allow_network (docs/plugin-suite.md)", core.ErrInvalid, path, words.Plain(err))
	}
	if lab.Artifacts != "" && !filepath.IsAbs(lab.Artifacts) {
		lab.Artifacts = filepath.Join(filepath.Dir(path), lab.Artifacts)
	}
	for i, a := range lab.Answers {
		if a.On == "" {
			return lab, fmt.Errorf("%w: %s: answers[%d] has no on:, the command that it answers", core.ErrInvalid, path, i)
		}
	}
	return lab, nil
}

func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // YAML with text keys encodes
	return raw
}
