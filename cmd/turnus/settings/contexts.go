package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/yamlread"
)

// Contexts is the list of servers in the user's config file, and the file's path.
type Contexts struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts"`

	path string
}

// Context is how one server is asked. The token is here or in a file of its own.
type Context struct {
	Server    string `yaml:"server" json:"server"`
	Token     string `yaml:"token,omitempty" json:"-"`
	TokenFile string `yaml:"token_file,omitempty" json:"token_file,omitempty"`
	CAFile    string `yaml:"ca_file,omitempty" json:"ca_file,omitempty"`
	CertFile  string `yaml:"cert_file,omitempty" json:"cert_file,omitempty"` // of this client, where the server asks for one
	KeyFile   string `yaml:"key_file,omitempty" json:"key_file,omitempty"`
	Insecure  bool   `yaml:"insecure_http,omitempty" json:"insecure_http,omitempty"`
	Login     bool   `yaml:"login,omitempty" json:"login,omitempty"` // the token is a session's, which ends
	// Of the first login: where people log in, and as which client. A server does not change it.
	Issuer   string `yaml:"issuer,omitempty" json:"issuer,omitempty"`
	ClientID string `yaml:"client_id,omitempty" json:"client_id,omitempty"`
}

const maxContexts = 1 << 20 // bytes of the file

// contextPath is TURNUS_CONFIG, or config.yaml in the user's config folder.
func contextPath() (string, error) {
	if path := os.Getenv("TURNUS_CONFIG"); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("file with the contexts: %w\nhint: set TURNUS_CONFIG", err)
	}
	return filepath.Join(dir, "turnus", "config.yaml"), nil
}

// LoadContexts reads the file; without one there is no context.
func LoadContexts() (*Contexts, error) {
	path, err := contextPath()
	if err != nil {
		return nil, err
	}
	c := &Contexts{path: path, Contexts: map[string]Context{}}
	text, err := ReadFile(path, maxContexts+1)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	if len(text) > maxContexts {
		return nil, console.Invalid("contexts: %s has more than 1 MiB", path)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, console.Invalid("contexts: %s: %w", path, err)
	}
	if c.Contexts == nil {
		c.Contexts = map[string]Context{}
	}
	return c, nil
}

// Save replaces the file. It holds tokens: nobody else may read it.
func (c *Contexts) Save() error {
	text, err := console.YAMLText(c)
	if err != nil {
		return err
	}
	if err := ReplaceFile(c.path, []byte(text)); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return nil
}

// ReadToken is the context's token, from wherever it is kept.
func (s *Context) ReadToken() (string, error) {
	if s.TokenFile == "" {
		return s.Token, nil
	}
	token, err := ReadTokenFile(s.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", console.Invalid("%w\nhint: an admin makes another with turnus admin tokens create; if all admin tokens are lost, make one in the ledger itself: turnus admin tokens create NAME --role admin --ledger URL", err)
	}
	return token, err
}

// MaxToken is the most bytes of a token.
const MaxToken = 4 << 10

// ReadTokenFile reads a file that holds one token.
func ReadTokenFile(file string) (string, error) {
	text, err := ReadFile(file, MaxToken+1)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(text) > MaxToken || strings.ContainsAny(token, " \n") {
		return "", console.Invalid("token: %s does not hold one token", file)
	}
	return token, nil
}

// Find is the context of a name.
func (c *Contexts) Find(name string) (Context, error) {
	s, ok := c.Contexts[name]
	if ok {
		return s, nil
	}
	hint := cmp.Or(yamlread.DidYouMean(name, slices.Sorted(maps.Keys(c.Contexts))), "turnus context ls lists them")
	return s, console.Invalid("no context %q in %s\nhint: %s", name, c.path, hint)
}

// WriteContext keeps how the server of turnus up is asked. Another context that is chosen stays so.
func WriteContext(con *console.Console, name string, s Context) error {
	file, err := LoadContexts()
	if err != nil {
		return err
	}
	before, ok := file.Contexts[name]
	if ok && before.Server != s.Server {
		con.Message("the context " + name + " asked " + before.Server + ", and asks this server now: with --context NAME each keeps its own")
	}
	file.Contexts[name] = s
	if _, ok := file.Contexts[file.Current]; !ok {
		file.Current = name
	}
	if err := file.Save(); err != nil {
		return err
	}
	if file.Current != name {
		con.Message("commands ask the context " + file.Current + "; this server is: turnus context use " + name)
	}
	return nil
}

// Absolute returns the absolute path of a file that exists; "" stays.
func Absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if _, err := os.Stat(path); err != nil {
		return "", console.Invalid("%w", err)
	}
	return filepath.Abs(path)
}
