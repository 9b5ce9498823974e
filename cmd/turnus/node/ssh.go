package node

import (
	"cmp"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// SSHFlags define how hosts are reached.
type SSHFlags struct {
	user                string
	knownHosts, hostCAs []string
	ConnectTimeout      time.Duration
	MaxConns            int    // 0: what the file descriptor limit allows
	Inventory           string // the inventory as an argument, for hints
	NewKnownHosts       bool   // a file of --known-hosts need not exist

	firstContact []netip.Prefix // see transport.Config
	Warnings     *slog.Logger   // of the pool; nil: with the node's log
}

func (f *SSHFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVarP(&f.user, "user", "u", "", "user on the hosts, where the inventory names none")
	fl.StringArrayVar(&f.knownHosts, "known-hosts", nil, "known_hosts file (repeatable; default: ~/.ssh/known_hosts)")
	fl.StringArrayVar(&f.hostCAs, "host-ca", nil, "file with the public keys of certificate authorities that sign host keys (repeatable)")
	settings.NamesFiles(fl, "known-hosts", "host-ca")
	fl.DurationVar(&f.ConnectTimeout, "connect-timeout", 10*time.Second, "for TCP, handshake and authentication together")
}

// maxCAs bounds a file of --host-ca, in bytes.
const maxCAs = 1 << 20

// pool makes the SSH pool. inv gives jump hosts; its inventory may be nil. credential returns what
// is offered to a host.
func (f *SSHFlags) pool(inv func() *inventory.Inventory, credential func(core.Host) (*transport.Credential, error), sshConfig string, log *slog.Logger) (*transport.Pool, error) {
	cfg := transport.Config{
		User: f.user, Credential: credential, KnownHosts: f.knownHosts, NewKnownHosts: f.NewKnownHosts, FirstContact: f.firstContact, Inventory: f.Inventory, SSHConfig: sshConfig,
		ConnectTimeout: f.ConnectTimeout, MaxConns: f.MaxConns, Log: cmp.Or(f.Warnings, log),
	}
	cfg.Lookup = func(name string) (core.Host, bool) {
		if now := inv(); now != nil {
			return now.Host(name)
		}
		return core.Host{}, false
	}
	for _, file := range f.hostCAs {
		text, err := settings.ReadFile(file, maxCAs)
		if err != nil {
			return nil, console.Invalid("--host-ca: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				cfg.HostCAs = append(cfg.HostCAs, line)
			}
		}
	}
	return transport.New(cfg)
}

// InventoryArgument returns sources of an inventory as a shell's arguments: -i hosts.ini.
func InventoryArgument(sources []string) string {
	var args []string
	for _, source := range sources {
		args = append(args, "-i", source)
	}
	return shell.Quote(args...)
}

// BesideFleet is how many connections the pool may have when the other ends of all of them are also
// in this process.
func BesideFleet() int { return transport.Descriptors() * 3 / 8 }
