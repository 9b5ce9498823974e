// Package secrets owns where the values of secrets are, and fetching them: references to
// environment variables, files, commands, HashiCorp Vault and age-encrypted text. It decides which
// jobs and channels may use a secret, and edits files of encrypted ones.
//
// A reference travels with a run, a value never does: the node that uses a secret resolves it when
// a step needs it. Values are kept in memory for a minute, and nowhere else. The package must not
// know runs, queues, plugins, or how hosts are reached. Of a node's logins it knows where their
// keys are, and for which hosts and addresses they are.
package secrets
