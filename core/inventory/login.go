package inventory

import "fmt"

// Login is the login for hosts in a person's own inventory. It names files, programs and variables
// of this machine, so it is no part of a core.Host, which other machines and other people see.
type Login struct {
	IdentityFiles   []string
	CertificateFile string
	PasswordEnv     string   // name of an environment variable
	PasswordCommand []string // argv
	Password        string   // of Ansible's ansible_password
	BecomePassword  string   // of Ansible's ansible_become_password
}

// None reports whether the login is empty.
func (l Login) None() bool {
	return l.IdentityFiles == nil && l.CertificateFile == "" && l.PasswordEnv == "" && l.PasswordCommand == nil && l.Password == "" && l.BecomePassword == ""
}

// Login returns what the inventory has for logging in to a host; nothing if the host names a
// credential.
func (inv *Inventory) Login(host string) Login { return inv.logins[host] }

// Shared returns an error if the inventory has credentials of its own, with the place of each.
// Where other machines work on its hosts, or other people's jobs run, only names of credentials
// will do.
func (inv *Inventory) Shared() error {
	if len(inv.foreign) == 0 {
		return nil
	}
	return inv.foreign.sorted()
}

// ownLogin notes a place that sets what to log in with. Its value is in no message: it may be a
// password.
func (f *file) ownLogin(key string, line, col int, secret bool) {
	hint := "define a credential in the worker's own file (--secrets), and write credential: NAME here; docs/secrets.md shows how"
	if secret {
		hint += ". Change the password: everybody who can read this file knows it, and git keeps it"
	}
	at := f.at(line, col)
	into := &f.b.logins
	if f.given {
		into = &f.b.errs
	}
	if len(*into) < maxErrors {
		*into = append(*into, &Error{File: at.file, Line: at.line, Col: at.col, Hint: hint, Secret: secret,
			Msg: fmt.Sprintf("%s: an inventory that others write, or other machines work on, must not say what a worker logs in with", key)})
	}
}
