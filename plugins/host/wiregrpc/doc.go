// Package wiregrpc owns the runner's end of the services between a worker and its plugin processes,
// on grpc-go. "make generate" writes it (plugins/wiregen); the messages are plugins/sdk/wire.
package wiregrpc
