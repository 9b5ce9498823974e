package host

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport"
)

// A scan shows the key that the host has, through its jump host, and logs in to the jump host only,
// whose key must be known. The known jump host is the control.
func TestScanOfHostKeysLogsInToJumpHostsOnly(t *testing.T) {
	key, public := servers.NewSSHKey(t)
	jump, s := servers.StartSSHD(t, servers.Authorize(public)), servers.StartSSHD(t, servers.Authorize(public))
	h := s.Host("web1")
	h.SSH.HostKeys, h.SSH.ProxyJump = nil, []string{"bastion"}
	for _, known := range []bool{false, true} {
		bastion := jump.Host("bastion")
		if !known {
			bastion.SSH.HostKeys = nil
		}
		pool, err := transport.New(transport.Config{
			KnownHosts: []string{"/dev/null"}, ConnectTimeout: time.Minute,
			Credential: transport.Always(&transport.Credential{Keys: transport.NewKeys(nil), Identities: []string{key}}),
			Lookup:     func(name string) (core.Host, bool) { return bastion, name == "bastion" },
		})
		if err != nil {
			t.Fatal(err)
		}
		sup, err := New(Config{Reach: pool})
		if err != nil {
			t.Fatal(err)
		}
		out, err := sup.Run(t.Context(), Call{Type: KeysType, Host: h})
		if err := errors.Join(err, sup.Stop(t.Context()), pool.Close()); err != nil {
			t.Fatal(err)
		}
		logins := strings.Count(jump.Log(), "Accepted publickey")
		switch {
		case !known:
			if !out.Unreachable || !strings.Contains(out.Reason, "unknown host key") || logins > 0 {
				t.Errorf("the jump host is not known: %+v, %d logins", out, logins)
			}
		default:
			as, err := pool.Compare(h, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]any{"known_hosts_name": as.Name, "keys": []any{servers.AuthorizedKey(s.HostKey)}}; out.Failed || !reflect.DeepEqual(out.Outputs, want) || logins != 1 {
				t.Errorf("got %+v, %d logins to the jump host; expected %v", out, logins, want)
			}
		}
	}
	if strings.Contains(s.Log(), "Accepted ") {
		t.Errorf("the scan logged in to the host:\n%s", s.Log())
	}
}

// A scan does not begin on an expired lease, and ends with its context.
func TestScanOfHostKeysFollowsItsLease(t *testing.T) {
	pool, err := transport.New(transport.Config{KnownHosts: []string{"/dev/null"}})
	if err != nil {
		t.Fatal(err)
	}
	sup, err := New(Config{Reach: pool})
	if err != nil {
		t.Fatal(err)
	}
	h := core.Host{Name: "web1", Address: "127.0.0.1", SSH: core.SSH{Port: 1}}
	over, err := sup.Run(t.Context(), Call{Type: KeysType, Host: h, Live: func() error { return core.ErrSessionGone }})
	if err != nil || !over.Cancelled {
		t.Errorf("the lease has expired: %+v, %v", over, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended, err := sup.Run(ctx, Call{Type: KeysType, Host: h})
	if err != nil || !ended.Cancelled {
		t.Errorf("the call was cancelled: %+v, %v", ended, err)
	}
	refused, err := sup.Run(t.Context(), Call{Type: KeysType, Host: h})
	if err != nil || !refused.Unreachable || refused.Outputs != nil {
		t.Errorf("nothing listens there: %+v, %v", refused, err)
	}
	if err := errors.Join(sup.Stop(t.Context()), pool.Close()); err != nil {
		t.Fatal(err)
	}
}
