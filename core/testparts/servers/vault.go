package servers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// Vault is a private Vault on loopback, which dies with the test.
type Vault struct {
	*testparts.Process
	URL   string // http, of this machine
	Token string // may do everything, for ever

	client http.Client
}

type object = map[string]any

// StartVault runs a server until the test ends, with a key-value engine of version 2 at kv/, one of
// version 1 at old/, an SSH engine with a CA at ssh/, and AppRole.
func StartVault(tb testing.TB) *Vault {
	tb.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(testparts.FreePort(tb)))
	s := &Vault{URL: "http://" + address, client: http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	s.Process = testparts.Run(tb, exec.Command(testparts.Need(tb, "vaultdev", "make check-vault"), address)) //nolint:noctx,gosec // ended by Stop; the test's own program
	s.Wait(tb, "Vault to be open", func() error {
		for line := range strings.Lines(s.Log()) {
			if token, ok := strings.CutPrefix(line, "token "); ok && strings.HasSuffix(token, "\n") {
				s.Token = strings.TrimSpace(token)
				return s.try(http.MethodGet, "sys/health", nil, nil)
			}
		}
		return errors.New("it gives no token")
	})
	s.Ask(tb, "sys/mounts/kv", object{"type": "kv", "options": object{"version": "2"}}, nil)
	s.Ask(tb, "sys/mounts/old", object{"type": "kv"}, nil)
	s.Ask(tb, "sys/mounts/ssh", object{"type": "ssh"}, nil)
	s.Ask(tb, "ssh/config/ca", object{"generate_signing_key": true}, nil)
	s.Ask(tb, "sys/auth/approle", object{"type": "approle"}, nil)
	s.Wait(tb, "the engine of version 2", func() error { // it upgrades itself first
		return s.try(http.MethodPost, "kv/data/ready", object{"data": object{}}, nil)
	})
	return s
}

// Ask changes something as root: a POST of the API, without the v1/ of its path. into, where it is
// not nil, gets the answer.
func (s *Vault) Ask(tb testing.TB, path string, body, into any) {
	tb.Helper()
	if err := s.try(http.MethodPost, path, body, into); err != nil {
		tb.Fatal(err)
	}
}

// Check gets something as root.
func (s *Vault) Check(tb testing.TB, path string, into any) {
	tb.Helper()
	if err := s.try(http.MethodGet, path, nil, into); err != nil {
		tb.Fatal(err)
	}
}

// Delete removes something as root.
func (s *Vault) Delete(tb testing.TB, path string) {
	tb.Helper()
	if err := s.try(http.MethodDelete, path, nil, nil); err != nil {
		tb.Fatal(err)
	}
}

func (s *Vault) try(method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, s.URL+"/v1/"+path, bytes.NewReader(data)) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	req.Header.Set("X-Vault-Token", s.Token)
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// Put keeps an entry: a path such as kv/fw/api, and its fields.
func (s *Vault) Put(tb testing.TB, path string, fields map[string]any) {
	tb.Helper()
	if rest, ok := strings.CutPrefix(path, "kv/"); ok {
		s.Ask(tb, "kv/data/"+rest, object{"data": fields}, nil)
		return
	}
	s.Ask(tb, path, fields, nil)
}

// Policy lets tokens of a name do this: a capability by path, which may end in a star.
func (s *Vault) Policy(tb testing.TB, name string, may map[string]string) {
	tb.Helper()
	var rules strings.Builder
	for path, capability := range may {
		fmt.Fprintf(&rules, "path %q { capabilities = [%q] }\n", path, capability)
	}
	s.Ask(tb, "sys/policy/"+name, object{"policy": rules.String()}, nil)
}

type auth struct {
	Auth struct {
		ClientToken string `json:"client_token"`
	}
}

// NewToken makes a token that has to be renewed each ttl, and ends after most (no such end when 0).
func (s *Vault) NewToken(tb testing.TB, ttl, most time.Duration, policies ...string) string {
	tb.Helper()
	var made auth
	s.Ask(tb, "auth/token/create", object{"policies": policies, "ttl": ttl.String(), "explicit_max_ttl": most.String(), "renewable": true}, &made)
	return made.Auth.ClientToken
}

// AppRole makes a role whose tokens have to be renewed each ttl.
func (s *Vault) AppRole(tb testing.TB, name string, ttl time.Duration, policies ...string) (roleID, secretID string) {
	tb.Helper()
	s.Ask(tb, "auth/approle/role/"+name, object{"policies": policies, "token_ttl": ttl.String()}, nil)
	var role struct {
		Data struct {
			RoleID string `json:"role_id"`
		}
	}
	s.Check(tb, "auth/approle/role/"+name+"/role-id", &role)
	var secret struct {
		Data struct {
			SecretID string `json:"secret_id"`
		}
	}
	s.Ask(tb, "auth/approle/role/"+name+"/secret-id", object{}, &secret)
	return role.Data.RoleID, secret.Data.SecretID
}

// Tokens are the accessors of those that hold.
func (s *Vault) Tokens(tb testing.TB) []string {
	tb.Helper()
	var list struct{ Data struct{ Keys []string } }
	s.Check(tb, "auth/token/accessors?list=true", &list)
	return list.Data.Keys
}
