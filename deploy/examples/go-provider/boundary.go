package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
)

const (
	// How often a call beats. It learns in this way that it was cancelled; the worker must not throttle it (main.go).
	heartbeatInterval = 4 * time.Second
	// The longest that a failed call and the pause after it may take for Temporal to repeat the call.
	quietTime = 10 * time.Second
)

// Codes that are worth another attempt within seconds: docs/reference/failures.md.
var transient = map[string]bool{"Aborted": true, "DeadlineExceeded": true, "Unavailable": true, "Unknown": true}

// Failure is the error of an activity. Message and details get into histories: no secret in them.
type Failure struct {
	Code    string
	Message string
	Details FailureDetails
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

func failed(code, format string, args ...any) *Failure {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// serve registers an activity under its name in the contract. It beats while the activity runs, and turns its error
// into one that Millwright understands.
func serve[Request, Result any](w worker.ActivityRegistry, name string, act func(context.Context, Request) (Result, error)) {
	run := func(ctx context.Context, request Request) (Result, error) {
		start := time.Now()
		done := make(chan struct{})
		defer close(done)
		go beat(ctx, done)
		result, err := act(ctx, request)
		if err != nil {
			var none Result
			return none, toTemporal(ctx, err, time.Since(start))
		}
		return result, nil
	}
	w.RegisterActivityWithOptions(run, activity.RegisterOptions{Name: name})
}

func beat(ctx context.Context, done <-chan struct{}) {
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

func toTemporal(ctx context.Context, err error, elapsed time.Duration) error {
	if ctx.Err() != nil {
		return temporal.NewCanceledError()
	}
	var failure *Failure
	if !errors.As(err, &failure) {
		failure = failed("Unknown", "unexpected %T", err) // its text may have a secret
	}
	pause := time.Duration(failure.Details.RetryAfterMs) * time.Millisecond
	options := temporal.ApplicationErrorOptions{
		NonRetryable: !transient[failure.Code] || elapsed+pause >= quietTime,
		Details:      []any{failure.Details},
	}
	if !options.NonRetryable {
		options.NextRetryDelay = pause
	}
	// No Cause: its text would get into histories.
	return temporal.NewApplicationErrorWithOptions(failure.Message, failure.Code, options)
}

// sleep returns early if the call is cancelled.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
