// Package exec owns the adapter that makes any script a plugin: it reads the plugin.yaml beside the
// script, serves its job types, runs the script for each job with params on stdin, and reads its
// events from stdout. The script reaches its host by turnus-host, which is this package's other
// half.
//
// It must not know the worker: like anybody's plugin it stands on the sdk.
package exec
