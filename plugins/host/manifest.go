package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/words"
)

const (
	maxManifest = 1 << 20 // bytes of manifest.json
	maxTypes    = 256
)

var (
	pluginName    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`) })
	typeName      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}(\.[a-z][a-z0-9_]{0,62})?$`) })
	pluginVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$`) })
)

// Validate reports everything that is wrong with a manifest, as errors that wrap core.ErrInvalid.
func (m Manifest) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: plugin %q: %s", core.ErrInvalid, m.Name, fmt.Sprintf(format, args...)))
	}
	if !pluginName().MatchString(m.Name) {
		bad("name: expected a-z, then a-z, 0-9, _ or -")
	}
	if !pluginVersion().MatchString(m.Version) || m.Version == currentFile { // whose name chooses among versions
		bad("version %q: expected digits, letters and . + _ -, as in 1.2.0; not %s", m.Version, currentFile)
	}
	if m.Protocol != wire.ProtocolVersion {
		errs = append(errs, fmt.Errorf("%w: plugin %s %s %w", core.ErrInvalid, m.Name, m.Version, &protocolError{m.Protocol}))
	}
	if m.Concurrency < 0 {
		bad("concurrency %d: expected 1 or more", m.Concurrency)
	}
	if len(m.Types) == 0 || len(m.Types) > maxTypes {
		bad("%d job types: expected 1 to %d", len(m.Types), maxTypes)
		return errors.Join(errs...)
	}
	seen := map[string]bool{}
	for _, t := range m.Types {
		if seen[t.Name] {
			bad("job type %q is declared twice", t.Name)
		}
		seen[t.Name] = true
		for _, err := range t.problems() {
			bad("job type %q: %s", t.Name, err)
		}
	}
	return errors.Join(errs...)
}

// protocolError is a plugin that speaks another protocol, by its handshake or its manifest.
type protocolError struct{ plugin int }

func (e *protocolError) Error() string {
	next := "build the plugin with the SDK of this release, or upgrade it: turnus plugins install PROGRAM --use"
	if e.plugin > wire.ProtocolVersion {
		next = "upgrade turnus here, or choose a version of the plugin for this protocol: turnus plugins install PROGRAM --use"
	}
	return fmt.Sprintf("speaks protocol %d, this turnus speaks %d\nhint: %s", e.plugin, wire.ProtocolVersion, next)
}

func (t Type) problems() []error {
	var errs []error
	if !typeName().MatchString(t.Name) {
		errs = append(errs, errors.New("name: expected noun.verb, or one word"))
	}
	if t.OnLost != "retry" && t.OnLost != "hold" && t.OnLost != "" {
		errs = append(errs, fmt.Errorf("on_lost %q: expected retry or hold", t.OnLost))
	}
	if t.StateVersion < 0 {
		errs = append(errs, fmt.Errorf("state_version %d: expected 0 or more", t.StateVersion))
	}
	if len(t.Params) == 0 {
		errs = append(errs, errors.New("params: expected a JSON Schema"))
	} else if err := checkSchema(t.Params); err != nil {
		errs = append(errs, fmt.Errorf("params: %w", err))
	}
	if len(t.Outputs) > 0 {
		if err := checkSchema(t.Outputs); err != nil {
			errs = append(errs, fmt.Errorf("outputs: %w", err))
		}
	}
	var known struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(t.Params, &known); err == nil {
		for _, name := range t.RevertsUnless {
			if _, ok := known.Properties[name]; !ok || !t.Reverts {
				errs = append(errs, fmt.Errorf("reverts_unless %q: expected a param of a type that reverts", name))
			}
		}
	}
	for _, e := range t.Examples {
		if !json.Valid(e.Params) {
			errs = append(errs, fmt.Errorf("example %q is not JSON", e.Title))
		}
	}
	return errs
}

// readManifest reads a manifest.json. Keys that this worker does not know are fine.
func readManifest(path string) (Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", path, err)
	}
	m, err := parseManifest(raw)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func parseManifest(raw []byte) (Manifest, error) {
	if len(raw) > maxManifest {
		return Manifest{}, fmt.Errorf("%w: over %d bytes", core.ErrInvalid, maxManifest)
	}
	var m Manifest
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w; take the file away to have it made again", core.ErrInvalid, words.Explain("manifest", raw, &m, err))
	}
	return m, m.Validate()
}

func manifestFromWire(w *wire.Manifest) Manifest {
	m := Manifest{
		Name: w.GetName(), Version: w.GetVersion(),
		Protocol: int(w.GetProtocol()), Concurrency: int(w.GetConcurrency()), Network: w.GetNetwork(),
	}
	for _, t := range w.GetTypes() {
		out := Type{
			Name: t.GetName(), Summary: t.GetSummary(), Description: t.GetDescription(),
			Params: t.GetParamsSchema(), Outputs: t.GetOutputsSchema(),
			Check: t.GetCheck(), Idempotent: t.GetIdempotent(), Disruptive: t.GetDisruptive(),
			OnLost: t.GetOnLost(), StateVersion: int(t.GetStateVersion()), Reverts: t.GetReverts(), RevertsUnless: t.GetRevertsUnless(),
		}
		for _, e := range t.GetExamples() {
			out.Examples = append(out.Examples, Example{Title: e.GetTitle(), Params: e.GetParams(), Secrets: e.GetSecrets()})
		}
		m.Types = append(m.Types, out)
	}
	return m
}
