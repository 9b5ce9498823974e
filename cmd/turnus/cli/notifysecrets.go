package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// channelSecrets are where the secrets of channels are, by name. They stand on the server's own disk, not in the definitions: a
// commit must not choose which of the server's files or variables is sent out.
type channelSecrets map[string]channelSecret

type channelSecret struct {
	Env     string   `yaml:"env"`
	File    string   `yaml:"file"`
	Tenants []string `yaml:"tenants"` // whose channels may use it; none: those of the service only
}

const maxChannelSecret = 64 << 10

func readChannelSecrets(file string) (channelSecrets, error) {
	data, err := readBounded(file, 1<<20)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Secrets channelSecrets `yaml:"secrets"`
	}
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, invalid("%s: %s\nhint: secrets: {NAME: {file: PATH, tenants: [TENANT]}}", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	for name, s := range doc.Secrets {
		if (s.Env == "") == (s.File == "") {
			return nil, invalid("%s: secret %s: expected one of env: NAME and file: PATH", file, name)
		}
		if s.File != "" && !filepath.IsAbs(s.File) {
			s.File = filepath.Join(filepath.Dir(file), s.File)
			doc.Secrets[name] = s
		}
	}
	return doc.Secrets, nil
}

// value reads a secret at the moment of its use, so that an exchanged one is taken at once.
func (c channelSecrets) value(_ context.Context, tenant, name string) ([]byte, error) {
	s, ok := c[name]
	if !ok || tenant != "" && !slices.Contains(s.Tenants, tenant) {
		return nil, fmt.Errorf("--notify-secrets gives %s no secret of this name", ownerText(tenant))
	}
	if s.Env != "" {
		value := os.Getenv(s.Env)
		if value == "" {
			return nil, fmt.Errorf("the variable %s of the server is empty", s.Env)
		}
		return []byte(value), nil
	}
	value, err := readBounded(s.File, maxChannelSecret)
	if err != nil {
		return nil, err
	}
	return []byte(strings.TrimRight(string(value), "\r\n")), nil
}

func ownerText(tenant string) string {
	if tenant == "" {
		return "the service"
	}
	return "tenant " + tenant
}
