package core

import "time"

// Host is one managed machine as a run's snapshot holds it: everything a
// worker needs to reach it and everything expressions may read. It is data of others (a git tree, a
// queue): it names no file, program or variable of the worker, and carries no secret. A login is
// the name of a credential (SSH.Credential) that the worker's own settings define.
type Host struct {
	Name      string            `json:"name"`
	Address   string            `json:"address,omitempty"` // DNS name or IP; Name when empty
	Customer  string            `json:"customer,omitempty"`
	Site      string            `json:"site,omitempty"`
	Pool      string            `json:"pool,omitempty"`
	HAGroup   string            `json:"ha_group,omitempty"`
	WindowSet string            `json:"window_set,omitempty"`
	Groups    []string          `json:"groups,omitempty"` // sorted, ancestors included
	Labels    map[string]string `json:"labels,omitempty"`
	Vars      map[string]any    `json:"vars,omitempty"` // JSON values only
	SSH       SSH               `json:"ssh,omitzero"`
	Become    HostBecome        `json:"become,omitzero"`

	Facts    map[string]any `json:"-"` // the facts of the host, as the outputs of the job type facts; nil: none were gathered
	FactsAge time.Duration  `json:"-"` // since they were gathered
}

// SSH is how to reach a host. A zero field means the default of the transport.
type SSH struct {
	User           string        `json:"user,omitempty"`
	Port           int           `json:"port,omitempty"`       // 22 when zero
	Credential     string        `json:"credential,omitempty"` // name of one that the worker's own settings define
	ProxyJump      []string      `json:"proxy_jump,omitempty"` // host names or user@host:port, outermost first
	HostKeys       []string      `json:"host_keys,omitempty"`  // pins, "ssh-ed25519 AAAA…"
	HostKeyAlias   string        `json:"host_key_alias,omitempty"`
	FirstContact   string        `json:"first_contact,omitempty"` // FirstContactPin asks for it; the settings of the process that dials decide
	Verified       bool          `json:"-"`                       // what is sent holds secrets: a key pinned at the first contact will not do
	ConnectTimeout time.Duration `json:"connect_timeout,omitempty"`

	// Of certificates that a worker has signed for a login on this host, where it does.
	Principals   []string `json:"certificate_principals,omitempty"`     // the user alone when empty
	SourceAddrs  []string `json:"certificate_source_address,omitempty"` // networks that the certificate may be used from; any when empty
	ForceCommand string   `json:"certificate_force_command,omitempty"`  // what sshd runs in place of any command
}

// FirstContactPin pins the key that an unknown host shows, as an unverified one.
const FirstContactPin = "pin"

// Target is the address to dial: Address, or Name when that is empty.
func (h Host) Target() string {
	if h.Address != "" {
		return h.Address
	}
	return h.Name
}
