package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// A refusal is an error as Azure Resource Manager answers with it, and as it stands in an operation that has failed.
type refusal struct {
	Status  int      `json:"-"`
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Target  string   `json:"target,omitempty"`
	Details []detail `json:"details,omitempty"`
}

type detail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Target  string `json:"target,omitempty"`
}

func (r *refusal) Error() string { return r.Code + ": " + r.Message }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (r *refusal) write(w http.ResponseWriter) {
	writeJSON(w, r.Status, map[string]any{"error": r})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// notFound is the answer to a request for a resource that there is not.
func notFound(kind, name, group string) *refusal {
	return refuse(404, "ResourceNotFound", "The Resource '%s/%s' under resource group '%s' was not found. "+
		"For more details please go to https://aka.ms/ARMResourceNotFoundFix", kind, name, group)
}
