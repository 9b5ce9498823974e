// Package plugintest owns the plugin author's unit kit: scripted hosts and a
// real in-process gRPC connection around a job type.
package plugintest
