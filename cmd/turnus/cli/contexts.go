package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// contextFile is what the user's config file says of servers, and where it stands.
type contextFile struct {
	Current  string                   `yaml:"current,omitempty"`
	Contexts map[string]serverContext `yaml:"contexts"`

	path string
}

// serverContext is how one server is asked. The token is here or in a file of its own.
type serverContext struct {
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

// loadContexts reads the file; without one there is no context.
func loadContexts() (*contextFile, error) {
	path, err := contextPath()
	if err != nil {
		return nil, err
	}
	c := &contextFile{path: path, Contexts: map[string]serverContext{}}
	text, err := readBounded(path, maxContexts+1)
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
		c.Contexts = map[string]serverContext{}
	}
	return c, nil
}

// save replaces the file. It holds tokens: nobody else may read it.
func (c *contextFile) save() error {
	text, err := yamlText(c)
	if err != nil {
		return err
	}
	if err := replaceFile(c.path, []byte(text)); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return nil
}

// token is the context's token, from wherever it is kept.
func (s *serverContext) token() (string, error) {
	if s.TokenFile == "" {
		return s.Token, nil
	}
	token, err := readToken(s.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", console.Invalid("%w\nhint: an admin makes another with turnus tokens create; who has lost every admin token makes one in the ledger itself: turnus tokens create NAME --role admin --ledger URL", err)
	}
	return token, err
}

const maxToken = 4 << 10

func readToken(file string) (string, error) {
	text, err := readBounded(file, maxToken+1)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(text) > maxToken || strings.ContainsAny(token, " \n") {
		return "", console.Invalid("token: %s does not hold one token", file)
	}
	return token, nil
}

func trimToken(text []byte) string { return strings.TrimSpace(string(text)) }
