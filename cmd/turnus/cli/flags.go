package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/playbooks"
)

// inventoryFlags choose hosts.
type inventoryFlags struct {
	sources []string
	limit   string
	sel     string
}

func (f *inventoryFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVarP(&f.sources, "inventory", "i", inventoryFromEnv(), "inventory: Turnus YAML, Ansible INI or YAML, an executable, a folder, or a,b, (repeatable; TURNUS_INVENTORY)")
	c.Flags().StringVarP(&f.limit, "limit", "l", "", "only these hosts: names, groups, globs, !not, &and, @FILE")
	c.Flags().StringVar(&f.sel, "select", "", "only hosts for which this expression is true, as in targets:")
}

func inventoryFromEnv() []string {
	if env := os.Getenv("TURNUS_INVENTORY"); env != "" {
		return []string{env}
	}
	return nil
}

// load reads the inventory and narrows it by --limit and --select.
func (f *inventoryFlags) load(ctx context.Context) (*inventory.Inventory, []core.Host, error) {
	if len(f.sources) == 0 {
		return nil, nil, invalid("no inventory is given\nhint: -i hosts.yaml, -i hosts.ini, or -i 'host1,host2,'")
	}
	inv, err := inventory.Load(ctx, f.sources)
	if err != nil {
		return nil, nil, err
	}
	hosts := inv.Hosts
	if f.limit != "" {
		if hosts, err = inv.Limit(f.limit); err != nil {
			return nil, nil, &exit{exitInvalid, err} // it starts with the limit
		}
	}
	if f.sel != "" {
		if hosts, err = selectHosts(f.sel, hosts); err != nil {
			return nil, nil, &exit{exitInvalid, fmt.Errorf("--select: %w", err)}
		}
	}
	return inv, hosts, nil
}

func selectHosts(text string, hosts []core.Host) ([]core.Host, error) {
	expr, err := playbooks.CompileSelector(text)
	if err != nil {
		return nil, err
	}
	var chosen []core.Host
	for _, h := range hosts {
		ok, err := expr.Bool(playbooks.Env{Host: h})
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", h.Name, err)
		}
		if ok {
			chosen = append(chosen, h)
		}
	}
	return chosen, nil
}

// varFlags are -e key=value, -e '{"json": …}' and -e @file.yaml.
type varFlags struct{ args []string }

func (f *varFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVarP(&f.args, "extra-vars", "e", nil, "set vars: key=value, a JSON object, or @FILE (repeatable; wins over the playbook's)")
}

const maxVarsFile = 1 << 20

func (f *varFlags) values() (map[string]any, error) {
	vars := map[string]any{}
	for _, arg := range f.args {
		file, isFile := strings.CutPrefix(arg, "@")
		switch {
		case isFile || strings.HasPrefix(strings.TrimSpace(arg), "{"):
			src := []byte(arg)
			if isFile {
				var err error
				if src, err = readBounded(file, maxVarsFile+1); err != nil {
					return nil, invalid("-e: %w", err)
				}
			}
			if len(src) > maxVarsFile {
				return nil, invalid("-e %s: more than 1 MiB", arg[:min(len(arg), 60)])
			}
			var more map[string]any
			if err := yaml.Unmarshal(src, &more); err != nil {
				return nil, invalid("-e %s: expected an object of vars: %w", arg[:min(len(arg), 60)], err)
			}
			maps.Copy(vars, more)
		default:
			k, v, ok := strings.Cut(arg, "=")
			if !ok || k == "" {
				return nil, invalid("-e %s: expected key=value, a JSON object, or @FILE", arg)
			}
			vars[k] = v
		}
	}
	return jsonValues(vars)
}

// readBounded reads at most most bytes, whatever the file is: -e @<(command) is none with a size.
func readBounded(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most))
}

// jsonValues makes vars what JSON makes of them, as they will be in a run's snapshot.
func jsonValues(vars map[string]any) (map[string]any, error) {
	text, err := json.Marshal(vars)
	if err != nil {
		return nil, invalid("-e: %w", err)
	}
	var out map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	err = dec.Decode(&out)
	return out, err
}

// sshFlags say how hosts are reached.
type sshFlags struct {
	user, agent, sshConfig, password, passphrase string
	passwordCommand, passphraseCommand           string
	keys, knownHosts, hostCAs                    []string
	connectTimeout                               time.Duration
	certs                                        certFlags
}

func (f *sshFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVarP(&f.user, "user", "u", "", "user on the hosts, where the inventory names none")
	fl.StringArrayVar(&f.keys, "private-key", nil, "key file (repeatable; default: ~/.ssh/id_*)")
	fl.StringVar(&f.agent, "agent", "", `socket of an ssh-agent, or "none" (default: SSH_AUTH_SOCK)`)
	fl.StringArrayVar(&f.knownHosts, "known-hosts", nil, "known_hosts file (repeatable; default: ~/.ssh/known_hosts)")
	fl.StringArrayVar(&f.hostCAs, "host-ca", nil, "file with the public keys of authorities that sign host keys (repeatable)")
	fl.StringVar(&f.sshConfig, "ssh-config", "", "import this ssh_config")
	namesFiles(fl, "known-hosts", "host-ca")
	noteFlags(fl, noteFile, []string{fileHome}, []string{"ssh-config"})
	noteFlags(fl, noteFile, []string{fileSecret, fileHome}, []string{"private-key"})
	fl.StringVar(&f.password, "password-env", "", "environment variable that holds the password")
	fl.StringVar(&f.passwordCommand, "password-command", "", "command that prints the password")
	fl.StringVar(&f.passphrase, "passphrase-env", "", "environment variable that holds the passphrase of key files")
	fl.StringVar(&f.passphraseCommand, "passphrase-command", "", "command that prints the passphrase of key files")
	f.certs.add(c)
	fl.DurationVar(&f.connectTimeout, "connect-timeout", 10*time.Second, "for TCP, handshake and authentication together")
}

// pool makes the SSH pool. inv gives jump hosts and passwords; its inventory may be nil. store asks Vault for certificates.
func (f *sshFlags) pool(ctx context.Context, inv func() *inventory.Inventory, store *secrets.Store) (*transport.Pool, error) {
	cfg := transport.Config{
		User: f.user, IdentityFiles: f.keys, Agent: f.agent, KnownHosts: f.knownHosts, SSHConfig: f.sshConfig,
		ConnectTimeout: f.connectTimeout,
		Passphrase: func(file string) ([]byte, error) {
			text, err := secretFrom(ctx, f.passphrase, f.passphraseCommand)
			if err == nil && text == "" {
				err = fmt.Errorf("%s is encrypted\nhint: --passphrase-env, --passphrase-command, or an ssh-agent", file)
			}
			return []byte(text), err
		},
		Password: func(h core.Host) (string, error) { return f.passwordOf(ctx, inv(), h) },
	}
	cfg.Lookup = func(name string) (core.Host, bool) {
		if now := inv(); now != nil {
			return now.Host(name)
		}
		return core.Host{}, false
	}
	for _, file := range f.hostCAs {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, invalid("--host-ca: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				cfg.HostCAs = append(cfg.HostCAs, line)
			}
		}
	}
	var err error
	if cfg.Certify, err = f.certs.certify(store); err != nil {
		return nil, err
	}
	return transport.New(cfg)
}

// passwordOf is the password for h: the flags', or else the one that inv, which may be nil, has for this very machine.
func (f *sshFlags) passwordOf(ctx context.Context, inv *inventory.Inventory, h core.Host) (string, error) {
	text, err := secretFrom(ctx, f.password, f.passwordCommand)
	if err != nil || text != "" || inv == nil {
		return text, err
	}
	if known, ok := inv.Host(h.Name); !ok || f.sshConfig == "" && known.Target() != h.Target() {
		return "", nil // another launcher's job on a shared queue calls another machine by this name
	}
	return inv.Password(h.Name), nil
}

// secretFrom reads a secret from an environment variable, or else from what a command prints.
func secretFrom(ctx context.Context, env, command string) (string, error) {
	if env != "" {
		v, ok := os.LookupEnv(env)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", env)
		}
		return v, nil
	}
	if command == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/sh", "-c", command).Output() //nolint:gosec // the operator's own command line
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("secret command: %w", err)
	}
	return strings.TrimRight(string(out), "\r\n"), nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func yamlText(v any) (string, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return b.String(), enc.Close()
}
