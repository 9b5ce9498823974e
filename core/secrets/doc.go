// Package secrets owns where the values of secrets are, and fetching them: references to
// environment variables, files, commands, HashiCorp Vault and age-encrypted text; who may use
// which, jobs and channels; and editing files of encrypted ones.
//
// A reference travels with a run, a value never does: the node that uses a secret resolves it, at
// the moment of use. Values are kept in memory for a minute, and nowhere else. The package must not
// know runs, queues, plugins, or how hosts are reached: of what a node logs in with it says where
// that is, and for which hosts and addresses.
package secrets
