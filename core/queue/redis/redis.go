// Package redis implements the queue contract on Redis with Lua scripts.
package redis
