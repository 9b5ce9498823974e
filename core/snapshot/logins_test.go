package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// A job that somebody wrote into the queue never sets what a worker logs in with. The same host
// without these keys, the control, is read.
func TestFaultS1ForgedJobsSayNothingOfLogins(t *testing.T) {
	for _, said := range []string{
		`"password_command":["touch","/tmp/marker"]`, `"password_env":"AWS_SECRET_ACCESS_KEY"`,
		`"identity_files":["/etc/shadow"]`, `"certificate_file":"/dev/zero"`, `"Password_Command":["id"]`,
	} {
		_, err := DecodeHost(fmt.Appendf(nil, `{"name":"a","address":"192.0.2.1","ssh":{"user":"root",%s}}`, said))
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "host a") || !strings.Contains(err.Error(), "credential") {
			t.Errorf("%s: got %v, expected a refusal", said, err)
		}
	}
	h, err := DecodeHost([]byte(`{"name":"a","ssh":{"user":"root","credential":"fleet"}}`))
	if err != nil || h.SSH.Credential != "fleet" {
		t.Errorf("a name of a credential: got %+v, %v", h, err)
	}
}

// Nothing of a host that travels is a file, a program or a variable of the machine that reads it.
func TestFaultS1HostsCarryNames(t *testing.T) {
	var keys map[string]any
	full := core.SSH{User: "u", Port: 1, Credential: "c", ProxyJump: []string{"j"}, HostKeys: []string{"k"}, HostKeyAlias: "a", ConnectTimeout: 1,
		Principals: []string{"p"}, SourceAddrs: []string{"192.0.2.1"}, ForceCommand: "id", FirstContact: "pin"}
	text, err := json.Marshal(full)
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 11 {
		t.Errorf("core.SSH has other fields than those that were judged to be data: %v", keys)
	}
}
