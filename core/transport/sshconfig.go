package transport

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	sshcfg "github.com/kevinburke/ssh_config"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// sshConfig is an imported OpenSSH client configuration. A nil one sets nothing.
type sshConfig struct {
	file string
	cfg  *sshcfg.Config
}

const maxSSHConfig = 4 << 20 // bytes

// loadSSHConfig reads file with its Includes. It refuses what it would have to
// ignore: `Match exec` and the like change which host is reached and how.
func loadSSHConfig(file string) (*sshConfig, error) {
	if file == "" || file == "none" {
		return nil, nil
	}
	file = expandHome(file)
	text, err := securefile.Read(file, securefile.Rule{Most: maxSSHConfig, Pipes: true})
	if err != nil {
		return nil, fmt.Errorf("%w: ssh_config: %w", core.ErrInvalid, err)
	}
	cfg, err := sshcfg.DecodeBytes(text)
	if err != nil {
		hint := ""
		if strings.Contains(strings.ToLower(err.Error()), "match") {
			hint = "\nhint: only `Match host` and `Match all` can be imported; write what `ssh -G HOST` prints into the inventory or a file without Match"
		}
		return nil, fmt.Errorf("%w: ssh_config %s: %w%s", core.ErrInvalid, file, err, hint)
	}
	return &sshConfig{file: file, cfg: cfg}, nil
}

// apply fills in what the inventory leaves open. Like ssh and Ansible, it looks
// up what would be dialled: the host's address, or its name without one.
func (c *sshConfig) apply(h *core.Host, e *endpoint) error {
	if c == nil {
		return nil
	}
	alias := h.Target()
	if err := c.route(alias, h); err != nil {
		return fmt.Errorf("ssh_config %s: %w", c.file, err)
	}
	c.files(alias, h, e)
	var err error
	if e.timeout, err = seconds(c.get(alias, "ConnectTimeout")); err != nil {
		return fmt.Errorf("ssh_config %s: ConnectTimeout: %w", c.file, err)
	}
	if e.keepAlive, err = seconds(c.get(alias, "ServerAliveInterval")); err != nil {
		return fmt.Errorf("ssh_config %s: ServerAliveInterval: %w", c.file, err)
	}
	return nil
}

// get is the first value of key for alias, or "".
func (c *sshConfig) get(alias, key string) string {
	v, err := c.cfg.Get(alias, key)
	if err != nil {
		return ""
	}
	return unquote(v)
}

func (c *sshConfig) all(alias, key string) []string {
	list, err := c.cfg.GetAll(alias, key)
	if err != nil {
		return nil
	}
	for i := range list {
		list[i] = unquote(list[i])
	}
	return list
}

// route fills in where h is, as whom to log in, and through which hosts.
func (c *sshConfig) route(alias string, h *core.Host) error {
	get := func(key string) string { return c.get(alias, key) }
	s := &h.SSH
	if name := get("HostName"); name != "" {
		h.Address = strings.ReplaceAll(strings.ReplaceAll(name, "%h", alias), "%%", "%")
	}
	if s.User == "" {
		s.User = get("User")
	}
	var err error
	if v := get("Port"); v != "" && s.Port == 0 {
		if s.Port, err = strconv.Atoi(v); err != nil || s.Port < 1 || s.Port > 65535 {
			return fmt.Errorf("port %q: expected 1 to 65535", v)
		}
	}
	if s.HostKeyAlias == "" {
		s.HostKeyAlias = get("HostKeyAlias")
	}
	if v := get("ProxyJump"); v != "" && len(s.ProxyJump) == 0 {
		s.ProxyJump = strings.Split(strings.ReplaceAll(v, " ", ""), ",")
	}
	if get("ProxyCommand") != "" && len(s.ProxyJump) == 0 && get("ProxyCommand") != "none" {
		return fmt.Errorf("ProxyCommand for %q cannot be imported; use ProxyJump", alias)
	}
	return nil
}

// files fills in the keys, certificates and known hosts. It comes after route: their names may hold
// user and port.
func (c *sshConfig) files(alias string, h *core.Host, e *endpoint) {
	x := expander{host: h.Target(), user: h.SSH.User, port: h.SSH.Port}
	if len(e.identityFiles) == 0 {
		for _, f := range c.all(alias, "IdentityFile") {
			if f == "none" {
				continue
			}
			// ssh passes over identity files that are not there.
			if f = x.expand(f); exists(f) {
				e.identityFiles = append(e.identityFiles, f)
			}
		}
	}
	e.onlyIdentities = strings.EqualFold(c.get(alias, "IdentitiesOnly"), "yes")
	for _, f := range c.all(alias, "CertificateFile") {
		if f = x.expand(f); exists(f) {
			e.certFiles = append(e.certFiles, f)
		}
	}
	if lists := c.all(alias, "UserKnownHostsFile"); len(lists) > 0 {
		e.knownHosts = []string{}
		for f := range strings.FieldsSeq(lists[0]) { // the first stands, as in ssh
			if f = x.expand(f); f != "none" && exists(f) {
				e.knownHosts = append(e.knownHosts, f)
			}
		}
	}
}

func seconds(v string) (time.Duration, error) {
	if v == "" || v == "none" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		d, derr := time.ParseDuration(v)
		if derr != nil || d < 0 {
			return 0, fmt.Errorf("%q: expected a number of seconds", v)
		}
		return d, nil
	}
	if n < 0 || n > 1e6 {
		return 0, fmt.Errorf("%q: expected 0 to 1000000 seconds", v)
	}
	return time.Duration(n) * time.Second, nil
}

// expander replaces ~ and the %-tokens that make sense without a shell.
type expander struct {
	host, user string
	port       int
}

func (x expander) expand(file string) string {
	home, _ := os.UserHomeDir()
	return strings.NewReplacer("%%", "%", "%h", x.host, "%n", x.host, "%r", x.user, "%d", home, "%p", strconv.Itoa(x.port)).Replace(expandHome(file))
}

func expandHome(file string) string {
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return file
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

func unquote(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}
